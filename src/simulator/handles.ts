/**
 * Handles that look like pointers. Each simulation has a range of its own that no allocator maps, so that a handle given to the wrong driver is
 * recognised. The handle that was freed last is used first, as in malloc.
 */
import { threadId } from '../foundation/base/node-modules.js'

type SimHandleKind = 'stream' | 'event' | 'context' | 'graph' | 'graphExec' | 'pool' | 'module' | 'function'

/** The addresses of a range: few enough for a hundred thousand simulations at a time on the main thread. */
const RANGE = 2 ** 29
/** The first address of the main thread's ranges; OTHERS is the one of all other threads, each of which has a part of its own. */
const MAIN = 2 ** 44
const OTHERS = 2 ** 44 + 2 ** 46
const PART = 2 ** 39
const PARTS = 96

const SPACING = 32

/** The number of the range that a handle lies in. */
export const rangeOf = (handle: number): number => Math.floor(handle / RANGE)

/** Neighbouring ranges that one request took. */
interface Taken {
  readonly base: number
  readonly numbers: readonly number[]
}

interface Account {
  next: number
  /** The numbers of ranges of simulations that have ended. */
  readonly givenBack: number[]
}

/** The ranges that this thread has taken. Copies of this library in one thread have one account, so that no handle means two things. */
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
 * The ranges of one simulation, or of many that run one after the other: each of those gets the same ranges, and with them the same handles and
 * addresses.
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

  /** Lets `take` return the same ranges again, from the first. */
  rewind(): void {
    this.#next = 0
  }

  /** Frees the ranges for other simulations, once no handle or address in them is used any more. They are taken again in the same order. */
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
  /** The free handles of each device: a GPU reuses a handle only for objects of the same device. */
  readonly #free: number[][] = []
  /** The handles of objects that this library destroyed, without having created another one since. */
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
  /** The address at which the range of handles begins. */
  readonly base: number
  readonly #kinds = {
    context: new HandleSeries(0),
    stream: new HandleSeries(2 ** 20),
    graph: new HandleSeries(2 ** 27),
    graphExec: new HandleSeries(3 * 2 ** 26),
    pool: new HandleSeries(2 ** 28 - 2 ** 22),
    module: new HandleSeries(2 ** 28 - 2 ** 21),
    function: new HandleSeries(2 ** 28 - 2 ** 20),
    event: new HandleSeries(2 ** 28),
  }

  constructor(ranges: Ranges) {
    this.base = ranges.take(RANGE).base
  }

  /** The table of the objects behind handles of a kind. It must be made before the first of these handles. */
  behind<T>(name: SimHandleKind): Behind<T> {
    return new Behind(this.base + this.#kinds[name].next + SPACING)
  }

  /** @param device The number of the device that the object is made on, for a kind whose objects belong to a device */
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

  /** Notes that this library itself destroyed the object. */
  remember(kind: SimHandleKind, handle: number): void {
    this.#kinds[kind].remembered.add(handle)
  }

  remembers(kind: SimHandleKind, handle: number): boolean {
    return this.#kinds[kind].remembered.has(handle)
  }
}

/** The objects behind the handles of one kind. A handle gives the index in an array, which is quicker than a Map of handles. */
export class Behind<T> {
  readonly #objects: (T | undefined)[] = []
  #size = 0

  /** @param first A handle no higher than any that is used */
  constructor(private readonly first: number) {}

  get size(): number {
    return this.#size
  }

  get(handle: number): T | undefined {
    const place = (handle - this.first) / SPACING
    // A number that is no valid index is not looked up in the array, which would be slow.
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
