/** A worker of a soak: the same clients as in the main thread, and answers to what that shares. */
import { writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { Fixture } from './fixture.js'
import type { Options } from './options.js'
import { answer, PLAY, type SharedWork } from './sharing.js'
import { Thread } from './thread.js'
import { Trace } from './trace.js'

const LATE_MILLISECONDS = 5000
const STANDARD_ERROR = 2

export interface WorkerData {
  readonly options: Options
  readonly memory: SharedArrayBuffer
  readonly number: number
  readonly trace: string
}

const { options, memory, number, trace } = workerData as WorkerData
const port = parentPort
if (port === null) throw new Error('this is a worker')
const thread = new Thread(new Fixture(options, memory), number, new Trace(trace, number))
const allReady = new Promise<void>((resolve) => {
  port.on('message', (work: SharedWork | typeof PLAY) => {
    if (work === PLAY) resolve()
    else thread.machine.device.run(() => answer(work, (reply) => port.postMessage(reply)))
  })
})
await thread.ready
port.postMessage({ kind: 'ready' })
await allReady
const result = await thread.play()
port.postMessage({ kind: 'result', result })
// Now nothing may keep the thread alive.
port.close()
const late = setTimeout(() => {
  const what = process.getActiveResourcesInfo().join(', ')
  writeSync(STANDARD_ERROR, `worker ${number} is over, and kept alive by ${what}\n`)
}, LATE_MILLISECONDS)
late.unref()
