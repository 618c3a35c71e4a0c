/** What `npx cuda-streams demo` runs: two streams use one buffer, and with the argument `wait` one waits for the other. */
import { Device, Stream } from 'cuda-streams'

const device = Device.get()
const producer = new Stream({ device })
const consumer = new Stream({ device })
const frame = device.alloc(4096, { stream: producer })
const result = device.allocPinned(4096)

producer.fill(frame, 7)
if (process.argv.includes('wait')) consumer.wait(producer)
await consumer.copy(result, frame).finished()
console.log(`The consumer read ${result.bytes[0]}, and the producer wrote 7.`)
