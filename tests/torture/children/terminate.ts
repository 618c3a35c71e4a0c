/** Terminates a worker with much work pending; then the main thread must go on: `node terminate.js <backend> <how>`. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { openBackend } from '../backend.js'

const [backend = '', how = ''] = process.argv.slice(2)
const bench = openBackend(backend)
const early = bench.stream()
bench.busy(early, 1000)
early.synchronize()

const worker = new Worker(new URL('./pending-worker.js', import.meta.url), {
  workerData: { backend, turns: how === 'turning' },
})
const failed = once(worker, 'error').then(([error]) => Promise.reject(error))
await Promise.race([once(worker, 'message'), failed])
await worker.terminate()
console.log('terminated')

let ran = 0
for (const stream of [early, bench.stream()]) {
  bench.busy(stream, 1000)
  stream.launchHostFunc(() => {
    ran += 1
  })
  const event = stream.record()
  stream.synchronize()
  assert.equal(event.query(), true)
}
assert.equal(ran, 2)
const late = bench.stream()
late.launchHostFunc(() => {
  ran += 1
})
await late.finished()
assert.equal(ran, 3)
console.log('ok')
