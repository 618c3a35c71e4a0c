/** Threads, of this process and others, by the numbers that the system gives them, so that one can be missed that was terminated. */
import { monotonicTime } from './event-loop.js'
import { process, threadId } from './node-modules.js'
import { warnOnce } from './warnings.js'

/** Milliseconds between two looks whether a thread is still there. */
const INTERVAL = 100
/**
 * The least number of a thread on systems that do not report one. The numbers of process and thread are added; such a thread
 * never counts as ended.
 */
const UNKNOWN = 2 ** 30
/** The bound for Linux's numbers of threads, which are used again after a thread has ended. */
const MOST_NUMBERS = 2 ** 22
/**
 * The number of remainders of a thread's start time, in ticks. The remainder distinguishes threads that have the same number.
 */
const BEGINNINGS = UNKNOWN / MOST_NUMBERS

let own: number | undefined

/** The number of this thread, which no other thread has. */
export function ownThread(): number {
  if (own !== undefined) return own
  own = UNKNOWN + (process.pid % 2 ** 18) * 2 ** 12 + (threadId % 2 ** 12)
  try {
    const { number, beginning } = readThread('thread-self')
    own = number + MOST_NUMBERS * beginning
  } catch {
    // Only Linux has it.
  }
  return own
}

/**
 * The path of a file in /proc. It is joined of its names, since tools that copy what a program needs (those of Nuxt) read a text such as `/proc/${name}/stat`
 * as all files that may be meant, and copy /proc.
 */
export const inProc = (...names: readonly (string | number)[]): string => ['', 'proc', ...names].join('/')

function readThread(name: string) {
  const text = process.getBuiltinModule('node:fs').readFileSync(inProc(name, 'stat'), 'latin1')
  // The name of the program, in brackets, may have any characters.
  const [state = '', ...rest] = text.slice(text.lastIndexOf(') ') + 2).split(' ')
  return { number: Number.parseInt(text, 10), state, beginning: Number(rest[18]) % BEGINNINGS }
}

/** The number of threads after which the results of earlier lookups are dropped, and threads are looked up again. */
const MOST_GONE = 1024
const gone = new Set<number>()
const lookedAt = new Map<number, number>()

/** Has the thread ended? The system is queried at intervals, or at once if `atOnce` is true. */
export function isGone(thread: number, atOnce = false): boolean {
  if (thread === 0 || thread >= UNKNOWN || thread === own) return false
  if (gone.has(thread)) return true
  const now = monotonicTime()
  if (!atOnce && now - (lookedAt.get(thread) ?? Number.NEGATIVE_INFINITY) < INTERVAL) return false
  // Threads that end by themselves are not asked for again.
  if (lookedAt.size >= MOST_GONE) lookedAt.clear()
  lookedAt.set(thread, now)
  if (isThere(thread)) return false
  if (gone.size >= MOST_GONE) gone.clear()
  gone.add(thread)
  lookedAt.delete(thread)
  return true
}

function isThere(thread: number): boolean {
  try {
    const { state, beginning } = readThread(String(thread % MOST_NUMBERS))
    // A process that was killed is there until its parent asks for it.
    return state !== 'Z' && state !== 'X' && beginning === Math.floor(thread / MOST_NUMBERS)
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
