/**
 * What the work of a capture uses, noted while it is captured: the graph keeps it. A capture that another library began
 * has no record, and its graph keeps nothing.
 */
import type { NativeResource } from '../base/finalization.js'
import { type Driver, isNullStream, type StreamHandle } from '../driver/driver.js'

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

  /** Lets go of each, by the function. What one throws is thrown when all are gone. */
  letGo(letGo: (resource: NativeResource) => void = (resource) => resource.letGo()): void {
    const errors: unknown[] = []
    for (const resource of this.#resources) {
      this.#resources.delete(resource)
      try {
        letGo(resource)
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}

export class CaptureRecord {
  readonly keeps = new Keeps()
  /** Objects that programs have as owners of foreign memory and events. */
  readonly owners = new Set<object>()

  constructor(
    /** The stream that began the capture. */
    readonly origin: StreamHandle,
    readonly id: bigint,
  ) {}
}

/** A stream, as far as captures go. */
interface Capturable {
  readonly driver: Driver
  readonly handle: StreamHandle
}

const records = new WeakMap<Driver, Set<CaptureRecord>>()
/** Of all drivers: work is queued often, and captured seldom. */
let underWay = 0

/** The stream has begun a capture. */
export function captureBegan({ driver, handle }: Capturable): void {
  // Another library may have ended an earlier one.
  captureOver({ driver, handle })
  const id = driver.graphs.captureId(handle)
  if (id === undefined) return
  let all = records.get(driver)
  if (all === undefined) {
    all = new Set()
    records.set(driver, all)
  }
  all.add(new CaptureRecord(handle, id))
  underWay += 1
}

/** Takes the record of the capture that the stream began, which has ended. */
export function takeRecord({ driver, handle }: Capturable): CaptureRecord | undefined {
  if (underWay === 0) return undefined
  const all = records.get(driver) ?? []
  for (const record of all) {
    if (record.origin !== handle) continue
    records.get(driver)?.delete(record)
    underWay -= 1
    return record
  }
  return undefined
}

/** The capture that the stream began, if it did, gave no graph. */
export function captureOver(stream: Capturable): void {
  takeRecord(stream)?.keeps.letGo()
}

/** The record of the capture that the stream is in. */
export function recordOf({ driver, handle }: Capturable): CaptureRecord | undefined {
  if (underWay === 0) return undefined
  const all = records.get(driver)
  if (all === undefined || all.size === 0 || isNullStream(handle)) return undefined
  const id = driver.graphs.captureId(handle)
  if (id === undefined) return undefined
  for (const record of all) if (record.id === id) return record
  return undefined
}
