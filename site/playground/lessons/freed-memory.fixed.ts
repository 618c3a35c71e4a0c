import { Device, DeviceBuffer, Stream } from 'cuda-streams'

const device = Device.get()
const home = new Stream()
const reader = new Stream()
const data = device.alloc(4, { stream: home })
const copy = device.alloc(4)
home.fill(data, 6)

// Another library was given the address alone.
const view = DeviceBuffer.from(data.pointer, 4, { device })
reader.wait(home)
reader.copy(copy, view)

home.wait(reader)
data.close() // freed in the order of `home`

export const result = await reader.download(copy)
