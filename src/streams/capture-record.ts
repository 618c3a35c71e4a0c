/**
 * What the work of a capture uses, noted while it is captured: the graph keeps it. A capture that another library began
 * has no record, and its graph keeps nothing.
 */
import type { NativeResource } from '../base/finalization.js'
import {
  type ContextHandle,
  cudaHandleOf,
  type Driver,
  isNullStream,
  type LaunchShape,
  type NodeHandle,
  type StreamHandle,
} from '../driver/driver.js'

/** Resources that live as long as a graph, or an instance of one. */
export class Keeps {
  readonly #resources = new Set<NativeResource>()

  get resources(): ReadonlySet<NativeResource> {
    return this.#resources
  }

  add(resource: NativeResource): void {
    if (this.#resources.has(resource)) return
    resource.keep()
    this.#resources.add(resource)
  }

  addAll({ resources }: Keeps): void {
    for (const resource of resources) this.add(resource)
  }

  /** Lets go of it, where another keeps it too. */
  drop(resource: NativeResource): void {
    if (this.#resources.delete(resource)) resource.letGo()
  }

  copy(): Keeps {
    const copy = new Keeps()
    copy.addAll(this)
    return copy
  }

  /** The caller lets go of them. */
  take(): NativeResource[] {
    const taken = [...this.#resources]
    this.#resources.clear()
    return taken
  }

  letGo(): void {
    letGoOf(this.take(), (resource) => resource.letGo())
  }
}

/** Lets go of each, by the function, and empties the list. What one throws is thrown when all are gone. */
export function letGoOf(left: NativeResource[], letGo: (resource: NativeResource) => void): void {
  const errors: unknown[] = []
  for (let resource = left.pop(); resource !== undefined; resource = left.pop()) {
    try {
      letGo(resource)
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}

/** A kernel that a node was captured for, as the program has it, and the shape of the launch. */
export interface CapturedLaunch {
  readonly kernel: object
  readonly shape: LaunchShape
}

/** The kinds of memory that a copy goes between, which no update changes. */
export interface CapturedCopy {
  readonly to: CopyEnd
  readonly from: CopyEnd
  /** Is it of several rows? CUDA changes none of those (`cuGraphExecMemcpyNodeSetParams`). */
  readonly isOfRows?: boolean
}

export interface CopyEnd {
  readonly isOfHost: boolean
  readonly device: number
}

/** The kind of memory that a fill writes, likewise. */
export interface CapturedFill {
  readonly fills: CopyEnd
}

export type NodeNote = CapturedLaunch | CapturedCopy | CapturedFill

export interface NotedNode {
  /** In which it was captured: no update changes that, and CUDA does not tell it. */
  readonly context: ContextHandle
  readonly note: NodeNote
}

export class CaptureRecord {
  readonly keeps = new Keeps()
  /** What the driver does not tell of nodes. */
  readonly notes = new Map<NodeHandle, NotedNode>()
  /** Objects that programs have as owners of foreign memory and events. */
  readonly owners = new Set<object>()
  /** The wrapper that began the capture was closed: another may end it, or the stream's owner, who may destroy it, too. */
  isLeft = false

  constructor(
    /** The stream that began the capture. */
    readonly origin: Pick<Capturable, 'handle' | 'ordinal' | 'isExternal'>,
    readonly id: bigint,
    /** What is captured is added to this graph. */
    readonly into: GrowingGraph | undefined,
  ) {}

  /** The capture gave no graph. */
  drop(): void {
    this.into?.lost()
    this.keeps.letGo()
  }
}

/** A graph that a capture adds to. */
export interface GrowingGraph {
  /** The capture has ended in an error, and the driver has destroyed the graph. */
  lost(): void
}

/** A stream, as far as captures go. */
interface Capturable {
  readonly driver: Driver
  readonly handle: StreamHandle
  readonly ordinal: number
  readonly isExternal: boolean
}

const records = new WeakMap<Driver, Set<CaptureRecord>>()
/** Of all drivers: work is queued often, and captured seldom. */
let underWay = 0

/** The stream has begun a capture, which may add to a graph. */
export function captureBegan(stream: Capturable, into?: GrowingGraph): void {
  const { driver, handle, ordinal, isExternal } = stream
  // Another library may have ended an earlier one.
  captureOver(stream)
  for (const record of records.get(driver) ?? []) if (record.origin.isExternal) dropIfOver(driver, record)
  const id = driver.graphs.captureId(handle)
  if (id === undefined) {
    into?.lost()
    return
  }
  let all = records.get(driver)
  if (all === undefined) {
    all = new Set()
    records.set(driver, all)
  }
  all.add(new CaptureRecord({ handle, ordinal, isExternal }, id, into))
  underWay += 1
}

/** The wrapper of another library's stream is closed: the capture that it began, if it did, may end unnoticed. */
export function captureLeft({ driver, handle }: Capturable): void {
  const record = recordBegunBy(driver, handle)
  if (record !== undefined) record.isLeft = true
}

/** Takes the record of the capture that the stream began, which has ended; `id` is the number of the one that did. */
export function takeRecord({ driver, handle }: Capturable, id: bigint | undefined): CaptureRecord | undefined {
  const record = recordBegunBy(driver, handle)
  if (record === undefined) return undefined
  remove(driver, record)
  if (record.id === id) return record
  // The stream's owner has ended that one, and begun another.
  record.drop()
  return undefined
}

/** The capture that the stream began, if it did, gave no graph. */
export function captureOver({ driver, handle }: Capturable): void {
  const record = recordBegunBy(driver, handle)
  if (record === undefined) return
  remove(driver, record)
  record.drop()
}

function recordBegunBy(driver: Driver, handle: StreamHandle): CaptureRecord | undefined {
  if (underWay === 0) return undefined
  for (const record of records.get(driver) ?? []) if (record.origin.handle === handle) return record
  return undefined
}

function remove(driver: Driver, record: CaptureRecord): void {
  if (records.get(driver)?.delete(record)) underWay -= 1
}

/** Drops the record of a capture that the stream's owner may have ended, or destroyed with the stream. */
function dropIfOver(driver: Driver, record: CaptureRecord): void {
  const { handle, ordinal } = record.origin
  try {
    // Throws for a stream that is destroyed, which the driver must not be asked about.
    driver.streamAdopt(cudaHandleOf(handle), ordinal)
    if (driver.graphs.captureId(handle) === record.id) return
  } catch {
    // It is over.
  }
  remove(driver, record)
  record.drop()
}

/** Notes something of the node that the stream was given last. */
export function noteNode(
  record: CaptureRecord,
  { driver, handle, ownContext }: Pick<Capturable, 'driver' | 'handle'> & { readonly ownContext: ContextHandle },
  note: NodeNote,
): void {
  const node = driver.graphs.capturedNode(handle)
  if (node !== undefined) record.notes.set(node, { context: ownContext, note })
}

/** The record of the capture under way that adds to the graph. */
export function recordInto(driver: Driver, graph: GrowingGraph): CaptureRecord | undefined {
  for (const record of records.get(driver) ?? []) if (record.into === graph) return record
  return undefined
}

/** The record of the capture that the stream is in. */
export function recordOf({ driver, handle }: Pick<Capturable, 'driver' | 'handle'>): CaptureRecord | undefined {
  if (underWay === 0) return undefined
  const all = records.get(driver)
  if (all === undefined || all.size === 0 || isNullStream(handle)) return undefined
  for (const record of all) if (record.isLeft) dropIfOver(driver, record)
  const id = driver.graphs.captureId(handle)
  if (id === undefined) return undefined
  for (const record of all) if (record.id === id) return record
  return undefined
}
