/** Models run by ONNX Runtime, in stream order. Importing this loads no library. */

import type { Device } from '../../core/device.js'
import { isStream, Stream } from '../../core/stream.js'
import { openStream } from '../../core/streams/stream-impl.js'
import { checkBoolean, checkText, checkThis, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, stateError } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { ClosableObject, checkMade, implementation, nextSerial } from '../../foundation/base/library-object.js'
import { cudaHandleOf, isDefaultStream } from '../../foundation/driver/handle-types.js'
import { deviceOfWork, type HandleCall, queueCall, refuseCapture } from '../handle-library.js'
import { type ModelSize, makeSession, OrtSession } from './ort-session.js'
import { checkApart, checkTensors, type RunBuffers, type RunTensor, type TensorInfo } from './tensors.js'

/** The options of `Session.load(model, options)`. */
export interface SessionOptions {
  /**
   * The stream that ONNX Runtime computes on, as long as the session lives: it must not be closed before. Runs on other streams are ordered
   * into it, and it into them. Default: a stream of the session's own.
   */
  readonly stream?: Stream | undefined
  /** The device of the work. Default: that of the stream, or else the current device. */
  readonly device?: Device | number | undefined
  /**
   * Lets TensorRT compute the nodes that it can, and CUDA the others. It compiles the model in the first run, which may take minutes. Default
   * false. Without effect on the simulator.
   */
  readonly tensorrt?: boolean | undefined
  /**
   * Lets ONNX Runtime capture a CUDA graph for each set of buffers and shapes, and launch that from the third run on. All nodes of the model
   * must run on CUDA. Default false. Without effect on the simulator.
   */
  readonly graphs?: boolean | undefined
}

/**
 * A model that ONNX Runtime runs on streams: on a GPU by its CUDA provider, on the simulator by its CPU provider, at the moment of virtual
 * time at which a GPU would. Inputs and outputs are buffers of the device. It belongs to the thread that has loaded it. An object that
 * the program cannot reach any more is closed.
 * @example
 * ```ts
 * import { Session } from 'cuda-streams/onnx'
 *
 * using session = await Session.load('model.onnx', { device })
 * session.run(stream, { x: { buffer: x, shape: [8, 784] } }, { y })
 * await stream.finished()
 * ```
 */
export class Session extends ClosableObject {
  /** The device that the model runs on. */
  readonly device: Device
  /** The inputs of the model, in its order. */
  readonly inputs: readonly TensorInfo[]
  /** The outputs of the model, in its order. */
  readonly outputs: readonly TensorInfo[]
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number = nextSerial()
  /** @internal */
  declare readonly [implementation]: OrtSession
  readonly #stream: Stream

  /** Use `await Session.load(model)`. */
  private constructor(session: OrtSession, stream: Stream) {
    super()
    checkMade(session, OrtSession, 'Session', 'Session.load(model)')
    this.device = session.device
    this.inputs = session.inputs
    this.outputs = session.outputs
    this.#stream = stream
    this[implementation] = session
    destroyWhenUnreachable(this, session)
  }

  /**
   * Resolves when the model is loaded (`CreateSession`). On a GPU another thread does that, so that the event loop turns meanwhile. It
   * begins when no host function is pending, or after ten seconds, and no strict capture may be under way: ONNX Runtime allocates.
   * @param model The path of an ONNX file, or its bytes, which are copied.
   * @param options `stream`, `device`, `tensorrt` and `graphs`: see SessionOptions
   * @throws {Error} (as a rejection) ERR_UNSUPPORTED, with the places tried, if ONNX Runtime is not found
   * (CUDA_STREAMS_ONNXRUNTIME names the file or its folder), if it is older than 1.16 or has no provider for the device, on the per-thread
   * default stream, and for a model with an input or output that is no tensor; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE; ERR_OUT_OF_RANGE for
   * a device that does not exist; ERR_CLOSED for a closed stream; ERR_DEVICE_MISMATCH if stream and device are not one device
   * @throws {LibraryError} (as a rejection) if ONNX Runtime refuses, such as ORT_NO_SUCHFILE
   */
  static async load(model: string | Uint8Array, options?: SessionOptions): Promise<Session> {
    const given = readOptions(options, ['stream', 'device', 'tensorrt', 'graphs'])
    const expected = 'the path of an ONNX file, or its bytes'
    const source = model instanceof Uint8Array ? model : checkText(model, 'model', expected)
    const choices = {
      tensorrt: checkBoolean(given.tensorrt, 'options.tensorrt', false),
      graphs: checkBoolean(given.graphs, 'options.graphs', false),
    }
    const device = deviceOfWork(given, 'options.stream')
    if (given.stream !== undefined) checkComputeStream(given.stream)
    const isOwn = given.stream === undefined
    const stream = given.stream ?? new Stream({ device, nonBlocking: true })
    try {
      return new Session(await makeSession(source, stream, isOwn, choices), stream)
    } catch (error) {
      if (isOwn) stream.close()
      throw error
    }
  }

  /**
   * Queues a run of the model (`RunWithBinding`), which reads the inputs and writes the outputs. It is queued when this returns, and nothing
   * comes back to the host: `stream.finished()` says when it is done, and an `await` in front of this changes nothing. The buffers may be
   * closed as soon as this returns. The first run with new shapes allocates and chooses kernels, so pending host functions run before, on a GPU;
   * so they do before each run of a model of more than 125 nodes. On the simulator, what ONNX Runtime refuses while it computes is an uncaught exception.
   * @param stream The stream in whose order the model runs.
   * @param inputs A buffer for each input, by its name: a DeviceBuffer, or `{ buffer, shape }` where the model leaves sizes open.
   * @param outputs The same for the outputs that are wanted. Sizes that the inputs tell need not be repeated. A buffer may be longer than
   * its tensor, for the largest batch: bytes behind that are neither read nor written.
   * @throws {Error} ERR_INVALID_ARG_TYPE, also for an input without a buffer, and where no shape says how large a tensor is;
   * ERR_INVALID_ARG_VALUE for a name or a shape that the model does not have, a buffer that does not begin at a multiple of 16 bytes, and
   * buffers that overlap; ERR_OUT_OF_RANGE for a buffer that is too short; ERR_UNSUPPORTED while the stream captures; ERR_CLOSED;
   * ERR_DEVICE_MISMATCH for a stream or a buffer of another device; ERR_DEADLOCK for the first run with new shapes inside a host function
   * and while a stream waits for a promise. Nothing is queued then.
   * @throws {LibraryError} if ONNX Runtime refuses
   */
  run(stream: Stream, inputs: RunBuffers, outputs: RunBuffers): this {
    checkThis(this, isSession, 'a Session').#run(stream, inputs, outputs)
    return this
  }

  /**
   * Releases the session, when the runs that are queued are done: on a GPU by another thread, since ONNX Runtime waits for the device. Buffers and
   * the stream remain the caller's to close. May be called twice.
   */
  close(): void {
    checkThis(this, isSession, 'a Session')[implementation].dispose()
  }

  get [Symbol.toStringTag](): string {
    return 'Session'
  }

  #run(stream: Stream, inputs: RunBuffers, outputs: RunBuffers): void {
    const session = this[implementation]
    if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
    // Buffers are read, and getters of the program run, before anything is opened.
    const tensors = checkTensors(session, inputs, outputs, stream)
    session.checkOpen()
    if (stream.device !== this.device) {
      throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and the model on ${this.device}`)
    }
    const computes = this.#stream
    for (const each of [stream, computes]) refuseCapture(each, 'a run of ONNX Runtime', WAY_OUT)
    const isElsewhere = !computes.equals(stream)
    let hasBegun = false
    const { nodes } = session.size
    const call: HandleCall = {
      name: 'RunWithBinding',
      memory: tensors.map(({ memory }) => memory),
      begin: () => {
        openStream(stream)
        if (isElsewhere) computes.wait(stream)
        hasBegun = true
      },
      check: (memory) => checkApart(tensors, memory),
      kind: () => `${this.serial} ${tensors.map(({ info, shape }) => `${info.name} ${shape}`)}`,
      entries: ENTRIES_PER_NODE * Math.max(1, nodes),
      call: (memory) =>
        session.run(
          tensors,
          memory.map(({ pointer }) => pointer),
        ),
      host: {
        nanoseconds: durationOf(session.size, tensors),
        run: (contents) => session.compute(tensors, contents),
      },
    }
    try {
      queueCall(this, computes, call)
      if (session.isSimulated) session.queuedOnSimulator()
    } finally {
      // A run that ONNX Runtime refuses may have queued a part of its work.
      if (isElsewhere && hasBegun) stream.wait(computes)
    }
  }
}

const isSession = (value: unknown): value is Session => value instanceof Session && value[implementation] !== undefined

/** A node becomes a kernel or a few. */
const ENTRIES_PER_NODE = 4

/** The way out of a run that is refused while the stream captures. */
const WAY_OUT =
  'run before the capture begins, or load the model with graphs: true, with which ONNX Runtime makes graphs of its own'

/** cudaStreamPerThread */
const PER_THREAD = 2

/** Throws ERR_UNSUPPORTED for a stream that is another one for each thread: sessions are made by threads of their own. */
function checkComputeStream(stream: Stream): void {
  const { handle } = openStream(stream)
  if (!isDefaultStream(handle) || cudaHandleOf(handle) !== PER_THREAD) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `${stream} is another stream for each thread, and ONNX Runtime has threads: load with a new Stream()`,
  )
}

/** The virtual nanoseconds of a run: those of a GPU that starts a node in 2 µs and moves 2 TB/s. */
function durationOf({ nodes, byteLength }: ModelSize, tensors: readonly RunTensor[]): number {
  const bytes = tensors.reduce((sum, { memory }) => sum + memory.byteLength, byteLength)
  return 2000 * (nodes + 1) + Math.round(bytes / 2000)
}
