import { Device, Stream } from 'cuda-streams'
import { busy } from 'cuda-streams/sim'

const device = Device.get()
const left = new Stream()
const right = new Stream()
const sums = device.alloc(2)

for (let part = 0; part < 4; part += 1) {
  busy(left, 10_000) // a kernel of 10 µs
  busy(right, 10_000)
}
left.fill(sums.subarray(0, 1), 1)
right.fill(sums.subarray(1, 2), 2)
left.wait(right)

export const result = await left.download(sums)
