/** The places of fields in memory that threads, or C, have in common. */

/**
 * Places fields one behind the other: each call returns the index of a field of so many words, and one with 0 the number of words so far. A field
 * that is added moves those behind it, and none lies over another.
 */
export function placing(): (words: number) => number {
  let end = 0
  return (words) => {
    const at = end
    end += words
    return at
  }
}
