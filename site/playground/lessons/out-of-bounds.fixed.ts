import { Device, Stream } from 'cuda-streams'
import { square } from './out-of-bounds.fixed.cu'

const device = Device.get()
const stream = new Stream()
const numbers = Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
const values = device.alloc(numbers.byteLength, { stream })

stream.upload(values, numbers)
stream.launch(square, { grid: 3, block: 4 }, values, numbers.length) // 12 threads for 10 elements

export const result = await stream.download(values, Int32Array)
