/** How the host waits for the machine: blocked, or turn by turn of the event loop. */
import { comesAfterItself, deadlock, MOST_NESTED, tooDeep } from '../../deadlocks.js'
import { LoopPump, type Sleeper, type TurnResult } from '../../loop-pump.js'
import type { Machine } from './machine.js'
import type { SimOperation, SimStream } from './machine-state.js'
import type { HostWait, Runs } from './scheduler.js'

/** Launches that a stream accepts before the driver blocks the caller: measured on an H200. */
const QUEUE_ENTRIES = 1020
const LONGEST_TIMEOUT = 2 ** 31 - 1

export class HostWaits {
  readonly #pump: LoopPump
  #abandoned = false

  /** `all` are those of the machines of the process. */
  constructor(
    private readonly machine: Machine,
    private readonly all: () => Iterable<HostWaits>,
  ) {
    this.#pump = new LoopPump(
      () => this.#turn(),
      new Park(),
      () => this.#pending > 0,
    )
  }

  /** There is something to wait for. */
  wake(): void {
    this.#pump.wake()
  }

  /** Leaves all that is pending as it is, forever: nothing settles, nothing runs, and nothing keeps the process alive. */
  abandon(): void {
    this.#abandoned = true
    this.#pump.wake()
  }

  /** Waits as a driver does for room in the stream's hardware queue. */
  makeRoom(stream: SimStream, entries: number): void {
    if (!hasRoom(stream, entries)) this.#block(waitForRoom(stream, entries), 'queuing more work')
  }

  blockFor(last: SimOperation, what: string): void {
    this.#block(waitFor(last), what)
  }

  drainHostFunctions(): void {
    const isOver = (): boolean => this.machine.hostFunctionsPending === 0
    this.#block({ isOver, needs: () => true, last: undefined, room: undefined }, 'device.drainHostFunctions()')
  }

  get #pending(): number {
    return this.#abandoned ? 0 : this.machine.waitsPending + this.machine.hostFunctionsPending
  }

  #turn(): TurnResult {
    if (this.#abandoned) return 'idle'
    if (this.machine.scheduler.turn()) return 'soon'
    return this.#pending > 0 ? 'later' : 'idle'
  }

  #block(wait: HostWait, what: string): void {
    const { scheduler, nested } = this.machine
    if (this.machine.comesAfterRunning(wait)) throw deadlock(what, comesAfterItself)
    const runs: Runs = nested === 0 ? 'any' : nested < MOST_NESTED ? 'needed' : 'none'
    while (!scheduler.block(wait, runs)) {
      if (runs === 'none') throw deadlock(what, tooDeep)
      if (!this.#othersGoOn()) throw deadlock(what, this.#whyStuck())
    }
  }

  /** A host function of another machine may open a latch of this one. An exploration has no others. */
  #othersGoOn(): boolean {
    if (this.machine.scheduler.explores) return false
    let any = false
    for (const other of this.all()) if (other !== this && other.#goesOn()) any = true
    return any
  }

  #goesOn(): boolean {
    return !this.#abandoned && this.machine.hostFunctionsPending > 0 && this.machine.scheduler.step()
  }

  #whyStuck(): string {
    return `nothing runs any more, and ${this.machine.latchesStanding} latch(es) stand. Open the latch first, or await the finished() of it`
  }
}

/** Keeps the process alive, as pending work does on a GPU. Nothing happens until a call comes, so nothing is watched. */
class Park implements Sleeper {
  #timer: NodeJS.Timeout | undefined

  sleep(): void {
    this.#timer = setInterval(() => {}, LONGEST_TIMEOUT)
  }

  cancel(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function waitFor(last: SimOperation): HostWait {
  return { last, room: undefined, isOver: () => last.over, needs: (host) => host.isBefore(last) }
}

/** What a stream captures goes into a graph, and takes no entry. */
export function hasRoom(stream: SimStream, entries: number): boolean {
  return stream.capture !== undefined || stream.entries + entries <= QUEUE_ENTRIES
}

function waitForRoom(stream: SimStream, entries: number): HostWait {
  const room = { stream, left: QUEUE_ENTRIES - entries }
  return { last: undefined, room, isOver: () => hasRoom(stream, entries), needs: (host) => host.holdsUp(stream) }
}
