/** A program with a missing wait, which CUDA_STREAMS_RECORD records. Its argument says how it ends. */
import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const [one, other] = [new Stream({ device }), new Stream({ device })]
const buffer = device.alloc(4096, { stream: one })
for (let round = 0; round < 3; round += 1) {
  one.fill(buffer, 1)
  other.fill(buffer, 2)
  await device.finished()
}
const [how] = process.argv.slice(2)
if (how === 'throw') throw new Error('it ends like this')
if (how === 'kill') {
  // The recorder writes what it knows from time to time.
  await new Promise((resolve) => setTimeout(resolve, 400))
  process.kill(process.pid, 'SIGKILL')
}
