import { Device, ExternalStream, Stream } from 'cuda-streams'
import { foreignStream } from 'cuda-streams/sim'

const device = Device.get()
const handle = foreignStream(device) // what a decoder, PyTorch or CuPy would hand over
const theirs = new ExternalStream(handle, { device })
const ours = new Stream()
const frame = device.alloc(4)
const copy = device.alloc(4)

theirs.fill(frame, 9) // the other library's work
ours.wait(theirs)
ours.copy(copy, frame)

export const result = await ours.download(copy)
