/** Memory that libraries of one process lend each other: exported until its consumer is done, or imported until we are. */

import { contextOf, type Device, driverOf } from '../../core/device.js'
import { unlessLost } from '../../core/memory/allocation-stream.js'
import { Allocation } from '../../core/memory/allocations.js'
import type { BufferImpl } from '../../core/memory/buffer.js'
import { recordedEvent } from '../../core/memory/stream-uses.js'
import type { StreamImpl } from '../../core/streams/stream-impl.js'
import { stateError } from '../../foundation/base/errors.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { RecheckTimer } from '../../foundation/base/polling.js'
import { AfterWork } from '../../foundation/driver/after-work.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'

/** Milliseconds between two checks: an eighth of the time that the oldest tensor has been exported, in these bounds. */
const SHORTEST = 20
const LONGEST = 1000

/** The struct of an exported tensor in C memory. */
interface TensorStruct {
  readonly address: number
  readonly isDeleted: boolean
  delete(): void
  free(): void
}

/** Memory that a consumer has, or will have. */
export class ExportedTensor {
  readonly since = monotonicTime()
  #isTaken = false

  constructor(
    readonly struct: TensorStruct,
    /** The address at which the memory begins for the consumer. */
    readonly address: number,
    /**
     * The memory and its buffer, which are kept reachable, since the memory would be freed with the buffer; undefined once they
     * were released.
     */
    public memory: { readonly impl: BufferImpl; readonly buffer: object } | undefined,
  ) {
    reclaimReleased()
    memory?.impl.retain()
    exportedTensors.add(this)
    checkLater()
  }

  /** Calls the deleter, unless a consumer has done so or this library is the consumer. */
  takeBack(): void {
    if (this.#isTaken || this.memory === undefined) return
    if (!this.struct.isDeleted) this.struct.delete()
    reclaimReleased()
  }

  /** This library is its consumer. Throws ERR_CLOSED if it was before, or if another consumer is done with it. */
  take(): void {
    if (this.#isTaken || this.memory === undefined) {
      throw stateError('ERR_CLOSED', 'The tensor was imported before: export the buffer once more')
    }
    this.#isTaken = true
  }
}

const exportedTensors = new Set<ExportedTensor>()

/** The driver's pointer for an address of exported pinned memory: on the simulator it is another number. */
export function pointerTo(address: number): number {
  for (const { address: first, memory } of exportedTensors) {
    if (memory === undefined || !memory.impl.isPinned) continue
    const { pointer, byteLength } = memory.impl
    if (address === first || (address > first && address < first + byteLength)) return pointer + (address - first)
  }
  return address
}

/** Releases the memory of all tensors whose deleters were called. */
export function reclaimReleased(): void {
  for (const exported of exportedTensors) {
    const { struct, memory } = exported
    if (memory === undefined || !struct.isDeleted || !orderBehindConsumer(memory.impl)) continue
    exportedTensors.delete(exported)
    exported.memory = undefined
    struct.free()
    memory.impl.release()
  }
}

/**
 * The consumer may have queued work on any stream before it released the memory, so the free is ordered behind all work of
 * the device. False while a capture forbids that.
 */
function orderBehindConsumer({ allocation, device }: BufferImpl): boolean {
  if (!allocation.tracks) return true
  const driver = driverOf(device)
  let isRecorded = true
  unlessLost(() => {
    const own = recordedEvent({ driver, context: contextOf(device) }, (event) => {
      isRecorded = driver.devices.recordInternal(event, device.ordinal)
    })
    if (isRecorded) allocation.addForeignUse(own)
    else driver.events.recycle(own.context, own.event)
  })
  return isRecorded
}

const exportTimer = new RecheckTimer(
  () => {
    try {
      reclaimReleased()
    } finally {
      checkLater()
    }
  },
  () => {
    const [oldest] = exportedTensors
    return Math.min(LONGEST, Math.max(SHORTEST, (monotonicTime() - (oldest?.since ?? 0)) / 8))
  },
)

function checkLater(): void {
  if (exportedTensors.size > 0) exportTimer.later()
}

/** The place of memory that another library lends. */
interface LentMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  readonly isOfHost: boolean
}

/** Memory of another library. `handBack` is called when all work is done that was queued with it here. */
export class LentAllocation extends Allocation {
  override readonly isOfHost: boolean

  constructor(
    device: Device,
    driver: Driver,
    { pointer, byteLength, isOfHost }: LentMemory,
    /** The event on the stream for which the contents are ready; undefined if nothing need be waited for. */
    private readonly filled: (InternalEvent & { readonly serial: number }) | undefined,
    private readonly handBack: () => void,
  ) {
    super(device, driver, pointer, byteLength, filled)
    this.isOfHost = isOfHost
  }

  override enablePeerAccess(use: StreamImpl): boolean {
    return this.isOfHost || super.enablePeerAccess(use)
  }

  protected override free(): void {
    const { driver, filled, handBack } = this
    this.uses.handOver(driver, (events) =>
      handBackAfter(driver, filled === undefined ? events : [...events, filled], handBack),
    )
  }
}

/** The owners that are still to be called, by driver. */
const importsDone = new Map<Driver, AfterWork<() => void>>()
const importTimer = new RecheckTimer(handBackDone)

/**
 * Calls the function once the latest records of these events, which it takes over, are done, and no host function is pending:
 * the other library may wait for the device. It is not called if the process ends before.
 */
function handBackAfter(driver: Driver, after: readonly InternalEvent[], handBack: () => void): void {
  const work = importsDone.get(driver) ?? new AfterWork<() => void>(driver, (call) => call())
  importsDone.set(driver, work)
  work.add(handBack, after)
  handBackDone()
}

function handBackDone(): void {
  try {
    for (const [driver, work] of importsDone) {
      work.sweep(() => !driver.libraries.hostFunctionsPending())
      // An owner that was called may have lent something again.
      if (!work.pending && importsDone.get(driver) === work) importsDone.delete(driver)
    }
  } finally {
    if (importsDone.size > 0) importTimer.later()
  }
}
