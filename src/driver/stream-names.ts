/** Names that programs give to their streams, for the sanitizer and timelines, which tell of streams. */
import { printable } from '../base/printable.js'
import { canonicalStream, type Driver, type StreamHandle } from './driver.js'
import { backendOf, type WrappableDriver, wrappableOf } from './wrappable-driver.js'

/** A stream that has got a name. */
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

/** The stream has it until it is destroyed, or another library's stream with the same handle gets one. */
export function giveName(given: NamedStream): void {
  const named = { ...given, name: printable(given.name) }
  const { driver, stream, id, name } = named
  driver.streamNames.set(canonicalStream(stream), { id, name })
  for (const tell of toBeTold) tell(named)
}

/** Undefined where it got none. */
export function givenName(driver: Driver, stream: StreamHandle, id: bigint): string | undefined {
  const given = namesOf(driver).get(canonicalStream(stream))
  return given?.id === id ? given.name : undefined
}

/** Has any stream of the driver a name? */
export const hasNames = (driver: Driver): boolean => namesOf(driver).size > 0

/** Calls back with each name that is given from now on. */
export function whenNameIsGiven(tell: Tell): void {
  toBeTold.add(tell)
}

const namesOf = (driver: Driver): WrappableDriver['streamNames'] => wrappableOf(backendOf(driver)).streamNames
