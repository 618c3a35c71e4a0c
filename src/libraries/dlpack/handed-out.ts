/** Memory that was handed out, kept until its consumers are done with it. */
import { stateError } from '../../base/errors.js'
import { LookAgain } from '../../base/look-again.js'
import { contextOf, driverOf } from '../../device.js'
import { unlessLost } from '../../memory/allocation-stream.js'
import type { BufferCore } from '../../memory/buffer-core.js'
import { recordedEvent } from '../../memory/stream-uses.js'
import type { HandedOutStruct } from './structs.js'

/** Milliseconds between two looks: an eighth of the time that the oldest has been out, in these bounds. */
const SHORTEST = 20
const LONGEST = 1000

/** What a consumer has, or will have. */
export class HandedOut {
  readonly since = performance.now()
  #taken = false

  constructor(
    readonly struct: HandedOutStruct,
    /** Where the memory begins for the consumer. */
    readonly address: number,
    /** Kept reachable, since the memory would be given back with the buffer; undefined once it was given back. */
    public memory: { readonly core: BufferCore; readonly buffer: object } | undefined,
  ) {
    lookForReturns()
    memory?.core.lend()
    handedOut.add(this)
    lookLater()
  }

  static is(value: unknown): value is HandedOut {
    return typeof value === 'object' && value !== null && #taken in value
  }

  /** Calls the deleter, unless a consumer has done so or this library is the consumer. */
  takeBack(): void {
    if (this.#taken || this.memory === undefined) return
    if (!this.struct.isDeleted) this.struct.delete()
    lookForReturns()
  }

  /** This library is its consumer. Throws ERR_CLOSED where it was before, or another is done with it. */
  take(): void {
    if (this.#taken || this.memory === undefined) {
      throw stateError('ERR_CLOSED', 'The tensor was taken before: hand the buffer out once more')
    }
    this.#taken = true
  }
}

const handedOut = new Set<HandedOut>()

/** What the driver calls an address of pinned memory that is out: on the simulator it is another number. */
export function pointerTo(address: number): number {
  for (const { address: first, memory } of handedOut) {
    if (memory === undefined || !memory.core.isPinned) continue
    const { pointer, byteLength } = memory.core
    if (address >= first && address < first + byteLength) return pointer + (address - first)
  }
  return address
}

/** Takes back all whose deleters were called. */
export function lookForReturns(): void {
  for (const out of handedOut) {
    const { struct, memory } = out
    if (memory === undefined || !struct.isDeleted || !comeBehindConsumer(memory.core)) continue
    handedOut.delete(out)
    out.memory = undefined
    struct.free()
    memory.core.takeBack()
  }
}

/**
 * The consumer may have queued work on any stream before it let go: what comes behind all work of the device comes behind
 * that. False while a capture forbids to say so.
 */
function comeBehindConsumer({ allocation, device }: BufferCore): boolean {
  if (!allocation.tracks) return true
  const driver = driverOf(device)
  let isRecorded = true
  unlessLost(() => {
    const own = recordedEvent({ driver, context: contextOf(device) }, (event) => {
      isRecorded = driver.deviceRecordOwn(event, device.ordinal)
    })
    if (isRecorded) allocation.usedByOthers(own)
    else driver.eventRecycle(own.context, own.event)
  })
  return isRecorded
}

const again = new LookAgain(
  () => {
    try {
      lookForReturns()
    } finally {
      lookLater()
    }
  },
  () => {
    const [oldest] = handedOut
    return Math.min(LONGEST, Math.max(SHORTEST, (performance.now() - (oldest?.since ?? 0)) / 8))
  },
)

function lookLater(): void {
  if (handedOut.size > 0) again.later()
}
