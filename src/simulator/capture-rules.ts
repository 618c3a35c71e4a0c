/** Which calls a capture allows, how it refuses the others, and which of them invalidate it. */
import type { CudaError } from '../foundation/base/errors.js'
import type { CapturedNode } from '../foundation/driver/captured-graph.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { CaptureMode, EventFlag } from '../foundation/driver/driver.js'
import {
  type CapturedInto,
  SimCapture,
  type SimDevice,
  type SimEvent,
  type SimNodeWork,
  type SimStream,
} from './machine/machine-state.js'
import type { OtherMachines } from './shared/process-words.js'

export class CaptureRules {
  readonly #captures = new Set<SimCapture>()
  #begun = 0n

  /** `others` are the machines of other threads. */
  constructor(private readonly others: OtherMachines) {}

  /** Is any stream of the machine capturing? The rules cost nothing while none is. */
  get active(): boolean {
    if (this.others.isEmpty) return this.#captures.size > 0
    if (this.#captures.size === 0) return this.others.captureGlobally
    if (this.others.takeForbidden()) {
      for (const capture of this.#captures) if (capture.mode === CaptureMode.GLOBAL) capture.invalid = true
    }
    return true
  }

  /** Does any stream of the device capture? To ask invalidates none. */
  activeOn(device: SimDevice): boolean {
    return [...this.#captures].some((capture) => isOn(capture, device))
  }

  begin(stream: SimStream, mode: CaptureMode, into?: CapturedInto): void {
    this.refuseImplicit(stream, 'cuStreamBeginCapture')
    if (stream === stream.device.nullStream) {
      throw cudaError('cuStreamBeginCapture', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    }
    if (stream.capture !== undefined) throw cudaError('cuStreamBeginCapture', CUresult.ILLEGAL_STATE)
    this.#captures.add(new SimCapture(stream, mode, this.newId(), into))
    this.#publish(stream, true)
  }

  /** The number of a capture, or of a graph that no capture makes: never used twice. */
  newId(): bigint {
    this.#begun += 1n
    return this.#begun
  }

  end(stream: SimStream): readonly CapturedNode<SimNodeWork>[] {
    this.refuseToTell(stream, 'cuStreamEndCapture')
    const { capture } = stream
    if (capture === undefined) throw cudaError('cuStreamEndCapture', CUresult.ILLEGAL_STATE)
    if (capture.origin !== stream) {
      capture.invalid = true
      throw cudaError('cuStreamEndCapture', CUresult.STREAM_CAPTURE_UNMATCHED)
    }
    const { invalid, unjoined } = capture
    const nodes = this.#drop(capture)
    if (invalid) throw cudaError('cuStreamEndCapture', CUresult.STREAM_CAPTURE_INVALIDATED)
    if (unjoined) throw cudaError('cuStreamEndCapture', CUresult.STREAM_CAPTURE_UNJOINED)
    return nodes
  }

  /** The capture that adds to a graph. */
  addingTo(id: bigint): SimCapture | undefined {
    return [...this.#captures].find(({ into }) => into?.id === id)
  }

  /** Ends the capture that the stream began, if it is in one. */
  abandon(stream: SimStream): void {
    const { capture } = stream
    if (capture?.origin === stream) this.#drop(capture)
  }

  /** Asking a capturing stream how far its work is: there is none that runs. */
  refuseOn(stream: SimStream, call: string): void {
    if (stream.capture !== undefined) throw this.#invalidate(stream.capture, call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }

  /** The error of a call that is refused for another reason: it invalidates the capture that the stream is in all the same. */
  refuseIn({ capture }: SimStream, call: string, result: number): CudaError {
    return capture === undefined ? cudaError(call, result) : this.#invalidate(capture, call, result)
  }

  /** Calls that CUDA calls unsafe: they invalidate every capture that is not relaxed, whatever stream they are about. */
  refuseUnsafe(call: string): void {
    this.#invalidateAll(call, ({ mode }) => mode !== CaptureMode.RELAXED)
    if (this.others.forbidden()) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }

  /** Waiting for a whole device would wait for the capture too, in any mode. */
  refuseOnDevice(device: SimDevice, call: string): void {
    this.#invalidateAll(call, (capture) => isOn(capture, device))
  }

  /** An event of a capture has no work to ask about, and once the capture is over it has no record at all. */
  refuseCapturedEvent({ captured }: SimEvent, call: string): void {
    if (captured === undefined) return
    throw cudaError(call, captured.over || captured.invalid ? CUresult.INVALID_VALUE : CUresult.CAPTURED_EVENT)
  }

  /** As `refuseCapturedEvent`, for a call that invalidates the capture. */
  refuseLookAt(event: SimEvent, call: string): void {
    try {
      this.refuseCapturedEvent(event, call)
    } finally {
      if (event.captured !== undefined) event.captured.invalid = true
    }
  }

  /** A stream leaves when it is destroyed; the one that began the capture takes it along. */
  streamDestroyed(stream: SimStream): void {
    const { capture } = stream
    if (capture === undefined) return
    if (capture.origin === stream) this.#drop(capture)
    else capture.leave(stream)
  }

  /** Work on the null stream waits for every blocking stream, a capturing one too. */
  refuseImplicit(stream: SimStream, call: string): void {
    if (!this.active) return
    const captures = this.#blockingCaptures(stream)
    if (captures.length === 0) return
    for (const capture of captures) capture.invalid = true
    throw cudaError(call, CUresult.STREAM_CAPTURE_IMPLICIT)
  }

  /** Why no work can be queued, whatever the work is: CUDA checks that before it looks at the arguments. */
  refuseQueuing(stream: SimStream, call: string): void {
    if (stream.capture?.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    this.refuseImplicit(stream, call)
  }

  /**
   * Other code is not called where what it queues would be refused: on a stream in a capture that is invalidated, and on a null
   * stream beside a blocking stream's capture. To check that leaves the capture as it is.
   */
  refuseForeignWork(stream: SimStream): void {
    const call = 'cuStreamIsCapturing'
    if (stream.capture?.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    this.refuseToTell(stream, call)
  }

  /** Questions about a null stream are refused while a blocking stream captures, which leaves the capture valid. */
  refuseToTell(stream: SimStream, call: string): void {
    if (this.active && this.#blockingCaptures(stream).length > 0)
      throw cudaError(call, CUresult.STREAM_CAPTURE_IMPLICIT)
  }

  /** Those that a null stream would have to wait for. */
  #blockingCaptures(stream: SimStream): SimCapture[] {
    if (stream !== stream.device.nullStream) return []
    const isBlocking = (other: SimStream): boolean => other.device === stream.device && !other.nonBlocking
    return [...this.#captures].filter(({ streams }) => [...streams].some(isBlocking))
  }

  /** Writes down one operation of a capturing stream. */
  add(stream: SimStream, capture: SimCapture, call: string, work: SimNodeWork): void {
    if (capture.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    capture.add(stream, work)
  }

  record(event: SimEvent, stream: SimStream, capture: SimCapture): void {
    if (capture.invalid) throw cudaError('cuEventRecord', CUresult.STREAM_CAPTURE_INVALIDATED)
    if (isInterprocess(event)) throw cudaError('cuEventRecord', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    capture.record(event, stream)
  }

  /** A wait in which the stream captures, or the event was recorded inside a capture. */
  wait(stream: SimStream, event: SimEvent): void {
    const { captured } = event
    const { capture } = stream
    const call = 'cuStreamWaitEvent'
    if (capture?.invalid === true) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    this.refuseImplicit(stream, call)
    if (capture !== undefined && isInterprocess(event)) {
      throw this.#invalidate(capture, call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
    }
    if (captured?.over || captured?.invalid) {
      if (capture !== undefined) capture.invalid = true
      throw cudaError(call, CUresult.INVALID_VALUE)
    }
    if (captured === undefined) {
      // To wait for an event that was never recorded is no wait, here too.
      if (capture === undefined || event.record === undefined) return
      throw this.#invalidate(capture, call, CUresult.STREAM_CAPTURE_ISOLATION)
    }
    if (stream === stream.device.nullStream) {
      throw this.#invalidate(captured, call, CUresult.STREAM_CAPTURE_IMPLICIT)
    }
    if (capture !== undefined && capture !== captured) {
      captured.invalid = true
      throw this.#invalidate(capture, call, CUresult.STREAM_CAPTURE_MERGE)
    }
    captured.joinAt(event, stream)
  }

  /** An external wait, which becomes a node of the graph. */
  waitExternal(stream: SimStream, capture: SimCapture, event: SimEvent): void {
    const call = 'cuStreamWaitEvent'
    const { captured } = event
    if (!capture.invalid && (captured?.over || captured?.invalid)) {
      throw this.#invalidate(capture, call, CUresult.INVALID_VALUE)
    }
    this.add(stream, capture, call, { kind: 'eventWait', event })
  }

  #drop(capture: SimCapture): readonly CapturedNode<SimNodeWork>[] {
    this.#captures.delete(capture)
    this.#publish(capture.origin, false)
    return capture.end()
  }

  /** Other threads have the stream from now on, which may capture already. */
  shared(stream: SimStream): void {
    this.#publish(stream, stream.capture?.origin === stream)
  }

  /** Tells other threads that the stream captures, or does no more. */
  #publish({ shared }: SimStream, captures: boolean): void {
    shared?.words.setCapturing(shared.place, captures)
    if (this.others.isEmpty) return
    const global = [...this.#captures].filter(({ mode }) => mode === CaptureMode.GLOBAL)
    this.others.publishCaptures(this.#captures.size, global.length)
  }

  /** Every capture that a call must not be made beside. */
  #invalidateAll(call: string, forbids: (capture: SimCapture) => boolean): void {
    const forbidden = [...this.#captures].filter(forbids)
    for (const capture of forbidden) capture.invalid = true
    if (forbidden.length > 0) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }

  #invalidate(capture: SimCapture, call: string, result: number): CudaError {
    capture.invalid = true
    return cudaError(call, result)
  }
}

/** An event for other processes can be an external node of a graph, and nothing else of a capture. */
const isInterprocess = ({ flags }: SimEvent): boolean => (flags & EventFlag.INTERPROCESS) !== 0

/**
 * Is a stream of the device's primary context in it? Which one began it is no matter; and a call about the whole context takes
 * no notice of streams in green contexts.
 */
function isOn({ streams }: SimCapture, device: SimDevice): boolean {
  for (const stream of streams) if (stream.device === device && stream.partition === undefined) return true
  return false
}
