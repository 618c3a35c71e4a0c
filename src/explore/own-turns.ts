/**
 * What a program has put into the event loop itself: immediates, timers, files, messages. Of most it is known that the loop
 * will come to them, so that an exploration can choose what the GPU has done by then.
 */
import { createHook } from 'node:async_hooks'
import { Ambient } from '../base/ambient.js'

/** Resources of Node that the event loop comes to, once. */
const COMES = /^(Immediate|Timeout|.*REQ.*)$/
/** Resources that it comes to as often as something arrives, or never. */
const MAY_COME = /WRAP$|PORT$|^WORKER$|^ZLIB$/
/** Milliseconds; a timer that is set to more looks for mishaps, as a rule, and is cleared. */
const LONGEST_SLEEP = 1000

interface Request {
  readonly resource: object
  /** The caller's number for the time at which it was made. */
  readonly since: number
}

const programs = new Ambient<OwnTurns>()

export class OwnTurns implements Disposable {
  /** How many turns there were. */
  count = 0
  readonly #requests = new Map<number, Request>()
  readonly #sources = new Map<number, string>()
  readonly #hook = createHook({
    init: (id, type, _trigger, resource) => {
      if (type === 'PROMISE' || type === 'TickObject' || programs.get() !== this) return
      if (COMES.test(type)) this.#add(id, type, resource)
      else if (MAY_COME.test(type)) this.#sources.set(id, type)
    },
    before: (id) => {
      const request = this.#requests.get(id)
      if (request === undefined && !this.#sources.has(id)) return
      if (request !== undefined && !repeats(request)) this.#requests.delete(id)
      this.count += 1
      this.turned(request?.since)
    },
    destroy: (id) => {
      this.#requests.delete(id)
      this.#sources.delete(id)
    },
  })

  /**
   * @param now numbers the time
   * @param turned told of each turn, at its beginning, and when it was asked for: undefined where it could not be foreseen
   * @param slow told of a timer that is not waited for as long as anything else happens
   */
  constructor(
    private readonly now: () => number,
    private readonly turned: (since: number | undefined) => void,
    private readonly slow: (milliseconds: number) => void,
  ) {
    this.#hook.enable()
  }

  /** Runs what is to be watched, with all that follows from it. */
  run<R>(fn: () => R): R {
    return programs.run(this, fn)
  }

  /**
   * When it was asked for what the event loop will come to; undefined where there is nothing. `isOver`: the program has
   * returned, and leaves timers that repeat as they are.
   */
  next(isOver: boolean): number | undefined {
    return this.#first((request) => isShort(request) && !(isOver && repeats(request)))
  }

  /** The same, with timers that are not waited for as long as anything else happens. */
  get nextOfAll(): number | undefined {
    return this.#first(() => true)
  }

  /** Something may arrive, or not. */
  get mayCome(): boolean {
    return this.#sources.size > 0
  }

  [Symbol.dispose](): void {
    this.#hook.disable()
  }

  #add(id: number, type: string, resource: object): void {
    const request = { resource, since: this.now() }
    this.#requests.set(id, request)
    // What a program does not wait for, and the library's own, loses its reference right after it was made; a job of
    // node:crypto that is done at once gets no callback.
    queueMicrotask(() => {
      if (!hasRef(resource) || (type.endsWith('REQUEST') && !hasCallback(resource))) this.#requests.delete(id)
    })
    if (!isShort(request)) this.slow(Number(Reflect.get(resource, '_idleTimeout')))
  }

  #first(isWanted: (request: Request) => boolean): number | undefined {
    for (const [id, request] of this.#requests) {
      if (isCancelled(request)) this.#requests.delete(id)
      else if (isWanted(request)) return request.since
    }
    return undefined
  }
}

// Node tells of cleared timers late, and not at all how long they are or whether they come again: they have it themselves.
const isCancelled = ({ resource }: Request): boolean => Reflect.get(resource, '_destroyed') === true

const repeats = ({ resource }: Request): boolean => typeof Reflect.get(resource, '_repeat') === 'number'

const isShort = ({ resource }: Request): boolean => {
  const milliseconds: unknown = Reflect.get(resource, '_idleTimeout')
  return typeof milliseconds !== 'number' || milliseconds <= LONGEST_SLEEP
}

const hasCallback = (job: object): boolean => typeof Reflect.get(job, 'ondone') === 'function'

function hasRef(resource: object): boolean {
  const ask: unknown = Reflect.get(resource, 'hasRef')
  return typeof ask !== 'function' || ask.call(resource) === true
}
