/** The line that a program lacks. */
import { type CheckedOperation, isSameLaunch } from './operations.js'
import type { Finding } from './reports.js'

export function adviceFor({ kind, first, second }: Finding): string {
  const last = second.operation
  if (kind === 'unrecorded-event') {
    return 'Record the event before this wait; a record that comes later is not waited for.'
  }
  if (kind === 'foreign-memory') {
    return `If a wrapped stream wrote it, add \`${last.stream?.label}.wait(thatStream)\` before this ${last.what}.`
  }
  if (first === undefined) return ''
  return orderingAdvice(first.operation, last)
}

function orderingAdvice(first: CheckedOperation, second: CheckedOperation): string {
  if (first.kind === 'free') return 'Close the buffer only after this, or keep it open as long as graphs use it.'
  const from = first.stream?.label
  if (second.stream === undefined) {
    const before = second.kind === 'free' ? 'before the buffer is closed' : 'before JavaScript looks'
    return `Add \`await ${from}.finished()\` or \`${from}.synchronize()\` ${before}.`
  }
  if (isSameLaunch(first, second)) {
    const [earlier, later] = [first.captured?.stream.label, second.captured?.stream.label]
    return `Add \`${later}.wait(${earlier})\` before this ${second.what}, inside the capture.`
  }
  const before = second.kind === 'free' ? 'before the buffer is closed' : `before this ${nounOf(second)}`
  return `Add \`${second.stream.label}.wait(${from})\` ${before}.`
}

function nounOf({ captured, kind, what }: CheckedOperation): string {
  if (captured !== undefined) return 'launch of the graph'
  return kind === 'javascript' ? 'host function is queued' : what
}
