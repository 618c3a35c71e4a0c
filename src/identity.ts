/** What makes an object this one and no other, for code that only looks at its properties: comparisons and copies. */

const ONE_THREAD =
  'an object of cuda-streams stays in its thread: send what its share() returns, and take that by from()'

let lastSerial = 0

/** A number that no other object of this thread has: two that differ only in what they keep private are not deep-equal. */
export function nextSerial(): number {
  lastSerial += 1
  return lastSerial
}

/**
 * What `structuredClone()` and `postMessage()` refuse to copy, with an error that says why. Without it they would make a
 * plain object of what others can see, which has nothing behind it. No other object has the same one.
 */
export const notCloneable = (): symbol => Symbol(ONE_THREAD)
