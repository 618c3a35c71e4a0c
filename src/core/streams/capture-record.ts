/**
 * What the work of a capture uses, noted while it is captured, for the graph to retain. A capture that another library began
 * has no record, and its graph retains nothing.
 */
import type { NativeResource } from '../../foundation/base/finalization.js'
import { memoize } from '../../foundation/base/memoize.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ContextHandle, EventHandle, NodeHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { cudaHandleOf, isNullStream } from '../../foundation/driver/handle-types.js'
import type { LaunchShape } from '../../foundation/driver/kernel-driver.js'
import { closeShortWay } from '../../foundation/driver/wrappable-driver.js'

/** An event for which a graph waits, of work outside the graph. */
interface AwaitedEvent {
  readonly handle: EventHandle
}

/** Resources that live as long as a graph, or an instance of one. */
export class RetainedResources {
  readonly #resources = new Set<NativeResource>()
  /** Events for which each launch waits. Those that the library owns are among the resources, too. */
  readonly awaited = new Set<AwaitedEvent>()

  get all(): ReadonlySet<NativeResource> {
    return this.#resources
  }

  add(resource: NativeResource): void {
    if (this.#resources.has(resource)) return
    resource.retain()
    this.#resources.add(resource)
  }

  addAll({ all, awaited }: RetainedResources): void {
    for (const resource of all) this.add(resource)
    for (const event of awaited) this.awaited.add(event)
  }

  /** Releases it; somebody else retains it too. */
  drop(resource: NativeResource): void {
    if (this.#resources.delete(resource)) resource.release()
  }

  copy(): RetainedResources {
    const copy = new RetainedResources()
    copy.addAll(this)
    return copy
  }

  /** Takes all out. The caller has to release them. */
  take(): NativeResource[] {
    const taken = [...this.#resources]
    this.#resources.clear()
    return taken
  }

  release(): void {
    releaseAll(this.take())
  }
}

/** Releases all resources in the list, which it empties. An error of one is thrown when all are released. */
export function releaseAll(
  resources: NativeResource[],
  release = (resource: NativeResource): void => resource.release(),
): void {
  const errors: unknown[] = []
  for (let resource = resources.pop(); resource !== undefined; resource = resources.pop()) {
    try {
      release(resource)
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}

/** The kernel of a captured launch, as the program has it, and the shape of the launch. */
export interface CapturedLaunch {
  readonly kernel: object
  readonly shape: LaunchShape
  /** The arguments as the program gave them. */
  readonly args: readonly unknown[]
}

/** The event of a captured record or wait, as the program has it. */
export interface CapturedEventUse {
  readonly event: object
}

/** The kinds of memory that a captured copy goes between, which no update changes. */
export interface CapturedCopy {
  readonly to: CopyEnd
  readonly from: CopyEnd
  /** Does the copy have several rows? CUDA changes none of those (`cuGraphExecMemcpyNodeSetParams`). */
  readonly isOfRows?: boolean
}

export interface CopyEnd {
  readonly isOfHost: boolean
  readonly device: number
}

/** The kind of memory that a captured fill writes, which no update changes. */
export interface CapturedFill {
  readonly fills: CopyEnd
  /** Does the fill have several rows? CUDA changes none of those (`cuGraphExecMemsetNodeSetParams`). */
  readonly isOfRows: boolean
}

export type NodeNote = CapturedLaunch | CapturedCopy | CapturedFill | CapturedEventUse

export interface NotedNode {
  /** The context in which it was captured: no update changes that, and CUDA does not report it. */
  readonly context: ContextHandle
  readonly note: NodeNote
}

/** A graph that a capture adds to. */
export interface CaptureTarget {
  /** The record of the capture that has the conditional node, if the graph is a body of one. */
  readonly root?: CaptureRecord
  /** The capture has ended in an error, and the driver has destroyed the graph. */
  captureFailed(): void
}

/** A stream, as far as captures go. */
interface Capturable {
  readonly driver: Driver
  readonly handle: StreamHandle
  readonly ordinal: number
  readonly isExternal: boolean
}

export class CaptureRecord {
  readonly retained = new RetainedResources()
  /** What the driver does not report of nodes. */
  readonly notes = new Map<NodeHandle, NotedNode>()
  /** Events whose latest record is part of the capture. */
  readonly events = new Set<EventHandle>()
  /** Objects that programs gave as owners of foreign memory and events. */
  readonly owners = new Set<object>()
  /** The conditional nodes in it whose bodies are captured now. */
  bodies = 0
  /** The conditions in it that no node has. */
  unusedConditions = 0
  /** The wrapper that began the capture was closed: another wrapper, or the stream's owner, may end the capture unnoticed. */
  mayEndUnnoticed = false

  constructor(
    /** The stream that began the capture. */
    readonly origin: Pick<Capturable, 'handle' | 'ordinal' | 'isExternal'>,
    readonly id: bigint,
    /** The graph that the captured work is added to. */
    readonly target: CaptureTarget | undefined,
  ) {}

  /** The record of the capture that has the conditional node of whose body this is a part; else this one. */
  get root(): CaptureRecord {
    return this.target?.root ?? this
  }

  /** The capture gave no graph. */
  discard(): void {
    this.target?.captureFailed()
    this.retained.release()
  }
}

const recordsOn = memoize((_driver: Driver) => new Set<CaptureRecord>())
/** The number of captures under way on all drivers: work is queued often, and captured seldom. */
let underWay = 0

/** Is a capture under way that this thread began with this library? */
export const capturesUnderWay = (): boolean => underWay > 0

/** The stream has begun a capture, which may add to a graph. */
export function captureBegan(stream: Capturable, target?: CaptureTarget): void {
  const { driver, handle, ordinal, isExternal } = stream
  // Another library may have ended an earlier capture of the stream.
  captureEnded(stream)
  for (const record of recordsOn(driver)) if (record.origin.isExternal) discardIfEnded(driver, record)
  const id = driver.graphs.captureId(handle)
  if (id === undefined) {
    target?.captureFailed()
    return
  }
  recordsOn(driver).add(new CaptureRecord({ handle, ordinal, isExternal }, id, target))
  underWay += 1
  closeShortWay(true)
}

/** A wrapper of another library's stream is closed: a capture that it began may end unnoticed. */
export function captureWrapperClosed({ driver, handle }: Capturable): void {
  const record = recordBegunBy(driver, handle)
  if (record !== undefined) record.mayEndUnnoticed = true
}

/** Takes the record of the capture that the stream began and that has ended, whose number is `id`. */
export function takeRecord({ driver, handle }: Capturable, id: bigint | undefined): CaptureRecord | undefined {
  const record = recordBegunBy(driver, handle)
  if (record === undefined) return undefined
  remove(driver, record)
  if (record.id === id) return record
  // The stream's owner has ended that capture, and begun another.
  record.discard()
  return undefined
}

/** A capture that the stream began, if there is one, gave no graph. */
export function captureEnded({ driver, handle }: Capturable): void {
  const record = recordBegunBy(driver, handle)
  if (record === undefined) return
  remove(driver, record)
  record.discard()
}

/** The record of the capture that the stream began, if it is known to. Asks no driver. */
export function recordBegunBy(driver: Driver, handle: StreamHandle): CaptureRecord | undefined {
  if (underWay === 0) return undefined
  for (const record of recordsOn(driver)) if (record.origin.handle === handle) return record
  return undefined
}

function remove(driver: Driver, record: CaptureRecord): void {
  if (!recordsOn(driver).delete(record)) return
  underWay -= 1
  closeShortWay(false)
}

/** Discards the record of a capture that the stream's owner may have ended, or destroyed together with the stream. */
function discardIfEnded(driver: Driver, record: CaptureRecord): void {
  const { handle, ordinal } = record.origin
  try {
    // Throws for a destroyed stream, which must not be passed to CUDA.
    driver.streams.wrap(cudaHandleOf(handle), ordinal)
    if (driver.graphs.captureId(handle) === record.id) return
  } catch {
    // The capture is over.
  }
  remove(driver, record)
  record.discard()
}

/** An event, as far as captures go. */
interface CapturedEvent {
  readonly handle: EventHandle
  readonly records: number
  /** What `records` was at its latest record in a capture. */
  capturedAt: number
}

/** The event was recorded on the stream, which may capture. */
export function noteRecord(stream: Pick<Capturable, 'driver' | 'handle'>, event: CapturedEvent): void {
  if (underWay === 0) return
  forgetRecord(stream.driver, event.handle)
  const record = recordOf(stream)
  if (record === undefined) return
  record.events.add(event.handle)
  event.capturedAt = event.records
}

/** The event is destroyed: its handle may become that of another one. */
export function forgetRecord(driver: Driver, event: EventHandle): void {
  if (underWay > 0) for (const record of recordsOn(driver)) record.events.delete(event)
}

/** The first of the events whose latest record is part of a capture that goes on. */
export function findInCapture(driver: Driver, events: ReadonlySet<AwaitedEvent>): AwaitedEvent | undefined {
  if (underWay === 0 || events.size === 0) return undefined
  const all = recordsUnderWay(driver)
  for (const event of events) for (const record of all) if (record.events.has(event.handle)) return event
  return undefined
}

/** The records on a driver, without those of captures that ended unnoticed. */
function recordsUnderWay(driver: Driver): ReadonlySet<CaptureRecord> {
  const all = recordsOn(driver)
  for (const record of all) if (record.mayEndUnnoticed) discardIfEnded(driver, record)
  return all
}

/** Notes something of the node that was added last to the capture of the stream. */
export function noteNode(
  record: CaptureRecord,
  { driver, handle, ownContext }: Pick<Capturable, 'driver' | 'handle'> & { readonly ownContext: ContextHandle },
  note: NodeNote,
): void {
  const node = driver.graphs.capturedNode(handle)
  if (node !== undefined) record.notes.set(node, { context: ownContext, note })
}

/** The record of the capture under way that adds to the graph. */
export function recordOfTarget(driver: Driver, target: CaptureTarget): CaptureRecord | undefined {
  for (const record of recordsOn(driver)) if (record.target === target) return record
  return undefined
}

/** The record of the capture that the stream is in. */
export function recordOf({ driver, handle }: Pick<Capturable, 'driver' | 'handle'>): CaptureRecord | undefined {
  if (underWay === 0) return undefined
  if (recordsOn(driver).size === 0 || isNullStream(handle)) return undefined
  const all = recordsUnderWay(driver)
  const id = driver.graphs.captureId(handle)
  if (id === undefined) return undefined
  for (const record of all) if (record.id === id) return record
  return undefined
}
