import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const uploads = new Stream()
const work = new Stream()
const input = device.alloc(4)
const output = device.alloc(4)
const next = device.alloc(4)

uploads.upload(input, new Uint8Array([1, 2, 3, 4]))
const uploaded = uploads.record()
uploads.fill(next, 0) // the next thing: `work` need not wait for it

work.wait(uploaded)
work.copy(output, input)

export const result = await work.download(output)
