/** The main thread waits, blocking, for work of a worker that is blocked by something else. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import type { Request } from './simulated-thread.js'

process.env['CUDA_STREAMS_DEADLOCK_TIMEOUT'] = '300'
process.env['CUDA_STREAMS_DRIVER'] = 'sim'
const [device] = simulate().devices
assert.ok(device)
const stream = new Stream({ device })
const tokens = { stream: stream.share(), event: device.createEvent().share(), buffer: device.alloc(8).share() }
const worker = new Worker(new URL('./simulated-thread.js', import.meta.url))
const ask = async (request: Request): Promise<unknown> => {
  worker.postMessage(request)
  return await once(worker, 'message')
}
await ask({ act: 'fill', tokens })
const word = new Int32Array(new SharedArrayBuffer(4))
// One after the other, without a turn of the worker's event loop in which its machine could work.
worker.postMessage({ act: 'stand' } satisfies Request)
worker.postMessage({ act: 'block', word } satisfies Request)
await once(worker, 'message')
assert.throws(() => stream.synchronize(), {
  code: 'ERR_DEADLOCK',
  message: /comes after work of another thread, and no thread has done anything for 0\.3 s/,
})
Atomics.store(word, 0, 1)
Atomics.notify(word, 0)
await ask({ act: 'open' })
stream.synchronize()
await worker.terminate()
