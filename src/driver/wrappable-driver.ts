/**
 * The driver that public classes hold. Interceptors, such as the sanitizer and the timeline, are put in front of its
 * backend and taken out again while streams live. An interceptor has the methods that it handles itself; all others are
 * those of the next driver, so that a call that nobody intercepts costs nothing more.
 */
import type { Driver, StreamHandle } from './driver.js'

const SUB_DRIVERS = ['memory', 'pools', 'kernels', 'graphs', 'libraries', 'sharing'] as const
type SubDriver = (typeof SUB_DRIVERS)[number]

/** The methods that an interceptor handles. It calls those of the next driver to pass a call on. */
export type Interceptor = Partial<Omit<Driver, SubDriver>> & { readonly [S in SubDriver]?: Partial<Driver[S]> }

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

/** To be called with each driver that the program makes. */
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
  const streamDestroy = (stream: StreamHandle): void => {
    try {
      outermost.streamDestroy(stream)
    } finally {
      streamNames.delete(stream)
    }
  }
  let outermost = backend
  const relink = (): void => {
    outermost = backend
    for (const [index, link] of links.entries()) {
      link.follow(outermost)
      outermost = new Link(backend).follow(link.driver, interceptors[index]).driver
    }
    front.follow(outermost, { streamDestroy })
  }
  relink()
  return Object.assign(front.driver, {
    backend,
    toString: () => `the driver '${backend.name}'`,
    streamNames,
    interceptors,
    wrap: <I extends Interceptor>(make: (next: Driver) => I) => {
      const next = new Link(backend).follow(outermost)
      const wrapper = make(next.driver)
      interceptors.push(wrapper)
      links.push(next)
      relink()
      const unwrap = (): void => {
        const index = links.indexOf(next)
        if (index < 0) return
        interceptors.splice(index, 1)
        links.splice(index, 1)
        relink()
      }
      return { wrapper, unwrap }
    },
  })
}

/** A driver whose methods are those of others. They stand in prototypes, where V8 keeps them as constants. */
class Link {
  readonly #methods = new Map<'driver' | SubDriver, Record<string, unknown>>()
  readonly driver: Driver

  constructor(backend: Driver) {
    const methods = emptyObject()
    for (const name of SUB_DRIVERS) {
      const own = emptyObject()
      this.#methods.set(name, own)
      methods[name] = Object.create(own)
    }
    this.#methods.set('driver', methods)
    this.driver = Object.create(methods)
    backends.set(this.driver, backend)
  }

  /** Sets each method to that of the interceptor, or to that of the next driver if the interceptor has none. */
  follow(next: Driver, interceptor: Interceptor = {}): this {
    for (const [name, methods] of this.#methods) {
      if (name === 'driver') forward(methods, next, interceptor)
      else forward(methods, next[name], interceptor[name] ?? {})
    }
    return this
  }
}

/** V8 keeps this object, unlike that of `Object.create(null)`, in its fast form. */
const emptyObject = (): Record<string, unknown> => ({ __proto__: null })

function forward(methods: Record<string, unknown>, next: object, own: object): void {
  const names = namesIn(own)
  for (const name of namesIn(next)) {
    const from = names.has(name) ? own : next
    const value: unknown = Reflect.get(from, name)
    const given = typeof value === 'function' ? value.bind(from) : name === 'name' ? value : undefined
    // An assignment by a name that is not known beforehand would take it out of that form.
    if (given !== undefined) Object.defineProperty(methods, name, { configurable: true, value: given })
  }
}

/** The names of the members of an object and of its classes. */
function namesIn(object: object): Set<string> {
  const names = new Set<string>()
  for (let each = object; each !== null && each !== Object.prototype; each = Object.getPrototypeOf(each)) {
    for (const name of Object.getOwnPropertyNames(each)) names.add(name)
  }
  names.delete('constructor')
  return names
}
