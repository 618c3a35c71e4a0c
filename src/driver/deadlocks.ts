/** What both backends say of a wait that cannot end. */
import { stateError } from '../base/errors.js'

/**
 * Host functions that may wait one inside the other. They share one JavaScript stack, and one that has run over takes the
 * process with it: six hundred of the smallest fit into Node's usual stack.
 */
export const MOST_NESTED = 200

export const comesAfterItself =
  'it was called inside a host function, and what it waits for comes after that host function. Return first, or await the finished() of it'

export const tooDeep = `${MOST_NESTED} host functions wait one inside the other, and JavaScript's stack has no room for more. Return first, or await the finished() of it`

export function deadlock(what: string, why: string): Error {
  return stateError('ERR_DEADLOCK', `${what} would wait forever: ${why}`)
}
