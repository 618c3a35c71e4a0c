/**
 * Plays some programs on both drivers and tells its parent, run.ts, how they went. A process of its own: on a GPU a
 * mistake may hang or lose the device, and then only this process goes.
 */
import { Device, Stream } from 'cuda-streams'
import fc from 'fast-check'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { simWorkbench, type Workbench } from '../helpers/workbench.js'
import { differences } from './compare.js'
import { type Recorded, recordedOf } from './corpus.js'
import { outcome } from './outcome.js'
import { type Observation, play, prepare } from './play.js'
import { playable } from './programs.js'
import { shrink } from './shrink.js'
import { CELL_BYTES, decode, encode, listing, type Program } from './steps.js'

export interface Order {
  /** Of fast-check. */
  readonly seed: number
  readonly from: number
  readonly until: number
  readonly devices: number
  /** 'cuda', or 'sim' to try this harness without a GPU. */
  readonly against: 'cuda' | 'sim'
  readonly records: boolean
  /** One program to play instead, as encode() gives it. */
  readonly only?: unknown
}

export type Message =
  | { readonly kind: 'ready'; readonly machine: string }
  | { readonly kind: 'cannot'; readonly why: string }
  | { readonly kind: 'plays'; readonly index: number; readonly listing?: string; readonly written?: string }
  | { readonly kind: 'played'; readonly until: number; readonly recorded: readonly Recorded[] }
  | {
      readonly kind: 'differs'
      readonly index: number
      readonly signature: string
      readonly text: string
      readonly listing: string
      readonly written: string
    }
  /** The last program has lost the device, as it should: the next one needs a new process. */
  | { readonly kind: 'lost' }
  | { readonly kind: 'over' }

/** Messages of programs that went well are sent together. */
const AT_ONCE = 20
/** So many kinds of differences are shrunk in one process. */
const MOST_SHRUNK = 6
const SHRINK_MILLISECONDS = 8_000
const AGAIN = 10

const tell = (message: Message): void => void process.send?.(message)

process.once('message', (order: Order) => {
  main(order).then(
    () => process.disconnect(),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})

async function main(order: Order): Promise<void> {
  const bench = order.against === 'sim' ? undefined : openCudaWorkbench()
  if (typeof bench === 'string') return tell({ kind: 'cannot', why: bench })
  if (bench !== undefined && bench.devices.length < order.devices) {
    return tell({ kind: 'cannot', why: `this machine has ${bench.devices.length} device(s)` })
  }
  if (bench !== undefined) {
    await prepare(bench)
    if (order.devices > 1 && !reachEachOther(bench)) {
      return tell({ kind: 'cannot', why: "the devices of this machine do not reach each other's memory" })
    }
  }
  tell({ kind: 'ready', machine: bench === undefined ? 'a second simulator' : Device.get(0).name })
  const batch = new Batch(order, bench)
  if (order.only !== undefined) await batch.playOnly(decode(order.only as Parameters<typeof decode>[0]))
  else await batch.playAll()
  tell({ kind: batch.isLost ? 'lost' : 'over' })
}

/** The simulator's do. */
function reachEachOther({ devices, stream }: Workbench): boolean {
  return devices.every((device) =>
    devices.every((other) => {
      using memory = other.alloc(CELL_BYTES)
      using user = stream({ device })
      return outcome(() => void user.wait(other.defaultStream).fill(memory, 0).synchronize()) === ''
    }),
  )
}

class Batch {
  readonly #order: Order
  readonly #bench: Workbench | undefined
  readonly #shrunk = new Set<string>()
  isLost = false

  constructor(order: Order, bench: Workbench | undefined) {
    this.#order = order
    this.#bench = bench
  }

  async playAll(): Promise<void> {
    const { seed, from, until, devices, records } = this.#order
    let index = -1
    let recorded: Recorded[] = []
    const { failed, errorInstance } = await fc.check(
      fc.asyncProperty(playable(devices), async (program) => {
        index += 1
        if (index < from || this.isLost) return
        tell({ kind: 'plays', index })
        const { found, observation } = await this.#playBoth(program)
        if (found.length > 0) {
          await this.#differs(index, program, found)
          if (!this.#isHealthy()) throw new Error('the device cannot be used any more')
        } else if (records) recorded.push(recordedOf(program, observation))
        this.isLost = program.steps.some(({ what }) => what === 'fault') && !this.#isHealthy()
        if (!this.isLost && index % AT_ONCE !== 0 && index !== until - 1) return
        tell({ kind: 'played', until: index + 1, recorded })
        recorded = []
      }),
      { seed, numRuns: until, endOnFailure: true },
    )
    if (failed) throw errorInstance
  }

  /** Does the device still work, or must a new process go on? */
  #isHealthy(): boolean {
    try {
      for (const device of this.#bench?.devices ?? []) {
        using stream = new Stream({ device })
        stream.record().synchronize()
        device.synchronize()
      }
      return true
    } catch {
      return false
    }
  }

  async playOnly(program: Program): Promise<void> {
    tell({ kind: 'plays', index: 0 })
    const { found } = await this.#playBoth(program)
    if (found.length > 0) await this.#differs(0, program, found)
    tell({ kind: 'played', until: 1, recorded: [] })
  }

  async #playBoth(program: Program): Promise<{ readonly found: readonly string[]; readonly observation: Observation }> {
    const sim = await observed(() => play(program, simWorkbench({ devices: program.devices })))
    const bench = this.#bench ?? simWorkbench({ devices: program.devices, seed: 7 })
    const other = await observed(() => play(program, bench))
    const name = this.#bench === undefined ? 'sim, seed 7' : 'cuda'
    const found = differences(program, { name: 'sim', observation: sim }, { name, observation: other })
    return { found, observation: other }
  }

  /** Looks for a shorter program with a difference of the same kind. */
  async #differs(index: number, program: Program, found: readonly string[]): Promise<void> {
    const signature = signatureOf(found)
    let smallest = { program, found }
    if (!this.#shrunk.has(signature) && this.#shrunk.size < MOST_SHRUNK && this.#isHealthy()) {
      this.#shrunk.add(signature)
      const end = performance.now() + SHRINK_MILLISECONDS
      await shrink(program, async (shorter) => {
        if (performance.now() > end) return false
        tell({ kind: 'plays', index, listing: listing(shorter), written: JSON.stringify(encode(shorter)) })
        const result = await this.#playBoth(shorter)
        if (result.found.length === 0 || signatureOf(result.found) !== signature) return false
        smallest = { program: shorter, found: result.found }
        return true
      })
      if (smallest.program === program) smallest = { program, found: [...found, await this.#again(program)] }
    }
    this.#tellDifference(index, smallest.program, smallest.found)
  }

  /** A difference that does not come again hangs on time, or on what was played before. */
  async #again(program: Program): Promise<string> {
    let differed = 0
    for (let count = 0; count < AGAIN; count += 1) if ((await this.#playBoth(program)).found.length > 0) differed += 1
    return `played again ${AGAIN} times, it differed ${differed} times`
  }

  #tellDifference(index: number, program: Program, found: readonly string[]): void {
    tell({
      kind: 'differs',
      index,
      signature: signatureOf(found),
      text: found.join('\n'),
      listing: listing(program),
      written: JSON.stringify(encode(program)),
    })
  }
}

/** A player that throws has found something too. */
async function observed(run: () => Promise<Observation>): Promise<Observation> {
  try {
    return await run()
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { results: [], promises: [], ran: '', broken: [`it threw ${text}`], bytes: [] }
  }
}

/** The first difference without what is particular to its program. */
function signatureOf([first = '']: readonly string[]): string {
  return first
    .split('\n')
    .slice(0, 3)
    .join(' ')
    .replace(/step \d+, (\w+)[^\n]*?(?= {6})/, '$1')
    .replace(/[0-9a-f?]+( ([0-9a-f]{32}|\?)){3}/g, 'bytes')
    .replace(/\bh?\d+\b(?!$)/g, 'n')
    .replace(/ +/g, ' ')
    .slice(0, 200)
}
