/** Host functions: where they stand in the order, which of them run now, and what each of those comes after. */
import { type Clock, isBefore, NOWHERE, Strand, type StrandPoint } from './clocks.js'
import type { HostFunctionOrigin } from './operations.js'
import type { PendingHostFunctions } from './pending.js'

export interface LaunchedHostFunction extends HostFunctionOrigin {
  readonly at: StrandPoint
}

export interface RunningHostFunction extends LaunchedHostFunction {
  /** What it comes after: what its place in the stream does, and what it waits for itself. */
  readonly knows: Strand
  /** How far that went when it began. */
  readonly began: number
}

interface HostFunctionOrder {
  readonly pending: PendingHostFunctions
  runHostFunction(launched: LaunchedHostFunction, fn: () => void): void
}

/** Where a host function runs: once, or once for each launch of its graph, in the order of the launches. */
export class HostFunctionPlace {
  readonly #launched: LaunchedHostFunction[] = []

  constructor(private readonly order: HostFunctionOrder) {}

  launched(launched: LaunchedHostFunction): void {
    this.#launched.push(launched)
    this.order.pending.queued(launched.at)
  }

  run(fn: () => void): void {
    const launched = this.#launched.shift()
    if (launched === undefined) fn()
    else this.order.runHostFunction(launched, fn)
  }
}

/** Of those that are over so many count, as long as others are pending. */
const MOST_OVER = 256

/**
 * Those that run. What the JavaScript thread knows by then, beside what one comes after by its place and its own waits,
 * may be chance, and does not count.
 */
export class RunningHostFunctions {
  /** The innermost last. */
  readonly #running: RunningHostFunction[] = []
  /** Those that are over and have waited for something, with all that each knew then. */
  readonly #over: { readonly at: StrandPoint; readonly clock: Clock }[] = []

  /** `areCausal`: what one has waited for is not known to all of JavaScript. */
  constructor(
    private readonly pending: PendingHostFunctions,
    private readonly areCausal: boolean,
  ) {}

  get innermost(): RunningHostFunction | undefined {
    // Asked with each operation: to look before the beginning of an array is slow.
    return this.#running.length === 0 ? undefined : this.#running[this.#running.length - 1]
  }

  enter(launched: LaunchedHostFunction): RunningHostFunction {
    const { at } = launched
    const knows = new Strand({ slot: NOWHERE, tick: 1, clock: at.clock })
    knows.join(at)
    this.inherit(knows)
    const running = { ...launched, knows, began: knows.tick }
    this.#running.push(running)
    return running
  }

  leave(running: RunningHostFunction): void {
    this.#running.splice(this.#running.indexOf(running), 1)
    if (this.#running.length === 0 && this.pending.isEmpty && !this.areCausal) {
      // Work that is queued from now on comes after all that JavaScript knows.
      this.#over.length = 0
      return
    }
    const { at, knows, began } = running
    if (began === knows.tick) return
    this.#over.push({ at, clock: knows.clock })
    if (this.#over.length > MOST_OVER) this.#over.shift()
  }

  /** The innermost has waited for these points. */
  learns(points: readonly StrandPoint[]): void {
    const knows = this.innermost?.knows
    if (knows === undefined) return
    for (const point of points) knows.join(point)
    this.inherit(knows)
  }

  /** What comes after a host function comes after what that waited for. */
  inherit(knows: Strand): void {
    let news = this.#over.length > 0
    while (news) {
      news = false
      for (const { at, clock } of this.#over) if (isBefore(at, knows) && knows.joinClock(clock)) news = true
    }
  }
}
