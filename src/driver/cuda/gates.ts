/**
 * Host functions on a real stream. CUDA would call them on a thread of its own, which JavaScript cannot serve while it
 * waits for the stream; so the stream itself stops at a gate. It writes "arrived" into pinned memory, then waits there
 * for "go"; JavaScript sees the first, runs the function, and writes the second.
 */
import type { ContextHandle, HostFunction, StreamHandle } from '../driver.js'
import { fillAtExit } from './fill-at-exit.js'
import { check, type Library } from './library.js'
import { NativeMemory } from './native.js'

/** Streams that can have host functions pending at one time. */
export const GATE_SLOTS = 4096
/** As every byte of "go" it is at least any sequence that a slot gets to in 2,139,062,143 calls. */
const EVERY_GATE_OPEN = 0x7f
const WAIT_VALUE_32 = 1
const WRITE_VALUE_32 = 2
const WAIT_UNTIL_AT_LEAST = 0
/** sizeof(CUstreamBatchMemOpParams). */
const MEMORY_OPERATION_BYTES = 48

export interface GateCall {
  readonly lane: Lane
  /** What the stream writes when it arrives, and waits for. Counts up for each slot. */
  readonly sequence: number
  readonly host: HostFunction
}

/** The host functions that wait on one stream, in order. All of them share one slot of gate memory. */
export class Lane {
  readonly stream: StreamHandle
  readonly context: ContextHandle
  readonly slot: number
  readonly calls: GateCall[] = []
  /** The first call is running: nothing else of this lane may. */
  running = false

  constructor(stream: StreamHandle, context: ContextHandle, slot: number) {
    this.stream = stream
    this.context = context
    this.slot = slot
  }
}

export class Gates {
  /** Host functions queued and not over. */
  pending = 0
  /** The calls that JavaScript is inside of, innermost last. */
  readonly running: GateCall[] = []
  readonly #library: Library
  readonly #allocate: () => number
  readonly #operations = new NativeMemory(2 * MEMORY_OPERATION_BYTES)
  readonly #lanes = new Map<StreamHandle, Lane>()
  #active: Lane[] = []
  #memory: NativeMemory | undefined
  readonly #freeSlots: number[] = []
  readonly #sequences = new Int32Array(GATE_SLOTS)

  /** `allocate` gives the address of pinned memory for GATE_SLOTS gates of 8 bytes, valid in every context. */
  constructor(library: Library, allocate: (bytes: number) => number) {
    this.#library = library
    this.#allocate = () => allocate(GATE_SLOTS * 8)
  }

  /** Lanes with calls pending. */
  get active(): readonly Lane[] {
    return this.#active
  }

  get full(): boolean {
    return this.#active.length >= GATE_SLOTS
  }

  laneOf(stream: StreamHandle): Lane | undefined {
    return this.#lanes.get(stream)
  }

  /** Queues a gate on `raw`, CUDA's own handle of the stream, whose context must be current for a default stream. */
  queue(stream: StreamHandle, raw: number, context: ContextHandle, host: HostFunction): GateCall {
    const memory = this.#prepared()
    const lane = this.#lanes.get(stream) ?? this.#openLane(stream, context)
    const { slot } = lane
    const sequence = ((this.#sequences[slot] ?? 0) + 1) | 0
    const operations = this.#operations
    const at = memory.address + slot * 8
    this.#describe(0, WRITE_VALUE_32, at, sequence)
    this.#describe(MEMORY_OPERATION_BYTES, WAIT_VALUE_32, at + 4, sequence)
    const result = this.#library.cuStreamBatchMemOp_v2(raw, 2, operations.address, 0)
    if (result !== 0 && lane.calls.length === 0) this.#closeLane(lane)
    check('cuLaunchHostFunc', result)
    this.#sequences[slot] = sequence
    const call = { lane, sequence, host }
    lane.calls.push(call)
    this.pending += 1
    return call
  }

  /** Has the lane's stream arrived at the gate of its first call? */
  arrivedAt(lane: Lane): boolean {
    const first = lane.calls[0]
    if (first === undefined || this.#memory === undefined) return false
    return ((Atomics.load(this.#memory.int32, lane.slot * 2) - first.sequence) | 0) >= 0
  }

  /** The number of the lane's calls at whose gate the stream has not arrived, the one it stands at left out. */
  ahead(lane: Lane): number {
    const arrived = this.#memory === undefined ? 0 : Atomics.load(this.#memory.int32, lane.slot * 2)
    return ((this.#sequences[lane.slot] ?? 0) - arrived) | 0
  }

  /** Runs one host function whose stream has arrived. False where there is none. */
  runDue(): boolean {
    for (const lane of this.#active) {
      if (lane.running || !this.arrivedAt(lane)) continue
      // The stream served last goes to the end, so that one that never stops arriving cannot starve the others.
      this.#active.splice(this.#active.indexOf(lane), 1)
      this.#active.push(lane)
      this.#run(lane)
      return true
    }
    return false
  }

  /** A context is lost: callbacks hear of it, host functions are dropped, and no gate of it will be reached. */
  fail(context: ContextHandle, status: number): void {
    for (const lane of [...this.#active]) {
      if (lane.context !== context) continue
      const calls = lane.calls.splice(lane.running ? 1 : 0)
      this.pending -= calls.length
      if (!lane.running) this.#closeLane(lane)
      for (const { host } of calls) if (host.runsAfterFault) host.run(status)
    }
  }

  /** The stream's handle may be given to another stream: what is pending stays, but nothing is added to it. */
  forget(stream: StreamHandle): void {
    this.#lanes.delete(stream)
  }

  #run(lane: Lane): void {
    const [call] = lane.calls
    if (call === undefined) return
    lane.running = true
    this.running.push(call)
    try {
      call.host.run(0)
    } finally {
      this.running.splice(this.running.indexOf(call), 1)
      lane.running = false
      lane.calls.shift()
      this.pending -= 1
      if (this.#memory !== undefined) Atomics.store(this.#memory.int32, lane.slot * 2 + 1, call.sequence)
      if (lane.calls.length === 0) this.#closeLane(lane)
    }
  }

  #prepared(): NativeMemory {
    if (this.#memory === undefined) {
      this.#memory = new NativeMemory(GATE_SLOTS * 8, this.#allocate())
      this.#memory.bytes.fill(0)
      fillAtExit(this.#memory.address, this.#memory.bytes.length, EVERY_GATE_OPEN)
      for (let slot = GATE_SLOTS - 1; slot >= 0; slot -= 1) this.#freeSlots.push(slot)
    }
    return this.#memory
  }

  #openLane(stream: StreamHandle, context: ContextHandle): Lane {
    const lane = new Lane(stream, context, this.#freeSlots.pop() ?? 0)
    this.#lanes.set(stream, lane)
    this.#active.push(lane)
    return lane
  }

  /** The slot may be taken anew at once: its sequence counts on, so a gate that was opened stays open. */
  #closeLane(lane: Lane): void {
    if (this.#lanes.get(lane.stream) === lane) this.#lanes.delete(lane.stream)
    this.#active = this.#active.filter((other) => other !== lane)
    this.#freeSlots.push(lane.slot)
  }

  #describe(offset: number, operation: number, address: number, value: number): void {
    const { uint32, uint64 } = this.#operations
    uint64.fill(0n, offset / 8, offset / 8 + MEMORY_OPERATION_BYTES / 8)
    uint32[offset / 4] = operation
    uint64[offset / 8 + 1] = BigInt(address)
    uint32[offset / 4 + 4] = value >>> 0
    uint32[offset / 4 + 6] = operation === WAIT_VALUE_32 ? WAIT_UNTIL_AT_LEAST : 0
  }
}
