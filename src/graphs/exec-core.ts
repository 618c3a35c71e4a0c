/** An instance of a graph as the rest of the library works on it: with what it keeps, until its launches are over. */
import type { NativeResource } from '../base/finalization.js'
import type { Device } from '../device.js'
import type { ContextHandle, GraphExecHandle, NodeHandle, OwnEvent } from '../driver/driver.js'
import { HandleCore } from '../kernels/handle-core.js'
import type { LaunchNode } from '../kernels/launchable.js'
import { type AllocationStream, allocationStreamOf, isLost, unlessLost } from '../memory/allocation-stream.js'
import { Allocation } from '../memory/allocations.js'
import type { OpenMemory } from '../memory/buffer-core.js'
import { giveBackUnowned, letGoAfter, sweepLeft } from '../memory/left-resources.js'
import { hiddenStream, ownEvent, recordedEvent } from '../memory/stream-uses.js'
import { type Keeps, letGoOf } from '../streams/capture-record.js'
import type { StreamCore } from '../streams/stream-core.js'
import { NodeKeeps } from './node-keeps.js'

/** What an instance tells the graph that it was made from. */
export interface InstantiatedGraph {
  /** Destroyed, with its nodes. */
  readonly isLost: boolean
  instanceMade(): void
  instanceOver(): void
}

export class ExecCore extends HandleCore<GraphExecHandle> {
  /**
   * The stream of the latest launch, which comes after the earlier ones, where this library owns it; it may be closed
   * since.
   */
  #last: StreamCore | undefined
  #order: AllocationStream | undefined
  /** Behind the latest launch, where the stream was another library's, which may destroy it at any time. */
  #launched: OwnEvent | undefined

  /**
   * It was updated as a whole, or a node of it was switched. Of an instance where both were done CUDA 13.0 launches kernels
   * with arguments of earlier ones.
   */
  changed: 'updated' | 'switched' | undefined
  readonly #nodeKeeps = new NodeKeeps()
  /** By the core of a node: a kernel of this instance, as updates of it need it. */
  readonly places = new Map<object, LaunchNode>()

  /** `graph` is the one that the instance is made from: its nodes stand for those of the instance. */
  constructor(
    device: Device,
    exec: GraphExecHandle,
    readonly graph: InstantiatedGraph,
    private keeps: Keeps,
    context: ContextHandle,
  ) {
    super('GraphExec', device, exec, () => this.#end(), context)
    graph.instanceMade()
  }

  get ordinal(): number {
    return this.device.ordinal
  }

  /** A node was changed: it uses this memory from now on. */
  nodeUses(node: NodeHandle, memory: readonly OpenMemory[]): void {
    const unused = this.#nodeKeeps.put(node, memory)
    if (unused.length > 0) this.#letGoLater(unused)
  }

  /** It was launched on the stream. */
  launchedOn(stream: StreamCore): void {
    if (stream === this.#last) return
    this.#order?.forgotten()
    this.#last = undefined
    this.#order = undefined
    if (stream.isExternal) {
      if (this.keeps.resources.size === 0 && this.#nodeKeeps.isEmpty) return
      this.#launched ??= ownEvent(stream)
      this.driver.eventRecordOwn(this.#launched.event, stream.handle)
    } else {
      this.#last = stream
      this.#order = allocationStreamOf(stream)
      this.#order.allocated()
      this.#forgetLaunched()
    }
  }

  /** Its work was replaced by that of a graph which keeps this. */
  replaced(keeps: Keeps): void {
    const { keeps: before } = this
    this.keeps = keeps.copy()
    // The next launch comes after those under way: what the instance keeps still needs nothing more.
    for (const resource of keeps.resources) before.drop(resource)
    const ofNodes = this.#nodeKeeps.takeAll()
    const unused = [...before.take(), ...ofNodes]
    if (unused.length > 0) this.#letGoLater(unused)
  }

  /** Lets go of something, and is launched again. */
  #letGoLater(resources: readonly NativeResource[]): void {
    this.#order?.allocated()
    this.#letGo(resources)
  }

  #end(): void {
    try {
      this.driver.graphs.destroyExec(this.handle)
    } finally {
      const launched = this.#launched
      this.#launched = undefined
      try {
        this.#letGo([...this.keeps.take(), ...this.#nodeKeeps.takeAll()], launched, () => this.#recycle(launched))
      } finally {
        this.#order = undefined
        this.graph.instanceOver()
        sweepLeft(this.driver)
      }
    }
  }

  /** Lets go when the latest launch is over. `done` is called when that is settled. */
  #letGo(resources: readonly NativeResource[], launched = this.#launched, done = (): void => {}): void {
    const left = [...resources]
    const order = this.#order
    giveBackUnowned(this.driver, () => {
      try {
        this.#letGoInOrder(left, order, launched)
      } catch (error) {
        if (!isLost(error)) throw error
        // No launch is under way any more.
        letGoOf(left, (each) => each.letGo())
      }
      done()
    })
  }

  /** Takes what it lets go of out of the list. */
  #letGoInOrder(left: NativeResource[], order: AllocationStream | undefined, launched: OwnEvent | undefined): void {
    if (order !== undefined) order.free((last) => letGoBehind(left, last))
    else if (launched !== undefined) {
      const hidden = hiddenStream(this.device)
      hidden.driver.streamWaitEvent(hidden.handle, launched.event, 0)
      letGoBehind(left, hidden)
    } else letGoOf(left, (each) => each.letGo())
  }

  #forgetLaunched(): void {
    this.#recycle(this.#launched)
    this.#launched = undefined
  }

  #recycle(launched: OwnEvent | undefined): void {
    if (launched !== undefined) this.driver.eventRecycle(launched.context, launched.event)
  }
}

/**
 * Lets go of all in the list, when the work is done that the stream holds now. What the driver does not allow yet stays in the
 * list.
 */
function letGoBehind(left: NativeResource[], last: StreamCore): void {
  const { driver, handle } = last
  const others: NativeResource[] = []
  const refused: NativeResource[] = []
  try {
    letGoOf(left, (resource) => {
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
      resource.letGo()
    })
    if (others.length === 0) return
    const after = recordedEvent(last, (event) => driver.eventRecordOwn(event, handle))
    letGoAfter(driver, others.splice(0), after)
  } catch (error) {
    if (!isLost(error)) throw error
    // No launch is under way any more.
    for (const resource of others.splice(0)) unlessLost(() => resource.letGo())
  } finally {
    left.push(...refused, ...others)
  }
  sweepLeft(driver)
}
