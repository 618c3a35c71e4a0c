/** The implementation of a graph instance, with what it retains until its launches are over. */
import { explained } from '../../foundation/base/errors.js'
import type { NativeResource } from '../../foundation/base/finalization.js'
import { CUresult, cudaError } from '../../foundation/driver/cuda-results.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ContextHandle, GraphExecHandle, NodeHandle } from '../../foundation/driver/handle-types.js'
import { isNullStream } from '../../foundation/driver/handle-types.js'
import { type Device, HandleImpl } from '../device.js'
import type { LaunchNode } from '../kernels/launchable.js'
import type { AllocationStream } from '../memory/allocation-stream.js'
import {
  allocationStreamOf,
  freeUnowned,
  isLost,
  releaseAfter,
  sweepReleases,
  unlessLost,
} from '../memory/allocation-stream.js'
import { Allocation } from '../memory/allocations.js'
import type { OpenMemory } from '../memory/buffer.js'
import { CommonEvent, internalEvent, recordedEvent } from '../memory/stream-uses.js'
import { type CaptureRecord, findInCapture, type RetainedResources, releaseAll } from '../streams/capture-record.js'
import type { StreamImpl } from '../streams/stream-impl.js'

/** The graph that an instance was made from, as far as the instance needs it. */
export interface InstantiatedGraph {
  /** CUDA has destroyed the graph with its nodes, because a capture into it failed. */
  readonly isLost: boolean
  /** The captures that it is made of. */
  readonly captures: WeakSet<CaptureRecord>
  instanceMade(): void
  instanceClosed(): void
}

export class GraphExecImpl extends HandleImpl<GraphExecHandle> {
  /** The stream of the latest launch, if this library owns it: it comes after earlier launches, and may be closed by now. */
  #last: StreamImpl | undefined
  #order: AllocationStream | undefined
  /** An event behind the latest launch, if its stream is another library's, which may destroy it at any time. */
  #launched: CommonEvent | undefined

  /**
   * Whether the instance was updated as a whole, or a node of it was switched. If both were done, CUDA 13.0 launches kernels with
   * arguments of earlier ones.
   */
  changed: 'updated' | 'switched' | undefined
  readonly #ofNodes = new NodeRetentions()
  /**
   * Memory that the instance has come to use since its latest launch, which waited for the allocations of the rest: a launch comes
   * after those before it, on whatever streams they are.
   */
  readonly #added: Set<Allocation>
  /** The launches of kernel nodes, which updates of their kernels need, by the state of the node. */
  readonly launchNodes = new Map<object, LaunchNode>()

  /** `graph` is the one that the instance is made from: its nodes stand for those of the instance. */
  constructor(
    device: Device,
    exec: GraphExecHandle,
    readonly graph: InstantiatedGraph,
    private retained: RetainedResources,
    context: ContextHandle,
  ) {
    super('GraphExec', device, exec, context)
    this.#added = new Set(allocationsIn(retained))
    graph.instanceMade()
  }

  get ordinal(): number {
    return this.device.ordinal
  }

  /**
   * Throws where a launch would wait for an event of a capture that goes on: CUDA takes the launch's stream into that capture, so that
   * what is queued there from then on never runs.
   */
  checkAwaited(): void {
    const event = findInCapture(this.driver, this.retained.awaited)
    if (event === undefined) return
    throw explained(
      cudaError('cuGraphLaunch', CUresult.STREAM_CAPTURE_UNSUPPORTED),
      `${this} waits for ${event}, whose latest record is part of a capture that goes on: end that first, or record the event again`,
    )
  }

  /** Lets the stream wait until all memory is allocated that the launch will use. An entry of the stream is reserved before and after. */
  waitForAllocations(stream: StreamImpl): void {
    // A capture refuses the launch, and would be invalidated by the waits for another reason.
    if (this.#added.size === 0 || (!isNullStream(stream.handle) && stream.isCapturing)) return
    for (const allocation of this.#added) {
      if (allocation.isReadyOn(stream) || !this.#retains(allocation)) continue
      allocation.waitUntilReady(stream)
      stream.reserve(1)
      // Host functions that ran meanwhile may have closed it.
      this.checkOpen().checkAwaited()
    }
  }

  #retains(resource: NativeResource): boolean {
    return this.retained.all.has(resource) || this.#ofNodes.has(resource)
  }

  /** Notes memory that the instance is about to retain. */
  #adds(allocation: Allocation): void {
    if (!this.#retains(allocation)) this.#added.add(allocation)
  }

  /** A node was changed, and uses this memory from now on. */
  nodeUses(node: NodeHandle, memory: readonly OpenMemory[]): void {
    for (const { allocation } of memory) this.#adds(allocation)
    const unused = this.#ofNodes.put(node, memory)
    if (unused.length > 0) this.#releaseUnused(unused)
  }

  /** Called after each launch, with its stream. */
  launchedOn(stream: StreamImpl): void {
    // A launch of which all nodes are switched off does nothing, and keeps no order.
    if (this.#added.size > 0 && this.changed !== 'switched') this.#added.clear()
    if (stream === this.#last) return
    this.#order?.freed()
    this.#last = undefined
    this.#order = undefined
    if (stream.isExternal) {
      if (this.retained.all.size === 0 && this.#ofNodes.isEmpty) return
      if (this.#launched?.isShared) {
        // What was released since waits for the launch before.
        this.#launched.release()
        this.#launched = undefined
      }
      this.#launched ??= new CommonEvent(this.driver, internalEvent(stream))
      this.driver.events.recordInternal(this.#launched.own.event, stream.handle)
    } else {
      this.#last = stream
      this.#order = allocationStreamOf(stream)
      this.#order.allocated()
      this.#launched?.release()
      this.#launched = undefined
    }
  }

  /** Called when the instance's work was replaced by that of a graph that retains these resources. */
  replaced(retained: RetainedResources): void {
    const { retained: before } = this
    for (const allocation of allocationsIn(retained)) this.#adds(allocation)
    this.retained = retained.copy()
    // The next launch comes after those under way, so what the instance still retains needs nothing more.
    for (const resource of retained.all) before.drop(resource)
    const unused = [...before.take(), ...this.#ofNodes.takeAll()]
    if (unused.length > 0) this.#releaseUnused(unused)
  }

  /** Releases something while the instance will be launched again. */
  #releaseUnused(resources: readonly NativeResource[]): void {
    this.#order?.allocated()
    this.#releaseAfterLaunches(resources)
  }

  override destroy(): void {
    try {
      this.driver.graphs.destroyExec(this.handle)
    } finally {
      const launched = this.#launched
      this.#launched = undefined
      const all = [...this.retained.take(), ...this.#ofNodes.takeAll()]
      try {
        this.#releaseAfterLaunches(all, launched, () => launched?.release())
      } finally {
        this.#order = undefined
        this.graph.instanceClosed()
        sweepReleases(this.driver)
      }
    }
  }

  /** Releases the resources when the latest launch is over. `done` is called when that is arranged. */
  #releaseAfterLaunches(resources: readonly NativeResource[], launched = this.#launched, done = (): void => {}): void {
    const left = [...resources]
    const order = this.#order
    freeUnowned(this.driver, () => {
      try {
        this.#releaseInOrder(left, order, launched)
      } catch (error) {
        if (!isLost(error)) throw error
        // No launch is under way any more.
        releaseAll(left)
      }
      done()
    })
  }

  /** Removes from the list what it releases. */
  #releaseInOrder(
    left: NativeResource[],
    order: AllocationStream | undefined,
    launched: CommonEvent | undefined,
  ): void {
    if (order !== undefined) {
      order.free((last, end) => {
        if (end === undefined) releaseBehind(left, last)
        else releaseAfterEvent(this.driver, left, end)
      })
    } else if (launched !== undefined) releaseAfterEvent(this.driver, left, launched)
    else releaseAll(left)
  }
}

/** Releases all in the list when the event is done. No stream waits for it. */
function releaseAfterEvent(driver: Driver, left: NativeResource[], event: CommonEvent): void {
  const others: NativeResource[] = []
  try {
    releaseAll(left, (resource) => {
      if (resource instanceof Allocation) {
        resource.addForeignUse(event.share())
        resource.release()
      } else others.push(resource)
    })
  } finally {
    if (others.length > 0) releaseAfter(driver, others, event.share())
    sweepReleases(driver)
  }
}

/** Releases all in the list when the work is done that is queued on the stream now. What the driver refuses remains in it. */
function releaseBehind(left: NativeResource[], last: StreamImpl): void {
  const { driver, handle } = last
  const others: NativeResource[] = []
  const refused: NativeResource[] = []
  try {
    releaseAll(left, (resource) => {
      if (!(resource instanceof Allocation)) {
        others.push(resource)
        return
      }
      try {
        unlessLost(() => resource.usedOn(last))
      } catch (error) {
        refused.push(resource)
        throw error
      }
      resource.release()
    })
    if (others.length === 0) return
    const after = recordedEvent(last, (event) => driver.events.recordInternal(event, handle))
    releaseAfter(driver, others.splice(0), after)
  } catch (error) {
    if (!isLost(error)) throw error
    // No launch is under way any more.
    for (const resource of others.splice(0)) unlessLost(() => resource.release())
  } finally {
    left.push(...refused, ...others)
  }
  sweepReleases(driver)
}

/** The most pieces of memory that remain retained though no node uses them, while the program has them open. */
const MOST_UNUSED = 16
const NOTHING: readonly NativeResource[] = []

const allocationsIn = ({ all }: RetainedResources): readonly Allocation[] =>
  [...all].filter((resource) => resource instanceof Allocation)

/**
 * The memory of nodes that were changed one at a time. It changes with each step of a program, so memory that no node uses any
 * more is not released at once: the next step may use it again.
 */
class NodeRetentions {
  readonly #byNode = new Map<NodeHandle, readonly NativeResource[]>()
  /** The number of uses of each. */
  readonly #uses = new Map<NativeResource, number>()
  readonly #unused = new Set<NativeResource>()

  get isEmpty(): boolean {
    return this.#uses.size === 0 && this.#unused.size === 0
  }

  has(resource: NativeResource): boolean {
    return this.#uses.has(resource) || this.#unused.has(resource)
  }

  /** The node uses this memory from now on. Returns what is to be released when the launches under way are over. */
  put(node: NodeHandle, memory: readonly OpenMemory[]): readonly NativeResource[] {
    const before = this.#byNode.get(node)
    if (before === undefined ? memory.length === 0 : isSame(before, memory)) return NOTHING
    for (const { allocation } of memory) this.#use(allocation)
    for (const allocation of before ?? NOTHING) this.#unuse(allocation)
    // Allocations only: a slice refers to its whole, which could not be collected.
    this.#byNode.set(
      node,
      memory.map(({ allocation }) => allocation),
    )
    return this.#unused.size === 0 ? NOTHING : this.#takeUnused()
  }

  /** Takes all out. The caller has to release them. */
  takeAll(): readonly NativeResource[] {
    const all = [...this.#uses.keys(), ...this.#unused]
    this.#byNode.clear()
    this.#uses.clear()
    this.#unused.clear()
    return all
  }

  #use(resource: NativeResource): void {
    const uses = this.#uses.get(resource)
    if (uses === undefined && !this.#unused.delete(resource)) resource.retain()
    this.#uses.set(resource, (uses ?? 0) + 1)
  }

  #unuse(resource: NativeResource): void {
    const uses = this.#uses.get(resource) ?? 0
    if (uses > 1) this.#uses.set(resource, uses - 1)
    else {
      this.#uses.delete(resource)
      this.#unused.add(resource)
    }
  }

  /** Takes the unused memory that only graphs still have, and all of it if there is too much. */
  #takeUnused(): readonly NativeResource[] {
    const isFull = this.#unused.size > MOST_UNUSED
    const taken = [...this.#unused].filter((resource) => isFull || resource.isOnlyRetained)
    for (const resource of taken) this.#unused.delete(resource)
    return taken
  }
}

const isSame = (some: readonly NativeResource[], others: readonly OpenMemory[]): boolean =>
  some.length === others.length && some.every((one, index) => one === others[index]?.allocation)
