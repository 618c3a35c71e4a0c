import { Device, type Event, Stream } from 'cuda-streams'

const device = Device.get()
const upload = new Stream()
const compute = new Stream()
const buffers = [device.alloc(4), device.alloc(4), device.alloc(4)]
const results = device.alloc(5 * 4)
const used: Event[] = []

for (let frame = 0; frame < 5; frame += 1) {
  const buffer = buffers[frame % 3]
  if (buffer === undefined) break
  const before = used[frame - 3]
  if (before !== undefined) upload.wait(before)
  upload.fill(buffer, frame + 1)
  compute.wait(upload)
  compute.copy(results.subarray(frame * 4, frame * 4 + 4), buffer)
  used.push(compute.record())
}

export const result = await compute.download(results)
