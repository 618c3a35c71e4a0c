/**
 * Host functions on a real GPU. CUDA would call them on a thread of its own, which JavaScript cannot serve while it
 * waits for the stream; so the stream itself stops at a gate. It writes "arrived" into pinned memory, then waits there
 * for "go"; JavaScript sees the first, runs the function, and writes the second.
 */
import { stateError } from '../../../base/errors.js'
import { shortCallSite } from '../../../base/stack.js'
import { noteLoss } from '../../cuda-results.js'
import type { ContextHandle, HostFunction, StreamHandle } from '../../driver.js'
import { check, type Library } from '../libcuda/library.js'
import { GATE_SLOTS, type GateMemory, WaitUntil } from './gate-memory.js'
import { alone, type Threads } from './thread-table.js'

/** What the gates of a stream need of its record. */
export interface GateStream {
  readonly handle: StreamHandle
  readonly context: ContextHandle
  lane: StreamLane | undefined
}

export interface GateCall {
  readonly lane: GateLane
  /** The stream that stands, or will stand, at the gate. */
  readonly stream: GateStream
  /** Counts up in each lane. */
  readonly sequence: number
  readonly host: HostFunction
  /** Where it was queued, if that was looked up. */
  readonly site: string | undefined
  /** Of a gate that no host function opens. */
  readonly hold: Hold | undefined
}

/** A gate that JavaScript opens when it likes, also before the stream comes there. */
export class Hold {
  isOpen = false
  /** When it was queued, by `performance.now()`. */
  readonly since = performance.now()
}

const NO_FUNCTION: HostFunction = { run() {}, runsAfterFault: false, own: true }

/** To look up where a host function was queued costs more than to queue it: the first ones are, then ever fewer. */
const ALL_UP_TO = 4

/** Undefined also where it cannot be told, as at the end of JavaScript's stack. Runs no code of the program. */
export function siteOf(sequence: number): string | undefined {
  if (sequence >>> 0 > ALL_UP_TO && (sequence & (sequence - 1)) !== 0) return undefined
  const { prepareStackTrace } = Error
  try {
    Reflect.set(Error, 'prepareStackTrace', undefined)
    return shortCallSite()
  } catch {
    return undefined
  } finally {
    Reflect.set(Error, 'prepareStackTrace', prepareStackTrace)
  }
}

/** Host functions that run one after the other, because one stream, or one node of a graph, stands at their gates. */
export abstract class GateLane {
  readonly calls: GateCall[] = []
  /** The first call is running: nothing else of this lane may. */
  running = false

  /** `slot` is where in `memory` the gates of the lane stand. */
  constructor(
    readonly context: ContextHandle,
    protected readonly memory: GateMemory,
    readonly slot: number,
  ) {}

  /** Does the GPU stand at the gate of this call? */
  abstract arrived(call: GateCall): boolean
  abstract open(call: GateCall): void

  /** Writes down for the watchdog the call that is the first of the lane now. */
  label({ stream, sequence, site }: GateCall): void {
    this.memory.label(this.slot, stream.handle, sequence, site)
  }

  /** The last call is over. */
  abstract emptied(): void
}

export class Gates {
  #pending = 0
  /** The calls that JavaScript is inside of, innermost last. */
  readonly running: GateCall[] = []
  /** Those that no host function opens, and that are not open. */
  readonly holds = new Set<GateCall>()
  readonly #sequences = new Int32Array(GATE_SLOTS)
  #active: GateLane[] = []

  constructor(
    private readonly library: Library,
    private readonly memory: GateMemory,
    private readonly threads: Threads = alone(),
    private readonly rest: (millisecondsWaited: number) => void = () => {},
    /** Makes what cannot be made while a stream stands at a gate. */
    private readonly beforeFirst: () => void = () => {},
  ) {}

  /** Host functions queued and not over. */
  get pending(): number {
    return this.#pending
  }

  /**
   * Tells the other threads of so many gates that are about to be queued. Waits while one of them makes a call that waits
   * for the device, which would wait for these gates too; it has none pending itself, so it ends. Throws what `rest` does
   * when it is told how many milliseconds that has been.
   */
  announce(count: number): void {
    let begun: number | undefined
    for (;;) {
      if (this.#pending === 0) this.beforeFirst()
      if (this.threads.announce(this.#pending + count)) return
      const now = performance.now()
      begun ??= now
      this.rest(now - begun)
    }
  }

  /** Of those, host functions. */
  get functionsPending(): number {
    return this.#pending - this.holds.size
  }

  /** Lanes with calls pending. */
  get active(): readonly GateLane[] {
    return this.#active
  }

  /** No more gates can be had until one of these lanes is empty. */
  get full(): boolean {
    return this.#active.length >= GATE_SLOTS / 2
  }

  /** Queues a gate on `raw`, CUDA's own handle of the stream, whose context must be current for a default stream. */
  queue(stream: GateStream, raw: number, host: HostFunction): GateCall {
    return this.#announced(() => this.#queue(stream, raw, host))
  }

  /** Queues a gate that `open` opens. `raw` is as for `queue`. */
  hold(stream: GateStream, raw: number): GateCall {
    return this.#announced(() => this.#queue(stream, raw, NO_FUNCTION, new Hold()))
  }

  /** Opens such a gate, once those before it in its stream are open. */
  open(call: GateCall): void {
    if (call.hold === undefined || !this.holds.has(call)) return
    call.hold.isOpen = true
    this.#passHolds(call.lane)
  }

  #announced(queue: () => GateCall): GateCall {
    this.announce(1)
    try {
      return queue()
    } catch (error) {
      this.#count(0)
      throw error
    }
  }

  #queue(stream: GateStream, raw: number, host: HostFunction, hold?: Hold): GateCall {
    const lane = stream.lane ?? this.#openLane(stream)
    const { slot } = lane
    const sequence = ((this.#sequences[slot] ?? 0) + 1) | 0
    const call = { lane, stream, sequence, host, site: siteOf(hold === undefined ? sequence : 1), hold }
    if (lane.calls.length === 0) lane.label(call)
    const wait = { waitUntilGo: WaitUntil.AT_LEAST, value: sequence }
    const write = hold === undefined ? 'arrived' : 'reached'
    const operations = this.memory.describe(slot, [{ write, value: sequence }, wait])
    const result = this.library.cuStreamBatchMemOp_v2(raw, 2, operations, 0)
    if (result !== 0 && lane.calls.length === 0) lane.emptied()
    check(hold === undefined ? 'cuLaunchHostFunc' : 'cuStreamBatchMemOp', result)
    this.#sequences[slot] = sequence
    this.add(call)
    return call
  }

  /** A call whose gate stands on the GPU now. */
  add(call: GateCall): void {
    const { lane } = call
    if (lane.calls.length === 0) this.#active.push(lane)
    lane.calls.push(call)
    if (call.hold !== undefined) this.holds.add(call)
    this.#count(1)
  }

  arrivedAt(lane: GateLane): boolean {
    const [first] = lane.calls
    return first !== undefined && lane.arrived(first)
  }

  /** Runs one host function at whose gate the GPU stands, of those that may run. False where there is none. */
  runDue(mayRun?: (call: GateCall) => boolean): boolean {
    const lane = this.#dueLane(mayRun)
    if (lane === undefined) return false
    // The lane served last goes to the end, so that one that never stops arriving cannot starve the others.
    if (this.#active.length > 1) {
      this.#active.splice(this.#active.indexOf(lane), 1)
      this.#active.push(lane)
    }
    this.#run(lane)
    return true
  }

  isDue(mayRun: (call: GateCall) => boolean): boolean {
    return this.#dueLane(mayRun) !== undefined
  }

  /** A context is lost: callbacks hear of it, host functions are dropped, and no gate of it will be reached. */
  fail(context: ContextHandle, status: number): void {
    noteLoss(status)
    for (const lane of [...this.#active]) {
      if (lane.context !== context) continue
      const calls = lane.calls.splice(lane.running ? 1 : 0)
      for (const call of calls) this.holds.delete(call)
      this.#count(-calls.length)
      if (!lane.running) this.#retire(lane)
      for (const { host } of calls) if (host.runsAfterFault) host.run(status)
    }
  }

  #count(more: number): void {
    this.#pending += more
    this.threads.publish(this.#pending)
  }

  #dueLane(mayRun?: (call: GateCall) => boolean): GateLane | undefined {
    this.threads.beat()
    for (const lane of this.#active) {
      const [first] = lane.calls
      if (lane.running || first === undefined || first.hold !== undefined) continue
      if ((mayRun === undefined || mayRun(first)) && lane.arrived(first)) return lane
    }
    return undefined
  }

  #run(lane: GateLane): void {
    const [call] = lane.calls
    if (call === undefined) return
    lane.running = true
    this.running.push(call)
    try {
      call.host.run(0)
    } finally {
      this.running.splice(this.running.indexOf(call), 1)
      lane.running = false
      this.#pass(lane, call)
      this.#passHolds(lane)
    }
  }

  /** Lets the stream go on from the gate that is the first of the lane. */
  #pass(lane: GateLane, call: GateCall): void {
    lane.calls.shift()
    const [next] = lane.calls
    if (next !== undefined) lane.label(next)
    lane.open(call)
    this.#count(-1)
    if (lane.calls.length === 0) this.#retire(lane)
  }

  #passHolds(lane: GateLane): void {
    for (;;) {
      const [first] = lane.calls
      if (lane.running || first?.hold?.isOpen !== true) return
      this.holds.delete(first)
      this.#pass(lane, first)
    }
  }

  #openLane(stream: GateStream): StreamLane {
    const slot = this.memory.take()
    if (slot === undefined) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `Host functions are pending on ${GATE_SLOTS} streams: wait for some of them first`,
      )
    }
    stream.lane = new StreamLane(stream, this.memory, slot)
    return stream.lane
  }

  #retire(lane: GateLane): void {
    this.#active = this.#active.filter((other) => other !== lane)
    lane.emptied()
  }
}

/** The gates of one stream, which share a slot: each waits for a higher "go" than the one before. */
export class StreamLane extends GateLane {
  constructor(
    private readonly stream: GateStream,
    memory: GateMemory,
    slot: number,
  ) {
    super(stream.context, memory, slot)
  }

  override arrived({ sequence, hold }: GateCall): boolean {
    const latest = hold === undefined ? this.memory.arrived(this.slot) : this.memory.reached(this.slot)
    return ((latest - sequence) | 0) >= 0
  }

  override open({ sequence }: GateCall): void {
    this.memory.setGo(this.slot, sequence)
  }

  /** The slot may be taken anew at once: its sequence counts on, so a gate that was opened stays open. */
  override emptied(): void {
    this.stream.lane = undefined
    this.memory.giveBack(this.slot)
  }
}
