/** Names that programs give to their streams, for all who tell of streams: the sanitizer and timelines. */
import type { Driver, StreamHandle } from './driver.js'
import { backendOf } from './front.js'

type Tell = (driver: Driver, stream: StreamHandle, name: string) => void

/** By device and the driver's number for the stream, which no other stream ever gets. */
const names = new WeakMap<Driver, Map<string, string>>()
const toBeTold = new Set<Tell>()

/** `driver` is the front that the stream is used through. */
export function giveName(driver: Driver, stream: StreamHandle, device: number, id: bigint, name: string): void {
  const backend = backendOf(driver)
  const known = names.get(backend) ?? new Map<string, string>()
  known.set(keyOf(device, id), name)
  names.set(backend, known)
  for (const tell of toBeTold) tell(driver, stream, name)
}

/** Undefined where it got none. */
export function givenName(driver: Driver, device: number, id: bigint): string | undefined {
  return names.get(backendOf(driver))?.get(keyOf(device, id))
}

/** Has any stream of the driver a name? */
export const hasNames = (driver: Driver): boolean => names.has(backendOf(driver))

/** Calls back with each name that is given from now on, and the front of the stream's driver. */
export function whenNameIsGiven(tell: Tell): void {
  toBeTold.add(tell)
}

const keyOf = (device: number, id: bigint): string => `${device} ${id}`
