/** A thread of tests/peers/cupy.test.ts: makes a stream current, forgets it, and goes on using it. */
import { parentPort } from 'node:worker_threads'
import { Device, Stream } from 'cuda-streams'

const device = Device.get(0)
const outer = Stream.current(device)
const handle = (() => device.createStream().use().handle)()
globalThis.gc?.()
const kept = Stream.current(device).handle === handle
const event = Stream.current(device).record()
Stream.current(device).synchronize()
const works = event.query()
device.defaultStream.use()
parentPort?.postMessage({ kept, works, back: Stream.current(device) === outer })
