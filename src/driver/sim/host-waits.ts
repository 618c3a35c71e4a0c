/** How the host waits for the machine: blocked, or turn by turn of the event loop. */
import { stateError } from '../../errors.js'
import { LoopPump, type TurnResult } from '../loop-pump.js'
import type { Machine } from './machine.js'
import type { Operation, SimStream } from './objects.js'
import { park } from './park.js'

/** Launches that a stream accepts before the driver blocks the caller: measured on an H200. */
const QUEUE_ENTRIES = 1020

export class HostWaits {
  readonly #machine: Machine
  readonly #pump: LoopPump
  #abandoned = false

  constructor(machine: Machine) {
    this.#machine = machine
    this.#pump = new LoopPump(
      () => this.#turn(),
      park(),
      () => this.#pending > 0,
    )
  }

  /** There is something to wait for. */
  wake(): void {
    this.#pump.wake()
  }

  /** Lets all that is pending be, for ever: nothing settles, nothing runs, and nothing keeps the process alive. */
  abandon(): void {
    this.#abandoned = true
    this.#pump.wake()
  }

  /** Waits as a driver does for room in the stream's hardware queue. */
  reserve(stream: SimStream): void {
    if (stream.entries >= QUEUE_ENTRIES) this.#block(() => stream.entries < QUEUE_ENTRIES, 'queuing more work')
  }

  blockFor(last: Operation, what: string): void {
    if (this.#machine.comesAfterRunning(last)) throw this.#deadlock(what)
    this.#block(() => last.over, what, last)
  }

  drainHostFunctions(): void {
    const what = 'device.drainHostFunctions()'
    if (this.#machine.insideHostFunction) throw this.#deadlock(what)
    this.#block(() => this.#machine.hostFunctionsPending === 0, what)
  }

  get #pending(): number {
    return this.#abandoned ? 0 : this.#machine.waitsPending + this.#machine.hostFunctionsPending
  }

  #turn(): TurnResult {
    if (this.#abandoned) return 'idle'
    if (this.#machine.scheduler.turn()) return 'soon'
    return this.#pending > 0 ? 'later' : 'idle'
  }

  #block(isOver: () => boolean, what: string, last?: Operation): void {
    if (!this.#machine.scheduler.block(isOver, last)) throw this.#deadlock(what)
  }

  #deadlock(what: string): Error {
    return stateError('ERR_DEADLOCK', `${what} would wait for ever: ${this.#whyStuck()}`)
  }

  #whyStuck(): string {
    if (this.#machine.insideHostFunction) {
      return 'it was called inside a host function, and what it waits for comes after that host function. Return first, or await the finished() of it'
    }
    return `nothing runs any more, and ${this.#machine.latchesStanding} latch(es) stand. Open the latch first, or await the finished() of it`
  }
}
