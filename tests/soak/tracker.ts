/** What one thread of a soak has promised itself, and what came of it: failures, promises, host functions, errors. */
import { writeSync } from 'node:fs'
import type { TraceTrack } from './trace.js'

export const COUNTS = [
  'actions',
  'checks',
  'bytes',
  'hostFunctions',
  'callbacks',
  'promises',
  'aborted',
  'thrown',
  'mistakes',
  'graphs',
  'launches',
  'deadlocks',
  'collected',
  'reports',
  'shares',
  'foreignClients',
] as const
export type Counts = Record<(typeof COUNTS)[number], number>

const MOST_FAILURES = 20
const STANDARD_ERROR = 2

function noCounts(): Counts {
  return Object.fromEntries(COUNTS.map((name) => [name, 0])) as Counts
}

export class Tracker {
  readonly counts = noCounts()
  readonly failures: string[] = []
  readonly #thread: string
  readonly #onFailure: () => void
  readonly #pending = new Map<Promise<void>, string>()
  /** Errors that host functions throw, and reasons that their promises reject with: each surfaces once. */
  readonly #deliberate = new Set<unknown>()
  /** Where this thread is: for what fails elsewhere than in an action. */
  track: TraceTrack | undefined
  /** Called after each action of this thread. */
  acted: () => void = () => {}

  constructor(thread: string, onFailure: () => void) {
    this.#thread = thread
    this.#onFailure = onFailure
    process.on('uncaughtException', (error) => this.#surfaced('an uncaught exception', error))
    process.on('unhandledRejection', (reason) => this.#surfaced('an unhandled rejection', reason))
  }

  fail(what: string): void {
    const failure = `${this.#thread}, ${what}`
    if (this.failures.length < MOST_FAILURES) {
      this.failures.push(failure)
      // At once, and past the streams of Node: the process may be lost before it ends.
      writeSync(STANDARD_ERROR, `${failure}\n`)
    }
    this.#onFailure()
  }

  /** Fails unless the two are the same. */
  same(what: string, is: unknown, wanted: unknown): void {
    this.counts.checks += 1
    if (!Object.is(is, wanted)) this.fail(`${what} is ${String(is)}, not ${String(wanted)}`)
  }

  sameBytes(what: string, is: Uint8Array, wanted: Uint8Array): void {
    this.counts.checks += 1
    this.counts.bytes += wanted.length
    if (Buffer.compare(is, wanted) === 0) return
    let at = 0
    while (is[at] === wanted[at] && at < wanted.length) at += 1
    const differ = wanted.reduce((sum, byte, index) => sum + (byte === is[index] ? 0 : 1), 0)
    this.fail(`${what}: byte ${at} of ${wanted.length} is ${is[at]}, not ${wanted[at]}; ${differ} bytes differ`)
  }

  /** A promise that has to be fulfilled. */
  follow<T>(what: string, promise: Promise<T>, check?: (value: T) => void): void {
    this.counts.promises += 1
    const settled: Promise<void> = promise
      .then((value) => check?.(value))
      .catch((error: unknown) => this.fail(`${what} was rejected: ${told(error)}`))
      .then(() => void this.#pending.delete(settled))
    this.#pending.set(settled, what)
  }

  get pending(): number {
    return this.#pending.size
  }

  /** Waits until none is pending. `note` is told what is waited for. */
  async settle(note: (text: string) => void): Promise<void> {
    for (let [first] = this.#pending; first !== undefined; [first] = this.#pending) {
      note(`waits for ${this.#pending.size} promises, ${first[1]} first`)
      await first[0]
    }
  }

  /** An error that will surface as one that nobody catches. */
  deliberate(what: string): Error {
    const error = new Error(`deliberate: ${what}`)
    this.counts.thrown += 1
    this.#deliberate.add(error)
    return error
  }

  /** Errors that were thrown and have not surfaced. */
  get unsurfaced(): number {
    return this.#deliberate.size
  }

  #surfaced(how: string, error: unknown): void {
    if (!this.#deliberate.delete(error)) this.fail(`${how}: ${told(error)} (after ${this.track?.last})`)
  }
}

/** An error's code and where it comes from. */
export function told(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = codeOf(error)
  return `${code === undefined ? '' : `${code} `}${error.stack ?? error.message}`
}

export function codeOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' ? code : undefined
}
