/** Memory that is taken away from its views, in threads that begin at the same time. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'

const DETACH = new URL('../../../../src/driver/cuda/memory/detach.js', import.meta.url).href
const BEGIN = `
const { parentPort, workerData } = require('node:worker_threads')
import(${JSON.stringify(DETACH)}).then(({ detach }) => {
  Atomics.sub(workerData, 0, 1)
  while (Atomics.load(workerData, 0) > 0);
  const bytes = new ArrayBuffer(8)
  parentPort.postMessage([detach(bytes), bytes.byteLength])
})`

describe('a buffer that is detached', () => {
  it('is empty in each of several threads that detach their first one at the same time', async () => {
    for (let round = 0; round < 10; round += 1) {
      const threads = 4
      const missing = new Int32Array(new SharedArrayBuffer(4)).fill(threads)
      const told = Array.from({ length: threads }, async () => {
        const worker = new Worker(BEGIN, { eval: true, workerData: missing })
        const [detached] = await once(worker, 'message')
        await worker.terminate()
        return detached
      })
      assert.deepEqual(await Promise.all(told), Array(threads).fill([true, 0]))
    }
  })
})
