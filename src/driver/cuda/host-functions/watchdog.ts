/**
 * The watchdog: a thread that tells of a thread of JavaScript which has not looked for host functions for a while, though
 * a stream stands at one. That thread is inside a call of another library, or a loop, and can tell nothing itself.
 */
import { Worker } from 'node:worker_threads'
import { bare } from '../../../base/arguments.js'
import { invalidValue } from '../../../base/errors.js'
import { warnAfter } from '../../../base/warnings.js'
import type { Threads } from './thread-table.js'

/** What the thread is given. */
export interface Watched {
  /** The address of the table of threads. */
  readonly table: number
  /** Milliseconds. */
  readonly after: number
  /** One word, a `Loading`. */
  readonly loading: Int32Array
}

/**
 * A thread that is ended while it loads koffi ends the process: koffi throws where nothing can catch. So at its end the
 * process waits for that, or forbids it.
 */
export const Loading = { NOT_BEGUN: 0, BEGUN: 1, DONE: 2, FORBIDDEN: 3 } as const
const LONGEST_LOADING = 2_000

/**
 * Makes the function that starts the watchdog before the first host function is queued: one for the process. It has no
 * effect where nothing hears warnings, or a thread may not be made.
 */
export function makeWatchdog(threads: Threads): () => void {
  const wanted = process.env['CUDA_STREAMS_WATCHDOG'] || '1'
  if (wanted !== '0' && wanted !== '1') throw invalidValue(`CUDA_STREAMS_WATCHDOG must be 0 or 1, not '${wanted}'`)
  const after = warnAfter()
  let isNeeded = wanted === '1' && after !== Number.POSITIVE_INFINITY && process.listenerCount('warning') > 0
  return () => {
    if (!isNeeded || !threads.watching.take()) return
    isNeeded = false
    const loading = new Int32Array(new SharedArrayBuffer(4))
    const workerData: Watched = { table: threads.address, after, loading }
    // Nothing that the program preloads into its threads belongs into this one.
    const options = bare({ env: bare({}), execArgv: [], name: 'cuda-streams watchdog', workerData })
    try {
      const worker = new Worker(new URL('./watchdog-thread.js', import.meta.url), options)
      worker.on('error', () => {})
      worker.unref()
      process.once('exit', () => endLoading(loading))
    } catch {
      // The permissions of the process allow no threads.
    }
  }
}

function endLoading(loading: Int32Array): void {
  const state = Atomics.compareExchange(loading, 0, Loading.NOT_BEGUN, Loading.FORBIDDEN)
  if (state === Loading.BEGUN) Atomics.wait(loading, 0, Loading.BEGUN, LONGEST_LOADING)
}
