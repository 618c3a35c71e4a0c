import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const stream = new Stream()
const staging = device.allocPinned(4)
const first = device.alloc(4)
const second = device.alloc(4)

staging.bytes.fill(1)
stream.copy(first, staging)

await stream.finished()
staging.bytes.fill(2)
stream.copy(second, staging)

export const result = [await stream.download(first), await stream.download(second)]
