/** Makes the calls of a recording again, at a driver that answers as it did then, through an interceptor. */

import { driverOf } from '../../core/device.js'
import { simulate } from '../../core/simulation.js'
import { nextTurn } from '../../foundation/base/event-loop.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { ConditionalType } from '../../foundation/driver/driver-constants.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import {
  type ContextHandle,
  canonicalStream,
  type EventHandle,
  type GraphExecHandle,
  type GraphHandle,
  type NodeHandle,
  type Pointer,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { Interceptor, WrappableDriver } from '../../foundation/driver/wrappable-driver.js'
import { applied, argumentsOf, CALLS_BY_NAME } from './call-table.js'
import type { CallDetails, RecordedCall } from './lines.js'
import type { Entry, Reader, TimedCall } from './reader.js'
import { RecordedAnswers, RecordedFailure, type Rest } from './recorded-answers.js'
import { queued } from './work-table.js'

const NO_CALL: TimedCall = {
  what: 'call',
  number: -1,
  call: { call: 'return' },
  began: 0,
  ended: 0,
  stack: '',
  exact: true,
  more: {},
}

/** The methods of an interceptor for what happens beside the calls. */
export interface Followed {
  readonly interceptor: Interceptor
  named?(stream: StreamHandle, name: string): void
  declared?(call: Extract<RecordedCall, { readonly call: 'declareAccess' }>): void
  usedByHost?(call: Extract<RecordedCall, { readonly call: 'hostAccess' }>): void
  ran?(call: number, start: number, end: number): void
}

const NONE: ReadonlySet<number> = new Set()

export class Player implements Rest {
  current = NO_CALL
  /** The time that the recording has come to. */
  now = 0
  readonly answers: RecordedAnswers
  readonly #driver: WrappableDriver
  readonly #followed: Followed
  #skipped = NONE

  /** @param make Makes the interceptor, which learns from the player which call is played */
  constructor(
    private readonly reader: Reader,
    make: (next: Driver, player: Player) => Followed,
  ) {
    const [device] = simulate({ memory: 1 }).devices
    if (device === undefined) throw new RangeError('a simulation has a device')
    this.#driver = driverOf(device)
    this.answers = this.#driver.wrap(() => new RecordedAnswers(this, reader.header)).wrapper
    let followed: Followed | undefined
    this.#driver.wrap((next) => {
      followed = make(next, this)
      return followed.interceptor
    })
    if (followed === undefined) throw new RangeError('no interceptor was made')
    this.#followed = followed
  }

  /** Plays the whole recording, except for waits of these numbers. */
  async play(skipped: ReadonlySet<number> = NONE): Promise<void> {
    this.#skipped = skipped
    for (let entry = this.reader.next(); entry !== undefined; entry = this.reader.next()) {
      if (entry.what === 'call' && entry.call.call === 'turn') await nextTurn()
      else this.reader.within(() => this.#play(entry))
    }
  }

  playUntilReturn(): void {
    const outer = this.current
    for (let entry = this.reader.next(); entry !== undefined; entry = this.reader.next()) {
      if (entry.what === 'call' && entry.call.call === 'return') {
        this.current = outer
        this.now = entry.ended
        if (entry.more.failed === true) throw new RecordedFailure()
        return
      }
      this.#play(entry)
    }
    this.current = outer
  }

  #play(entry: Entry): void {
    if (entry.what === 'bytes') this.answers.putBytes(entry.pointer, entry.bytes)
    else if (entry.what === 'times') entry.each((...times) => this.#followed.ran?.(...times))
    else if (entry.what === 'stream') {
      const { facts } = entry
      const stream = facts.stream as StreamHandle
      this.answers.facts.set(stream, facts)
      if (facts.given) this.#driver.streamNames.set(canonicalStream(stream), { id: BigInt(facts.id), name: facts.name })
    } else if (entry.what === 'call') {
      this.current = entry
      this.now = entry.began
      try {
        if (this.#skipped.has(entry.number)) this.#skip(entry.call)
        else this.#call(entry.call, entry.more)
      } catch (error) {
        // The program's call threw then, and so does the one that is played.
        if (!(error instanceof RecordedFailure)) throw error
      }
    }
  }

  #call(call: RecordedCall, more: CallDetails): void {
    const driver = this.#driver
    switch (call.call) {
      case 'queue':
        driver.work.queue(queued(call.work, () => this.playUntilReturn()))
        break
      case 'host':
        this.#runHostFunction(more)
        break
      case 'settled':
      case 'cancelled':
        this.#settle(call.call, more)
        break
      case 'release':
        this.#release(more)
        break
      case 'escaped':
        this.#escaped(stream(call.stream))
        break
      case 'nameStream':
        this.#name(stream(call.stream), call.name)
        break
      case 'registerPinned':
        driver.memory.registerPinned(new Uint8Array(call.byteLength), context(0))
        break
      case 'closePinned':
        driver.memory.closePinned(call.pointer as Pointer, undefined, events(call.after))
        break
      case 'freeShared':
        driver.sharing.free(call.pointer as Pointer, events(call.after))
        break
      case 'destroyArray':
        driver.textures.destroyArray(call.pointer as Pointer, events(call.after))
        break
      case 'destroyTexture':
      case 'destroySurface':
        driver.textures[call.call](0, events(call.after))
        break
      case 'closeImported':
        driver.sharing.importMemory(new Uint8Array(), context(0)).close(events(call.after))
        break
      case 'addConditional': {
        const { into, bodies } = call
        const place = 'stream' in into ? { stream: stream(into.stream) } : { body: graph(into.body) }
        const node = { context: context(0), condition: 0n, type: ConditionalType.IF, size: bodies.length }
        driver.graphs.addConditional(place, node)
        break
      }
      case 'captureFailed':
        driver.graphs.end(stream(call.stream))
        break
      case 'updateNode':
        driver.graphs.updateNode(exec(call.exec), node(call.node), context(0), queued(call.work))
        break
      case 'declareAccess':
        this.#followed.declared?.(call)
        break
      case 'hostAccess':
        this.#followed.usedByHost?.(call)
        break
      case 'ran':
        this.#kernelRan(more)
        break
      case 'return':
      case 'turn':
        break
      default:
        this.#callByTable(call)
    }
  }

  /** Makes the call with the fields that its row in the table names. */
  #callByTable(call: RecordedCall): void {
    const known = CALLS_BY_NAME.get(call.call)
    if (known === undefined) return
    const args = argumentsOf(known.row).map((each): unknown =>
      typeof each === 'string' ? Reflect.get(call, each) : each.played,
    )
    applied(this.#driver, known, args)
  }

  /** Skips a wait. What happens during a wait happens without it, too. A promise is made, and does not settle. */
  #skip(call: RecordedCall): void {
    if (call.call.startsWith('synchronize') || call.call === 'drain') this.playUntilReturn()
    else if (call.call.endsWith('Finished')) this.#call(call, {})
  }

  #runHostFunction({ op = -1, failed }: CallDetails): void {
    const work = this.answers.queued.get(op)
    this.answers.queued.delete(op)
    // A host function that was queued before the recording began is not known; what happened inside is played nevertheless.
    if (work?.kind === 'hostFunction') work.call.run(failed === true ? 1 : 0)
    else this.playUntilReturn()
  }

  #kernelRan({ op = -1, memory, mistakes = [] }: CallDetails): void {
    const work = this.answers.queued.get(op)
    this.answers.queued.delete(op)
    if (work?.kind === 'kernel') work.observer?.ran(memory, mistakes)
  }

  #settle(how: 'settled' | 'cancelled', { op = -1, failed }: CallDetails): void {
    const settle = this.answers.promises.get(op)
    this.answers.promises.delete(op)
    if (how === 'settled' && !this.#skipped.has(op)) settle?.(failed === true ? new RecordedFailure() : undefined)
  }

  #release({ op = -1 }: CallDetails): void {
    const work = this.answers.queued.get(op)
    this.answers.queued.delete(op)
    if (work?.kind === 'promise') work.release()
  }

  #escaped(handle: StreamHandle): void {
    const facts = this.answers.facts.get(handle)
    if (facts !== undefined) this.answers.facts.set(handle, { ...facts, escaped: true })
    this.#driver.streams.escaped(handle)
  }

  #name(handle: StreamHandle, name: string): void {
    const id = this.answers.streams.getId(handle)
    this.#driver.streamNames.set(canonicalStream(handle), { id, name })
    this.#followed.named?.(handle, name)
  }
}

const stream = (handle: number): StreamHandle => handle as StreamHandle
const event = (handle: number): EventHandle => handle as EventHandle
const context = (handle: number): ContextHandle => handle as ContextHandle
const graph = (handle: number): GraphHandle => handle as GraphHandle
const exec = (handle: number): GraphExecHandle => handle as GraphExecHandle
const node = (handle: number): NodeHandle => handle as NodeHandle
const events = (handles: readonly number[]): InternalEvent[] =>
  handles.map((handle) => ({ context: context(0), event: event(handle) }))
