/**
 * Tells loops that ask "is it done?" over and over, and give the event loop no turn in which what they wait for could
 * come.
 */
import { atNextTurn } from '#platform'
import { shortCallSite } from './stack.js'
import { seconds, warnAfter, warnOnce } from './warnings.js'

/** To look at the clock costs as much as a quarter of a query. */
const LOOK_EVERY = 16

let answers = 0
let since: number | undefined

/**
 * To be called with each answer "not yet". True where such answers have been all that this turn of the event loop did for
 * the time after which a warning is due, and then again each time that this is over once more.
 */
export function pollsInVain(): boolean {
  answers += 1
  return answers % LOOK_EVERY === 0 && isLate()
}

function isLate(): boolean {
  const now = performance.now()
  if (since === undefined) {
    since = now
    atNextTurn(() => {
      since = undefined
    }).unref()
  }
  if (now - since < warnAfter()) return false
  since = now
  return true
}

/** `whom` was asked by `call`, and comes after what holds it up, if that is known. Other work may take its time. */
export function tellOfPolling(call: string, whom: object, heldBy: string | undefined): void {
  if (heldBy === undefined) return
  const site = shortCallSite()
  const where = site === undefined ? '' : ` at ${site}`
  const how = `for ${seconds(warnAfter())} without a turn of the event loop`
  const wayOut = 'Await finished() instead, or give the event loop a turn between two calls'
  warnOnce('CUDA_STREAMS_POLLING', `${call} has been called${where} ${how}: ${whom} comes after ${heldBy}. ${wayOut}`)
}
