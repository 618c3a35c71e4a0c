/** The stack of whoever calls this, as text with a first line that is no frame; so many frames of it at most. */
export function takeStack(frames: number): string {
  const holder = { stack: '' }
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = frames
  Error.captureStackTrace(holder, takeStack)
  Error.stackTraceLimit = limit
  // As text: a stack that is kept as it is keeps the objects reachable whose methods are in it.
  return holder.stack
}
