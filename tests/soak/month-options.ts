/** What a month is asked for, from the command line. */
import { parseArgs } from 'node:util'
import { oneOf, wholeOf } from './options.js'

export const MONTH_DRIVERS = ['cuda', 'fake', 'sim'] as const
/** What the workers do: requests, nothing but to import the library, or not even that. */
export const MONTH_KINDS = ['requests', 'imports', 'nothing'] as const

export type MonthKind = (typeof MONTH_KINDS)[number]

export interface MonthOptions {
  readonly requests: number
  readonly workers: number
  readonly driver: (typeof MONTH_DRIVERS)[number]
  readonly kind: MonthKind
}

const FLAGS = {
  requests: { type: 'string', default: '1000000' },
  workers: { type: 'string', default: '5000' },
  driver: { type: 'string', default: 'sim' },
  kind: { type: 'string', default: 'requests' },
} as const

/** Throws an Error that says which option is wrong. */
export function parseMonth(args: readonly string[]): MonthOptions {
  const { values } = parseArgs({ args: [...args], options: FLAGS })
  return {
    requests: wholeOf('--requests', values.requests, 1),
    workers: wholeOf('--workers', values.workers, 1),
    driver: oneOf('--driver', values.driver, MONTH_DRIVERS),
    kind: oneOf('--kind', values.kind, MONTH_KINDS),
  }
}
