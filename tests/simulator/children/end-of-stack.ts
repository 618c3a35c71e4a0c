/**
 * Makes every public call at the end of the stack in a thread of its own, where no function has been compiled yet: V8 compiles
 * it when it is first called, which takes much of the stack. Prints what went wrong, as JSON.
 */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { simulate } from 'cuda-streams/sim'
import { attempt } from '../end-of-stack.js'
import { CALLS } from '../public-calls.js'

const LONGEST = 60_000
/** Each attempt at these moves many megabytes. */
const SLOW = /more than/

if (isMainThread) {
  const failures: Record<string, unknown> = {}
  for (const name of Object.keys(CALLS)) {
    if (SLOW.test(name)) continue
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: name, resourceLimits: { stackSizeMb: 1 } })
    const timer = setTimeout(() => void worker.terminate(), LONGEST)
    const ended = once(worker, 'exit')
    let failure: unknown = 'it never ended'
    worker.on('message', (message: unknown) => {
      failure = message
    })
    await ended
    clearTimeout(timer)
    if (failure !== '') failures[name] = failure
  }
  console.log(JSON.stringify(failures))
} else {
  try {
    const simulation = simulate()
    for (let padding = 0; padding < 3; padding += 1) await attempt(simulation, String(workerData), padding)
    parentPort?.postMessage('')
  } catch (error) {
    parentPort?.postMessage(error instanceof Error ? error.stack : String(error))
  }
}
