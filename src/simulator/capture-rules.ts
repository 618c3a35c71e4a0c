/** The rules of captures: which calls a capture allows, how it refuses the others, and which of them invalidate it. */
import type { CudaError } from '../foundation/base/errors.js'
import type { CapturedNode } from '../foundation/driver/captured-graph.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { CaptureMode, EventFlag } from '../foundation/driver/driver-constants.js'
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

  /** @param others The machines of other threads */
  constructor(private readonly others: OtherMachines) {}

  /** Whether any stream of the machine captures. The rules cost nothing while none does. */
  get active(): boolean {
    if (this.others.isEmpty) return this.#captures.size > 0
    if (this.#captures.size === 0) return this.others.captureGlobally
    if (this.others.takeForbidden()) {
      for (const capture of this.#captures) if (capture.mode === CaptureMode.GLOBAL) capture.invalid = true
    }
    return true
  }

  /** Whether any stream of the device captures. The question invalidates no capture. */
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

  /** A number for a capture, or for a graph that no capture makes. No number is used twice. */
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

  /** The capture that adds nodes to a graph that exists already. */
  addingTo(id: bigint): SimCapture | undefined {
    return [...this.#captures].find(({ into }) => into?.id === id)
  }

  /** Ends the capture that the stream began, if it is in one. */
  abandon(stream: SimStream): void {
    const { capture } = stream
    if (capture?.origin === stream) this.#drop(capture)
  }

  /** Refuses a query of a capturing stream, on which no work runs that could be finished. */
  refuseOn(stream: SimStream, call: string): void {
    if (stream.capture !== undefined) throw this.#invalidate(stream.capture, call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }

  /** The error of a call that is refused for another reason. It still invalidates the capture that the stream is in. */
  refuseIn({ capture }: SimStream, call: string, result: number): CudaError {
    return capture === undefined ? cudaError(call, result) : this.#invalidate(capture, call, result)
  }

  /** Refuses calls that CUDA calls unsafe: they invalidate every capture that is not relaxed, whatever stream they are about. */
  refuseUnsafe(call: string): void {
    this.#invalidateAll(call, ({ mode }) => mode !== CaptureMode.RELAXED)
    if (this.others.forbidden()) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }

  /** Refuses to wait for a whole device while one of its streams captures, in any mode: the wait would include the capture. */
  refuseOnDevice(device: SimDevice, call: string): void {
    this.#invalidateAll(call, (capture) => isOn(capture, device))
  }

  /** Refuses to query an event that was recorded in a capture: it has no work, and once the capture is over it has no record at all. */
  refuseCapturedEvent({ captured }: SimEvent, call: string): void {
    if (captured === undefined) return
    throw cudaError(call, captured.over || captured.invalid ? CUresult.INVALID_VALUE : CUresult.CAPTURED_EVENT)
  }

  /** Refuses as `refuseCapturedEvent` does, for a call that invalidates the capture. */
  refuseLookAt(event: SimEvent, call: string): void {
    try {
      this.refuseCapturedEvent(event, call)
    } finally {
      if (event.captured !== undefined) event.captured.invalid = true
    }
  }

  /** Removes a destroyed stream from its capture; the stream that began the capture ends it. */
  streamDestroyed(stream: SimStream): void {
    const { capture } = stream
    if (capture === undefined) return
    if (capture.origin === stream) this.#drop(capture)
    else capture.leave(stream)
  }

  /** Refuses work on the null stream while a blocking stream captures: the work would wait for that stream. */
  refuseImplicit(stream: SimStream, call: string): void {
    if (!this.active) return
    const captures = this.#blockingCaptures(stream)
    if (captures.length === 0) return
    for (const capture of captures) capture.invalid = true
    throw cudaError(call, CUresult.STREAM_CAPTURE_IMPLICIT)
  }

  /** Refuses to queue any work at all on the stream. CUDA checks that before the arguments of a call. */
  refuseQueuing(stream: SimStream, call: string): void {
    if (stream.capture?.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    this.refuseImplicit(stream, call)
  }

  /**
   * Refuses to run other code if what it queues would be refused: on a stream in a capture that is invalidated, and on a null stream beside a
   * blocking stream's capture. The check leaves the capture as it is.
   */
  refuseForeignWork(stream: SimStream): void {
    const call = 'cuStreamIsCapturing'
    if (stream.capture?.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    this.refuseToTell(stream, call)
  }

  /** Refuses queries of a null stream while a blocking stream captures; the capture stays valid. */
  refuseToTell(stream: SimStream, call: string): void {
    if (this.active && this.#blockingCaptures(stream).length > 0)
      throw cudaError(call, CUresult.STREAM_CAPTURE_IMPLICIT)
  }

  /** The captures of blocking streams for which work on this stream would have to wait: none unless it is the null stream. */
  #blockingCaptures(stream: SimStream): SimCapture[] {
    if (stream !== stream.device.nullStream) return []
    const isBlocking = (other: SimStream): boolean => other.device === stream.device && !other.nonBlocking
    return [...this.#captures].filter(({ streams }) => [...streams].some(isBlocking))
  }

  /** Adds one operation of a capturing stream to the graph. */
  add(stream: SimStream, capture: SimCapture, call: string, work: SimNodeWork): void {
    if (capture.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    capture.add(stream, work)
  }

  record(event: SimEvent, stream: SimStream, capture: SimCapture): void {
    if (capture.invalid) throw cudaError('cuEventRecord', CUresult.STREAM_CAPTURE_INVALIDATED)
    if (isInterprocess(event)) throw cudaError('cuEventRecord', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    capture.record(event, stream)
  }

  /** Captures a wait, if the stream captures or the event was recorded inside a capture. */
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
      // An event that was never recorded makes the wait do nothing, here as outside of captures.
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

  /** Captures an external wait, which becomes a node of the graph. */
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

  /** Notes that other threads have the stream from now on; it may be capturing already. */
  shared(stream: SimStream): void {
    this.#publish(stream, stream.capture?.origin === stream)
  }

  /** Publishes to other threads whether the stream captures. */
  #publish({ shared }: SimStream, captures: boolean): void {
    shared?.words.setCapturing(shared.place, captures)
    if (this.others.isEmpty) return
    const global = [...this.#captures].filter(({ mode }) => mode === CaptureMode.GLOBAL)
    this.others.publishCaptures(this.#captures.size, global.length)
  }

  /** Invalidates all captures that forbid a call. */
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

/** An event that processes share can be an external node of a graph, and nothing else of a capture. */
const isInterprocess = ({ flags }: SimEvent): boolean => (flags & EventFlag.INTERPROCESS) !== 0

/**
 * Whether a stream of the device's primary context takes part in the capture, whichever stream began it. A call about the whole context does not
 * concern streams in green contexts.
 */
function isOn({ streams }: SimCapture, device: SimDevice): boolean {
  for (const stream of streams) if (stream.device === device && stream.partition === undefined) return true
  return false
}
