/** Waits for something that does not report when it is done, by polling. */
import { sleep } from './event-loop.js'

/** Milliseconds between two polls: short at first, for what is done soon. */
const SHORTEST = 0.1
const LONGEST = 10
const GROWTH = 1.5

/**
 * Calls `poll` at once, and then again until it returns a value other than undefined, with which the promise resolves. Rejects with what
 * `poll` throws.
 */
export async function pollUntil<T>(poll: () => T | undefined): Promise<T> {
  for (let wait = SHORTEST; ; wait = Math.min(wait * GROWTH, LONGEST)) {
    const found = poll()
    if (found !== undefined) return found
    await sleep(wait)
  }
}
