/** What a soak is asked for, from the command line; and the line that asks for the same again. */
import { parseArgs } from 'node:util'

export interface Options {
  /** How long the clients go on. */
  readonly seconds: number
  /** Instead of `seconds`: how many actions each client plays. Then one seed is one program. */
  readonly steps: number | undefined
  readonly seed: number
  /** Threads beside the main one, which come and go besides; 0 for the main thread alone. */
  readonly workers: number
  readonly driver: Driver
  /** Do workers fill hardware queues too? Two threads may then block for each other: docs/guides/processes.md. */
  readonly bursts: boolean
  /** Does no other process take part? */
  readonly alone: boolean
  /** Seconds without a new action after which an client counts as hung. */
  readonly silence: number
  /** A mistake to be made, to see that it is found. */
  readonly inject: InjectedBug | undefined
}

const DRIVERS = ['auto', 'cuda', 'sim'] as const
export type Driver = (typeof DRIVERS)[number]

export const INJECTED_BUGS = [
  'byte',
  'order',
  'promise',
  'error',
  'crash',
  'block',
  'stall',
  'kept',
  'memory',
  'files',
] as const
export type InjectedBug = (typeof INJECTED_BUGS)[number]

const FLAGS = {
  seconds: { type: 'string', default: '60' },
  minutes: { type: 'string' },
  steps: { type: 'string' },
  seed: { type: 'string', default: '1' },
  workers: { type: 'string', default: '2' },
  driver: { type: 'string', default: 'auto' },
  bursts: { type: 'boolean', default: false },
  alone: { type: 'boolean', default: false },
  silence: { type: 'string', default: '45' },
  inject: { type: 'string' },
} as const

/** Throws an Error that says which option is wrong. */
export function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({ args: [...args], options: FLAGS })
  return {
    seconds:
      values.minutes === undefined
        ? numberOf('--seconds', values.seconds, 0.1)
        : 60 * numberOf('--minutes', values.minutes, 0.1),
    steps: values.steps === undefined ? undefined : wholeOf('--steps', values.steps, 1),
    seed: wholeOf('--seed', values.seed, 0),
    workers: wholeOf('--workers', values.workers, 0),
    driver: oneOf('--driver', values.driver, DRIVERS),
    bursts: values.bursts,
    alone: values.alone,
    silence: numberOf('--silence', values.silence, 0.1),
    inject: values.inject === undefined ? undefined : oneOf('--inject', values.inject, INJECTED_BUGS),
  }
}

/** The options as arguments: parsed, they are the same again. */
export function argumentsOf(options: Options): string[] {
  const { seconds, steps, seed, workers, driver, bursts, alone, silence, inject } = options
  return [
    ...(steps === undefined ? ['--seconds', `${seconds}`] : ['--steps', `${steps}`]),
    ...['--seed', `${seed}`, '--workers', `${workers}`, '--driver', driver],
    ...(bursts ? ['--bursts'] : []),
    ...(alone ? ['--alone'] : []),
    ...(silence === Number(FLAGS.silence.default) ? [] : ['--silence', `${silence}`]),
    ...(inject === undefined ? [] : ['--inject', inject]),
  ]
}

function numberOf(name: string, text: string, least: number): number {
  const value = Number(text)
  if (text !== '' && Number.isFinite(value) && value >= least) return value
  throw new Error(`${name} must be a number from ${least} on, not '${text}'`)
}

export function wholeOf(name: string, text: string, least: number): number {
  const value = numberOf(name, text, least)
  if (Number.isSafeInteger(value)) return value
  throw new Error(`${name} must be a whole number, not '${text}'`)
}

export function oneOf<T extends string>(name: string, text: string, known: readonly T[]): T {
  const found = known.find((each) => each === text)
  if (found !== undefined) return found
  throw new Error(`${name} must be one of ${known.join(', ')}, not '${text}'`)
}
