/**
 * The log of the driver, in which it says why it refused a call (CUDA 12.9 and later). It is asked when a call has failed, and only for
 * what has come since it was asked last. A callback of it would come on any thread, where JavaScript cannot be called.
 */
import type { CFunction } from './c-functions.js'
import { NativeMemory } from './native.js'

/** The driver keeps a hundred entries, and gives no more bytes. */
const MOST_BYTES = 25_600
/** `[time][thread][CUDA][E] text`. */
const ENTRY = /^\[[^\]]*\]\[(?<thread>\d+)\]\[CUDA\]\[\w\] (?<text>.*)$/
const RETURNS = /^Returning (?<result>\d+) \(\w+\) from (?<call>\w+?)(_v\d+)?(_ptsz|_ptds)?$/
/** Calls that stand for others in errors. */
const MADE_BY: Readonly<Record<string, string>> = {
  cuLaunchHostFunc: 'cuStreamBatchMemOp',
  cuStreamAddCallback: 'cuStreamBatchMemOp',
}
/** It says no more than the result. */
const SAYS_NOTHING = 'Sticky error detected'

export class DriverLog {
  /** The iterator, then the number of bytes. */
  readonly #state = new NativeMemory(16)
  #text: NativeMemory | undefined

  constructor(
    private readonly current: CFunction,
    private readonly dump: CFunction,
  ) {
    current(this.#state.address, 0)
  }

  /** Why the driver refused this call, which was the last of its kind; undefined where it says nothing. */
  why(call: string, result: number): string | undefined {
    return whyRefused(this.#news(), call, result)
  }

  #news(): string {
    this.#text ??= new NativeMemory(MOST_BYTES)
    const { uint64, address } = this.#state
    uint64[1] = BigInt(MOST_BYTES)
    if (this.dump(address, this.#text.address, address + 8, 0) !== 0) {
      // What is in between is lost to us.
      this.current(address, 0)
      return ''
    }
    return Buffer.from(this.#text.bytes.subarray(0, Number(uint64[1]))).toString('utf8')
  }
}

interface Entry {
  readonly thread: string
  readonly text: string
}

/** The entries of one thread before the latest that says that the call returned this. */
export function whyRefused(log: string, call: string, result: number): string | undefined {
  const entries = log.split('\n').map((line): Entry => {
    const { thread = '', text = '' } = ENTRY.exec(line)?.groups ?? {}
    return { thread, text }
  })
  const made = MADE_BY[call] ?? call
  const at = entries.findLastIndex(({ text }) => {
    const returned = RETURNS.exec(text)?.groups
    return returned !== undefined && Number(returned['result']) === result && returned['call'] === made
  })
  const before = entries.slice(0, Math.max(at, 0)).filter(({ thread }) => thread === entries[at]?.thread)
  const from = before.findLastIndex(({ text }) => RETURNS.test(text)) + 1
  const said = before.slice(from).flatMap(({ text }) => (text === '' || text === SAYS_NOTHING ? [] : [text]))
  return said.length === 0 ? undefined : said.join('; ')
}
