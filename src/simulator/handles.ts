/**
 * Handles that look like pointers. Each simulation has a range of its own that no allocator maps, so that a handle
 * given to the wrong driver is recognised. As in malloc, what was freed last is used first.
 */
import { threadId } from '../foundation/base/node-modules.js'

type SimHandleKind = 'stream' | 'event' | 'context' | 'graph' | 'graphExec' | 'pool' | 'module'

/** Small enough for a thread to have a hundred thousand simulations at a time, where it is the main one. */
const RANGE = 2 ** 29
/** Where the main thread's ranges begin, and those of the others, each in a part of its own. */
const MAIN = 2 ** 44
const OTHERS = 2 ** 44 + 2 ** 46
const PART = 2 ** 39
const PARTS = 96

const SPACING = 32

/** The number of the range that a handle lies in. */
export const rangeOf = (handle: number): number => Math.floor(handle / RANGE)

/** Enough of them for so many bytes, one after the other. */
interface Taken {
  readonly base: number
  readonly numbers: readonly number[]
}

interface Account {
  next: number
  /** Of simulations that are over. */
  readonly givenBack: number[]
}

/** One for each thread, also where this library is loaded more than once: a handle means one thing at most. */
const account = accountOfThread()

function accountOfThread(): Account {
  const key = Symbol.for('cuda-streams: ranges of simulated handles')
  const known: Account | undefined = Reflect.get(globalThis, key)
  if (known !== undefined) return known
  const next = threadId === 0 ? MAIN : OTHERS + (threadId % PARTS) * PART
  const made: Account = { next, givenBack: [] }
  Reflect.set(globalThis, key, made)
  return made
}

/**
 * The ranges of one simulation, or of many that run one after the other: each of those gets the same again, and with them
 * the same handles and addresses.
 */
export class Ranges {
  readonly #taken: Taken[] = []
  #next = 0

  /** Takes ranges that no other simulation has. */
  take(byteLength: number): Taken {
    const count = Math.ceil(byteLength / RANGE)
    const again = this.#taken[this.#next]
    const taken = again?.numbers.length === count ? again : takeNew(count)
    if (taken !== again) this.#taken.splice(this.#next, 0, taken)
    this.#next += 1
    return taken
  }

  /** From here on they are taken again, from the first. */
  rewind(): void {
    this.#next = 0
  }

  /** No handle or address in them is used any more. They are taken again in the same order. */
  giveBack(): void {
    for (const { numbers } of this.#taken.splice(0).reverse()) account.givenBack.push(...[...numbers].reverse())
  }
}

function takeNew(count: number): Taken {
  const again = count === 1 ? account.givenBack.pop() : undefined
  if (again !== undefined) return { base: again * RANGE, numbers: [again] }
  const base = account.next
  account.next += count * RANGE
  return { base, numbers: Array.from({ length: count }, (_, index) => rangeOf(base) + index) }
}

/** The handles of one kind. */
class HandleSeries {
  /** For each device those that it may have again: a GPU gives a handle of one device to no object of another. */
  readonly #free: number[][] = []
  /** Those that this library destroyed, and did not create again since. */
  readonly remembered = new Set<number>()

  constructor(public next: number) {}

  takeFree(device: number): number | undefined {
    return this.#free[device]?.pop()
  }

  giveBack(device: number, handle: number): void {
    this.#free[device] ??= []
    this.#free[device].push(handle)
  }
}

export class Handles {
  /** Where the range begins. */
  readonly base: number
  readonly #kinds = {
    context: new HandleSeries(0),
    stream: new HandleSeries(2 ** 20),
    graph: new HandleSeries(2 ** 27),
    graphExec: new HandleSeries(3 * 2 ** 26),
    pool: new HandleSeries(2 ** 28 - 2 ** 22),
    module: new HandleSeries(2 ** 28 - 2 ** 21),
    event: new HandleSeries(2 ** 28),
  }

  constructor(ranges: Ranges) {
    this.base = ranges.take(RANGE).base
  }

  /** What stands behind handles of a kind; the next to be made is the first. */
  behind<T>(name: SimHandleKind): Behind<T> {
    return new Behind(this.base + this.#kinds[name].next + SPACING)
  }

  /** `device`: the number of the one that the object is made on, for a kind whose objects belong to a device. */
  take(name: SimHandleKind, device = 0): number {
    const kind = this.#kinds[name]
    const reused = kind.takeFree(device)
    if (reused !== undefined) {
      kind.remembered.delete(reused)
      return reused
    }
    kind.next += SPACING
    return this.base + kind.next
  }

  giveBack(kind: SimHandleKind, handle: number, device = 0): void {
    this.#kinds[kind].giveBack(device, handle)
  }

  /** Notes that it was this library that destroyed the object. */
  remember(kind: SimHandleKind, handle: number): void {
    this.#kinds[kind].remembered.add(handle)
  }

  remembers(kind: SimHandleKind, handle: number): boolean {
    return this.#kinds[kind].remembered.has(handle)
  }
}

/** The objects behind the handles of one kind: a handle is the number of a place, which is quicker than a Map of handles. */
export class Behind<T> {
  readonly #objects: (T | undefined)[] = []
  #size = 0

  /** `first` is a handle no higher than any of them. */
  constructor(private readonly first: number) {}

  get size(): number {
    return this.#size
  }

  get(handle: number): T | undefined {
    const place = (handle - this.first) / SPACING
    // Any other number is no place, and slow to look up.
    return place >>> 0 === place ? this.#objects[place] : undefined
  }

  set(handle: number, object: T): void {
    this.#objects[(handle - this.first) / SPACING] = object
    this.#size += 1
  }

  delete(handle: number): void {
    if (this.get(handle) === undefined) return
    this.#objects[(handle - this.first) / SPACING] = undefined
    this.#size -= 1
  }
}
