/**
 * What each part of JavaScript knows to be done, where waits are to order only what comes of them: a callback knows what
 * was known where it was given away, and code behind an `await` besides what was known where the promise was settled. What
 * else has happened by then is chance.
 */
import { createHook, types } from '#platform'
import { stateError } from '../base/errors.js'
import { type Clock, merged, type Strand } from './clocks.js'

interface Continuation {
  clock: Clock
  /** Of a reaction to a promise: that promise. */
  readonly trigger: number
}

export class Continuations {
  /** By Node's numbers of promises, timers and the like, as long as these are reachable. */
  readonly #waiting = new Map<number, Continuation>()
  /** By promise. */
  readonly #settled = new Map<number, Clock>()
  /** What those knew that run outside of the innermost. */
  readonly #outer: Clock[] = []
  readonly #hook = createHook({
    init: (id, _type, trigger) => void this.#waiting.set(id, { clock: this.host.clock, trigger }),
    // What is called within another comes of that, too.
    before: (id) =>
      this.#enter(this.#outer.length === 0 ? this.#knownTo(id) : merged(this.#knownTo(id), this.host.clock)),
    after: (id) => {
      // An interval, or a socket, goes on with what it has learned.
      const continuation = this.#waiting.get(id)
      if (continuation !== undefined) continuation.clock = this.host.clock
      this.#leave()
    },
    promiseResolve: (id) => void this.#settled.set(id, merged(this.#settled.get(id) ?? [], this.host.clock)),
    destroy: (id) => {
      this.#waiting.delete(id)
      this.#settled.delete(id)
    },
  })

  /** `host` knows what the part that runs does; `all` what any part has ever known. */
  constructor(
    private readonly host: Strand,
    private readonly all: Strand,
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

  /** Calls a function that comes after this; whatever else is known is chance. */
  run(clock: Clock, fn: () => void): void {
    this.#enter(clock)
    try {
      fn()
    } finally {
      this.#leave()
    }
  }

  #enter(clock: Clock): void {
    this.#outer.push(this.host.clock)
    this.host.turnTo(clock)
  }

  #leave(): void {
    this.host.turnTo(this.#outer.pop() ?? [])
  }

  /** Of what is older than the sanitizer it is not known what it has waited for: it may be anything. */
  #knownTo(id: number): Clock {
    const continuation = this.#waiting.get(id)
    if (continuation === undefined) return this.all.clock
    const settled = this.#settled.get(continuation.trigger)
    return settled === undefined ? continuation.clock : merged(continuation.clock, settled)
  }
}

/** Throws ERR_UNSUPPORTED where JavaScript does not tell what comes of a promise. */
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

/** Node settles the promise of many with the last of them, which knows of itself only: here each is awaited. */
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
