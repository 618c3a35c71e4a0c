import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const work = new Stream()
const reader = new Stream()
const data = device.alloc(4)
const pinned = device.allocPinned(4)
let sum = 0

work.fill(data, 10)
work.copy(pinned, data)
reader.wait(work)
reader.launchHostFunc(() => {
  for (const byte of pinned.bytes) sum += byte
})
await reader.finished()

export const result = sum
