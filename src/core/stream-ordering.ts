/** How the work of streams is ordered: records of events, and waits for events, other streams, devices and promises. */
import { checkBoolean, checkSignal, type Given, isThenable, readOptions } from '../foundation/base/arguments.js'
import { invalidType, stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { EventFlag, ExternalFlag } from '../foundation/driver/driver-constants.js'
import { whenAborted } from '../foundation/driver/finished.js'
import { promisesOn } from '../foundation/driver/promise-waits.js'
import type { QueuedPromiseWait } from '../foundation/driver/queued-work.js'
import { another, contextOf, type Device, driverOf, elsewhere, isDevice } from './device.js'
import { Event, eventImplOf, isEvent } from './event.js'
import { noteNode, recordOf } from './streams/capture-record.js'
import { EVENT_OPTIONS, EventImpl, settingsOf } from './streams/event-impl.js'
import { eventInAnotherCopy, isEventOfAnotherCopy } from './streams/other-copies.js'
import { type StreamImpl, streamImplOf } from './streams/stream-impl.js'
import {
  isStreamLike,
  type RecordOptions,
  type WaitEventOptions,
  type WaitPromiseOptions,
} from './streams/stream-options.js'

const RECORD_OPTIONS = [...EVENT_OPTIONS, 'external'] as const

/** Records an event on a stream: the one that is given, or a new one, made as options say. */
export function record(impl: StreamImpl, given: Event | RecordOptions | undefined, options?: RecordOptions): Event {
  // Options are read before anything is opened: a getter may close it.
  if (given !== undefined && (isEvent(given) || isEventOfAnotherCopy(given))) {
    const settings = options === undefined ? undefined : readOptions(options, RECORD_OPTIONS)
    recordGiven(impl, eventImplOf(given) ?? eventInAnotherCopy(given, impl.device, 'event'), settings)
    if (settings?.external) noteEvent(impl, given)
    return given
  }
  if (given !== undefined && (typeof given !== 'object' || streamImplOf(given) !== undefined))
    throw invalidType('event', 'an Event or options', given)
  const wanted = given === undefined ? options : given
  const settings = wanted === undefined ? undefined : readOptions(wanted, RECORD_OPTIONS)
  const external = externalFlag(settings)
  const made = settingsOf(settings)
  impl.reserve(made.timing || made.interprocess ? 1 : 0)
  const own = new EventImpl(impl.device, impl.context, made, 'recordedNext')
  const event = new Event(own)
  impl.recordIn(own, external)
  if (external !== ExternalFlag.NONE) noteEvent(impl, event)
  return event
}

type GivenRecordOptions = Given<RecordOptions, (typeof RECORD_OPTIONS)[number]>

function recordGiven(impl: StreamImpl, event: EventImpl, settings: GivenRecordOptions | undefined): void {
  const external = externalFlag(settings)
  if (event.device !== impl.device)
    throw mismatch(event, impl, "record() without an event makes one of the stream's device")
  if (settings !== undefined) event.checkAgainst(settings)
  impl.reserve(event.entries)
  impl.recordIn(event, external)
}

/** Makes a stream wait for an event, a device or a promise; false if the target is none of these. `caller` is the method that was called. */
export function waitForOther(
  impl: StreamImpl,
  target: unknown,
  options: (WaitEventOptions & WaitPromiseOptions) | undefined,
  caller: QueuedPromiseWait['called'],
): boolean {
  const event =
    eventImplOf(target) ??
    (isEventOfAnotherCopy(target) ? eventInAnotherCopy(target, impl.device, 'target') : undefined)
  // Options are read, and protocols are called, before anything is opened: code of the program runs then.
  if (event !== undefined) {
    const external = options === undefined ? ExternalFlag.NONE : externalFlag(readOptions(options, ['external']))
    impl.reserve(0)
    impl.waitFor(event, external)
    if (external !== ExternalFlag.NONE && isEvent(target)) noteEvent(impl, target)
    return true
  }
  if (isDevice(target)) {
    readOptions<object, never>(options, [])
    waitForDevice(impl, target)
    return true
  }
  if (streamImplOf(target) !== undefined || !isPromise(target)) return false
  waitForPromise(impl, target, options, caller)
  return true
}

/** An object that has a stream protocol is a stream, whatever else it has. */
const isPromise = (value: unknown): value is PromiseLike<unknown> => isThenable(value) && !isStreamLike(value)

/** The implementation of a stream that another one is to wait for. */
export function openAwaited(impl: StreamImpl, from: StreamImpl): StreamImpl {
  impl.reserve(0)
  from.checkOpen()
  if (from.driver !== impl.driver) throw mismatch(from, impl, 'await its finished() instead')
  return from
}

function waitForDevice(impl: StreamImpl, device: Device): void {
  const { driver, handle } = impl
  impl.reserve(0)
  if (driverOf(device) !== driver) {
    throw stateError('ERR_DEVICE_MISMATCH', `${device} is of ${another(driverOf(device), driver)} than ${impl}`)
  }
  const context = contextOf(device)
  const event = driver.events.create(context, EventFlag.DISABLE_TIMING, true)
  try {
    if (!driver.devices.recordInternal(event, device.ordinal)) {
      throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    }
    driver.streams.waitEvent(handle, event, ExternalFlag.NONE)
    impl.followPromises(promisesOn(device))
  } finally {
    driver.events.recycle(context, event)
  }
}

function waitForPromise(
  impl: StreamImpl,
  promise: PromiseLike<unknown>,
  options: WaitPromiseOptions | undefined,
  caller: QueuedPromiseWait['called'],
): void {
  const signal = checkSignal(readOptions(options, ['signal']).signal)
  if (signal?.aborted) throw signal.reason
  impl.waitForPromise(caller, (passed, rejected) => {
    let forget: (() => void) | undefined
    let isOver = false
    const once = (end: () => void): void => {
      if (isOver) return
      isOver = true
      forget?.()
      end()
    }
    if (signal !== undefined) forget = whenAborted(signal, () => once(() => rejected(signal.reason)))
    // A new promise, so that no code of the program runs here.
    new Promise<unknown>((resolve) => resolve(promise)).then(
      () => once(passed),
      (reason: unknown) => once(() => rejected(reason)),
    )
  })
}

/** Notes the event of the node that was captured last. */
function noteEvent(impl: StreamImpl, event: Event): void {
  const record = recordOf(impl)
  if (record !== undefined) noteNode(record, impl, { event })
}

function externalFlag(options: Given<WaitEventOptions, 'external'> | undefined): ExternalFlag {
  if (options === undefined) return ExternalFlag.NONE
  return checkBoolean(options.external, 'options.external', false) ? ExternalFlag.EXTERNAL : ExternalFlag.NONE
}

function mismatch(given: EventImpl | StreamImpl, stream: StreamImpl, way: string): Error {
  const where = elsewhere(stream.device, given.device)
  return stateError('ERR_DEVICE_MISMATCH', `${given} cannot be used here: ${stream} is on ${where}; ${way}`)
}
