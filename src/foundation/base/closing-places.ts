/** The places at which objects were closed, for the errors of later calls. A stack costs microseconds: places are noted only while somebody asks. */
import { shortCallSite } from './stack.js'

let askers = 0
const places = new WeakMap<object, string>()

/** Notes from now on where objects are closed, until the function is called that this returns. */
export function noteClosingPlaces(): () => void {
  askers += 1
  let isOver = false
  return () => {
    if (!isOver) askers -= 1
    isOver = true
  }
}

/** Called when a program closes an object, before that is closed. */
export function noteClosed(object: object): void {
  if (askers === 0 || places.has(object)) return
  const site = shortCallSite()
  if (site !== undefined) places.set(object, site)
}

/** The place at which the first of these objects was closed of which that was noted; undefined if it was of none. */
export const placeOfClosing = (...objects: readonly object[]): string | undefined =>
  places.get(objects.find((object) => places.has(object)) ?? places)

/** The end of an error about such an object: where it was closed. Empty if that was not noted. */
export function closedAt(...objects: readonly object[]): string {
  const site = placeOfClosing(...objects)
  return site === undefined ? '' : `: it was closed at ${site}`
}
