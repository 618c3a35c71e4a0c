/** Ends a worker whose registered array is used by work that never comes, and goes on meanwhile. Prints what it did, line by line. */
import { Worker } from 'node:worker_threads'
import { Device, type SharedEvent, Stream } from 'cuda-streams'
import type { Leaving } from './leaving.js'

const device = Device.get()
const stream = new Stream({ device })
const gate = device.allocPinned(4)
gate.bytes.fill(0)
const never: SharedEvent = stream.waitValue(gate, 1).record().share()
const leaving: Leaving = { kind: 'registered', ending: 'terminate()' }
const worker = new Worker(new URL('./leaving.js', import.meta.url), { workerData: leaving })
worker.on('message', async (said) => {
  if (said === 'ready') worker.postMessage(never)
  if (said !== 'made') return
  const ended = worker.terminate()
  using other = new Stream({ device, nonBlocking: true })
  const buffer = device.alloc(64, { stream: other })
  const bytes = await other.fill(buffer, 7).download(buffer)
  console.log(`this thread goes on: ${bytes[0]}`)
  await ended
  console.log(`the worker has ended, and its work is done: ${never !== undefined && stream.query()}`)
  process.exit()
})
