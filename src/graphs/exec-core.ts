/** An instance of a graph as the rest of the library works on it: with what it keeps, until its launches are over. */
import type { NativeResource } from '../base/finalization.js'
import type { Device } from '../device.js'
import type { ContextHandle, GraphExecHandle, OwnEvent } from '../driver/driver.js'
import { HandleCore } from '../kernels/handle-core.js'
import { type AllocationStream, allocationStreamOf, isLost, unlessLost } from '../memory/allocation-stream.js'
import { Allocation } from '../memory/allocations.js'
import { letGoAfter, sweepLeft } from '../memory/left-resources.js'
import { hiddenStream, ownEvent, recordedEvent } from '../memory/stream-uses.js'
import type { Keeps } from '../streams/capture-record.js'
import type { StreamCore } from '../streams/stream-core.js'

export class ExecCore extends HandleCore<GraphExecHandle> {
  /**
   * The stream of the latest launch, which comes after the earlier ones, where this library owns it; it may be closed
   * since.
   */
  #last: StreamCore | undefined
  #order: AllocationStream | undefined
  /** Behind the latest launch, where the stream was another library's, which may destroy it at any time. */
  #launched: OwnEvent | undefined

  constructor(
    device: Device,
    exec: GraphExecHandle,
    private keeps: Keeps,
    context: ContextHandle,
  ) {
    super('GraphExec', device, exec, () => this.#end(), context)
  }

  /** It was launched on the stream. */
  launchedOn(stream: StreamCore): void {
    if (stream === this.#last) return
    this.#order?.forgotten()
    this.#last = undefined
    this.#order = undefined
    if (stream.isExternal) {
      if (this.keeps.resources.size === 0) return
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
    if (before.resources.size === 0) return
    this.#order?.allocated()
    this.#letGo(before)
  }

  #end(): void {
    try {
      this.driver.graphs.destroyExec(this.handle)
    } finally {
      this.#letGo(this.keeps)
      this.#order = undefined
      this.#forgetLaunched()
      sweepLeft(this.driver)
    }
  }

  /** Lets go when the latest launch is over. */
  #letGo(keeps: Keeps): void {
    if (this.#order === undefined && this.#launched === undefined) keeps.letGo()
    else {
      try {
        this.#letGoInOrder(keeps)
      } catch (error) {
        if (!isLost(error)) throw error
        // No launch is under way any more.
        keeps.letGo()
      }
    }
  }

  #letGoInOrder(keeps: Keeps): void {
    if (this.#order !== undefined) this.#order.free((last) => letGoBehind(keeps, last))
    else if (this.#launched !== undefined) {
      const hidden = hiddenStream(this.device)
      hidden.driver.streamWaitEvent(hidden.handle, this.#launched.event, 0)
      letGoBehind(keeps, hidden)
    }
  }

  #forgetLaunched(): void {
    if (this.#launched === undefined) return
    this.driver.eventRecycle(this.#launched.context, this.#launched.event)
    this.#launched = undefined
  }
}

/** Lets go of all that is kept, when the work is done that the stream holds now. */
function letGoBehind(keeps: Keeps, last: StreamCore): void {
  const { driver, handle } = last
  const others: NativeResource[] = []
  keeps.letGo((resource) => {
    if (resource instanceof Allocation) {
      unlessLost(() => resource.usedOn(last))
      resource.letGo()
    } else others.push(resource)
  })
  if (others.length === 0) return
  try {
    letGoAfter(
      driver,
      others,
      recordedEvent(last, (event) => driver.eventRecordOwn(event, handle)),
    )
  } catch (error) {
    if (!isLost(error)) throw error
    // No launch is under way any more.
    for (const resource of others) unlessLost(() => resource.letGo())
  }
  sweepLeft(driver)
}
