/** Waits for something that does not report when it is over: looks now and then. */
import { sleep } from '../base/event-loop.js'

/** Milliseconds between two looks: short at first, for what is done soon. */
const SHORTEST = 0.1
const LONGEST = 10
const GROWTH = 1.5

/**
 * Looks at once, and then again until `look` finds something, with which it resolves. Rejects with what `look` throws.
 */
export async function lookUntil<T>(look: () => T | undefined): Promise<T> {
  for (let wait = SHORTEST; ; wait = Math.min(wait * GROWTH, LONGEST)) {
    const found = look()
    if (found !== undefined) return found
    await sleep(wait)
  }
}
