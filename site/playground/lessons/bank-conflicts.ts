import { Device, Stream } from 'cuda-streams'
import { transpose } from './bank-conflicts.cu'

const device = Device.get()
const stream = new Stream()
const numbers = Float32Array.from({ length: 32 * 32 }, (_, i) => i) // the first row is 0, 1, 2, …
const from = device.alloc(numbers.byteLength, { stream })
const to = device.alloc(numbers.byteLength, { stream })

stream.upload(from, numbers)
stream.launch(transpose, { grid: 1, block: [32, 32] }, from, to)

const mirrored = await stream.download(to, Float32Array)
export const firstRow = mirrored.subarray(0, 5)
