/** What a test file printed that another test ran in a process. */

/** Characters of it that a message of a test repeats. */
const MOST = 4000
/** Lines of it where the process was ended from outside. */
const MOST_LINES = 60
/** A test that failed, with what is said of it, but not a suite of which a test failed: in TAP, at any depth. */
const FAILED =
  /^( *)not ok \d+.*\n(?:\1 {2}---\n(?!(?:\1 {2}.*\n)*?\1 {2}failureType: 'subtestsFailed')(?:\1 {2}.*\n)*?\1 {2}\.\.\.\n)/gm

/** The tests that failed, as TAP tells them; where none did, the end of what was printed. */
export function whatFailed(output: string): string {
  const failed = [...output.matchAll(FAILED)].map(([text]) => text)
  return failed.length > 0 ? failed.join('').slice(0, MOST) : output.slice(-MOST)
}

/** How a process ended that was to end well. Of one that was ended by a signal also what it said last, which may be all. */
export function howItEnded({ code, output }: { readonly code: unknown; readonly output: string }): string {
  if (typeof code !== 'string') return whatFailed(output)
  const lines = output.trimEnd().split('\n')
  const left = lines.length > MOST_LINES ? [`… ${lines.length - MOST_LINES} lines`] : []
  const failed = [...output.matchAll(FAILED)].map(([text]) => text)
  return [`it was ended by ${code}`, ...failed, ...left, ...lines.slice(-MOST_LINES)].join('\n')
}
