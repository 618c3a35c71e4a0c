import { Device, Stream } from 'cuda-streams'
import { add, multiply } from './signature.fixed.cu'

const device = Device.get()
const left = new Stream()
const right = new Stream()
const values = device.alloc(4 * 6, { stream: left })
const shape = { grid: 1, block: 3 }

left.fill(values, 0)
right.wait(left)
left.launch(add, shape, values, 0, 6, 1) // elements 0, 2, 4
right.launch(add, shape, values, 1, 6, 2) // elements 1, 3, 5: it need not wait
right.wait(left)
right.launch(multiply, shape, values, 0, 6, 10) // elements 0, 2, 4
left.wait(right)

export const result = await left.download(values, Int32Array)
