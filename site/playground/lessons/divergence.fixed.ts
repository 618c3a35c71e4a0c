import { Device, Stream } from 'cuda-streams'
import { add_up } from './divergence.fixed.cu'

const device = Device.get()
const stream = new Stream()
const numbers = Int32Array.from({ length: 256 }, (_, i) => i + 1) // 1, 2, … 256
const values = device.alloc(numbers.byteLength, { stream })
const total = device.alloc(4, { stream })

stream.upload(values, numbers)
stream.launch(add_up, { grid: 1, block: 256 }, values, total)

export const result = await stream.download(total, Int32Array)
