/** Captures: a stream's work written down as a graph, instead of being run. */
import { checkArray, checkFunction, isThenable, oneOf, readOptions } from '../base/arguments.js'
import { CudaError, explained, invalidType, invalidValue } from '../base/errors.js'
import { CUresult } from '../driver/cuda-results.js'
import { CaptureMode, isNullStream } from '../driver/driver.js'
import { freeDeferred } from '../memory/allocation-stream.js'
import { captureBegan, captureLeft, captureOver, takeRecord } from '../streams/capture-record.js'
import type { StreamCore } from '../streams/stream-core.js'
import { beginInto, type Graph, graphOf, isGraph } from './graph.js'
import type { GraphNode } from './nodes.js'

/**
 * The calls that a capture forbids meanwhile (CUDA's cudaStreamCaptureMode), among those that are not about its own
 * streams: to ask or to wait for other streams and their events (`query()`, `synchronize()`), and such calls of other
 * libraries, like `cudaMalloc`. A forbidden call throws CudaError 900, and invalidates the capture.
 *
 * - 'global': no thread of the process may make them
 * - 'threadLocal': this thread may not
 * - 'relaxed': any may
 *
 * In every mode these are allowed, and invalidate nothing: `finished()` of streams and events, `alloc` and queuing work
 * on other streams, and to close streams, events, buffers and graphs. While a blocking stream captures the null stream
 * is refused, with CudaError 906.
 */
export type CaptureModeName = 'global' | 'threadLocal' | 'relaxed'

/** The options of `stream.capture()`. */
export interface CaptureOptions {
  /** The other calls that the capture forbids meanwhile. Default 'threadLocal'. */
  readonly mode?: CaptureModeName | undefined
  /**
   * A graph to add the work to (`cuStreamBeginCaptureToGraph`), which `capture()` then returns. Its instances stay as they
   * are. Where the capture fails, CUDA destroys the graph: it is closed then. Default: a new graph.
   */
  readonly into?: Graph | undefined
  /** The nodes of `into` that the work comes after. Default: none, so that it may run beside them. */
  readonly after?: readonly GraphNode[] | undefined
}

const MODES: Readonly<Record<CaptureModeName, CaptureMode>> = {
  global: CaptureMode.GLOBAL,
  threadLocal: CaptureMode.THREAD_LOCAL,
  relaxed: CaptureMode.RELAXED,
}

/** `stream.beginCapture()`. */
export function beginCapture(
  stream: StreamCore,
  mode: CaptureModeName,
  into?: Graph,
  after: readonly GraphNode[] = [],
): void {
  const captureMode = oneOf(mode, MODES, 'mode') ?? CaptureMode.THREAD_LOCAL
  stream.makeRoom(0)
  const { driver, handle } = stream
  if (!isNullStream(handle)) askBeforehand(stream)
  try {
    if (into === undefined) {
      driver.graphs.begin(handle, captureMode)
      captureBegan(stream)
    } else beginInto(stream, captureMode, into, after)
    // Its owner may destroy it then, whether it captures or not.
    if (stream.isExternal) leaveAtClose(stream)
  } catch (error) {
    if (!isNullStream(handle) || !isUnsupported(error)) throw error
    throw explained(error, 'A null stream cannot capture: capture on a stream that you made')
  }
}

const leaving = new WeakSet<StreamCore>()

function leaveAtClose(stream: StreamCore): void {
  if (leaving.has(stream)) return
  leaving.add(stream)
  stream.whenClosing(() => {
    // The capture is over with the stream, and another may have its handle.
    if (stream.isOver) return
    captureLeft(stream)
    stream.driver.graphs.leave(stream.handle)
  })
}

/** Asks for the facts that a stream keeps once they were asked, and that a capturing stream cannot be asked for. */
function askBeforehand(stream: StreamCore): void {
  try {
    void [stream.id, stream.nonBlocking, stream.priority]
  } catch {
    // It captures already, say: the beginning will be refused, and say why.
  }
}

const isUnsupported = (error: unknown): error is CudaError =>
  error instanceof CudaError && error.number === CUresult.STREAM_CAPTURE_UNSUPPORTED

/** `stream.endCapture()`. */
export function endCapture(stream: StreamCore): Graph {
  stream.makeRoom(0)
  const { driver, handle } = stream
  try {
    const id = isNullStream(handle) ? undefined : driver.graphs.captureId(handle)
    return graphOf(stream, driver.graphs.end(handle), takeRecord(stream, id))
  } catch (error) {
    if (!stillCaptures(stream)) captureOver(stream)
    throw error
  } finally {
    freeDeferred(driver)
  }
}

function stillCaptures(stream: StreamCore): boolean {
  try {
    return !isNullStream(stream.handle) && stream.isCapturing
  } catch {
    // Its context is lost.
    return false
  }
}

/** `stream.capture()`: `begin` begins one in this mode. */
export function capture(
  stream: StreamCore,
  fn: () => void,
  options: CaptureOptions | undefined,
  begin: (mode: CaptureModeName | undefined) => void,
): Graph {
  checkFunction(fn, 'fn')
  const { mode, into, after } = readOptions(options, ['mode', 'into', 'after'])
  if (into !== undefined && !isGraph(into)) throw invalidType('options.into', 'a Graph', into)
  const behind = after === undefined ? [] : (checkArray(after, 'options.after', 'an array of nodes') as GraphNode[])
  if (into === undefined && behind.length > 0) throw invalidValue('options.after is for options.into, which is missing')
  // The function may close a wrapper, and the capture is still to be ended then.
  const ending = stream.isExternal ? stream.rewrap() : stream
  if (into === undefined) begin(mode)
  else beginCapture(stream, mode ?? 'threadLocal', into, behind)
  try {
    const returned: unknown = fn()
    if (isThenable(returned)) {
      // No caller gets the promise, so its rejection must not end the process. Other thenables may begin their work in then().
      if (returned instanceof Promise) returned.catch(() => {})
      throw invalidValue(
        'fn must not return a promise: a capture ends with the function, before the promise would settle',
      )
    }
  } catch (error) {
    abandonCapture(ending, into !== undefined)
    throw error
  }
  return endCapture(ending)
}

/** Ends a capture that has failed; the caller throws the error that made it fail. */
function abandonCapture(stream: StreamCore, isInto: boolean): void {
  try {
    const graph = endCapture(stream)
    // What was added stays.
    if (!isInto) graph.close()
  } catch {
    // A capture that is invalidated gives no graph, and is over all the same.
  }
}
