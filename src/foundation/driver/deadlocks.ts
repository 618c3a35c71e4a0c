/** Errors and warnings of both backends for waits that cannot end. */

import { stateError } from '../base/errors.js'
import { monotonicTime } from '../base/event-loop.js'
import { seconds, warnAfter, warnOnce } from '../base/warnings.js'

/**
 * Host functions that may wait one inside the other. They share one JavaScript stack, and one that has run over takes the
 * process with it: six hundred of the smallest fit into Node's usual stack.
 */
export const MOST_NESTED = 200

/** Why a wait never ends, and the way out for most calls. */
interface Endless {
  readonly why: string
  readonly way: string
}

const RETURN_FIRST = 'Return from the host function first, or await finished() instead'

export const comesAfterItself: Endless = {
  why: 'it was called inside a host function, and what it waits for comes after that host function',
  way: RETURN_FIRST,
}

export const tooDeep: Endless = {
  why: `${MOST_NESTED} host functions wait one inside the other, which is as many as fit into JavaScript's stack`,
  way: RETURN_FIRST,
}

/** `promise` is the description of the promise that `blockedBy` returns. */
export const behindPromise = (promise: string): Endless => ({
  why: `it comes after ${promise}, and no promise settles while this thread blocks`,
  way: 'Await finished() instead',
})

/** Calls for which CUDA waits for the whole device, in native code where no JavaScript runs. */
export const SPLITTING = 'splitting a device, for which CUDA waits for it,'
export const LOADING = 'loading a module, in which CUDA waits for the whole device,'
export const LIBRARY_CALL = 'this call, which may wait for the whole device,'

/** The call that waits until a stream's hardware queue has room. */
export const queuing = (room: string): string => `queuing more work than the hardware queue takes (${room})`

/** A call that would wait, and why it never ends. */
interface EndlessCall {
  readonly what: string
  readonly endless: Endless
}

/** What the errors are about, for those that know more of the call. */
const calls = new WeakMap<Error, EndlessCall>()

/** A text in place of `Endless` has its way out at its end. */
export function deadlock(what: string, endless: string | Endless): Error {
  if (typeof endless === 'string') return stateError('ERR_DEADLOCK', `${what} would wait forever: ${endless}`)
  const error = stateError('ERR_DEADLOCK', `${what} would wait forever: ${endless.why}. ${endless.way}`)
  calls.set(error, { what, endless })
  return error
}

/**
 * The error of a driver's call as one of the program's call, which knows what it uses and so a better way out. Any other error is returned
 * unchanged.
 */
export function deadlockIn(error: unknown, message: (call: EndlessCall) => string): unknown {
  const call = error instanceof Error ? calls.get(error) : undefined
  return call === undefined ? error : stateError('ERR_DEADLOCK', message(call))
}

/**
 * Returns a function that reports whether a drain is complete, by calling `isComplete`. It warns if all host functions that were
 * pending at first ran long ago: then the host functions queue each other, and the drain may never end.
 */
export function drained(isComplete: () => boolean, haveFirstRun: () => boolean): () => boolean {
  const begun = monotonicTime()
  return () => {
    if (isComplete()) return true
    if (monotonicTime() - begun > warnAfter() && haveFirstRun()) warnOnce('CUDA_STREAMS_DRAIN', endless(warnAfter()))
    return false
  }
}

const endless = (milliseconds: number): string =>
  `device.drainHostFunctions() has run host functions for ${seconds(milliseconds)}. Those that were pending at first have run, and others are pending that they have queued: it returns only when none is. Let them stop queuing the next one before you drain them`
