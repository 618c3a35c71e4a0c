/**
 * The calls that NCCL makes without waiting, in a communicator that blocks. NCCL waits for other ranks when it connects with them
 * for a new kind of call, and for the GPU when too many calls are outstanding.
 */

import { recordedEvent } from '../../core/memory/stream-uses.js'
import type { StreamImpl } from '../../core/streams/stream-impl.js'
import { ELEMENT_TYPES } from '../../foundation/base/element-types.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import { NCCL_OPERATIONS, type NcclFunction, type NcclReduction, type NcclType } from './nccl-library.js'

/** What of a call its connections follow from. */
export interface CallByNumbers {
  readonly name: NcclFunction
  /** The number of elements, as NCCL counts them in this call. */
  readonly count: number
  readonly type: NcclType
  readonly op: NcclReduction
  /** The rank that it sends to or receives from; undefined for collective operations. */
  readonly peer: number | undefined
  /** The rank that gives or gets all; undefined where no rank does. */
  readonly root: number | undefined
}

/** The variables of NCCL's with which it may wait for other ranks in any call, with the values for which that is so. */
const WAITING_ALWAYS: Readonly<Record<string, RegExp>> = {
  NCCL_TUNER_PLUGIN: /./,
  NCCL_LAUNCH_MODE: /^group$/i,
  NCCL_CHECK_MODE: /global/i,
}

/** Calls by their numbers: what NCCL connects for follows from them, and from those of the calls that they are made with. */
class Calls {
  readonly #next = new Map<number, Calls>()
  /** Calls up to here were made together, and NCCL is connected for them. */
  isConnected = false

  after(number: number): Calls | undefined {
    return this.#next.get(number)
  }

  madeAfter(number: number): Calls {
    const known = this.#next.get(number)
    if (known !== undefined) return known
    const made = new Calls()
    this.#next.set(number, made)
    return made
  }
}

const FUNCTIONS: readonly NcclFunction[] = [
  ...(['ncclAllReduce', 'ncclBroadcast', 'ncclReduce', 'ncclAllGather', 'ncclReduceScatter'] as const),
  ...(['ncclSend', 'ncclRecv'] as const),
]
/**
 * The largest number of calls that are remembered. A program whose calls are never alike again gains nothing by more.
 */
const MOST = 10_000

export class ConnectedCalls {
  #first = new Calls()
  #count = 0
  readonly #mayWait = Object.entries(WAITING_ALWAYS).some(([name, value]) => value.test(process.env[name] ?? ''))

  /** Did the same calls succeed before, made together as these are? */
  has(calls: readonly CallByNumbers[]): boolean {
    if (this.#mayWait) return false
    let found: Calls | undefined = this.#first
    for (const call of calls) {
      found = found.after(kindOf(call))?.after(call.count)?.after(partnerOf(call))
      if (found === undefined) return false
    }
    return found.isConnected
  }

  add(calls: readonly CallByNumbers[]): void {
    if (this.has(calls)) return
    this.#count += calls.length
    if (this.#count > MOST) {
      this.#first = new Calls()
      this.#count = calls.length
    }
    let last = this.#first
    for (const call of calls) {
      last = last.madeAfter(kindOf(call)).madeAfter(call.count).madeAfter(partnerOf(call))
    }
    last.isConnected = true
  }
}

const kindOf = ({ name, type, op }: CallByNumbers): number =>
  (FUNCTIONS.indexOf(name) * 64 + ELEMENT_TYPES[type].nccl) * 64 + NCCL_OPERATIONS[op]

const partnerOf = ({ root, peer }: CallByNumbers): number => root ?? peer ?? -1

/** Half of the largest number of calls that may be outstanding: NCCL's own queue, and a stream's, hold more. */
const MOST_OUTSTANDING = 128

/** How many calls the GPU may not have completed. */
export class OutstandingCalls {
  /** An event behind the calls before the latest ones. */
  #mark: InternalEvent | undefined
  #sinceMark = 0

  constructor(private readonly stream: StreamImpl) {}

  hasRoomFor(calls: number): boolean {
    if (this.#sinceMark + calls <= MOST_OUTSTANDING) return true
    if (this.#mark !== undefined && !this.stream.driver.memory.isDone(this.#mark.event)) return false
    this.forget()
    return calls <= MOST_OUTSTANDING
  }

  queued(calls: number, use: StreamImpl): void {
    this.#sinceMark += calls
    if (this.#sinceMark < MOST_OUTSTANDING || this.#mark !== undefined) return
    this.#mark = recordedEvent(use, (event) => use.driver.events.recordInternal(event, use.handle))
    this.#sinceMark = 0
  }

  /** Gives the event back; also called at the end of the communicator. */
  forget(): void {
    if (this.#mark !== undefined) this.stream.driver.events.recycle(this.#mark.context, this.#mark.event)
    this.#mark = undefined
  }
}
