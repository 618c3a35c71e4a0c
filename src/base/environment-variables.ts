/** Environment variables. */
import { process } from '#platform'
import { invalidValue } from './errors.js'

/** The value of a variable; undefined if it is not set, or empty. */
export const variable = (name: string): string | undefined => process.env[name] || undefined

/** The value of a variable, in milliseconds. It must be more than 0, unless `none` allows 0 too. */
export function millisecondsOf(name: string, byDefault: number, none = false): number {
  const wanted = variable(name)
  if (wanted === undefined) return byDefault
  const milliseconds = Number(wanted)
  if (Number.isFinite(milliseconds) && (milliseconds > 0 || (none && milliseconds === 0))) return milliseconds
  throw invalidValue(`${name} must be a number of milliseconds, not '${wanted}'`)
}
