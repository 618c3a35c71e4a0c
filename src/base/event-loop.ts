/**
 * Turns of the event loop, and timers. The functions are taken when the library is loaded: fake timers that a test puts in their place
 * later apply to the program, not to the library.
 */
import { setTimeout as timeout, setImmediate as turn } from 'node:timers/promises'

/** A requested turn of the event loop. */
export interface Turn {
  hasRef(): boolean
  unref(): Turn
}

/** Calls a function at the next turn of the event loop. */
export const atNextTurn: (fn: () => void) => Turn = globalThis.setImmediate

/** Resolves at the next turn of the event loop. */
export const nextTurn: () => Promise<void> = turn

/** Resolves after so many milliseconds. */
export const sleep: (milliseconds: number) => Promise<void> = timeout

/** Calls a function again and again, without keeping the process alive, until the returned function is called. */
export function every(milliseconds: number, fn: () => void): () => void {
  const timer = setInterval(fn, milliseconds).unref()
  return () => clearInterval(timer)
}
