/**
 * Turns of the event loop, timers and clocks: every other file of the library takes them from here. They are Node's own when the library is
 * first loaded: fake timers that a test installs later apply to the program, and not to the library, whose waits would never end. Jest's
 * apply to the globals of a test file, and can be there first, so nothing here is a global.
 */
import { performance } from 'node:perf_hooks'
import * as timers from 'node:timers'
import * as timerPromises from 'node:timers/promises'
import { process } from './node-modules.js'

// Copies: fake timers change what the modules export, and `process` of a Jest test is an imitation with fake methods.
const { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } = timers
const { setImmediate: turn, setTimeout: timeout } = timerPromises
const nodeProcess = process.getBuiltinModule('node:process')

/** A requested turn of the event loop. */
export interface Turn {
  hasRef(): boolean
  unref(): Turn
}

/** A timer that is set. */
export interface Timeout {
  cancel(): void
  /** Lets the process end although the timer is set. */
  unref(): void
}

/** Calls a function at the next turn of the event loop. */
export const atNextTurn: (fn: () => void) => Turn = setImmediate

/** Calls a function after the JavaScript that runs, and before promises and the event loop: what it throws is an uncaught exception. */
export const atNextTick: (fn: () => void) => void = nodeProcess.nextTick.bind(nodeProcess)

/** Resolves at the next turn of the event loop. */
export const nextTurn: () => Promise<void> = turn

/** Resolves after so many milliseconds. */
export const sleep: (milliseconds: number) => Promise<void> = timeout

/** Calls a function once, after so many milliseconds. */
export function after(milliseconds: number, fn: () => void): Timeout {
  const timer = setTimeout(fn, milliseconds)
  return { cancel: () => clearTimeout(timer), unref: () => void timer.unref() }
}

/** Calls a function again and again, without keeping the process alive, until the returned function is called. */
export function every(milliseconds: number, fn: () => void): () => void {
  const timer = setInterval(fn, milliseconds).unref()
  return () => clearInterval(timer)
}

/** The library's clock: a test of the library itself replaces `now`. */
export const clock: { now: () => number } = { now: performance.now.bind(performance) }

/** Milliseconds since `timeOrigin`, with fractions, by a clock that is never set. */
export const monotonicTime = (): number => clock.now()

/** The same clock from another origin, in nanoseconds. */
export const monotonicNanoseconds: () => bigint = nodeProcess.hrtime.bigint

/** Milliseconds from the year 1970 to the origin of `monotonicTime()`. */
export const timeOrigin: number = performance.timeOrigin
