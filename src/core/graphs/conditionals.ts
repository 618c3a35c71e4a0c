/** Conditional nodes: parts of a graph that are played if a kernel wants it, or as long as one does. */
import { checkArray, checkInteger, checkSynchronous, refusePromise } from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { implementation } from '../../foundation/base/library-object.js'
import { CUresult, cudaError } from '../../foundation/driver/cuda-results.js'
import { CaptureMode, ConditionalType } from '../../foundation/driver/driver-constants.js'
import { type GraphHandle, isNullStream, type NodeHandle } from '../../foundation/driver/handle-types.js'
import { type Condition, conditionImplOf, conditionOf } from '../kernels/condition.js'
import {
  type CaptureRecord,
  type CaptureTarget,
  captureBegan,
  captureEnded,
  recordBegunBy,
  recordOf,
  takeRecord,
} from '../streams/capture-record.js'
import { currentOn, type StreamBase, StreamImpl } from '../streams/stream-impl.js'

/** Captures the body of a conditional node, on the stream that it is given. */
type BodyFunction<S> = (body: S) => unknown

/** CUDA takes 32 bits. */
const LARGEST_VALUE = 2 ** 32 - 1

/**
 * The body of a conditional node, while it is captured: in parts, each of which is a capture of its own, and is added to the
 * body when it has ended. CUDA can also capture into a body. But it destroys the body if that fails, and then the program
 * crashes as soon as the graph around it is used, or destroyed.
 */
class ConditionalBody implements CaptureTarget {
  /** Why a part of it has failed: then all of it has. */
  failure: { readonly error: unknown } | undefined

  constructor(
    readonly graph: GraphHandle,
    /** A stream in the capture that has the outermost conditional node. */
    readonly outer: StreamImpl,
    /** The record of that. */
    readonly root: CaptureRecord,
  ) {}

  captureFailed(): void {}

  /** Throws if the graph that the body is part of has not outlived its capture. */
  checkOuter(): void {
    const { outer, root } = this
    if (!outer.isClosed && outer.driver.graphs.captureId(outer.handle) === root.id) return
    throw cudaError('cuGraphAddNode', CUresult.STREAM_CAPTURE_INVALIDATED)
  }

  /** What its graph has to retain, and what is known of the nodes, by their copies in the body. */
  add({ retained, owners, notes }: CaptureRecord, copies: ReadonlyMap<NodeHandle, NodeHandle>): void {
    const { root } = this
    root.retained.addAll(retained)
    for (const owner of owners) root.owners.add(owner)
    for (const [node, note] of notes) {
      const copy = copies.get(node)
      if (copy !== undefined) root.notes.set(copy, note)
    }
  }
}

/** `stream.createCondition()` */
export function createCondition(stream: StreamImpl, value: unknown): Condition {
  const initial = checkInteger(value, 'value', 0, LARGEST_VALUE)
  stream.reserve(0)
  const record = captureOf(stream, 'A condition')
  const body = bodyOf(record)
  body?.checkOuter()
  // CUDA has the conditions of all bodies in the graph around them.
  const { driver, handle, ownContext } = body?.outer ?? stream
  const condition = driver.graphs.createCondition(handle, ownContext, initial)
  record.root.unusedConditions += 1
  return conditionOf(record.root, condition)
}

/** Makes the public object of a stream. */
type Wrap<S> = (impl: StreamImpl) => S

/** `stream.if()` */
export function addIf<S extends StreamBase>(
  stream: StreamImpl,
  condition: unknown,
  then: unknown,
  otherwise: unknown,
  wrap: Wrap<S>,
): void {
  const bodies = [checkBody<S>(then, 'then')]
  if (otherwise !== undefined) bodies.push(checkBody(otherwise, 'otherwise'))
  addConditional(stream, ConditionalType.IF, condition, bodies, wrap)
}

/** `stream.while()` */
export function addWhile<S extends StreamBase>(
  stream: StreamImpl,
  condition: unknown,
  body: unknown,
  wrap: Wrap<S>,
): void {
  addConditional(stream, ConditionalType.WHILE, condition, [checkBody(body, 'body')], wrap)
}

/** `stream.switch()` */
export function addSwitch<S extends StreamBase>(
  stream: StreamImpl,
  condition: unknown,
  bodies: unknown,
  wrap: Wrap<S>,
): void {
  const given = checkArray(bodies, 'bodies', 'an array of functions')
  if (given.length === 0) throw outOfRange('bodies.length', 'at least 1', 0)
  const checked = given.map((body, index) => checkBody<S>(body, `bodies[${index}]`))
  addConditional(stream, ConditionalType.SWITCH, condition, checked, wrap)
}

function addConditional<S extends StreamBase>(
  stream: StreamImpl,
  type: ConditionalType,
  condition: unknown,
  bodies: readonly BodyFunction<S>[],
  wrap: Wrap<S>,
): void {
  const impl = conditionImplOf(condition)
  if (impl === undefined) throw invalidType('condition', 'a Condition of stream.createCondition()', condition)
  stream.reserve(0)
  const record = captureOf(stream, 'A conditional node')
  const { root } = record
  impl.checkCapture(root, stream)
  if (impl.isUsed) throw invalidValue(`${impl} is the condition of another node, and each node needs one of its own`)
  const { driver, handle, ownContext: context } = stream
  const node = { context, condition: impl.handle, type, size: bodies.length }
  const outer = bodyOf(record)
  const graphs =
    outer === undefined
      ? driver.graphs.addConditional({ stream: handle }, node)
      : betweenParts(stream, record, outer, () => driver.graphs.addConditional({ body: outer.graph }, node))
  impl.isUsed = true
  root.unusedConditions -= 1
  stream.lastWork = 'a conditional node'
  root.bodies += 1
  try {
    // The functions may close the stream, whose capture must last until the bodies are captured.
    stream.keepDuring(() => {
      for (const [index, graph] of graphs.entries()) {
        const body = bodies[index]
        const target = new ConditionalBody(graph, outer?.outer ?? stream, root)
        if (body !== undefined) captureBody(stream, target, (inner) => callBody(body, wrap(inner)))
      }
    })
  } finally {
    root.bodies -= 1
  }
}

const ENDS_WITH_FUNCTION = 'the body ends when it returns'

/** The stream that captures the body is current meanwhile, as the one that captures a graph is. */
const callBody = <S extends StreamBase>(body: BodyFunction<S>, inner: S): unknown =>
  currentOn(inner[implementation].device).run(inner, () => body(inner))

const checkBody = <S>(body: unknown, name: string): BodyFunction<S> => {
  checkSynchronous(body, name, ENDS_WITH_FUNCTION)
  return body as BodyFunction<S>
}

/** A body ends when its function returns, and a capture not before its bodies. */
export function refuseEnd(stream: StreamImpl): void {
  const record = recordBegunBy(stream.driver, stream.handle)
  if (record === undefined) return
  if (bodyOf(record) !== undefined) {
    throw invalidValue(`${stream} captures the body of a conditional node, which ends when its function returns`)
  }
  if (record.bodies > 0) {
    throw invalidValue(
      `${stream} captures a conditional node, and its capture cannot end before the function of the body returns`,
    )
  }
}

const bodyOf = ({ target }: CaptureRecord): ConditionalBody | undefined =>
  target instanceof ConditionalBody ? target : undefined

/** The record of the capture that the stream is in. */
function captureOf(stream: StreamImpl, what: string): CaptureRecord {
  const isCapturing = !isNullStream(stream.handle) && stream.isCapturing
  const record = isCapturing ? recordOf(stream) : undefined
  if (record !== undefined) return record
  const why = isCapturing
    ? 'is in a capture that is invalidated, or that another library or thread began'
    : 'captures nothing'
  throw stateError(
    'ERR_UNSUPPORTED',
    `${what} is part of a graph, and ${stream} ${why}: call this in stream.capture(fn)`,
  )
}

function captureBody(stream: StreamImpl, body: ConditionalBody, capture: (inner: StreamImpl) => unknown): void {
  const inner = StreamImpl.makeForBody(stream)
  try {
    beginPart(inner, body)
    try {
      refusePromise(capture(inner), 'The function of a body', ENDS_WITH_FUNCTION)
    } catch (error) {
      endFailed(inner, body)
      throw error
    }
    endPart(inner, body)
    if (body.failure !== undefined) throw body.failure.error
  } finally {
    inner.endOfBody()
  }
}

/**
 * Calls a function that needs the body on whose stream a part of it is captured: that part ends before, and a new one begins
 * after.
 */
function betweenParts<R>(stream: StreamImpl, { origin }: CaptureRecord, body: ConditionalBody, fn: () => R): R {
  if (origin.handle !== stream.handle) {
    const way = 'let the stream that the function of the body was given wait for it, and add the node there'
    throw stateError(
      'ERR_UNSUPPORTED',
      `${stream} has joined the capture of a body, where it can add no conditional node: ${way}`,
    )
  }
  try {
    endPart(stream, body)
    return fn()
  } catch (error) {
    body.failure ??= { error }
    throw error
  } finally {
    beginPart(stream, body)
  }
}

function beginPart(inner: StreamImpl, body: ConditionalBody): void {
  // What the capture around it forbids is forbidden in any case.
  inner.driver.graphs.begin(inner.handle, CaptureMode.RELAXED)
  captureBegan(inner, body)
}

function endPart(inner: StreamImpl, body: ConditionalBody): void {
  const { graphs } = inner.driver
  const [graph, record] = endCapture(inner)
  try {
    body.checkOuter()
    if (graphs.nodeCount(graph) === 0) return
    const copies = graphs.addToBody(body.graph, graph)
    if (record !== undefined) body.add(record, copies)
  } finally {
    record?.retained.release()
    graphs.destroy(graph)
  }
}

function endCapture(inner: StreamImpl): [graph: GraphHandle, record: CaptureRecord | undefined] {
  const { graphs } = inner.driver
  try {
    const id = graphs.captureId(inner.handle)
    return [graphs.end(inner.handle), takeRecord(inner, id)]
  } catch (error) {
    captureEnded(inner)
    throw error
  }
}

/** What the function has captured before it threw remains in the body. The caller throws that error. */
function endFailed(inner: StreamImpl, body: ConditionalBody): void {
  try {
    endPart(inner, body)
  } catch {
    // A capture that is invalidated is over, too.
  }
}
