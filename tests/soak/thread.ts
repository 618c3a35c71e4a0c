/** One thread of a soak: its clients, and what watches them. The main thread and the workers do the same. */
import { ACTIONS } from './actions/all.js'
import { endGraphs } from './actions/graphs.js'
import { checkAll } from './actions/memory.js'
import { type Action, Client, turn } from './client.js'
import type { Fixture } from './fixture.js'
import { inject } from './injected-bugs.js'
import { Machine } from './machine.js'
import { Random, seedOf } from './random.js'
import type { Trace } from './trace.js'
import { type Counts, Tracker, told } from './tracker.js'
import { watchFrom } from './watcher.js'

export const CLIENTS = 3
/** The track behind those of the clients. */
const WATCHER = CLIENTS
const MOST_PENDING = 200
const TURNS = 20
const COLLECTIONS = 40

export interface Result {
  readonly counts: Counts
  readonly failures: readonly string[]
}

/** What a thread does beside its clients, as long as they play. */
export type Beside = (goesOn: () => boolean) => Promise<void>

export class Thread {
  readonly tracker: Tracker
  readonly machine: Machine
  readonly fixture: Fixture
  readonly number: number
  readonly trace: Trace
  /** Fulfilled when this thread has used the library. */
  readonly ready: Promise<void>
  #clients: readonly Client[] = []
  /** How many clients begin further actions. */
  #acting = CLIENTS

  constructor(fixture: Fixture, number: number, trace: Trace) {
    this.fixture = fixture
    this.number = number
    this.trace = trace
    this.tracker = new Tracker(number === 0 ? 'main thread' : `worker ${number}`, () => fixture.stop())
    this.machine = new Machine(fixture, this.tracker, number)
    this.ready = this.machine.prepare()
  }

  /** Plays until the time is over, and then takes all apart. What is beside goes on as long as the clients do. */
  play(beside: readonly Beside[] = []): Promise<Result> {
    return this.machine.device.run(() => this.#play(beside))
  }

  async #play(beside: readonly Beside[]): Promise<Result> {
    const { tracker } = this
    await this.ready
    this.#clients = Array.from({ length: CLIENTS }, (_, index) => this.#client(index))
    let playing = CLIENTS
    const goesOn = (): boolean => playing > 0
    const acting = this.#clients.map(async (client) => {
      await this.#act(client)
      playing -= 1
    })
    await Promise.all([
      ...acting,
      watchFrom(this, WATCHER, () => this.#acting > 0),
      ...beside.map((each) => each(goesOn)),
    ])
    await this.#end()
    return { counts: tracker.counts, failures: tracker.failures }
  }

  #client(index: number): Client {
    const random = new Random(seedOf(this.fixture.options.seed, this.number, index))
    const track = this.trace.track(index)
    track.note('begins')
    return new Client(`${this.number}.${index}`, random, this.machine, track)
  }

  async #act(client: Client): Promise<void> {
    const { fixture, tracker } = this
    const { random, trace } = client
    const { steps } = fixture.options
    const choose = chooser(ACTIONS, random)
    for (let played = 0; !fixture.stopped && (steps === undefined || played < steps); played += 1) {
      const action = choose()
      trace.note(action.name)
      tracker.track = trace
      tracker.counts.actions += 1
      try {
        await action.play(client)
      } catch (error) {
        client.fail(`${action.name} threw ${told(error)}`)
      }
      if (fixture.options.inject !== undefined) inject(fixture.options.inject, client, played)
      tracker.acted()
      if (tracker.pending > MOST_PENDING) await tracker.settle((text) => trace.note(text))
      else if (random.chance(0.03)) await turn()
    }
    this.#acting -= 1
    try {
      await this.#finish(client)
    } catch (error) {
      client.fail(`at the end: ${told(error)}`)
    }
    trace.over()
  }

  /** Checks all that the client has, and closes it. */
  async #finish(client: Client): Promise<void> {
    const { tracker } = this
    const note = (text: string): void => client.trace.note(text)
    note('ends its graphs')
    await endGraphs(client)
    note('checks its memory')
    checkAll(client)
    await tracker.settle(note)
    note('gives its memory back')
    for (const piece of client.pieces) await client.giveBack(piece)
    note('runs its last host functions')
    for (const device of this.machine.devices) device.drainHostFunctions()
    await client.aux.end()
    note('closes its streams')
    for (const track of client.tracks) {
      const clock = track.clock()
      await track.stream.finished()
      this.machine.reached(clock, 'the last finished()')
      if (track.pending.length > 0) client.fail(`${track.pending.length} host functions of ${track} have not run`)
      await client.retire(track)
    }
    for (const { event } of client.marks) event.close()
    client.tracks = []
    client.marks = []
    client.pieces = []
    client.graphs = undefined
  }

  /** What all clients leave behind: nothing. */
  async #end(): Promise<void> {
    const { tracker, machine } = this
    const track = this.trace.track(WATCHER)
    track.note('waits for the devices')
    for (const device of machine.devices) device.drainHostFunctions()
    for (let left = TURNS; left > 0; left -= 1) await turn()
    await tracker.settle((text) => track.note(text))
    if (tracker.unsurfaced > 0) tracker.fail(`${tracker.unsurfaced} errors of host functions have not surfaced`)
    track.note('collects what was let go of')
    tracker.counts.collected += await this.#collect()
    await machine.close()
    if (machine.isSimulated) await this.#allocateAll()
    track.over()
  }

  /** What was let go of is found by the garbage collector. Returns how many things that were. */
  async #collect(): Promise<number> {
    const dropped = this.#clients.flatMap((client) => client.dropped)
    this.#clients = []
    const kept = (): readonly string[] => dropped.flatMap((each) => each.deref()?.toString() ?? [])
    for (let tries = COLLECTIONS; tries > 0 && kept().length > 0; tries -= 1) {
      // What was looked at stays until the turn is over.
      await turn()
      globalThis.gc?.()
      await turn()
    }
    if (kept().length > 0)
      this.tracker.fail(`of ${dropped.length} things that were let go of there are still ${kept()}`)
    // Finalizers come a turn later.
    for (let turns = TURNS; turns > 0; turns -= 1) await turn()
    return dropped.length
  }

  /** A simulated device has so much memory, and all of it was given back. */
  async #allocateAll(): Promise<void> {
    for (const device of this.machine.devices) {
      // What could not be freed while its stream captured is freed by the next allocation, which then has no use for it yet.
      device.alloc(1).close()
      const { memoryPool } = device
      const isBack = (): boolean => {
        const { free, total } = device.memory
        return memoryPool.used === 0 && free + memoryPool.reserved >= total
      }
      // What only a collected thing has kept, such as the whole of a slice, is found by the next collection, and what another thread or process
      // had is given back when it has ended.
      for (let tries = COLLECTIONS; tries > 0 && !isBack(); tries -= 1) {
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
