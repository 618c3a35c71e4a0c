/** Who holds a device's memory: how much of each stream's is not freed, for the error where no more can be had. */
import { variable } from '../base/environment.js'
import { shortCallSite } from '../base/stack.js'
import type { Device } from '../device.js'
import type { Pointer } from '../driver/driver.js'
import { givenName } from '../driver/stream-names.js'
import type { StreamCore } from '../streams/stream-core.js'

const SITES = 'CUDA_STREAMS_ALLOCATION_SITES'
const SANITIZER = 'CUDA_STREAMS_SANITIZER'

/** Where pieces of memory were allocated is noted only on request: it takes microseconds. */
let noted: boolean | undefined

function read(): boolean {
  noted = [SITES, SANITIZER].some((name) => (variable(name) ?? '0') !== '0')
  return noted
}

interface Amount {
  bytes: number
  pieces: number
}

/** One for each stream that memory was allocated on. */
export class Holder implements Amount {
  bytes = 0
  pieces = 0
  /** By where they were allocated, if that is noted; and the place of each piece, by its address. */
  readonly #sites = new Map<string, Amount>()
  readonly #siteOf = new Map<Pointer, string>()

  constructor(readonly stream: StreamCore) {}

  add(pointer: Pointer, byteLength: number): void {
    this.bytes += byteLength
    this.pieces += 1
    if (noted ?? read()) this.#note(pointer, byteLength)
  }

  remove(pointer: Pointer, byteLength: number): void {
    this.bytes -= byteLength
    this.pieces -= 1
    if (noted === true) this.#forget(pointer, byteLength)
  }

  #note(pointer: Pointer, byteLength: number): void {
    const site = shortCallSite() ?? 'the event loop'
    const at = this.#sites.get(site) ?? { bytes: 0, pieces: 0 }
    at.bytes += byteLength
    at.pieces += 1
    this.#sites.set(site, at)
    this.#siteOf.set(pointer, site)
  }

  #forget(pointer: Pointer, byteLength: number): void {
    const site = this.#siteOf.get(pointer)
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
    const where = noted === true ? ` (${sites})` : ''
    return `${nameOf(this.stream)} ${amountOf(this)}${where}`
  }
}

/** A look through all holders forgets those that are gone; there is one whenever there are twice as many. */
class Holders {
  #all: WeakRef<Holder>[] = []
  #lookAt = 64

  add(holder: Holder): void {
    this.#all.push(new WeakRef(holder))
    if (this.#all.length >= this.#lookAt) this.#lookAt = Math.max(64, 2 * this.live().length)
  }

  live(): Holder[] {
    this.#all = this.#all.filter((each) => each.deref() !== undefined)
    return this.#all.flatMap((each) => each.deref() ?? [])
  }
}

const holdersOf = new WeakMap<Device, Holders>()

const holderOfStream = new WeakMap<StreamCore, Holder>()

/** To be kept as long as there is memory that was allocated on the stream. */
export function holderOf(stream: StreamCore): Holder {
  let holder = holderOfStream.get(stream)
  if (holder === undefined) {
    holder = makeHolder(stream)
    holderOfStream.set(stream, holder)
  }
  return holder
}

function makeHolder(stream: StreamCore): Holder {
  const holder = new Holder(stream)
  let holders = holdersOf.get(stream.device)
  if (holders === undefined) {
    holders = new Holders()
    holdersOf.set(stream.device, holders)
  }
  holders.add(holder)
  return holder
}

/** In words: the streams on which this thread has allocated most; undefined where it holds nothing. */
export function largestHolders(device: Device): string | undefined {
  const holding = (holdersOf.get(device)?.live() ?? []).filter(({ pieces }) => pieces > 0)
  return holding.length === 0 ? undefined : largest(holding, (holder) => holder, String)
}

const MOST_NAMED = 5

function largest<T>(all: readonly T[], amount: (one: T) => Amount, inWords: (one: T) => string): string {
  const sorted = [...all].sort((a, b) => amount(b).bytes - amount(a).bytes)
  const rest = sorted.slice(MOST_NAMED).reduce((sum, one) => sum + amount(one).bytes, 0)
  const named = sorted.slice(0, MOST_NAMED).map(inWords)
  if (sorted.length > MOST_NAMED) named.push(`${sorted.length - MOST_NAMED} others ${inBytes(rest)}`)
  return named.join(', ')
}

const amountOf = ({ bytes, pieces }: Amount): string =>
  `${inBytes(bytes)} in ${pieces} buffer${pieces === 1 ? '' : 's'}`

/** Asks the driver nothing: the stream may be destroyed. A stream that has a name was asked for its number then. */
function nameOf(stream: StreamCore): string {
  const { driver, handle, knownId } = stream
  const name = knownId === undefined ? undefined : givenName(driver, handle, knownId)
  return name === undefined ? `${stream}` : `'${name}', ${stream},`
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** A length as it reads in an error. */
export function inBytes(bytes: number): string {
  let unit = 0
  let value = bytes
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`
}
