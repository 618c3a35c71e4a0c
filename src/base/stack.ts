/** The caller's stack as text, with a first line that is no frame, and at most so many frames. */
export function takeStack(frames: number): string {
  const holder = { stack: '' }
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = frames
  Error.captureStackTrace(holder, takeStack)
  Error.stackTraceLimit = limit
  // As text: an unformatted stack keeps the objects reachable of which methods are in it.
  return holder.stack
}
