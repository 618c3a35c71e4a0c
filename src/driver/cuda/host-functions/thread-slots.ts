/** The words of the table of threads, as native/threads.h has them, and the gates that they lead to. */
import { NativeMemory } from '../libcuda/native.js'
import { CAPTURE_LIST_BYTES } from './capture-list.js'

/** Words of the table's head. */
export const Head = {
  EXCLUSIVE: 0,
  MOST_SLOTS_USED: 1,
  CAPTURING: 2,
  MAKING_STREAMS: 3,
  WORDS: 16,
} as const
/** Words of a thread's slot. */
export const Slot = {
  OWNER: 0,
  PENDING: 1,
  STREAMS: 2,
  PAIRS: 3,
  GATES: 4,
  GRAPH_GATES: 6,
  ENTRIES: 8,
  WAITING: 10,
  BEAT: 11,
  LABELS: 12,
  GRAPH_LABELS: 14,
  WORDS: 16,
} as const
export const SLOTS = 500
/** Streams kept for those that are wanted while host functions are pending: so many of each of the first devices. */
export const KEPT_DEVICES = 16
export const KEPT_STREAMS = 256
/** Behind the slots: the counts of the kept streams, the streams, and the captures. */
export const COUNTS_AT = Head.WORDS + SLOTS * Slot.WORDS
export const KEPT_AT = COUNTS_AT + 2 * KEPT_DEVICES
export const CAPTURES_AT = KEPT_AT + 2 * KEPT_DEVICES * KEPT_STREAMS
export const TABLE_WORDS = CAPTURES_AT + CAPTURE_LIST_BYTES / 4

export const startOf = (slot: number): number => Head.WORDS + slot * Slot.WORDS

/** Set in a slot's beat where the thread itself has told why it does not look for host functions. */
export const TOLD = 0x8000_0000 | 0

/** What is known of a host function at a gate, in this many bytes: its stream, and where one there was queued. */
export const LABEL_BYTES = 192
export const Label = { STREAM: 0, SEQUENCE: 2, LENGTH: 3, TEXT: 16 } as const

/** A gate at which a stream stands. */
export interface StandingGate {
  /** A name that it has until it is opened. */
  readonly name: string
  readonly index: number
  /** The sequence of the host function; graphs have none. */
  readonly arrived: number
  readonly ofGraph: boolean
}

/** Looks at the gates of threads, whose memory lives as long as the process. */
export class StandingGates {
  /** By their address. */
  readonly #gates = new Map<number, Int32Array>()

  constructor(private readonly words: Int32Array) {}

  *of(slot: number): Generator<StandingGate> {
    for (const kind of [Slot.GATES, Slot.GRAPH_GATES]) {
      const address = this.addressAt(slot, kind)
      if (address === 0) continue
      let gates = this.#gates.get(address)
      if (gates === undefined) {
        gates = new NativeMemory((this.words[startOf(slot) + Slot.PAIRS] ?? 0) * 8, address).int32
        this.#gates.set(address, gates)
      }
      for (let word = 0; word < gates.length; word += 2) {
        const arrived = Atomics.load(gates, word)
        if (((arrived - Atomics.load(gates, word + 1)) | 0) <= 0) continue
        yield { name: `${address + word * 4}:${arrived}`, index: word / 2, arrived, ofGraph: kind === Slot.GRAPH_GATES }
      }
    }
  }

  /** The address in these two words of the slot; 0 where there is none yet. */
  addressAt(slot: number, word: number): number {
    const at = startOf(slot) + word
    return (this.words[at + 1] ?? 0) * 2 ** 32 + ((this.words[at] ?? 0) >>> 0)
  }
}
