/**
 * The driver that the nouns hold: it stands before a backend and passes everything on. Wrappers are put in behind it and
 * taken out again while streams live, so that no noun holds a driver that is not in use any more.
 */
import type { Driver, StreamHandle } from './driver.js'
import { DriverWrapper } from './driver-wrapper.js'

const wrappables = new WeakMap<Driver, WrappableDriver>()

export class WrappableDriver extends DriverWrapper {
  /**
   * The names that programs gave to streams that live; `id` is the driver's number for the stream, whose handle may be
   * another's later.
   */
  readonly streamNames = new Map<StreamHandle, { readonly id: bigint; readonly name: string }>()
  /** From the backend outwards. */
  readonly #wrappers: DriverWrapper[] = []

  /** `backend` is the driver behind all wrappers. */
  constructor(readonly backend: Driver) {
    super(backend)
  }

  override streamDestroy(stream: StreamHandle): void {
    try {
      super.streamDestroy(stream)
    } finally {
      this.streamNames.delete(stream)
    }
  }

  /** Puts a wrapper before all others. The result takes it out again. */
  wrap<W extends DriverWrapper>(make: (inner: Driver) => W): { readonly wrapper: W; readonly unwrap: () => void } {
    const wrapper = make(this.inner)
    this.#wrappers.push(wrapper)
    this.inner = wrapper
    return { wrapper, unwrap: () => this.#takeOut(wrapper) }
  }

  #takeOut(wrapper: DriverWrapper): void {
    const at = this.#wrappers.indexOf(wrapper)
    if (at < 0) return
    this.#wrappers.splice(at, 1)
    const outer = this.#wrappers[at] ?? this
    outer.inner = wrapper.inner
  }
}

/** The one driver that the nouns of a backend hold. */
export function wrappableOf(backend: Driver): WrappableDriver {
  let wrappable = wrappables.get(backend)
  if (wrappable === undefined) {
    wrappable = new WrappableDriver(backend)
    wrappables.set(backend, wrappable)
  }
  return wrappable
}

/** The backend behind a driver and its wrappers. */
export function backendOf(driver: Driver): Driver {
  return driver instanceof DriverWrapper ? backendOf(driver.inner) : driver
}
