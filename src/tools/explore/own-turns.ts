/**
 * Watches what a program itself puts into the event loop: immediates, timers, files, messages. The loop will come to most of them, so that an
 * exploration can choose what the GPU has done by then.
 */

import { Ambient } from '../../foundation/base/ambient.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { AsyncResource, createHook } from '../../foundation/base/node-modules.js'

/** The types of Node's async resources that the event loop comes to once. */
const COMES = /^(Immediate|Timeout|.*REQ.*)$/
/** The types that the event loop does not come to by themselves. It comes to all others whenever something arrives. */
const HELD =
  /^(PROMISE|TickObject|FILEHANDLE|DIRHANDLE|DNSCHANNEL|ELDHISTOGRAM|HEAPSNAPSHOT|HTTP.*|JSSTREAM|STREAMPIPE|SIGINTWATCHDOG)$/
/** The types of jobs that are done at once, or that Node itself asks for, unless they have one of these callbacks. */
const MAY_BE_SILENT = /^FSREQCALLBACK$|(?<!^HASH)REQUEST$/
const TELLING = ['ondone', 'oncomplete']
/** The milliseconds of the longest timer that is waited for. A longer one is usually a timeout, which the program clears. */
const LONGEST_SLEEP = 1000

interface Request {
  readonly resource: object
  /** The step of the run at which the request was made. */
  readonly since: number
}

/** A resource to which the event loop may come, or not. */
interface Source {
  readonly type: string
  readonly resource: WeakRef<object>
  readonly made: number
}

const programs = new Ambient<OwnTurns>()

export class OwnTurns implements Disposable {
  /** The number of turns of the event loop so far. */
  count = 0
  readonly #requests = new Map<number, Request>()
  readonly #sources = new Map<number, Source>()
  readonly #hook = createHook({
    init: (id, type, _trigger, resource) => {
      if (HELD.test(type) || resource instanceof AsyncResource || programs.get() !== this) return
      if (COMES.test(type)) this.#add(id, type, resource)
      else this.#sources.set(id, sourceOf(type, resource))
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
   * @param now Returns the present step of the run
   * @param turned Called at the beginning of each turn, with the step in which it was asked for: undefined if it could not be foreseen
   * @param slow Called for a timer that is not waited for as long as anything else happens
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
   * The step in which the program asked for what the event loop will come to; undefined if there is nothing. With `isOver` the program has returned,
   * and leaves timers that repeat as they are.
   */
  next(isOver: boolean): number | undefined {
    return this.#first((request) => isShort(request) && !(isOver && repeats(request)))
  }

  /** The step as in `next`, with timers that are not waited for as long as anything else happens. */
  get nextOfAll(): number | undefined {
    return this.#first(() => true)
  }

  /** Whether there is something that may arrive, or not. */
  get mayCome(): boolean {
    for (const source of this.#sources.values()) if (mayTell(source)) return true
    return false
  }

  [Symbol.dispose](): void {
    this.#hook.disable()
  }

  #add(id: number, type: string, resource: object): void {
    const request = { resource, since: this.now() }
    this.#requests.set(id, request)
    // A resource that the program does not wait for is unreferenced right after it was made, as this library's own are. An AbortSignal.timeout() is
    // too, but the program waits for it.
    void Promise.resolve().then(() => {
      if (hasRef(resource) && tellsJavascript(type, resource)) return
      this.#requests.delete(id)
      if (type === 'Timeout' && !repeats(request)) this.#sources.set(id, sourceOf(type, resource))
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

// Node reports cleared timers late, and neither their delay nor whether they repeat, so these are read from the timers themselves.
const isCancelled = ({ resource }: Request): boolean => Reflect.get(resource, '_destroyed') === true

const repeats = ({ resource }: Request): boolean => typeof Reflect.get(resource, '_repeat') === 'number'

const isShort = ({ resource }: Request): boolean => {
  const milliseconds: unknown = Reflect.get(resource, '_idleTimeout')
  return typeof milliseconds !== 'number' || milliseconds <= LONGEST_SLEEP
}

const sourceOf = (type: string, resource: object): Source => {
  return { type, resource: new WeakRef(resource), made: monotonicTime() }
}

/**
 * Whether a resource may be busy. A compressor, or a reader of a Blob, exists until it is garbage collected. A compressor is busy if it holds a
 * chunk; of a reader that is not known, so it is taken to be busy for a second.
 */
function mayTell({ type, resource, made }: Source): boolean {
  const source = resource.deref()
  if (source === undefined || Reflect.get(source, '_destroyed') === true) return false
  if (type === 'BLOBREADER') return monotonicTime() - made < LONGEST_SLEEP
  return type !== 'ZLIB' || (Reflect.get(source, 'buffer') ?? null) !== null
}

function tellsJavascript(type: string, job: object): boolean {
  return !MAY_BE_SILENT.test(type) || TELLING.some((name) => typeof Reflect.get(job, name) === 'function')
}

function hasRef(resource: object): boolean {
  const ask: unknown = Reflect.get(resource, 'hasRef')
  return typeof ask !== 'function' || ask.call(resource) === true
}
