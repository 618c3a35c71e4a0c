import { Device, DeviceBuffer, Stream } from 'cuda-streams'

const device = Device.get()
const owner = new Stream()
const reader = new Stream()
const data = device.alloc(4, { stream: owner })
const copy = device.alloc(4)
owner.fill(data, 6)

// Another library was given the address alone.
const view = DeviceBuffer.from(data.pointer, 4, { device })
reader.wait(owner)
reader.copy(copy, view)

data.close() // freed in the order of `owner`

export const result = await reader.download(copy)
