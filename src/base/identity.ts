/** Properties that tell an object from every other, for code that compares or copies objects by their properties. */

/** Short enough to be shown whole: V8 leaves out the middle of long ones. */
const ONE_THREAD = 'objects of cuda-streams stay in their thread: send the share() of a stream, event or device buffer'

let lastSerial = 0

/** A number that no other object of this thread has: two objects of one class are never deep-equal. */
export function nextSerial(): number {
  lastSerial += 1
  return lastSerial
}

/**
 * A property value that `structuredClone()` and `postMessage()` refuse to copy, with an error that says what to send
 * instead: they would make a plain object of the public properties otherwise. Each object gets its own.
 */
export const notCloneable = (): symbol => Symbol(ONE_THREAD)
