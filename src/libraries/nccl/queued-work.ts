/**
 * How far a communicator's work is: on each stream that it went into, an event behind the last of it. So it can be waited
 * for when the stream is closed, or captures, by then, and no stream is kept reachable.
 */
import type { Cancel, Driver, OwnEvent, Settle } from '../../driver/driver.js'
import { finished } from '../../driver/finished.js'
import { untilOver } from '../../driver/until-over.js'
import { unlessLost } from '../../memory/allocation-stream.js'
import { ownEvent } from '../../memory/stream-uses.js'
import type { StreamCore } from '../../streams/stream-core.js'

interface QueuedPoint extends OwnEvent {
  /** Of the stream. */
  readonly serial: number
  readonly driver: Driver
  /** Promises that wait for it: meanwhile it is not recorded anew. */
  waits: number
}

/** So many are kept before a look at which of them are done. */
const FEW = 16

export class QueuedWork {
  /** By the serials of the streams. */
  readonly #last = new Map<number, QueuedPoint>()
  #mostUnseen = FEW

  /** Work has just been put into the stream. What a capture takes up does not run, and is not waited for. */
  record(use: StreamCore): void {
    const { driver, handle, serial } = use
    if (driver.streamIsCapturing(handle)) return
    let point = this.#last.get(serial)
    if (point === undefined || point.waits > 0) {
      if (this.#last.size >= this.#mostUnseen) this.#forgetDone()
      point = { serial, driver, ...ownEvent(use), waits: 0 }
      this.#last.set(serial, point)
    }
    driver.eventRecordOwn(point.event, handle)
  }

  /** Resolves when all is done that was recorded until now. Rejects with a fault, a refusal or the signal's reason. */
  async finished(signal: AbortSignal): Promise<void> {
    const points = [...this.#last.values()]
    if (points.length === 0) return
    const whom = (): string => 'the calls of a communicator'
    await finished({ signal }, whom, (settle) => {
      let left = points.length
      const cancels: Cancel[] = []
      const cancel = (): void => {
        for (const each of cancels) each()
      }
      const settleOne: Settle = (error) => {
        left -= 1
        if (error !== undefined) cancel()
        if (error !== undefined || left === 0) settle(error)
      }
      try {
        for (const point of points) cancels.push(this.#waitFor(point, settleOne))
      } catch (error) {
        cancel()
        throw error
      }
      return cancel
    })
  }

  /** No promise will be made any more. */
  forgetAll(): void {
    const points = [...this.#last.values()]
    this.#last.clear()
    for (const point of points) recycle(point)
  }

  #waitFor(point: QueuedPoint, settle: Settle): Cancel {
    let isOver = false
    const end = (): void => {
      if (isOver) return
      isOver = true
      point.waits -= 1
      if (this.#last.get(point.serial) !== point) recycle(point)
    }
    point.waits += 1
    const start = (told: Settle): Cancel =>
      point.driver.eventFinished(point.event, (error) => {
        if (error === undefined) this.#forget(point)
        told(error)
      })
    return untilOver(start, settle, end)
  }

  #forget(point: QueuedPoint): void {
    if (this.#last.get(point.serial) === point) this.#last.delete(point.serial)
  }

  #forgetDone(): void {
    for (const point of [...this.#last.values()]) {
      if (!point.driver.memory.isDone(point.event)) continue
      this.#forget(point)
      recycle(point)
    }
    this.#mostUnseen = Math.max(FEW, 2 * this.#last.size)
  }
}

/** Once no promise waits for it. */
function recycle({ driver, context, event, waits }: QueuedPoint): void {
  if (waits === 0) unlessLost(() => driver.eventRecycle(context, event))
}
