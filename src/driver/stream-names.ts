/** Names that programs give to their streams, for the reports of the sanitizer and for timelines. */
import { printable } from '../base/printable.js'
import { canonicalStream, type Driver, type StreamHandle } from './driver.js'
import { backendOf, type WrappableDriver, wrappableOf } from './wrappable-driver.js'

/** A stream that has been given a name. */
export interface NamedStream {
  /** The driver that the stream is used through. */
  readonly driver: WrappableDriver
  readonly stream: StreamHandle
  readonly device: number
  /** The driver's number for the stream, which no other stream ever gets. */
  readonly id: bigint
  readonly name: string
}

type Tell = (named: NamedStream) => void

const toBeTold = new Set<Tell>()

/**
 * Names a stream. The stream keeps the name until it is destroyed, or until another library's stream with the same
 * handle gets a name.
 */
export function giveName(given: NamedStream): void {
  const named = { ...given, name: printable(given.name) }
  const { driver, stream, id, name } = named
  driver.streamNames.set(canonicalStream(stream), { id, name })
  for (const tell of toBeTold) tell(named)
}

/** The name of a stream; undefined if it has none. */
export function givenName(driver: Driver, stream: StreamHandle, id: bigint): string | undefined {
  const given = namesOf(driver).get(canonicalStream(stream))
  return given?.id === id ? given.name : undefined
}

/** True if any stream of the driver has a name. */
export const hasNames = (driver: Driver): boolean => namesOf(driver).size > 0

/** Calls `tell` with each name that is given from now on. */
export function whenNameIsGiven(tell: Tell): void {
  toBeTold.add(tell)
}

const namesOf = (driver: Driver): WrappableDriver['streamNames'] => wrappableOf(backendOf(driver)).streamNames
