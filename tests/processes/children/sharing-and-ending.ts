/** A worker that shares what it has made, and ends when it is told to, without closing anything. */
import { parentPort } from 'node:worker_threads'
import { Device, Stream } from 'cuda-streams'

const stream = new Stream()
const buffer = Device.get().alloc(64, { stream })
const event = stream.fill(buffer, 1).record()
await stream.finished()
parentPort?.once('message', () => process.exit())
parentPort?.postMessage({ stream: stream.share(), buffer: buffer.share(), event: event.share() })
