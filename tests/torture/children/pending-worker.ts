/** A worker that says when all is queued, and then never lets its event loop turn: nothing of it is ever served. */
import { parentPort, workerData } from 'node:worker_threads'
import { openBackend } from '../backend.js'
import { loadStreams, pause, queueLoad } from '../load.js'

const { backend, turns }: { readonly backend: string; readonly turns: boolean } = workerData
const bench = openBackend(backend)
const streams = loadStreams(bench)
// With turns, the streams are kept busy, so that the event loop waits for them when the worker's end comes.
if (turns) for (const stream of streams) bench.busy(stream, 500_000_000)
const { promises } = queueLoad(streams)
for (const promise of promises) promise.catch(() => {})
pause(50)
parentPort?.postMessage('queued')
while (!turns) pause(1000)
