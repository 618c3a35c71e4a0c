/** Conditions: the values by which conditional nodes of graphs decide, and which kernels set. */
import { invalidValue } from '../../foundation/base/errors.js'
import {
  checkMade,
  construct,
  implementation,
  LibraryObject,
  nextSerial,
  notCloneable,
} from '../../foundation/base/library-object.js'
import type { CaptureRecord } from '../streams/capture-record.js'

export class ConditionImpl {
  /** A node has it. */
  isUsed = false

  constructor(
    /** The record of the capture that it was made in. */
    private readonly capture: CaptureRecord,
    /** The CUgraphConditionalHandle. */
    readonly handle: bigint,
  ) {}

  /** Throws if it was made in another capture: CUDA would take it for a condition of this one, since it counts those of each graph. */
  checkCapture(capture: CaptureRecord | undefined, stream: object): void {
    if (capture === this.capture) return
    const why = capture === undefined ? 'captures no graph' : 'is in another capture'
    throw invalidValue(`${this} is of the graph whose capture made it, and ${stream} ${why}`)
  }

  /** Throws if it was made in none of the captures that a graph is made of. */
  checkGraph(captures: WeakSet<CaptureRecord>, graph: object): void {
    if (captures.has(this.capture)) return
    throw invalidValue(`${this} is not of ${graph}, and CUDA would take it for a condition of that`)
  }

  toString(): string {
    return `Condition(${this.handle})`
  }
}

/**
 * A value of a graph, by which its conditional nodes decide: an integer of 32 bits without a sign. Kernels of the graph set it
 * with `cudaGraphSetConditional(handle, value)` in CUDA C++ and with `setConditional(handle, value)` in JavaScript. They get
 * the handle as an argument of the type 'u64', for which `stream.launch()` takes a Condition.
 */
export class Condition extends LibraryObject {
  /** The CUgraphConditionalHandle: a number of the graph's own, which conditions of other graphs have, too. */
  readonly handle: bigint
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number = nextSerial()
  /** @internal Refuses to be copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  /** @internal */
  declare readonly [implementation]: ConditionImpl

  /** Use `stream.createCondition()`. */
  private constructor(impl: ConditionImpl) {
    super()
    checkMade(impl, ConditionImpl, 'Condition', 'stream.createCondition()')
    this.handle = impl.handle
    this[implementation] = impl
  }

  /** @internal */
  static [construct](impl: ConditionImpl): Condition {
    return new Condition(impl)
  }

  get [Symbol.toStringTag](): string {
    return 'Condition'
  }
}

export const conditionOf = (capture: CaptureRecord, handle: bigint): Condition =>
  Condition[construct](new ConditionImpl(capture, handle))

/** The implementation of a Condition; undefined for any other value. */
export const conditionImplOf = (value: unknown): ConditionImpl | undefined =>
  value instanceof Condition ? value[implementation] : undefined
