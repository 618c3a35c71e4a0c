/** What a test file printed that another test ran in a process. */

/** Characters of it that a message of a test repeats. */
const MOST = 4000
/** A test that failed, with what is said of it, but not a suite of which a test failed: in TAP, at any depth. */
const FAILED =
  /^( *)not ok \d+.*\n(?:\1 {2}---\n(?!(?:\1 {2}.*\n)*?\1 {2}failureType: 'subtestsFailed')(?:\1 {2}.*\n)*?\1 {2}\.\.\.\n)/gm

/** The tests that failed, as TAP tells them; where none did, the end of what was printed. */
export function whatFailed(output: string): string {
  const failed = [...output.matchAll(FAILED)].map(([text]) => text)
  return failed.length > 0 ? failed.join('').slice(0, MOST) : output.slice(-MOST)
}
