/** Properties that tell an object from every other, for code that compares or copies objects by their properties. */

const ONE_THREAD =
  'an object of cuda-streams stays in its thread: send what share() of a stream, event or device buffer returns, and take that by from()'

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
