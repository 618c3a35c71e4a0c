/** Which closed streams are kept. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { ClosedStreams } from '../../../src/cuda/handles/spare-streams.js'
import { anyStream } from '../fake-parts.js'

function wantsOne(): boolean {
  const pool = new ClosedStreams()
  const stream = anyStream()
  stream.reuse = pool.listOf(stream.context, 1, 0)
  return pool.wants(stream)
}

if (!isMainThread) parentPort?.postMessage(wantsOne())
else {
  test('a worker keeps no closed streams, which would outlive it', async () => {
    const [wanted] = await once(new Worker(fileURLToPath(import.meta.url)), 'message')
    assert.deepEqual([wantsOne(), wanted], [true, false])
  })
}
