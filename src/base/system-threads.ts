/** Threads, of this process and others, by the numbers that the system gives them, so that one can be missed that was terminated. */
import { monotonicTime } from './event-loop.js'
import { process, threadId } from './node-modules.js'
import { warnOnce } from './warnings.js'

/** Milliseconds between two looks whether a thread is still there. */
const INTERVAL = 100
/** Added to a number made of those of process and thread, on systems that do not tell that of a thread: it never counts as gone. */
const UNKNOWN = 2 ** 30

let own: number | undefined

/** The number of this thread, which no other thread has. */
export function ownThread(): number {
  if (own !== undefined) return own
  own = UNKNOWN + (process.pid % 2 ** 18) * 2 ** 12 + (threadId % 2 ** 12)
  try {
    // Ends in the number of the thread.
    const path = process.getBuiltinModule('node:fs').readlinkSync('/proc/thread-self')
    own = Number(/\d+$/.exec(path)?.[0] ?? own)
  } catch {
    // Only Linux has it.
  }
  return own
}

const gone = new Set<number>()
const lookedAt = new Map<number, number>()

/** Has the thread ended? It is looked for now and then. */
export function isGone(thread: number): boolean {
  if (thread === 0 || thread >= UNKNOWN || thread === own) return false
  if (gone.has(thread)) return true
  const now = monotonicTime()
  if (now - (lookedAt.get(thread) ?? Number.NEGATIVE_INFINITY) < INTERVAL) return false
  lookedAt.set(thread, now)
  if (isThere(thread)) return false
  gone.add(thread)
  lookedAt.delete(thread)
  return true
}

function isThere(thread: number): boolean {
  try {
    const text = process.getBuiltinModule('node:fs').readFileSync(`/proc/${thread}/stat`, 'latin1')
    // A process that was killed is there until its parent asks for it.
    return !/^[ZX]/.test(text.slice(text.lastIndexOf(') ') + 2))
  } catch {
    return false
  }
}

/** True where the thread has ended with work of its own that others wait for, which will never be done. */
export function hasLostWork(thread: number): boolean {
  if (!isGone(thread)) return false
  warnOnce('CUDA_STREAMS_LOST_WORK', LOST)
  return true
}

const LOST =
  'A thread or process was terminated while work that it had queued on the simulated GPU was not done. A GPU does what such a thread has queued; the simulator has lost it, and what comes after it goes on. Let it end by itself, or await finished() there first'

/** A number to tell shared memory by, never 0. */
export const randomNumber = (): number => 1 + Math.floor(Math.random() * (2 ** 31 - 1))
