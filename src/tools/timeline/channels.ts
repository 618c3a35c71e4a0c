/**
 * Operations for tools that watch the process: published on `node:diagnostics_channel` when their times are known, and
 * only while the channel has subscribers.
 */

import { type Device, driverOf, resolveDevice } from '../../core/device.js'
import { readOptions } from '../../foundation/base/arguments.js'
import { invalidType, outOfRange } from '../../foundation/base/errors.js'
import { every, monotonicTime, timeOrigin } from '../../foundation/base/event-loop.js'
import { type Channel, channel } from '../../foundation/base/node-modules.js'
import type { WrappableDriver } from '../../foundation/driver/wrappable-driver.js'
import { NO_ROW } from './event-records.js'
import type { EventWriter } from './event-writer.js'
import { EventKind, isHostOnly, isInstant, type OperationKind, operationKind } from './kinds.js'
import { Session } from './session.js'

/**
 * A message on 'cuda-streams:operation'. Times are milliseconds since 1970, with fractions; on the simulator they go on in virtual time from when
 * publishing began.
 */
export interface OperationMessage {
  /** The kind of the operation. Never 'record', 'wait', 'allocate' or 'free', which are not published. */
  readonly kind: OperationKind
  /** The name of a kernel; for other operations, their kind. */
  readonly name: string
  /** The ordinal of the device. */
  readonly device: number
  /** The driver's number for the stream (`stream.id`). */
  readonly stream: bigint
  /** The stream's name, of its options or `nameStream`; otherwise 'stream 13', by that number, 'null stream' or 'per-thread stream'. */
  readonly streamName: string
  /** The bytes moved or filled; undefined if there are none. */
  readonly byteLength: number | undefined
  /** The time at which the call that queued the operation began. */
  readonly queued: number
  /** The time at which the operation began to run. */
  readonly start: number
  /** The time at which the operation was done. */
  readonly end: number
  /** The driver: 'sim' for the simulator. */
  readonly driver: 'cuda' | 'sim'
}

/** A message on 'cuda-streams:synchronize': a call that blocked the host, or a promise that it awaited. Times are as in `OperationMessage`. */
export interface SynchronizeMessage {
  /** The call as it is written: 'stream.synchronize()', or 'stream.finished()' for a promise. */
  readonly name: string
  /** Whether the call returned a promise, so that the host did other things meanwhile. */
  readonly awaits: boolean
  /** The time at which the call was made. */
  readonly start: number
  /** The time at which the call returned, or its promise settled: it is published then, not before. */
  readonly end: number
  /** The driver: 'sim' for the simulator. */
  readonly driver: 'cuda' | 'sim'
}

/** The options that say which driver is watched, and how often. */
export interface PublishOptions {
  /** A device of the driver to watch: all of its devices are watched. Default: the current device. */
  readonly device?: Device | number | undefined
  /** The milliseconds between two checks of what is done: more than 0, and less than 2 ** 31. Default 100. */
  readonly interval?: number | undefined
}

/** A publisher, which publishes until it is closed, also by `using`. It does not keep the process alive. */
export interface Publisher extends Disposable {
  /** Publishes the operations that are done by now. */
  flush(): void
  /** Publishes the operations that are done by now, and then nothing more; nothing at all if a subscriber calls it. May be called twice. */
  close(): void
}

/** @internal */
interface Channels {
  readonly operations: Channel
  /** The channel of synchronizations; undefined if they are not published. */
  readonly synchronizations: Channel | undefined
  /** Called when an operation is queued; the result is published with the operation as `context`. */
  readonly context: (() => unknown) | undefined
}

const PUBLIC: Channels = {
  operations: channel('cuda-streams:operation'),
  synchronizations: channel('cuda-streams:synchronize'),
  context: undefined,
}

/** The most event records that wait to be published; more are lost. */
const MOST_WAITING = 262_144
const INTERVAL = 100
/** The longest interval: a timer with a longer delay fires at once. */
const LONGEST_INTERVAL = 2 ** 31 - 1

/**
 * Begins to publish the operations of a driver. It costs as much as a recording, and keeps nothing. Messages come a
 * while after the fact: operations in the order of the calls, calls that wait once they are over. An operation that is
 * not done holds up those of later calls, on any stream.
 * @param options `device` of the driver (default: the current device) and `interval` in milliseconds (default 100)
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for the interval, or a device that does not exist
 */
export function publish(options?: PublishOptions): Publisher {
  return publishOn(PUBLIC, options)
}

/** @internal Publishes as `publish()` does, but on other channels, which the publishers of the program do not use. */
export function publishOn(channels: Channels, options: PublishOptions | undefined): Publisher {
  const { device: named, interval = INTERVAL } = readOptions(options, ['device', 'interval'])
  if (typeof interval !== 'number') throw invalidType('options.interval', 'a number of milliseconds', interval)
  if (!(interval > 0 && interval <= LONGEST_INTERVAL)) {
    throw outOfRange('options.interval', `more than 0 and at most ${LONGEST_INTERVAL}`, interval)
  }
  const device = resolveDevice(named)
  const publisher = new ChannelPublisher(channels, driverOf(device), device.ordinal, interval)
  const close = (): void => publisher.close()
  return { flush: () => publisher.flush(), close, [Symbol.dispose]: close }
}

/** The recording that messages come from, and the nanoseconds to add to its times to get those since publishing began. */
interface Source {
  readonly session: Session
  readonly writer: EventWriter
  readonly offset: number
}

/** A call that was still waiting when its event record was read. */
interface Call {
  readonly source: Source
  readonly row: number
}

class ChannelPublisher {
  readonly #epoch = timeOrigin + monotonicTime()
  readonly #endTimer: () => void
  #source: Source
  #next: number
  /** The calls that were still waiting when their event records were read. */
  #waiting: Call[] = []
  /** The contexts of the operations that are not published yet; keys are rows. */
  readonly #contexts = new Map<number, unknown>()
  readonly #remember = (row: number): void => {
    if (!isHostOnly(this.#source.writer.table.kind[row] ?? 0)) this.#contexts.set(row, this.channels.context?.())
  }
  /** Whether messages are being published. A subscriber may call `flush()` or `close()`. */
  #publishing = false
  #closed = false

  constructor(
    private readonly channels: Channels,
    private readonly driver: WrappableDriver,
    private readonly device: number,
    interval: number,
  ) {
    this.#source = this.#open(0)
    this.#next = this.#source.writer.table.length
    this.#endTimer = every(interval, () => this.flush())
  }

  flush(): void {
    if (this.#closed || this.#publishing) return
    this.#publishing = true
    try {
      this.#publishDone()
    } finally {
      this.#publishing = false
    }
    if (this.#closed) return
    if (this.#next === this.#source.writer.table.length && this.#next > MOST_WAITING / 2) this.#renew()
  }

  close(): void {
    this.flush()
    if (this.#closed) return
    this.#closed = true
    this.#endTimer()
    this.#end()
  }

  /** Starts a recording, `elapsed` nanoseconds after publishing began. */
  #open(elapsed: number): Source {
    const session = new Session(this.driver, this.device, MOST_WAITING)
    const { table } = session.writer
    if (this.channels.context !== undefined) table.whenAdded = [...table.whenAdded, this.#remember]
    return { session, writer: session.writer, offset: elapsed - session.writer.meter.now() }
  }

  #end(): void {
    const { session, writer } = this.#source
    writer.table.whenAdded = writer.table.whenAdded.filter((tell) => tell !== this.#remember)
    session.stopNow()
  }

  /** Starts a new recording, so that published event records need not be kept. */
  #renew(): void {
    const { writer, offset } = this.#source
    const elapsed = writer.meter.now() + offset
    this.#end()
    this.#source = this.#open(elapsed)
    this.#next = this.#source.writer.table.length
  }

  #publishDone(): void {
    const { meter, table } = this.#source.writer
    meter.collect()
    this.#waiting = this.#waiting.filter((call) => this.#closed || !this.#publishCall(call))
    for (; !this.#closed && this.#next < table.length; this.#next += 1) {
      const kind = table.kind[this.#next] ?? 0
      if (isHostOnly(kind)) {
        const call = { source: this.#source, row: this.#next }
        if (!this.#publishCall(call)) this.#waiting.push(call)
      } else if (!this.#publishOperation(this.#next)) return
      this.#contexts.delete(this.#next)
    }
  }

  #at(time: number | undefined, { offset } = this.#source): number {
    return this.#epoch + ((time ?? 0) + offset) / 1e6
  }

  /** Publishes an operation. Returns false if it is not complete. */
  #publishOperation(row: number): boolean {
    const { table, names, driver, tracks, meter } = this.#source.writer
    const number = table.kind[row] ?? 0
    const kind = operationKind(number)
    const track = tracks.all[table.track[row] ?? 0]
    const isTold = meter.clock === 'virtual' ? number !== EventKind.ALLOCATE : !isInstant(number)
    if (kind === undefined || track === undefined || !isTold || table.parent[row] !== NO_ROW) return true
    if (Number.isNaN(table.end[row] ?? 0)) return table.lost.has(row)
    const { operations } = this.channels
    if (isInstant(number) || !operations.hasSubscribers) return true
    const byteLength = Number.isNaN(table.bytes[row] ?? 0) ? undefined : table.bytes[row]
    const message: OperationMessage = {
      kind,
      name: names.at(table.name[row] ?? 0),
      device: track.device,
      stream: track.id,
      streamName: track.name,
      byteLength,
      queued: this.#at(table.called[row]),
      start: this.#at(table.start[row]),
      end: this.#at(table.end[row]),
      driver: driver.name,
    }
    const { context } = this.channels
    operations.publish(context === undefined ? message : { ...message, context: this.#contexts.get(row) })
    return true
  }

  /** Publishes a call. Returns false if it is still waiting. */
  #publishCall({ source, row }: Call): boolean {
    const { synchronizations } = this.channels
    if (!synchronizations?.hasSubscribers) return true
    const { table, names, driver } = source.writer
    const returned = table.returned[row] ?? 0
    if (Number.isNaN(returned)) return false
    const message: SynchronizeMessage = {
      name: names.at(table.name[row] ?? 0),
      awaits: table.kind[row] === EventKind.AWAIT,
      start: this.#at(table.called[row], source),
      end: this.#at(returned, source),
      driver: driver.name,
    }
    synchronizations.publish(message)
    return true
  }
}
