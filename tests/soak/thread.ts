/** One thread of a soak: its actors, and what watches them. The main thread and the workers do the same. */
import { ACTIONS } from './actions/all.js'
import { endGraphs } from './actions/graphs.js'
import { checkAll } from './actions/memory.js'
import { type Action, Actor, turn } from './actor.js'
import { Books, type Counts, told } from './books.js'
import type { Ground } from './ground.js'
import { Machine } from './machine.js'
import { plant } from './plants.js'
import { Random, seedOf } from './random.js'
import type { Trace } from './trace.js'
import { watchFrom } from './watcher.js'

const ACTORS = 3
/** The lane behind those of the actors. */
const WATCHER = ACTORS
const MOST_PENDING = 200
const TURNS = 20
const COLLECTIONS = 40

export interface Result {
  readonly counts: Counts
  readonly failures: readonly string[]
}

/** What a thread does beside its actors, as long as they play. */
export type Beside = (goesOn: () => boolean) => Promise<void>

export class Thread {
  readonly books: Books
  readonly machine: Machine
  readonly ground: Ground
  readonly number: number
  readonly trace: Trace
  /** Fulfilled when this thread has used the library. */
  readonly ready: Promise<void>
  #actors: readonly Actor[] = []

  constructor(ground: Ground, number: number, trace: Trace) {
    this.ground = ground
    this.number = number
    this.trace = trace
    this.books = new Books(number === 0 ? 'main thread' : `worker ${number}`, () => ground.stop())
    this.machine = new Machine(ground, this.books, number)
    this.ready = this.machine.prepare()
  }

  /** Plays until the time is over, and then takes all apart. What is beside goes on as long as the actors do. */
  play(beside: readonly Beside[] = []): Promise<Result> {
    return this.machine.device.run(() => this.#play(beside))
  }

  async #play(beside: readonly Beside[]): Promise<Result> {
    const { books } = this
    await this.ready
    this.#actors = Array.from({ length: ACTORS }, (_, index) => this.#actor(index))
    let playing = ACTORS
    const goesOn = (): boolean => playing > 0
    const acting = this.#actors.map(async (actor) => {
      await this.#act(actor)
      playing -= 1
    })
    await Promise.all([...acting, watchFrom(this, WATCHER, goesOn), ...beside.map((each) => each(goesOn))])
    await this.#end()
    return { counts: books.counts, failures: books.failures }
  }

  #actor(index: number): Actor {
    const random = new Random(seedOf(this.ground.options.seed, this.number, index))
    const lane = this.trace.lane(index)
    lane.note('begins')
    return new Actor(`${this.number}.${index}`, random, this.machine, lane)
  }

  async #act(actor: Actor): Promise<void> {
    const { ground, books } = this
    const { random, trace } = actor
    const { steps } = ground.options
    const choose = chooser(ACTIONS, random)
    for (let played = 0; !ground.stopped && (steps === undefined || played < steps); played += 1) {
      const action = choose()
      trace.note(action.name)
      books.lane = trace
      books.counts.actions += 1
      try {
        await action.play(actor)
      } catch (error) {
        actor.fail(`${action.name} threw ${told(error)}`)
      }
      if (ground.options.plant !== undefined) plant(ground.options.plant, actor, played)
      if (books.pending > MOST_PENDING) await books.settle((text) => trace.note(text))
      else if (random.chance(0.03)) await turn()
    }
    try {
      await this.#finish(actor)
    } catch (error) {
      actor.fail(`at the end: ${told(error)}`)
    }
    trace.over()
  }

  /** Checks all that the actor has, and closes it. */
  async #finish(actor: Actor): Promise<void> {
    const { books } = this
    const note = (text: string): void => actor.trace.note(text)
    note('ends its graphs')
    await endGraphs(actor)
    note('checks its memory')
    checkAll(actor)
    await books.settle(note)
    note('gives its memory back')
    for (const piece of actor.pieces) await actor.giveBack(piece)
    note('runs its last host functions')
    for (const device of this.machine.devices) device.drainHostFunctions()
    await actor.aux.end()
    note('closes its streams')
    for (const lane of actor.lanes) {
      const clock = lane.clock()
      await lane.stream.finished()
      this.machine.reached(clock, 'the last finished()')
      if (lane.pending.length > 0) actor.fail(`${lane.pending.length} host functions of ${lane} have not run`)
      await actor.retire(lane)
    }
    for (const { event } of actor.marks) event.close()
    actor.lanes = []
    actor.marks = []
    actor.pieces = []
    actor.graphs = undefined
  }

  /** What all actors leave behind: nothing. */
  async #end(): Promise<void> {
    const { books, machine } = this
    const lane = this.trace.lane(WATCHER)
    lane.note('waits for the devices')
    for (const device of machine.devices) device.drainHostFunctions()
    for (let left = TURNS; left > 0; left -= 1) await turn()
    await books.settle((text) => lane.note(text))
    if (books.unsurfaced > 0) books.fail(`${books.unsurfaced} errors of host functions have not surfaced`)
    lane.note('collects what was let go of')
    books.counts.collected += await this.#collect()
    await machine.close()
    if (machine.isSimulated) await this.#allocateAll()
    lane.over()
  }

  /** What was let go of is found by the garbage collector. Returns how many things that were. */
  async #collect(): Promise<number> {
    const dropped = this.#actors.flatMap((actor) => actor.dropped)
    this.#actors = []
    const kept = (): readonly string[] => dropped.flatMap((each) => each.deref()?.toString() ?? [])
    for (let tries = COLLECTIONS; tries > 0 && kept().length > 0; tries -= 1) {
      // What was looked at stays until the turn is over.
      await turn()
      globalThis.gc?.()
      await turn()
    }
    if (kept().length > 0) this.books.fail(`of ${dropped.length} things that were let go of there are still ${kept()}`)
    // Finalizers come a turn later.
    for (let turns = TURNS; turns > 0; turns -= 1) await turn()
    return dropped.length
  }

  /** A simulated device has so much memory, and all of it was given back. */
  async #allocateAll(): Promise<void> {
    for (const device of this.machine.devices) {
      // What only a collected thing has kept, such as the whole of a slice, is found by the next collection.
      for (let tries = COLLECTIONS; tries > 0 && device.memoryPool.used > 0; tries -= 1) {
        globalThis.gc?.()
        for (let turns = TURNS; turns > 0; turns -= 1) await turn()
        device.synchronize()
      }
      device.synchronize()
      using stream = device.createStream()
      device.alloc(device.memory.total - (device.memory.total % STEP), { stream }).close()
    }
  }
}

/** Pools take whole steps of 32 MiB from the device. */
const STEP = 2 ** 25

/** Chooses by weight. */
function chooser(actions: readonly Action[], random: Random): () => Action {
  const sums: number[] = []
  let sum = 0
  for (const { weight } of actions) {
    sum += weight
    sums.push(sum)
  }
  return () => {
    const at = (random.bits() / 2 ** 32) * sum
    const found = actions[sums.findIndex((upTo) => at < upTo)]
    if (found === undefined) throw new RangeError('there are no actions')
    return found
  }
}
