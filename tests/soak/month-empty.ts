/** A worker of a month that imports nothing: what the run time itself keeps of a thread that has ended. */
import { parentPort, workerData } from 'node:worker_threads'
import type { MonthWork } from './month-worker.js'

const { ending } = workerData as MonthWork
parentPort?.postMessage('served')
if (ending === 'process.exit()') process.exit()
if (ending === 'an error') throw new Error('a worker of a month ends')
if (ending === 'terminate()') setInterval(() => {}, 1000)
