/** The streams of a recording. A handle may come to mean another stream; a lane is one stream for good. */
import {
  type ContextHandle,
  cudaHandleOf,
  DEFAULT_STREAM_LIMIT,
  type Driver,
  isDefaultStream,
  type StreamHandle,
} from '../driver/driver.js'
import { givenName } from '../driver/stream-names.js'

export interface TimelineLane {
  readonly index: number
  readonly handle: StreamHandle
  /** The driver's number for the stream; its handle where that cannot be asked. */
  readonly id: bigint
  readonly device: number
  readonly context: ContextHandle
  readonly nonBlocking: boolean
  readonly priority: number
  /** Of the green context that it is in, if it is in one. */
  readonly multiprocessors?: number | undefined
  /** What the stream is called: it may get its name later, and the lane keeps it when the stream is gone. */
  name: string
}

export interface Described extends Omit<TimelineLane, 'index' | 'handle' | 'name'> {
  /** The driver would not say all of it now: it is to be asked again the next time. */
  readonly isProvisional: boolean
}

export class Lanes {
  readonly all: TimelineLane[] = []
  readonly #byHandle = new Map<StreamHandle, TimelineLane>()
  readonly #byId = new Map<string, TimelineLane>()
  /** A program often does several things with one stream in a row. */
  #last: TimelineLane | undefined

  constructor(
    private readonly driver: Driver,
    private readonly describe: (stream: StreamHandle) => Described,
  ) {}

  of(handle: StreamHandle): TimelineLane {
    return this.known(handle) ?? this.#open(handle)
  }

  /** A stream of other code, of which only CUPTI's number is known. */
  foreign(device: number, number: number): TimelineLane {
    const id = BigInt(number)
    const known = this.all.find((lane) => lane.handle === NO_HANDLE && lane.device === device && lane.id === id)
    if (known !== undefined) return known
    const described = { id, device, context: 0 as ContextHandle, nonBlocking: true, priority: 0 }
    const lane = { index: this.all.length, handle: NO_HANDLE, ...described, name: `foreign stream ${number}` }
    this.all.push(lane)
    return lane
  }

  /** Undefined where nothing of the stream was recorded yet. */
  known(handle: StreamHandle): TimelineLane | undefined {
    if (this.#last?.handle === handle) return this.#last
    const known = this.#byHandle.get(handle)
    if (known !== undefined) this.#last = known
    return known
  }

  /** The stream has got a name. */
  named(device: number, id: bigint, name: string): void {
    const lane = this.#byId.get(keyOf(device, id))
    if (lane !== undefined) lane.name = name
  }

  /** The handle may be another stream's from now on. */
  forget(handle: StreamHandle): void {
    this.#byHandle.delete(handle)
    this.#last = undefined
  }

  #open(handle: StreamHandle): TimelineLane {
    const { isProvisional, ...described } = this.describe(handle)
    const key = keyOf(described.device, described.id)
    let lane = this.#byId.get(key)
    if (lane === undefined) {
      const unnamed = { index: this.all.length, handle, ...described }
      lane = { ...unnamed, name: nameOf(this.driver, unnamed) }
      this.all.push(lane)
      this.#byId.set(key, lane)
    }
    if (!isProvisional) this.#byHandle.set(handle, lane)
    return lane
  }
}

/** Above the tokens of default streams; no allocator hands it out. */
const NO_HANDLE = DEFAULT_STREAM_LIMIT as StreamHandle

const keyOf = (device: number, id: bigint): string => `${device} ${id}`

function nameOf(driver: Driver, { id, handle, multiprocessors }: Omit<TimelineLane, 'name'>): string {
  const given = givenName(driver, handle, id)
  if (given !== undefined) return given
  const share = multiprocessors === undefined ? '' : ` (${multiprocessors} multiprocessors)`
  if (!isDefaultStream(handle)) return `stream ${id}${share}`
  return cudaHandleOf(handle) === 2 ? 'per-thread stream' : 'null stream'
}
