/**
 * The pinned memory where streams and JavaScript meet: two words for each gate, "arrived" and "go", and the memory
 * operations by which a stream writes the one and waits for the other. Where no function is to run, the stream writes
 * "reached" instead, behind all pairs: other threads and the watchdog do not take it for one that waits to be served.
 */

import { layer } from '../libcuda/layer.js'
import { NativeMemory } from '../libcuda/native.js'
import { LABEL_BYTES, Label } from './thread-slots.js'

/** Gates that can be in use at one time: one for each stream with host functions pending, one for each graph's. */
export const GATE_SLOTS = 4096
/** As every byte of "go" it is at least any sequence that a slot gets to in 2,139,062,143 calls. */
const EVERY_GATE_OPEN = 0x7f
const SLOT_BYTES = 8
const REACHED_BYTES = 4
/** sizeof(CUstreamBatchMemOpParams). */
const OPERATION_BYTES = 48
const MOST_OPERATIONS = 3

const WAIT_VALUE_32 = 1
const WRITE_VALUE_32 = 2
/** CUstreamWaitValue_flags: at least the value, counted cyclically; exactly the value. */
export const WaitUntil = { AT_LEAST: 0, EQUAL: 1 } as const

export interface WriteOperation {
  readonly write: 'arrived' | 'go' | 'reached'
  readonly value: number
}
export interface WaitOperation {
  readonly waitUntilGo: 0 | 1
  readonly value: number
}

export class GateMemory {
  readonly #allocate: () => number
  readonly #operations = new NativeMemory(MOST_OPERATIONS * OPERATION_BYTES)
  readonly #free: number[] = []
  #words: NativeMemory | undefined
  #labels: NativeMemory | undefined

  /**
   * `allocate` gives the address of so many bytes of pinned memory, valid in every context; `made` is told of it, and of
   * the labels.
   */
  constructor(
    allocate: (bytes: number) => number,
    private readonly made: (address: number, slots: number, labels: number) => void,
  ) {
    this.#allocate = () => allocate(GATE_SLOTS * (SLOT_BYTES + REACHED_BYTES))
  }

  /** A slot that is not in use, or undefined. */
  take(): number | undefined {
    this.#prepared()
    return this.#free.pop()
  }

  giveBack(slot: number): void {
    this.#free.push(slot)
  }

  arrived(slot: number): number {
    return Atomics.load(this.#prepared(), slot * 2)
  }

  reached(slot: number): number {
    return Atomics.load(this.#prepared(), GATE_SLOTS * 2 + slot)
  }

  /** Where a word of the slot lies that nothing reads but `reached()`. */
  addressOfReached(slot: number): number {
    this.#prepared()
    return (this.#words?.address ?? 0) + 4 * wordOf('reached', slot)
  }

  setArrived(slot: number, value: number): void {
    Atomics.store(this.#prepared(), slot * 2, value)
  }

  setGo(slot: number, value: number): void {
    Atomics.store(this.#prepared(), slot * 2 + 1, value)
  }

  /** Writes down for the watchdog what stands at the slot's gate; `site` is where it was queued, if that is known. */
  label(slot: number, stream: number, sequence: number, site: string | undefined): void {
    if (this.#labels === undefined) return
    const { uint32, bytes } = this.#labels
    const word = (slot * LABEL_BYTES) / 4
    uint32[word + Label.STREAM] = stream
    uint32[word + Label.STREAM + 1] = stream / 2 ** 32
    if (site === undefined) return
    const text = bytes.subarray(slot * LABEL_BYTES + Label.TEXT, (slot + 1) * LABEL_BYTES)
    uint32[word + Label.LENGTH] = new TextEncoder().encodeInto(site, text).written
    uint32[word + Label.SEQUENCE] = sequence
  }

  /** Writes the operations down as CUDA takes them. Returns their address, valid until the next call. */
  describe(slot: number, operations: readonly (WriteOperation | WaitOperation)[]): number {
    this.#prepared()
    const { uint32, address } = this.#operations
    let at = 0
    for (const operation of operations) {
      const waits = 'waitUntilGo' in operation
      const word = (this.#words?.address ?? 0) + 4 * (waits ? slot * 2 + 1 : wordOf(operation.write, slot))
      // The words between stay zero.
      uint32[at] = waits ? WAIT_VALUE_32 : WRITE_VALUE_32
      uint32[at + 2] = word
      uint32[at + 3] = word / 2 ** 32
      uint32[at + 4] = operation.value
      uint32[at + 6] = waits ? operation.waitUntilGo : 0
      at += OPERATION_BYTES / 4
    }
    return address
  }

  #prepared(): Int32Array {
    if (this.#words === undefined) {
      this.#words = new NativeMemory(GATE_SLOTS * (SLOT_BYTES + REACHED_BYTES), this.#allocate())
      this.#words.bytes.fill(0)
      this.#operations.bytes.fill(0)
      // A worker that is terminated runs no JavaScript any more, yet its streams may stand at gates, and hold up the whole device.
      layer().fillAtEnd(this.#words.address, GATE_SLOTS * SLOT_BYTES, EVERY_GATE_OPEN)
      this.#labels = new NativeMemory(GATE_SLOTS * LABEL_BYTES)
      this.made(this.#words.address, GATE_SLOTS, this.#labels.address)
      for (let slot = GATE_SLOTS - 1; slot >= 0; slot -= 1) this.#free.push(slot)
    }
    return this.#words.int32
  }
}

function wordOf(what: WriteOperation['write'], slot: number): number {
  if (what === 'reached') return GATE_SLOTS * 2 + slot
  return slot * 2 + (what === 'go' ? 1 : 0)
}
