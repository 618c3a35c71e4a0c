/** A worker that says when all is queued; then it lets its event loop turn, or blocks so that nothing is ever served. */
import { parentPort, workerData } from 'node:worker_threads'
import { openBackend } from '../backend.js'
import { loadStreams, pause, queueLoad } from '../load.js'

const { backend, turns }: { readonly backend: string; readonly turns: boolean } = workerData
const bench = openBackend(backend)
const streams = loadStreams(bench)
// With turns, the streams are held, so that the event loop waits for them when the worker's end comes; on a GPU by work
// that ends without anybody's help, since a latch of a worker that is gone would stand for ever.
if (turns) {
  for (const stream of streams) {
    if (bench.name === 'cuda') bench.busy(stream, 2e9)
    else bench.latch(stream)
  }
}
const { promises } = queueLoad(streams)
for (const promise of promises) promise.catch(() => {})
pause(50)
parentPort?.postMessage('queued')
while (!turns) pause(1000)
