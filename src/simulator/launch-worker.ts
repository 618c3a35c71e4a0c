/** The code of a thread of launch-workers.ts. */
import { workerThreads } from '../foundation/base/node-modules.js'
import { ownThread } from '../foundation/base/system-threads.js'
import { BlockMachine } from '../ptx/block-machine.js'
import type { BlockResult } from '../ptx/ptx.js'
import { CONTROL, type WorkerAnswer, type WorkerData, type WorkerRequest } from './launch-workers.js'

const { control, answers }: WorkerData = workerThreads.workerData
const machine = new BlockMachine()
Atomics.store(control, CONTROL.thread, ownThread())

workerThreads.parentPort?.on('message', (request: WorkerRequest) => {
  const result = answerTo(request)
  const answer: WorkerAnswer = { result }
  const own = result?.written.buffer
  answers.postMessage(answer, own instanceof ArrayBuffer ? [own] : [])
  Atomics.add(control, CONTROL.answered, 1)
  Atomics.notify(control, CONTROL.answered)
})

/** Runs a request. Undefined if anything fails: the launch then runs on one core, and fails there if the kernel is at fault. */
function answerTo(request: WorkerRequest): BlockResult | undefined {
  try {
    if (request.kind === 'run') return machine.run(request.id, request.task)
    if (request.kind === 'load') machine.load(request.id, request.kernel)
    else machine.unload(request.id)
  } catch {
    // A kernel that could not be loaded fails when it is to run.
  }
  return undefined
}
