import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const upload = new Stream()
const compute = new Stream()
const buffers = [device.alloc(4), device.alloc(4), device.alloc(4)]
const results = device.alloc(5 * 4)

for (let frame = 0; frame < 5; frame += 1) {
  const buffer = buffers[frame % 3]
  if (buffer === undefined) break
  upload.fill(buffer, frame + 1)
  compute.wait(upload)
  compute.copy(results.subarray(frame * 4, frame * 4 + 4), buffer)
}

export const result = await compute.download(results)
