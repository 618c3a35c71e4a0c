/** Warnings of waits that may never end, and the time after which they are given. */
import { process } from '#platform'
import { variable } from './environment.js'
import { invalidValue } from './errors.js'
import { printableLines } from './printable.js'
import { surfacing } from './uncaught.js'

const WARN_AFTER = 5000

const given = new Set<string>()
let after: number | undefined

/** Milliseconds that a variable of the environment asks for; more than 0 unless `none` is allowed too. */
export function millisecondsOf(name: string, byDefault: number, none = false): number {
  const wanted = variable(name)
  if (wanted === undefined) return byDefault
  const milliseconds = Number(wanted)
  if (Number.isFinite(milliseconds) && (milliseconds > 0 || (none && milliseconds === 0))) return milliseconds
  throw invalidValue(`${name} must be a number of milliseconds, not '${wanted}'`)
}

/** Milliseconds after which a wait that may never end is worth a warning; Infinity where there are to be none. */
export function warnAfter(): number {
  after ??= millisecondsOf('CUDA_STREAMS_WARN_AFTER', WARN_AFTER, true) || Number.POSITIVE_INFINITY
  return after
}

/**
 * Gives a warning of the process, each text once. Its listeners are called at once: `process.emitWarning()` calls them at
 * the next tick, which never comes in a loop that does not end.
 */
export function warnOnce(code: string, message: string): void {
  if (given.has(message)) return
  given.add(message)
  const warning = Object.assign(new Error(printableLines(message)), { name: 'CudaStreamsWarning', code })
  surfacing(() => process.emit('warning', warning))
}

/** A time as it reads in a warning. */
export const seconds = (milliseconds: number): string => `${Math.round(milliseconds / 100) / 10} s`
