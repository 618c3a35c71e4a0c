/**
 * The knowledge of each part of JavaScript of what is done, if waits order only what follows from them. A callback knows what was known where it was
 * passed on; code after an `await` also knows what was known where the promise was settled. Anything else that has happened by then is chance.
 */
import { stateError } from '../../foundation/base/errors.js'
import { createHook, types } from '../../foundation/base/node-modules.js'
import { type Component, merged, NO_TIMES, type VectorClock } from '../../foundation/base/vector-clock.js'

interface Continuation {
  clock: VectorClock
  /** The number of the promise, for a reaction to one. */
  readonly trigger: number
}

export class Continuations {
  /** The continuations that may still run; keys are Node's numbers of promises, timers and the like, as long as these are reachable. */
  readonly #waiting = new Map<number, Continuation>()
  /** The clock with which each promise was settled. */
  readonly #settled = new Map<number, VectorClock>()
  /** The clocks of the callbacks around the innermost one. */
  readonly #outer: VectorClock[] = []
  readonly #hook = createHook({
    init: (id, _type, trigger) => void this.#waiting.set(id, { clock: this.host.clock, trigger }),
    // A callback inside another one also follows from that one.
    before: (id) =>
      this.#enter(this.#outer.length === 0 ? this.#knownTo(id) : merged(this.#knownTo(id), this.host.clock)),
    after: (id) => {
      // The next call of an interval, or of a socket, knows what this call has learned.
      const continuation = this.#waiting.get(id)
      if (continuation !== undefined) continuation.clock = this.host.clock
      this.#leave()
    },
    promiseResolve: (id) => void this.#settled.set(id, merged(this.#settled.get(id) ?? NO_TIMES, this.host.clock)),
    destroy: (id) => {
      this.#waiting.delete(id)
      this.#settled.delete(id)
    },
  })

  /**
   * @param host The component with the clock of the part that runs now
   * @param all The component with the clock of all parts together
   */
  constructor(
    private readonly host: Component,
    private readonly all: Component,
  ) {}

  start(): void {
    this.#hook.enable()
    if (users === 0) restoreCombinators = combineKnowledge()
    users += 1
  }

  stop(): void {
    this.#hook.disable()
    users -= 1
    if (users === 0) restoreCombinators()
  }

  /** Calls a function that has the knowledge of this clock, and no other. */
  run(clock: VectorClock, fn: () => void): void {
    this.#enter(clock)
    try {
      fn()
    } finally {
      this.#leave()
    }
  }

  #enter(clock: VectorClock): void {
    this.#outer.push(this.host.clock)
    this.host.turnTo(clock)
  }

  #leave(): void {
    this.host.turnTo(this.#outer.pop() ?? NO_TIMES)
  }

  /** The clock of a callback. One that is older than the sanitizer may have waited for anything. */
  #knownTo(id: number): VectorClock {
    const continuation = this.#waiting.get(id)
    if (continuation === undefined) return this.all.clock
    const settled = this.#settled.get(continuation.trigger)
    return settled === undefined ? continuation.clock : merged(continuation.clock, settled)
  }
}

/** Throws ERR_UNSUPPORTED if the run time has no hooks for promises. */
export function checkContinuations(): void {
  let isTold = false
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'PROMISE') isTold = true
    },
  }).enable()
  void Promise.resolve().then()
  hook.disable()
  if (isTold) return
  throw stateError('ERR_UNSUPPORTED', 'causal: true needs the promise hooks of node:async_hooks: run it on Node')
}

let users = 0
let restoreCombinators = (): void => {}

/** Makes combined promises know all of their parts: Node settles the promise of many with the last of them, whose clock lacks the others. */
function combineKnowledge(): () => void {
  const names = ['all', 'allSettled'] as const
  const restores = names.map((name) => {
    const original: unknown = Promise[name]
    if (typeof original !== 'function') return () => {}
    const combine = async (list: readonly unknown[]): Promise<unknown> => {
      const result: unknown = await Reflect.apply(original, Promise, [list])
      for (const one of list) if (types.isPromise(one)) await one.then(nothing, nothing)
      return result
    }
    const combined = function (this: unknown, values: Iterable<unknown>): unknown {
      return this === Promise ? combine([...values]) : Reflect.apply(original, this, [values])
    }
    Reflect.set(Promise, name, combined)
    return () => {
      if (Reflect.get(Promise, name) === combined) Reflect.set(Promise, name, original)
    }
  })
  return () => {
    for (const restore of restores) restore()
  }
}

const nothing = (): void => {}
