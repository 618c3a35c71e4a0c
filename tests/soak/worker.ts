/** A worker of a soak: the same actors as in the main thread, and answers to what that shares. */
import { parentPort, workerData } from 'node:worker_threads'
import { Ground } from './ground.js'
import type { Options } from './options.js'
import { answer, type SharedWork } from './sharing.js'
import { Thread } from './thread.js'
import { Trace } from './trace.js'

export interface WorkerData {
  readonly options: Options
  readonly memory: SharedArrayBuffer
  readonly number: number
  readonly trace: string
}

const { options, memory, number, trace } = workerData as WorkerData
const port = parentPort
if (port === null) throw new Error('this is a worker')
const thread = new Thread(new Ground(options, memory), number, new Trace(trace, number))
port.on('message', (work: SharedWork) => {
  thread.machine.device.run(() => answer(thread, work, (reply) => port.postMessage(reply)))
})
await thread.ready
port.postMessage({ kind: 'ready' })
const result = await thread.play()
port.postMessage({ kind: 'result', result })
// Now nothing may keep the thread alive.
port.close()
