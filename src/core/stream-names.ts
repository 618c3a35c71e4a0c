/** What reports, timelines and errors call a stream: the name that the program gave it, or else 'stream 3', by its number. */
import { invalidType, invalidValue } from '../foundation/base/errors.js'
import { printable } from '../foundation/base/printable.js'
import type { Driver } from '../foundation/driver/driver.js'
import {
  canonicalStream,
  cudaHandleOf,
  deviceOfDefaultStream,
  isDefaultStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import { backendOf, type WrappableDriver, wrappableOf } from '../foundation/driver/wrappable-driver.js'

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

/** Checks the name that a program gives a stream, in an argument or option that is called `argument`. */
export function checkStreamName(name: unknown, argument: string): string {
  if (typeof name !== 'string') throw invalidType(argument, 'a string', name)
  if (name !== '') return name
  throw invalidValue(`${argument} must not be empty: a stream without a name is called by its number, as in 'stream 3'`)
}

/** The name of a stream; undefined if it has none. */
export function givenName(driver: Driver, stream: StreamHandle, id: bigint): string | undefined {
  const given = namesOf(driver).get(canonicalStream(stream))
  return given?.id === id ? given.name : undefined
}

/** What a stream is called that has no name. */
export function numberedStream(stream: StreamHandle, id: bigint): string {
  return isDefaultStream(stream) ? defaultStreamName(stream) : `stream ${id}`
}

/** The null stream or the per-thread stream; those of device 0 are called without it. */
export function defaultStreamName(stream: StreamHandle): string {
  const device = deviceOfDefaultStream(stream)
  const of = device === 0 ? '' : ` of device ${device}`
  return `${cudaHandleOf(stream) === 2 ? 'per-thread stream' : 'null stream'}${of}`
}

/** The name within a sentence: 'on the null stream', and 'on stream 3'. */
export const streamInSentence = (name: string): string => name.replace(/^(?=(?:null|per-thread) stream\b)/, 'the ')

/** The stream as code: 'stream 3' is no identifier. A given name is taken for that of a variable. */
export function streamInCode(name: string): string {
  const [, which, device] = /^(?:the )?(null|per-thread) stream(?: of device (\d+))?$/.exec(name) ?? []
  if (which === 'per-thread') return 'Stream.perThread'
  if (which === 'null') return device === undefined ? 'Stream.null' : `Device.get(${device}).defaultStream`
  return name.replace(/^stream (\d+)$/, 'stream$1')
}

/** Has any stream of the driver a name? */
export const hasNames = (driver: Driver): boolean => namesOf(driver).size > 0

/** Calls `tell` with each name that is given from now on. */
export function whenNameIsGiven(tell: Tell): void {
  toBeTold.add(tell)
}

const namesOf = (driver: Driver): WrappableDriver['streamNames'] => wrappableOf(backendOf(driver)).streamNames
