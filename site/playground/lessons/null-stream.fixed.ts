import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const work = new Stream()
const data = device.alloc(4)
const copy = device.alloc(4)

Stream.null.fill(data, 5)
work.wait(Stream.null)
work.copy(copy, data)

export const result = await work.download(copy)
