/**
 * The driver that public classes hold. Interceptors, such as the sanitizer and the timeline, are put in front of its
 * backend and taken out again while streams live. An interceptor has the methods that it handles itself; all others are
 * those of the next driver, so that a call that nobody intercepts costs nothing more.
 */
import type { Driver, DriverParts } from './driver.js'
import type { StreamHandle } from './handle-types.js'
import type { StreamDriver } from './stream-driver.js'

/** The parts of a driver; the compiler finds one that is missing. */
export const PARTS = Object.keys({
  devices: true,
  streams: true,
  events: true,
  work: true,
  memory: true,
  pools: true,
  kernels: true,
  graphs: true,
  libraries: true,
  sharing: true,
  textures: true,
} satisfies Record<keyof DriverParts, true>) as readonly (keyof DriverParts)[]

/** The methods that an interceptor handles. It calls those of the next driver to pass a call on. */
export type Interceptor = Partial<Pick<Driver, 'name'>> & {
  readonly [P in keyof DriverParts]?: Partial<DriverParts[P]>
}

export interface WrappableDriver extends Driver {
  /** The driver behind all interceptors. */
  readonly backend: Driver
  /**
   * The names that programs gave to streams that live; `id` is the driver's number for the stream, whose handle may be
   * another's later.
   */
  readonly streamNames: Map<StreamHandle, { readonly id: bigint; readonly name: string }>
  /** The interceptors in front of the backend, beginning with the one next to it. */
  readonly interceptors: readonly Interceptor[]
  /** Puts an interceptor in front of all others. `unwrap` takes it out. */
  wrap<I extends Interceptor>(make: (next: Driver) => I): { readonly wrapper: I; readonly unwrap: () => void }
}

let obstacles = 0

/**
 * Whether records and waits of this thread may go by the short way (`ShortCalls`). No interceptor must see them, no capture is under way that this library has
 * begun, and no backend has to know what comes after what, as it must while host functions are pending.
 */
export const isShortWayOpen = (): boolean => obstacles === 0

/** Closes the short way for whoever has a reason. It is open again when all reasons are gone: `closes` is false for each that goes. */
export function closeShortWay(closes: boolean): void {
  obstacles += closes ? 1 : -1
}

const wrappables = new WeakMap<Driver, WrappableDriver>()
const fronts = new WeakSet<object>()
const backends = new WeakMap<object, Driver>()

/** The one driver of a backend that public classes hold. */
export function wrappableOf(backend: Driver): WrappableDriver {
  let wrappable = wrappables.get(backend)
  if (wrappable === undefined) {
    wrappable = makeWrappable(backend)
    wrappables.set(backend, wrappable)
    fronts.add(wrappable)
  }
  return wrappable
}

const madeListeners = new Set<(driver: WrappableDriver) => void>()

/** Calls `listener` with each driver that the program makes beside the default one. The returned function ends that. */
export function whenDriverIsMade(listener: (driver: WrappableDriver) => void): () => void {
  madeListeners.add(listener)
  return () => void madeListeners.delete(listener)
}

/** Called with each driver that the program makes. */
export function driverIsMade(driver: WrappableDriver): void {
  for (const listener of madeListeners) listener(driver)
}

export const isWrappable = (value: unknown): value is WrappableDriver =>
  typeof value === 'object' && value !== null && fronts.has(value)

/** The backend behind a driver and its interceptors. */
export const backendOf = (driver: Driver): Driver => backends.get(driver) ?? driver

function makeWrappable(backend: Driver): WrappableDriver {
  const streamNames: WrappableDriver['streamNames'] = new Map()
  const interceptors: Interceptor[] = []
  /** The driver that each interceptor calls next. */
  const links: Link[] = []
  const front = new Link(backend)
  /** Lets the interceptors from this one on, and the front, call what is behind them now. */
  const relink = (from: number): void => {
    for (const [index, link] of [...links, front].entries()) {
      if (index >= from) link.follow(links[index - 1]?.driver ?? backend, interceptors[index - 1])
    }
    const { destroy } = front.driver.streams
    front.replaceStreamDestroy((stream) => {
      try {
        destroy(stream)
      } finally {
        streamNames.delete(stream)
      }
    })
  }
  relink(0)
  return Object.assign(front.driver, {
    backend,
    toString: () => `the driver '${backend.name}'`,
    streamNames,
    interceptors,
    wrap: <I extends Interceptor>(make: (next: Driver) => I) => {
      const next = new Link(backend).follow(links.at(-1)?.driver ?? backend, interceptors.at(-1))
      const wrapper = make(next.driver)
      interceptors.push(wrapper)
      links.push(next)
      closeShortWay(true)
      relink(links.length)
      const unwrap = (): void => {
        const index = links.indexOf(next)
        if (index < 0) return
        closeShortWay(false)
        interceptors.splice(index, 1)
        links.splice(index, 1)
        relink(index)
      }
      return { wrapper, unwrap }
    },
  })
}

/** A driver whose methods are those of others. They stand in prototypes, where V8 keeps them as constants. */
class Link {
  readonly #members = emptyObject()
  readonly #parts = new Map(PARTS.map((name) => [name, emptyObject()]))
  readonly driver: Driver

  constructor(backend: Driver) {
    for (const [name, methods] of this.#parts) {
      const part = Object.create(methods)
      define(this.#members, name, part)
      linked.add(part)
    }
    this.driver = Object.create(this.#members)
    backends.set(this.driver, backend)
  }

  /** Sets each method to that of the interceptor, or to that of the next driver if the interceptor has none. */
  follow(next: Driver, interceptor: Interceptor = {}): this {
    define(this.#members, 'name', interceptor.name ?? next.name)
    for (const [name, methods] of this.#parts) forward(methods, next[name], interceptor[name] ?? {})
    return this
  }

  replaceStreamDestroy(destroy: StreamDriver['destroy']): void {
    define(this.#parts.get('streams') ?? emptyObject(), 'destroy', destroy)
  }
}

/** The objects whose methods are bound already. */
const linked = new WeakSet<object>()

/** V8 keeps this object, unlike that of `Object.create(null)`, in its fast form. */
const emptyObject = (): Record<string, unknown> => ({ __proto__: null })

function forward(methods: Record<string, unknown>, next: object, own: object): void {
  const [names, ownNames, isLinked] = [methodsOf(next), new Set(methodsOf(own)), linked.has(next)]
  methodsOfClasses.set(methods, names)
  for (const name of names) {
    const isOwn = ownNames.has(name)
    const from = isOwn ? own : next
    const value: unknown = Reflect.get(from, name)
    if (typeof value === 'function') define(methods, name, isLinked && !isOwn ? value : value.bind(from))
  }
}

/** An assignment by a name that is not known beforehand would take the object out of that form. */
function define(methods: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(methods, name, { configurable: true, value })
}

const methodsOfClasses = new WeakMap<object, readonly string[]>()

/** The names of the methods of an object and of its classes. Getters are not called: they may make what is not needed. */
function methodsOf(object: object): readonly string[] {
  const names = [...methodsIn(object)]
  for (let each = Object.getPrototypeOf(object); each !== null && each !== Object.prototype; ) {
    const known = methodsOfClasses.get(each) ?? methodsIn(each)
    methodsOfClasses.set(each, known)
    names.push(...known)
    each = Object.getPrototypeOf(each)
  }
  return names
}

function methodsIn(object: object): readonly string[] {
  const members = Object.entries(Object.getOwnPropertyDescriptors(object))
  return members.flatMap(([name, { value }]) => (name !== 'constructor' && typeof value === 'function' ? [name] : []))
}
