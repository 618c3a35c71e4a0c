import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { TABLE_BYTES } from '../../../../src/driver/cuda/host-functions/thread-table.js'
import { Loading, type Watched } from '../../../../src/driver/cuda/host-functions/watchdog.js'
import { NativeMemory } from '../../../../src/driver/cuda/libcuda/native.js'

const THREAD = new URL('../../../../src/driver/cuda/host-functions/watchdog-thread.js', import.meta.url)

function start(state: number): { readonly worker: Worker; readonly loading: Int32Array } {
  const table = new NativeMemory(TABLE_BYTES)
  table.bytes.fill(0)
  const loading = new Int32Array(new SharedArrayBuffer(4)).fill(state)
  const workerData: Watched = { table: table.address, after: 1_000_000, loading }
  return { worker: new Worker(THREAD, { workerData }), loading }
}

describe('the thread of the watchdog and the end of the process', () => {
  test('once the process ends it does not begin to load koffi', async () => {
    const { worker, loading } = start(Loading.FORBIDDEN)
    assert.deepEqual(await once(worker, 'exit'), [0])
    assert.equal(Atomics.load(loading, 0), Loading.FORBIDDEN)
  })

  test('it says when koffi is loaded, so that the end of the process can wait for that', async () => {
    const { worker, loading } = start(Loading.NOT_BEGUN)
    while (Atomics.load(loading, 0) !== Loading.DONE) await new Promise(setImmediate)
    await worker.terminate()
  })
})
