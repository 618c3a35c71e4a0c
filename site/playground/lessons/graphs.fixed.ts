import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const stream = new Stream()
const side = new Stream()
const data = device.alloc(4, { stream })
const copy = device.alloc(4, { stream })

const graph = stream.capture(() => {
  side.wait(stream) // side joins the capture
  side.fill(data, 3)
  stream.wait(side) // and comes back
  stream.copy(copy, data)
})
const exec = graph.instantiate()
stream.launch(exec)

export const result = await stream.download(copy)
