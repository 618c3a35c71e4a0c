/** The accesses to memory that several threads use: each of their sanitizers gets those of the others. */
import { threadId } from '../../foundation/base/node-modules.js'
import { type Epoch, isBefore, NOWHERE } from '../../foundation/base/vector-clock.js'
import type { Pointer, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import { watchedEra } from '../../foundation/driver/watched-threads.js'
import { exclusively, type Mailbox, sharedTimes } from './mailboxes.js'
import { CheckedOperation, type CheckedOperationKind, type OperationStream, type TakenStack } from './operations.js'
import type { PendingWaits } from './pending.js'
import type { RacesFound, Region, Regions, SharedAccesses } from './regions.js'
import type { SentClock, SentTime, SharedClocks } from './shared-clocks.js'

/** The most accesses that are kept; beyond that the oldest are forgotten. */
const MOST_ACCESSES = 256
/** The most pieces of memory of a kernel, as the simulator observed them, that are compared with work of other threads. */
const MOST_PIECES = 256

/** An operation that touches a piece of the memory. */
interface SentAccess {
  /** The number of the access among those of the memory. */
  readonly serial: number
  readonly thread: number
  readonly era: number
  /** The component and time of the access; undefined for a free in the order of no stream. */
  readonly at: SentTime | undefined
  readonly clock: SentClock
  readonly kind: CheckedOperationKind
  readonly what: string
  readonly stream: SentStream | undefined
  readonly stack: SentStack | undefined
  readonly touched: TouchedMemory
  readonly awaitsExact: boolean
  /** The memory that a kernel has really touched. */
  readonly exact: readonly TouchedMemory[] | undefined
}

interface SentStream {
  readonly handle: StreamHandle
  readonly device: number
  readonly label: string
  readonly made: SentStack | undefined
}

interface SentStack {
  readonly stack: string
  readonly exact: boolean
}

interface SentAccesses {
  readonly serial: number
  /** The place at which the memory was allocated. */
  readonly made: SentStack | undefined
  readonly accesses: readonly SentAccess[]
}

const sentStack = (taken: TakenStack | undefined): SentStack | undefined =>
  taken && { stack: taken.stack, exact: taken.exact }

const receivedStack = (sent: SentStack | undefined): TakenStack | undefined => sent && { ...sent, site: undefined }

const isSameTime = (one: SentTime | undefined, other: SentTime | undefined): boolean =>
  one?.[0] === other?.[0] && one?.[1] === other?.[1]

export interface SharedRegionParts {
  readonly clocks: SharedClocks
  readonly regions: Regions
  readonly pendingWaits: PendingWaits
}

export class SharedRegion implements SharedAccesses {
  #sent: SentAccesses = { serial: 0, made: undefined, accesses: [] }
  /** The serial number of the last access that this thread has received. */
  #known = 0
  /** The kernels of other threads whose real accesses are not known yet. */
  readonly #awaited = new Map<number, CheckedOperation>()

  constructor(
    private readonly parts: SharedRegionParts,
    private readonly mailbox: Mailbox,
    private readonly region: Region,
  ) {}

  get isOpen(): boolean {
    return !this.mailbox.isClosed
  }

  /** Sends the other threads what this one did before the memory was shared. */
  begin(): void {
    exclusively(() => {
      this.#receive()
      const made = sentStack(this.region.made)
      this.#sent = { ...this.#sent, made: this.#sent.made ?? made }
      for (const operation of this.region.ranges.operations()) {
        for (const touched of this.#piecesOf(operation)) this.#add(operation, touched)
      }
      this.#write()
    })
  }

  refresh(): void {
    if (this.mailbox.isNews) exclusively(() => this.#receive())
  }

  touch(operation: CheckedOperation, touched: TouchedMemory): RacesFound {
    const { pointer, byteLength, access } = touched
    return exclusively(() => {
      this.#receive()
      const races = this.region.ranges.touch(operation, pointer, pointer + byteLength, access)
      if (this.#add(operation, touched)) this.#write()
      return races
    })
  }

  freed(operation: CheckedOperation): void {
    exclusively(() => {
      this.#receive()
      this.#sent = { ...this.#sent, accesses: [] }
      for (const touched of operation.memory) this.#add(operation, touched)
      this.#write()
    })
  }

  ran(operation: CheckedOperation): void {
    exclusively(() => {
      this.#receive()
      const { exact } = operation
      const own = this.parts.clocks.sentTime(operation.component, operation.time)
      const isItself = ({ thread, at }: SentAccess): boolean => thread === threadId && isSameTime(at, own)
      const pieces = exact?.filter(({ pointer, byteLength }) => this.#reaches(pointer, byteLength))
      const told = (access: SentAccess): readonly SentAccess[] =>
        (pieces?.length ?? 0) > MOST_PIECES ? [] : [{ ...access, awaitsExact: false, exact: pieces }]
      const accesses = this.#sent.accesses.flatMap((access) => (isItself(access) ? told(access) : [access]))
      this.#sent = { ...this.#sent, accesses }
      this.#write()
    })
  }

  /** Receives what other threads have done since the last call. */
  #receive(): void {
    if (!this.mailbox.isNews) return
    const sent = this.mailbox.read() as SentAccesses | undefined
    if (sent === undefined) return
    this.#sent = sent
    this.region.made ??= receivedStack(sent.made)
    for (const access of sent.accesses) {
      if (access.thread === threadId) continue
      if (access.serial > this.#known) this.#receiveAccess(access)
      const awaited = access.awaitsExact ? undefined : this.#awaited.get(access.serial)
      if (awaited === undefined) continue
      this.#awaited.delete(access.serial)
      awaited.exact = access.exact
      awaited.awaitsExact = false
    }
    this.#known = sent.serial
  }

  #receiveAccess(access: SentAccess): void {
    const { era, kind, what, stream, stack, touched, thread } = access
    if (era !== watchedEra()) return
    const at = this.#epochOf(access)
    const where = stream && new StreamOfOther(stream)
    const taken = receivedStack(stack)
    // The operation has sequence number 0, as it was called before whatever this thread compares with it.
    const operation = new CheckedOperation(at, 0, what, kind, where, taken, [touched], undefined, undefined)
    operation.other = { thread, era }
    operation.exact = access.exact
    operation.awaitsExact = access.awaitsExact
    if (access.awaitsExact) this.#awaited.set(access.serial, operation)
    if (kind === 'free') {
      if (this.region.freed === undefined) this.parts.regions.free(this.region, operation)
      return
    }
    // Races with what this thread did before have been reported by the other thread.
    const { pointer, byteLength } = touched
    this.region.ranges.touch(operation, pointer, pointer + byteLength, touched.access)
  }

  /** Adds an access for the other threads. Returns false for one that they need not know of, or cannot compare with theirs. */
  #add(operation: CheckedOperation, touched: TouchedMemory): boolean {
    const { component, time, clock, kind, what, stream, stack } = operation
    const { clocks, pendingWaits } = this.parts
    const era = watchedEra()
    // Allocations are left out, since the library itself orders what comes after them. So is work that waits for JavaScript, which may come after all
    // other work.
    if (era === undefined || operation.other !== undefined || kind === 'allocation') return false
    const at = clocks.sentTime(component, time)
    if ((at === undefined && component !== NOWHERE) || pendingWaits.comeBefore(operation)) return false
    const access: SentAccess = {
      serial: this.#sent.serial + 1,
      thread: threadId,
      era,
      at,
      clock: clocks.sent(component === NOWHERE ? [{ component, time, clock }] : [operation]),
      kind,
      what,
      stream: stream && {
        handle: stream.handle,
        device: stream.device,
        label: stream.label,
        made: sentStack(stream.made),
      },
      stack: sentStack(stack),
      touched,
      awaitsExact: operation.awaitsExact,
      exact: undefined,
    }
    const left = this.#sent.accesses.filter((earlier) => earlier.era === era && !this.#replaces(access, earlier))
    this.#sent = { ...this.#sent, serial: access.serial, accesses: [...left, access].slice(-MOST_ACCESSES) }
    this.#known = access.serial
    return true
  }

  /** Whether all that races with the earlier access races with this one, or the earlier one is done. */
  #replaces(access: SentAccess, earlier: SentAccess): boolean {
    const { touched, awaitsExact } = access
    if (earlier.at === undefined) return false
    const [number, time] = earlier.at
    if (sharedTimes.done(number) >= time) return true
    if (awaitsExact || touched.rows !== undefined || !isBefore(this.#epochOf(earlier), this.#epochOf(access)))
      return false
    const { pointer, byteLength, access: its } = earlier.touched
    const isWithin = pointer >= touched.pointer && pointer + byteLength <= touched.pointer + touched.byteLength
    return isWithin && (touched.access === its || touched.access === 'out' || touched.access === 'inout')
  }

  #epochOf({ at, clock }: SentAccess): Epoch {
    const { clocks } = this.parts
    const event = at === undefined ? { component: NOWHERE, time: 1 } : clocks.receivedTime(at)
    return { ...event, clock: clocks.received(clock) }
  }

  #write(): void {
    while (!this.mailbox.write(this.#sent)) {
      const { accesses } = this.#sent
      this.#sent = { ...this.#sent, accesses: accesses.slice(1 + (accesses.length >> 1)) }
    }
  }

  #piecesOf(operation: CheckedOperation): readonly TouchedMemory[] {
    return operation.memory.filter(({ pointer, byteLength }) => this.#reaches(pointer, byteLength))
  }

  #reaches(pointer: Pointer, byteLength: number): boolean {
    return pointer < this.region.end && pointer + byteLength > this.region.start
  }
}

/** A stream on which another thread has queued work. */
class StreamOfOther implements OperationStream {
  /** The serial number for a stream on which no call is made here. */
  readonly serial = -1
  readonly handle: StreamHandle
  readonly device: number
  readonly label: string
  readonly made: TakenStack | undefined
  readonly closed = false
  readonly isCapturing = false

  constructor({ handle, device, label, made }: SentStream) {
    this.handle = handle
    this.device = device
    this.label = label
    this.made = receivedStack(made)
  }
}
