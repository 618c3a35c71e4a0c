/** Queues the waits that a program lacks, so that it runs right while it is mended. */
import { type ContextHandle, cudaHandleOf, type Driver, EventFlag } from '../driver/driver.js'
import type { HappensBefore } from './happens-before.js'
import type { OperationStream } from './operations.js'
import type { StreamStrand } from './streams.js'

export class Mender {
  constructor(
    private readonly driver: Driver,
    private readonly order: HappensBefore,
  ) {}

  /** Lets the stream's next work come after all that the others hold. False where that cannot be. */
  queueWaits(stream: StreamStrand, others: Iterable<OperationStream>): boolean {
    return attempted(() => {
      for (const other of others) {
        if (stream.isCapturing || other.isCapturing) return false
        if (!(other.closed ? this.#waitForDevice(stream, other) : this.#waitFor(stream, other))) return false
      }
      return true
    })
  }

  /** Blocks the JavaScript thread until the streams are done. False where it cannot wait for them. */
  waitOnHost(others: Iterable<OperationStream>): boolean {
    const { driver } = this
    return attempted(() => {
      for (const { handle, device, closed } of others) {
        const work = closed ? this.order.workOfDevice(device) : this.order.workOf(handle)
        if (closed) driver.deviceSynchronize(device)
        else driver.streamSynchronize(handle)
        this.order.hostKnows(work)
      }
      return true
    })
  }

  #waitFor(stream: StreamStrand, other: OperationStream): boolean {
    this.driver.streamWaitStream(stream.handle, other.handle, this.#contextOf(other))
    this.order.waitForStream(stream.handle, other.handle)
    return true
  }

  /** A stream that is closed can be given no record: what is waited for is all work of its device. */
  #waitForDevice(stream: StreamStrand, { device }: OperationStream): boolean {
    const { driver } = this
    const context = driver.deviceContext(device)
    const event = driver.eventCreate(context, EventFlag.DISABLE_TIMING, true)
    try {
      if (!driver.deviceRecordOwn(event, device)) return false
      driver.streamWaitEvent(stream.handle, event, 0)
      for (const point of this.order.workOfDevice(device)) stream.join(point)
      return true
    } finally {
      driver.eventRecycle(context, event)
    }
  }

  #contextOf({ handle, device }: OperationStream): ContextHandle {
    return this.driver.streamAdopt(cudaHandleOf(handle), device).context
  }
}

/** What the driver refuses cannot be: the report says that it was not mended. */
function attempted(mend: () => boolean): boolean {
  try {
    return mend()
  } catch {
    return false
  }
}
