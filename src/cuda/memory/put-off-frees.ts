/**
 * Frees of device memory that other streams may still use. A free in the order of the stream would have to wait for them, and with it all
 * that comes after it there; in the order of a null stream, all blocking streams of the process. So these frees are put off until all that
 * they come after is done, and then made on a stream on which nothing else is.
 */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { RecheckTimer } from '../../foundation/base/polling.js'
import { giveBackEvent } from '../../foundation/driver/after-work.js'
import { CUresult, isContextLost } from '../../foundation/driver/cuda-results.js'
import type { EventDriver, InternalEvent } from '../../foundation/driver/event-driver.js'
import type { EventHandle, Pointer, StreamHandle } from '../../foundation/driver/handle-types.js'
import { own } from '../../foundation/native/c-functions.js'
import { ownerOfThread } from '../../foundation/native/owned-handles.js'
import type { SpareStreams } from '../handles/spare-streams.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import type { EventPool } from '../waiting/event-pool.js'

export interface PutOffFreesParts extends LibcudaParts {
  readonly pool: EventPool
  readonly spares: Pick<SpareStreams, 'lend' | 'lendAtOnce'>
  readonly driver: { readonly events: Pick<EventDriver, 'recordInternal' | 'recycle'> }
}

interface Free {
  readonly pointer: Pointer
  readonly device: number
  readonly after: readonly InternalEvent[]
  /** How many of the events are known to be done. */
  done: number
}

/** Frees that wait for events of one stream. The events are done in this order. */
interface Line {
  readonly number: number
  readonly frees: Free[]
}

/** The most lines that are looked at for each allocation and each free, so that neither costs more the more there are. */
const FEW = 4
/** Milliseconds for a free on an idle stream. It takes microseconds. */
const LONGEST_FREE = 1

export class PutOffFrees {
  readonly #lines = new Map<number, Line>()
  /** The same lines, in the order in which they are looked at. */
  readonly #order: Line[] = []
  #at = 0
  #places = 0
  /** Frees that the driver has refused although all that they come after is done. */
  #refused: Free[] = []
  /** The streams on which the frees are made, which wait for nothing, by device. */
  readonly #streams = new Map<number, number>()
  /** The streams on which frees are made that could not be put off any more, by device. */
  readonly #waiting = new Map<number, number>()
  readonly #again = new RecheckTimer(() => this.sweep())

  constructor(private readonly parts: PutOffFreesParts) {}

  get pending(): boolean {
    return this.#order.length > 0 || this.#refused.length > 0
  }

  /**
   * Frees the memory once all that is in the stream now is done, and these events are, which it takes over. Returns false if they
   * are done by now, and are left to the caller: then the stream is all that is left to wait for.
   */
  add(pointer: Pointer, stream: StreamHandle, after: readonly InternalEvent[]): boolean {
    const { streams, pool, relaxed, driver } = this.parts
    const left = relaxed.run(() => after.filter(({ event }) => !this.#isDone(event)))
    if (left.length === 0) return false
    const { device, context } = streams.of(stream)
    const event = pool.take(context)
    try {
      driver.events.recordInternal(event, stream)
    } catch (error) {
      driver.events.recycle(context, event)
      throw error
    }
    this.#places += 1
    // The last, since it is done before the others most of the time: then the free waits in no line for it.
    const own = { context, event, line: -2 * stream - 1, place: this.#places }
    this.#join({ pointer, device, after: [...left, own], done: 0 })
    for (const each of after) if (!left.includes(each)) giveBackEvent(driver, each)
    this.#again.later()
    return true
  }

  /** Makes the frees of which all is done that they come after, looking at a few. */
  sweepFew(): void {
    if (this.pending) this.#sweep(FEW)
  }

  /** Makes all of them. */
  sweep(): void {
    if (this.pending) this.#sweep(this.#order.length)
  }

  /**
   * Makes all frees of a device, on a stream that waits for what they come after: the driver can give the memory to other work, which
   * comes after them then. Returns false if there are none.
   */
  waitForUses(device: number): boolean {
    const lines = this.#order.filter(({ frees }) => frees.some((free) => free.device === device))
    const stream = lines.length === 0 ? undefined : this.#toWait(device)
    if (stream === undefined) return false
    let any = false
    for (const line of lines) {
      const freed = this.#freeBehind(
        stream,
        device,
        line.frees.filter((free) => free.device === device),
      )
      any ||= freed.size > 0
      this.#leave(line, freed)
    }
    return any
  }

  /**
   * The stream for frees that wait. Making one could wait for the device, and so for the uses: then the stream that waited for
   * nothing so far takes its place.
   */
  #toWait(device: number): number | undefined {
    const known = this.#waiting.get(device)
    if (known !== undefined) return known
    const { contexts, spares } = this.parts
    let stream = contexts.within(contexts.primary(device), () => spares.lendAtOnce(device))
    if (stream === undefined) {
      stream = this.#streams.get(device)
      this.#streams.delete(device)
    }
    if (stream !== undefined) this.#waiting.set(device, stream)
    return stream
  }

  #sweep(most: number): void {
    this.parts.relaxed.run(() => {
      const freedOn = new Set<number>()
      for (const free of this.#refused.splice(0)) this.#free(free, freedOn)
      for (let count = Math.min(most, this.#order.length); count > 0; count -= 1) {
        if (this.#at >= this.#order.length) this.#at = 0
        const line = this.#order[this.#at]
        if (line !== undefined && !this.#advance(line, freedOn)) this.#at += 1
      }
      for (const device of freedOn) this.#tellPools(device)
    })
    if (this.pending) this.#again.later()
  }

  /** Returns true if the line is gone. */
  #advance(line: Line, freedOn: Set<number>): boolean {
    const { frees } = line
    let done = 0
    while (done < frees.length && this.#isDone(awaitedBy(frees[done])?.event)) done += 1
    if (done === 0) return false
    const advancing = frees.splice(0, done)
    const isGone = frees.length === 0
    if (isGone) this.#remove(line)
    for (const free of advancing) {
      do free.done += 1
      while (free.done < free.after.length && this.#isDone(awaitedBy(free)?.event))
      if (free.done < free.after.length) this.#join(free)
      else this.#free(free, freedOn)
    }
    return isGone
  }

  /** Lets the free wait in the line of the first event that is not done, behind those before it. */
  #join(free: Free): void {
    const awaited = awaitedBy(free)
    if (awaited === undefined) return
    const number = awaited.line ?? -2 * awaited.event - 2
    let line = this.#lines.get(number)
    if (line === undefined) {
      line = { number, frees: [] }
      this.#lines.set(number, line)
      this.#order.push(line)
    }
    const { frees } = line
    let at = frees.length
    while (at > 0 && placeOf(frees[at - 1]) > placeOf(free)) at -= 1
    frees.splice(at, 0, free)
  }

  #remove(line: Line): void {
    this.#lines.delete(line.number)
    this.#order.splice(this.#order.indexOf(line), 1)
  }

  #leave(line: Line, freed: ReadonlySet<Free>): void {
    const left = line.frees.filter((free) => !freed.has(free))
    line.frees.splice(0, line.frees.length, ...left)
    if (left.length === 0) this.#remove(line)
  }

  /** What the driver refuses is tried again at each sweep. */
  #free(free: Free, freedOn: Set<number>): void {
    const { device } = free
    const stream = this.#streams.get(device) ?? this.#lend(device)
    if (stream !== undefined) {
      this.#streams.set(device, stream)
      const result = this.#freeOn(stream, free)
      if (result === 0) freedOn.add(device)
      if (result === 0 || isContextLost(result)) {
        this.#releaseAll(free)
        return
      }
    }
    this.#refused.push(free)
  }

  #freeOn(stream: number, { device, pointer }: Free): number {
    const { contexts, kinds } = this.parts
    return own().freeInOrder(ownerOfThread(), kinds.asyncMemory.number, contexts.primary(device), stream, pointer)
  }

  /** Makes frees on a stream, behind waits for all that they come after. Returns those that were made. */
  #freeBehind(stream: number, device: number, frees: readonly Free[]): ReadonlySet<Free> {
    const { library, contexts, relaxed } = this.parts
    const freed = new Set<Free>()
    const waitsForAll = ({ after, done }: Free): boolean =>
      after.slice(done).every(({ event }) => library.cuStreamWaitEvent(stream, event, 0) === 0)
    contexts.within(contexts.primary(device), () =>
      relaxed.run(() => {
        for (const free of frees) {
          if (!waitsForAll(free) || this.#freeOn(stream, free) !== 0) continue
          freed.add(free)
          this.#releaseAll(free)
        }
      }),
    )
    return freed
  }

  /** Borrows a stream of the device; undefined while none can be made without a wait for what may never end. */
  #lend(device: number): number | undefined {
    const { contexts, spares } = this.parts
    // Where another was lent before, to make one may have been out of the question.
    const lend = (): number | undefined => (this.#waiting.has(device) ? spares.lendAtOnce(device) : spares.lend(device))
    try {
      return contexts.within(contexts.primary(device), lend) ?? this.#backFromWaiting(device)
    } catch {
      return undefined
    }
  }

  /** A stream on which all waits are over can take frees again. */
  #backFromWaiting(device: number): number | undefined {
    const stream = this.#waiting.get(device)
    if (stream === undefined || this.parts.library.cuStreamQuery(stream) !== 0) return undefined
    this.#waiting.delete(device)
    return stream
  }

  /** A pool learns that a free is done when the host waits for it: only then other streams get the memory without a wait. */
  #tellPools(device: number): void {
    const { library, contexts, pool } = this.parts
    const stream = this.#streams.get(device)
    if (stream === undefined) return
    const context = contexts.primary(device)
    const event = pool.take(context)
    contexts.within(context, () => {
      if (library.cuEventRecord(event, stream) !== 0) return
      const end = monotonicTime() + LONGEST_FREE
      while (!this.#isDone(event)) if (monotonicTime() > end) return
      library.cuEventSynchronize(event)
    })
    pool.giveBack(context, event)
  }

  /** Is the event done? After a fault every event counts as done. */
  #isDone(event: EventHandle | undefined): boolean {
    return event !== undefined && this.parts.library.cuEventQuery(event) !== CUresult.NOT_READY
  }

  #releaseAll({ after }: Free): void {
    for (const each of after) giveBackEvent(this.parts.driver, each)
  }
}

/** The first event of a free that is not known to be done. */
const awaitedBy = (free: Free | undefined): InternalEvent | undefined => free?.after[free.done]

const placeOf = (free: Free | undefined): number => awaitedBy(free)?.place ?? 0
