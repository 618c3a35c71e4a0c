/** Captures: a stream's work is recorded as a graph instead of being run. */
import { checkArray, checkSynchronous, oneOf, readOptions, refusePromise } from '../../foundation/base/arguments.js'
import { CudaError, explained, invalidType, invalidValue } from '../../foundation/base/errors.js'
import { shortCallSite } from '../../foundation/base/stack.js'
import { warnOnce } from '../../foundation/base/warnings.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import { CaptureMode } from '../../foundation/driver/driver-constants.js'
import { isNullStream } from '../../foundation/driver/handle-types.js'
import { freeDeferred } from '../memory/allocation-stream.js'
import { captureBegan, captureEnded, captureWrapperClosed, takeRecord } from '../streams/capture-record.js'
import { currentOn, type StreamBase, type StreamImpl } from '../streams/stream-impl.js'
import { refuseEnd } from './conditionals.js'
import { beginInto, type Graph, graphOf, isGraph } from './graph.js'
import type { GraphNode } from './nodes.js'

/**
 * The calls that a capture forbids meanwhile (CUDA's cudaStreamCaptureMode), among those that are not about its own
 * streams: to query or to wait for other streams and their events (`query()`, `synchronize()`), and such calls of other
 * libraries, like `cudaMalloc`. A forbidden call throws CudaError 900, and invalidates the capture.
 *
 * - 'global': forbidden for all threads of the process
 * - 'threadLocal': forbidden for this thread
 * - 'relaxed': allowed
 *
 * In every mode these are allowed, and invalidate nothing: `finished()` of streams and events, `alloc` and queuing work
 * on other streams, and to close streams, events, buffers and graphs. While a blocking stream captures, the null stream
 * is refused, with CudaError 906.
 */
export type CaptureModeName = 'global' | 'threadLocal' | 'relaxed'

/** Excludes functions that return a promise, such as async ones. The text is what the compiler says of them. */
export type Synchronous<R> = [R] extends [never]
  ? unknown
  : R extends PromiseLike<unknown>
    ? 'capture() takes a function that returns no promise: the capture ends when the function returns'
    : unknown

/** The options of `stream.capture()`. */
export interface CaptureOptions {
  /** The other calls that the capture forbids meanwhile. Default 'threadLocal'. */
  readonly mode?: CaptureModeName | undefined
  /**
   * A graph to add the work to (`cuStreamBeginCaptureToGraph`), which `capture()` then returns. Its instances do not change.
   * If the capture fails, CUDA destroys the graph: it is closed then. Default: a new graph.
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
  stream: StreamImpl,
  mode: CaptureModeName,
  into?: Graph,
  after: readonly GraphNode[] = [],
): void {
  const captureMode = oneOf(mode, MODES, 'mode') ?? CaptureMode.THREAD_LOCAL
  stream.reserve(0)
  const { driver, handle } = stream
  if (!isNullStream(handle)) queryBeforehand(stream)
  try {
    if (into === undefined) {
      driver.graphs.begin(handle, captureMode)
      captureBegan(stream)
    } else beginInto(stream, captureMode, into, after)
    // After the close of the wrapper its owner may destroy the stream, even while it captures.
    if (stream.isExternal) abandonAtClose(stream)
  } catch (error) {
    if (!isNullStream(handle) || !isUnsupported(error)) throw error
    throw explained(error, 'A null stream cannot capture: capture on a stream that you made')
  }
}

const abandoning = new WeakSet<StreamImpl>()

function abandonAtClose(stream: StreamImpl): void {
  if (abandoning.has(stream)) return
  abandoning.add(stream)
  stream.whenClosing(() => {
    // The capture ended with the stream, and another stream may have its handle.
    if (stream.isClosed) return
    captureWrapperClosed(stream)
    stream.driver.graphs.leave(stream.handle)
  })
}

/** Queries the properties that a stream caches, and that cannot be queried while it captures. */
function queryBeforehand(stream: StreamImpl): void {
  try {
    void [stream.id, stream.nonBlocking, stream.priority]
  } catch {
    // If it captures already, for example, the driver will refuse to begin, and say why.
  }
}

const isUnsupported = (error: unknown): error is CudaError =>
  error instanceof CudaError && error.number === CUresult.STREAM_CAPTURE_UNSUPPORTED

/** `stream.endCapture()`. */
export function endCapture(stream: StreamImpl): Graph {
  return warnIfEmpty(endedCapture(stream), 0)
}

function endedCapture(stream: StreamImpl): Graph {
  stream.reserve(0)
  refuseEnd(stream)
  const { driver, handle } = stream
  try {
    const id = isNullStream(handle) ? undefined : driver.graphs.captureId(handle)
    return graphOf(stream, driver.graphs.end(handle), takeRecord(stream, id))
  } catch (error) {
    if (!stillCaptures(stream)) captureEnded(stream)
    throw error
  } finally {
    freeDeferred(driver)
  }
}

/** `before` is the number of nodes that the graph had when the capture began. */
function warnIfEmpty(graph: Graph, before: number): Graph {
  if (graph.closed || graph.nodeCount > before) return graph
  const site = shortCallSite()
  const what = `A capture has recorded nothing${site === undefined ? '' : ` at ${site}`}`
  const which = 'it takes what is queued on its stream, and on streams that wait for work of that'
  const wayOut = 'Queue the work there: inside stream.capture(fn), that stream is the current one of its device'
  warnOnce('CUDA_STREAMS_EMPTY_CAPTURE', `${what}: ${which}. ${wayOut}`)
  return graph
}

function stillCaptures(stream: StreamImpl): boolean {
  try {
    return !isNullStream(stream.handle) && stream.isCapturing
  } catch {
    // Its context is lost.
    return false
  }
}

const ENDS_WITH_FN = 'a capture ends with the function, before the promise would settle'

/** `stream.capture()` of `target`, which is current meanwhile: `begin` begins one in this mode. */
export function capture(
  target: StreamBase,
  stream: StreamImpl,
  fn: () => void,
  options: CaptureOptions | undefined,
  begin: (mode: CaptureModeName | undefined) => void,
): Graph {
  checkSynchronous(fn, 'fn', ENDS_WITH_FN)
  const { mode, into, after } = readOptions(options, ['mode', 'into', 'after'])
  if (into !== undefined && !isGraph(into)) throw invalidType('options.into', 'a Graph', into)
  const behind = after === undefined ? [] : (checkArray(after, 'options.after', 'an array of nodes') as GraphNode[])
  if (into === undefined && behind.length > 0) throw invalidValue('options.after is for options.into, which is missing')
  const before = into === undefined || into.closed ? 0 : into.nodeCount
  // The function may close a wrapper, and the capture has to be ended nevertheless.
  const ending = stream.isExternal ? stream.wrapAgain() : stream
  if (into === undefined) begin(mode)
  else beginCapture(stream, mode ?? 'threadLocal', into, behind)
  try {
    const returned: unknown = currentOn(stream.device).run(target, fn)
    refusePromise(returned, 'fn', ENDS_WITH_FN)
  } catch (error) {
    abandonCapture(ending, into !== undefined)
    throw error
  }
  return warnIfEmpty(endedCapture(ending), before)
}

/** Ends a capture that has failed; the caller throws the error that made it fail. */
function abandonCapture(stream: StreamImpl, isInto: boolean): void {
  try {
    const graph = endedCapture(stream)
    // What was added to a graph remains there.
    if (!isInto) graph.close()
  } catch {
    // An invalidated capture gives no graph, but it is over.
  }
}
