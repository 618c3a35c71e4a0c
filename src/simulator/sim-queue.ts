/**
 * The order of what streams are given: operations behind those before them, or nodes of the capture that a stream is in. All parts of the simulator
 * queue through it.
 */
import { stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { EventFlag, type ExternalFlag, isRecordWork } from '../foundation/driver/driver-constants.js'
import type { StreamHandle } from '../foundation/driver/handle-types.js'
import type { HostFunction } from '../foundation/driver/queued-work.js'
import type { CaptureRules } from './capture-rules.js'
import { describeOperation } from './machine/host-waits.js'
import type { Machine } from './machine/machine.js'
import type { SimDevice, SimEvent, SimNodeWork, SimOperation, SimStream } from './machine/machine-state.js'
import { SimOperationKind, type Work } from './machine/work.js'
import type { Registry } from './registry.js'

export class SimQueue {
  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
  ) {}

  /**
   * Queues an operation; in a stream that captures it becomes a node of the graph.
   * @param amount The virtual nanoseconds that it takes; for a fault, the CUresult that it ends in
   * @param after Operations of other streams that it comes after, too, outside of a capture
   */
  enqueue(
    handle: StreamHandle,
    kind: SimOperationKind,
    amount: number,
    call = 'cuLaunchKernelEx',
    work?: Work,
    after?: readonly SimOperation[],
  ): SimOperation {
    const stream = this.registry.liveStream(handle, call)
    const fails = kind === SimOperationKind.FAULT ? amount : 0
    if (stream.capture !== undefined) {
      this.captures.add(stream, stream.capture, call, capturedWork(stream, call, kind, amount, work, fails))
      return this.machine.marker(stream, [])
    }
    this.captures.refuseImplicit(stream, call)
    return this.machine.enqueue(stream, kind, amount, work, fails, after)
  }

  /**
   * Queues a host function; in a stream that captures it becomes a node of the graph.
   * @param work What it does to memory, if it is a copy of the library's own
   */
  enqueueHostFunction(handle: StreamHandle, call: string, host: HostFunction, work?: Work): void {
    const stream = this.registry.liveStream(handle, call)
    if (stream.capture !== undefined) {
      if (host.runsAfterFault) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
      this.captures.add(stream, stream.capture, call, { kind: 'host', host, work })
      return
    }
    this.captures.refuseToTell(stream, 'cuStreamIsCapturing')
    this.machine.enqueueHostFunction(stream, host, work)
  }

  /** Makes an operation in no stream, which comes after all that is in the given one, and after these operations. */
  enqueueBeside(
    handle: StreamHandle,
    after: readonly (SimOperation | undefined)[],
    call: string,
    work: Work,
    whenOver: () => void,
  ): void {
    const stream = this.registry.liveStream(handle, call)
    if (stream.capture !== undefined) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
    const { device } = stream
    this.captures.refuseImplicit(stream, call)
    const before = stream === device.nullStream ? this.machine.nullStreamTails(device) : this.recordedAfter(stream)
    this.machine.marker(stream, [...before, ...after], work, whenOver)
  }

  record(event: SimEvent, stream: SimStream, external: ExternalFlag): void {
    const { capture } = stream
    if (capture !== undefined) {
      if (external === 0) this.captures.record(event, stream, capture)
      else this.captures.add(stream, capture, 'cuEventRecordWithFlags', { kind: 'eventRecord', event })
      return
    }
    this.captures.refuseImplicit(stream, 'cuEventRecord')
    this.machine.recorded(event, this.#recordOperation(stream, event))
  }

  /**
   * Makes the record of an event. One of a plain event on a blocking stream comes after the null stream's work, and yet the stream is no busier by
   * it: a query of an idle one is true. One of an interprocess event comes after the event's record before, on whatever stream.
   */
  #recordOperation(stream: SimStream, { flags, record }: SimEvent): SimOperation {
    if ((flags & EventFlag.INTERPROCESS) !== 0) return this.machine.enqueueRecord(stream, record)
    if (isRecordWork(flags) || stream.nonBlocking || stream === stream.device.nullStream)
      return this.machine.enqueueRecord(stream)
    return this.machine.recordBeside(stream, this.recordedAfter(stream))
  }

  wait(stream: SimStream, event: SimEvent): void {
    if (stream.capture !== undefined || event.captured !== undefined) {
      this.captures.wait(stream, event)
      return
    }
    this.captures.refuseImplicit(stream, 'cuStreamWaitEvent')
    if (event.record !== undefined) this.machine.enqueueWait(stream, event.record)
  }

  /** The operations that a record comes after which is no work, as one without timing is. */
  recordedAfter(stream: SimStream): Iterable<SimOperation | undefined> {
    return stream.nonBlocking ? [stream.tail] : [stream.tail, stream.device.nullStream.tail]
  }

  /** The operations that have to be over for all the stream's work to be over. */
  tailsOf(stream: SimStream): readonly (SimOperation | undefined)[] {
    return stream === stream.device.nullStream ? [...this.machine.nullStreamTails(stream.device)] : [stream.tail]
  }

  /** An operation that is over once all work of the device is over, that of other threads too. */
  allWork(device: SimDevice): SimOperation {
    const { machine } = this
    const tails = [...device.tails()]
    if (!machine.others.isEmpty) {
      const mayBegin = (): boolean => !machine.others.capture
      if (!mayBegin()) tails.push(machine.otherThreadsWork(device, mayBegin))
      for (const isDone of machine.others.work()) tails.push(machine.otherThreadsWork(device, isDone))
    }
    return machine.marker(device.nullStream, tails)
  }

  blockedBy(operations: readonly (SimOperation | undefined)[]): string | undefined {
    const [held] = operations.flatMap((each) => (each === undefined ? [] : (this.machine.holdsUp(each) ?? [])))
    return held === undefined ? undefined : describeOperation(held)
  }

  /** Notes that the host has waited for all work of the stream, or of the device: pools give back what they need not keep. */
  waitedFor(device: SimDevice, stream?: SimStream): void {
    for (const pool of device.pools.all) pool.waitedFor(stream)
  }
}

function capturedWork(
  { device, partition }: SimStream,
  call: string,
  operation: SimOperationKind,
  nanoseconds: number,
  work: Work | undefined,
  fails: number,
): SimNodeWork {
  if (operation !== SimOperationKind.LATCH || work !== undefined)
    return { kind: 'work', call, operation, nanoseconds, work, fails, device, partition }
  throw stateError(
    'ERR_UNSUPPORTED',
    'A latch cannot be captured: it is opened once, and a graph is launched many times',
  )
}
