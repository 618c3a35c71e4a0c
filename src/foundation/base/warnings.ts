/** Warnings of waits that may never end and of loops that poll in vain, and the time after which they are given. */
import { VARIABLES } from './environment-variables.js'
import { atNextTurn, monotonicTime } from './event-loop.js'
import { process } from './node-modules.js'
import { printableLines } from './printable.js'
import { shortCallSite } from './stack.js'
import { surfacing } from './uncaught.js'

/** Reading the clock costs as much as a quarter of a query. */
const ANSWERS_PER_CLOCK_READ = 16

const given = new Set<string>()
let after: number | undefined
/** Answers "not done yet" of queries, and when those began that fill the present turn of the event loop. */
let answers = 0
let pollingSince: number | undefined

/** Milliseconds after which a wait that may never end is worth a warning; Infinity if there are to be none. */
export function warnAfter(): number {
  after ??= VARIABLES.warnAfter.read() || Number.POSITIVE_INFINITY
  return after
}

/**
 * Emits a warning of the process, each text once. Listeners are called at once: `process.emitWarning()` calls them at the
 * next tick, which never comes in a loop that does not end.
 */
export function warnOnce(code: string, message: string): void {
  if (given.has(message)) return
  given.add(message)
  const warning = Object.assign(new Error(printableLines(message)), { name: 'CudaStreamsWarning', code })
  surfacing(() => process.emit('warning', warning))
}

/** A time as it reads in a warning. */
export const seconds = (milliseconds: number): string => `${Math.round(milliseconds / 100) / 10} s`

/**
 * Counts an answer "not done yet" of a query; every such answer is passed here. True if such answers have filled this turn of the
 * event loop for the time after which a warning is due, and again each time that it has passed once more.
 */
export function pollsInVain(): boolean {
  answers += 1
  return answers % ANSWERS_PER_CLOCK_READ === 0 && isLate()
}

function isLate(): boolean {
  const now = monotonicTime()
  if (pollingSince === undefined) {
    pollingSince = now
    atNextTurn(() => {
      pollingSince = undefined
    }).unref()
  }
  if (now - pollingSince < warnAfter()) return false
  pollingSince = now
  return true
}

/** Warns of a loop that queries `target` by `call`, if it is known what keeps the target from being done. */
export function warnOfPolling(call: string, target: object, blockedBy: string | undefined): void {
  if (blockedBy === undefined) return
  const site = shortCallSite()
  const where = site === undefined ? '' : ` at ${site}`
  const how = `for ${seconds(warnAfter())} without a turn of the event loop`
  const wayOut = 'Await finished() instead, or give the event loop a turn between two calls'
  warnOnce(
    'CUDA_STREAMS_POLLING',
    `${call} has been called${where} ${how}: ${target} comes after ${blockedBy}. ${wayOut}`,
  )
}
