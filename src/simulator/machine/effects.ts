/** The effects of operations on memory: done at once, or part by part within slices of time, and what they may set and how they may end. */

import { monotonicTime } from '../../foundation/base/event-loop.js'
import { throwUncaught } from '../../foundation/base/uncaught.js'
import { seconds, warnOnce } from '../../foundation/base/warnings.js'
import { strangeCondition } from './conditionals.js'
import type { SimOperation } from './machine-state.js'
import type { Computation, Slice } from './slice.js'
import { LaunchFault, type Work } from './work.js'

/** The milliseconds for which an effect may hold the event loop without a warning. */
const LONG_PART = 1000

export class Effects {
  /** The operation whose effect is under way. */
  #current: SimOperation | undefined
  /** The fault of the operation whose effect is under way, or was. */
  #strange: LaunchFault | undefined
  /** The operation whose effect is computed in parts, with no other effect between them. */
  #excluding: SimOperation | undefined
  /** The works that a warning has named. */
  readonly #named = new Set<string>()

  /** @param lose Called with the fault in which an effect ends */
  constructor(private readonly lose: (fault: LaunchFault) => void) {}

  /** The operation whose effect is under way, the innermost if one is done inside another. */
  get current(): SimOperation | undefined {
    return this.#current
  }

  /**
   * Does the effect of an operation. An effect that throws is a fault, or else an error in the program or in this library: then the machine goes on.
   * Returns false if the slice was over before the effect is there.
   */
  do(operation: SimOperation, work: Work, slice: Slice | undefined): boolean {
    if (this.#excluding !== undefined && this.#excluding !== operation) this.#completeExcluding(this.#excluding)
    const before = this.#current
    this.#current = operation
    try {
      if (!this.#compute(operation, work, slice)) return false
    } catch (error) {
      if (error instanceof LaunchFault) this.lose(error)
      else throwUncaught(error)
    } finally {
      this.#current = before
    }
    if (this.#strange !== undefined) this.lose(this.#strange)
    this.#strange = undefined
    if (this.#excluding === operation) this.#excluding = undefined
    return true
  }

  /** Sets a condition of the graph instance from which the kernel was launched whose effect is under way. */
  setCondition(handle: bigint, value: number): void {
    const conditions = this.#current?.conditions
    const condition = conditions?.find((each) => each.handle === handle)
    if (condition !== undefined) condition.value = value >>> 0
    // The fault is kept and not thrown, since JavaScript could catch it.
    else this.#strange ??= strangeCondition(handle, conditions !== undefined)
  }

  /** Does the effect, or a part of it. Returns whether it is there. */
  #compute(operation: SimOperation, work: Work, slice: Slice | undefined): boolean {
    if (operation.computation === undefined) {
      const computation = slice === undefined ? undefined : work.compute?.()
      if (computation === undefined) {
        if (slice === undefined) work.effect()
        else this.#doInOnePart(work)
        return true
      }
      operation.computation = computation
      if (computation.excludesOthers) this.#excluding = operation
    }
    return operation.computation.run(slice)
  }

  #doInOnePart(work: Work): void {
    const begun = monotonicTime()
    work.effect()
    const milliseconds = monotonicTime() - begun
    if (milliseconds < LONG_PART || this.#named.has(work.what)) return
    this.#named.add(work.what)
    const what = `The simulated GPU held the event loop for ${seconds(milliseconds)} while it did all of '${work.what}', which it cannot do part by part`
    warnOnce(
      'CUDA_STREAMS_EVENT_LOOP_HELD',
      `${what}. A GPU would not hold it: use a kernel with a source, or smaller work`,
    )
  }

  /** Computes the rest of an effect that no other may come between. It counts as there, and its errors appear, when its turn comes. */
  #completeExcluding(operation: SimOperation): void {
    this.#excluding = undefined
    const before = this.#current
    this.#current = operation
    try {
      operation.computation?.run()
      operation.computation = COMPLETE
    } catch (error) {
      operation.computation = new Failed(error)
    } finally {
      this.#current = before
    }
  }
}

/** A computation that has been completed before its turn. */
const COMPLETE: Computation = { excludesOthers: false, run: () => true, drop: () => {} }

/** A computation that has failed before its turn. */
class Failed implements Computation {
  readonly excludesOthers = false

  constructor(private readonly error: unknown) {}

  run(): boolean {
    throw this.error
  }

  drop(): void {}
}
