/**
 * Host functions inside graphs. The node of a graph is launched many times with the same numbers, so its gate re-arms
 * itself: the GPU writes "arrived", waits for "go", and takes "go" back. Each instance of a graph has gates of its own,
 * since two may run at once.
 */
import { stateError } from '../../../base/errors.js'
import type { ContextHandle, HostFunction, Pointer } from '../../driver.js'
import type { GraphNodes } from '../graph-nodes.js'
import type { Library } from '../libcuda/library.js'
import { GATE_SLOTS, type GateMemory, WaitUntil } from './gate-memory.js'
import { type GateCall, GateLane, type GateStream, siteOf } from './gates.js'

const OPERATIONS = 3

/** A host function that was captured: the node that it became, and the function. */
export interface CapturedHostFunction {
  readonly node: number
  readonly host: HostFunction
  /** The node is in a graph within the graph. */
  readonly isWithin?: boolean
}

export class GraphGates {
  /** Given back in this order: a gate that was just opened must not be armed anew at once. */
  readonly #given: number[] = []
  /** Where captured gates point until their graph is instantiated. */
  #placeholder: number | undefined
  #nowhere: number | undefined

  constructor(
    private readonly library: Library,
    private readonly nodes: Pick<GraphNodes, 'setOperations'>,
    private readonly memory: GateMemory,
  ) {}

  /** Queues the gate on a capturing stream, where it becomes a node. Returns a CUresult. */
  capture(raw: number): number {
    this.#placeholder ??= this.#take()
    return this.library.cuStreamBatchMemOp_v2(raw, OPERATIONS, this.#describe(this.#placeholder), 0)
  }

  /** A byte that is written, and never read. */
  get nowhere(): Pointer {
    this.#nowhere ??= this.#take()
    return this.memory.addressOfReached(this.#nowhere) as Pointer
  }

  /** Gives a graph's gates slots of their own, which the instance that is made from it next has for itself. */
  arm(context: ContextHandle, captured: readonly CapturedHostFunction[]): GraphLane[] {
    const lanes: GraphLane[] = []
    try {
      for (const { node, host } of captured) {
        const slot = this.#take()
        lanes.push(new GraphLane(context, this.memory, slot, host, () => this.#given.push(slot)))
        this.nodes.setOperations(node, context, this.#describe(slot), OPERATIONS)
      }
      return lanes
    } catch (error) {
      for (const lane of lanes) lane.destroy()
      throw error
    }
  }

  #take(): number {
    const slot = this.memory.take() ?? this.#given.shift()
    if (slot === undefined) {
      const what = `${GATE_SLOTS} host functions stand in graphs, and a GPU has gates for no more`
      throw stateError('ERR_UNSUPPORTED', `${what}: close instances of graphs that are not launched any more`)
    }
    return slot
  }

  #describe(slot: number): number {
    return this.memory.describe(slot, [
      { write: 'arrived', value: 1 },
      { waitUntilGo: WaitUntil.EQUAL, value: 1 },
      { write: 'go', value: 0 },
    ])
  }
}

/** The gate of one host function in one instance of a graph. */
export class GraphLane extends GateLane {
  #launches = 0
  #destroyed = false

  constructor(
    context: ContextHandle,
    memory: GateMemory,
    slot: number,
    private readonly host: HostFunction,
    private readonly giveBack: () => void,
  ) {
    super(context, memory, slot)
  }

  /** The call that one more launch of the graph brings. */
  next(stream: GateStream): GateCall {
    this.#launches += 1
    const sequence = this.#launches
    const call = { lane: this, stream, sequence, host: this.host, site: siteOf(sequence), hold: undefined }
    if (this.calls.length === 0) this.label(call)
    return call
  }

  /** The instance of the graph is gone; launches of it may still be pending. */
  destroy(): void {
    this.#destroyed = true
    if (this.calls.length === 0) this.giveBack()
  }

  override arrived(): boolean {
    return this.memory.arrived(this.slot) === 1
  }

  override open(): void {
    this.memory.setArrived(this.slot, 0)
    this.memory.setGo(this.slot, 1)
  }

  override emptied(): void {
    if (this.#destroyed) this.giveBack()
  }
}
