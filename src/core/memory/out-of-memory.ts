/** The error for a device that has no more memory: what there is, and on which streams this thread has allocated it. */
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { CudaError, explained } from '../../foundation/base/errors.js'
import { destroyForgotten } from '../../foundation/base/finalization.js'
import { memoize } from '../../foundation/base/memoize.js'
import { shortCallSite } from '../../foundation/base/stack.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { Pointer, PoolHandle } from '../../foundation/driver/handle-types.js'
import type { QueuedAllocation } from '../../foundation/driver/queued-work.js'
import type { Device } from '../device.js'
import type { StreamImpl } from '../streams/stream-impl.js'

const MOST_NAMED = 5
const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Whether allocations note their call sites, which takes microseconds. */
let notesSites: boolean | undefined

function readVariables(): boolean {
  notesSites = VARIABLES.allocationSites.read() || VARIABLES.sanitizer.read() !== ''
  return notesSites
}

interface Amount {
  bytes: number
  pieces: number
}

/** How much memory that was allocated on a stream is not freed. */
export class Holder implements Amount {
  bytes = 0
  pieces = 0
  /** The memory by call site, and the call site of each piece by its address. */
  readonly #sites = new Map<string, Amount>()
  readonly #siteOf = new Map<Pointer, string>()

  constructor(readonly stream: StreamImpl) {}

  add(pointer: Pointer, byteLength: number): void {
    this.bytes += byteLength
    this.pieces += 1
    if (!(notesSites ?? readVariables())) return
    const site = shortCallSite() ?? 'the event loop'
    const at = this.#sites.get(site) ?? { bytes: 0, pieces: 0 }
    at.bytes += byteLength
    at.pieces += 1
    this.#sites.set(site, at)
    this.#siteOf.set(pointer, site)
  }

  remove(pointer: Pointer, byteLength: number): void {
    this.bytes -= byteLength
    this.pieces -= 1
    const site = notesSites ? this.#siteOf.get(pointer) : undefined
    const at = site === undefined ? undefined : this.#sites.get(site)
    if (site === undefined || at === undefined) return
    this.#siteOf.delete(pointer)
    at.bytes -= byteLength
    at.pieces -= 1
    if (at.pieces === 0) this.#sites.delete(site)
  }

  toString(): string {
    const sites = largest(
      [...this.#sites],
      ([, amount]) => amount,
      ([site, amount]) => `${amountOf(amount)} from ${site}`,
    )
    return `${this.stream} ${amountOf(this)}${notesSites ? ` (${sites})` : ''}`
  }
}

/** The holders of a device. Those that are gone are removed whenever their number has doubled. */
class Holders {
  #all: WeakRef<Holder>[] = []
  #nextSweep = 64

  add(holder: Holder): Holder {
    this.#all.push(new WeakRef(holder))
    if (this.#all.length >= this.#nextSweep) this.#nextSweep = Math.max(64, 2 * this.live().length)
    return holder
  }

  live(): Holder[] {
    this.#all = this.#all.filter((each) => each.deref() !== undefined)
    return this.#all.flatMap((each) => each.deref() ?? [])
  }
}

const holdersOf = memoize((_device: Device) => new Holders())

/** The holder of a stream, which must be kept reachable as long as there is memory that was allocated on the stream. */
export const holderOf = memoize((stream: StreamImpl) => holdersOf(stream.device).add(new Holder(stream)))

/** Describes the streams on which this thread has allocated most; undefined if it has allocated nothing. */
function largestHolders(device: Device): string | undefined {
  const live = holdersOf(device).live()
  const holding = live.filter(({ pieces }) => pieces > 0)
  return holding.length === 0 ? undefined : largest(holding, (holder) => holder, String)
}

function largest<T>(all: readonly T[], amount: (one: T) => Amount, describe: (one: T) => string): string {
  const sorted = [...all].sort((a, b) => amount(b).bytes - amount(a).bytes)
  const rest = sorted.slice(MOST_NAMED).reduce((sum, one) => sum + amount(one).bytes, 0)
  const named = sorted.slice(0, MOST_NAMED).map(describe)
  if (sorted.length > MOST_NAMED) named.push(`${sorted.length - MOST_NAMED} others ${inBytes(rest)}`)
  return named.join(', ')
}

const amountOf = ({ bytes, pieces }: Amount): string =>
  `${inBytes(bytes)} in ${pieces} buffer${pieces === 1 ? '' : 's'}`

/** A length as it reads in an error. */
function inBytes(bytes: number): string {
  let unit = 0
  let value = bytes
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`
}

/** What was asked for, from which pool, if not the device's own, and the most that the pool may have. */
interface Wanted {
  readonly device: Device
  readonly byteLength: number
  readonly pool: { readonly handle: PoolHandle; readonly maxBytes: number | undefined } | undefined
}

const isOutOfMemory = (error: unknown): error is CudaError =>
  error instanceof CudaError && error.number === CUresult.OUT_OF_MEMORY

/** Queues an allocation: once more without the buffers that the program has forgotten, if there is no memory for it. */
export function queueAllocation(driver: Driver, work: QueuedAllocation, wanted: Wanted): void {
  try {
    driver.work.queue(work)
  } catch (error) {
    allocateAgain(error, driver, wanted, () => driver.work.queue(work))
  }
}

/** Memory of the device that is in the order of no stream: once more without what the program has forgotten, if there is none for it. */
export function allocateOnDevice<R>(driver: Driver, wanted: Wanted, allocate: () => R): R {
  try {
    return allocate()
  } catch (error) {
    return allocateAgain(error, driver, wanted, allocate)
  }
}

/** Does the same as `allocateOnDevice()`, for memory of the host, whose error has all details already. */
export function allocateOnHost<R>(allocate: () => R): R {
  try {
    return allocate()
  } catch (error) {
    if (!isOutOfMemory(error) || !destroyForgotten()) throw error
    return allocate()
  }
}

/** Handles the error of an allocation: makes the allocation again, or throws why there is no memory for it. */
function allocateAgain<R>(error: unknown, driver: Driver, wanted: Wanted, allocate: () => R): R {
  if (!isOutOfMemory(error) || !destroyForgotten()) throw outOfMemory(error, driver, wanted)
  try {
    return allocate()
  } catch (again) {
    throw outOfMemory(again, driver, wanted)
  }
}

/** Explains the error if it is an out-of-memory error. Any other error is returned unchanged. */
function outOfMemory(error: unknown, driver: Driver, { device, byteLength, pool }: Wanted): unknown {
  if (!isOutOfMemory(error)) return error
  const sentences = [`There are no ${inBytes(byteLength)} left`]
  try {
    const { free, total } = driver.pools.info(device.ordinal)
    const { used, reserved } = driver.pools.usage(pool?.handle ?? driver.pools.current(device.ordinal))
    const limit = pool?.maxBytes === undefined ? '' : `, of at most ${inBytes(pool.maxBytes)}`
    sentences.push(
      `${device} has ${inBytes(free)} free of ${inBytes(total)}`,
      `The pool has reserved ${inBytes(reserved)}${limit}, and ${inBytes(used)} of them are in use`,
    )
    if (reserved > used)
      sentences.push('What is not in use may be behind work that is not done: await device.finished()')
  } catch {
    // The device has faulted since: the next call reports that.
  }
  if (driver.name === 'sim' && pool?.maxBytes === undefined)
    sentences.push('simulate({ memory }) or CUDA_STREAMS_SIM_MEMORY gives simulated devices more')
  const holders = largestHolders(device)
  if (holders !== undefined) sentences.push(`This thread has allocated most on: ${holders}`)
  return explained(error, `${sentences.join('. ')}. Close what is no longer used, and try again`)
}
