/** What the sanitizer has to say, as data and as text. */
import type { Access } from '../driver/driver.js'
import { type CheckedOperation, isSameLaunch } from './operations.js'
import { shownLines, type TakenStack } from './stacks.js'

/**
 * - `race`: two accesses to the same bytes, one of them a write, that nothing orders
 * - `host-access`: JavaScript asked for a view of pinned memory that queued work still writes or reads
 * - `use-before-allocation`: work that nothing orders after the allocation of its memory
 * - `use-after-free`: work that nothing orders before the memory is given back, or that comes after
 * - `unrecorded-event`: a wait for an event that was never recorded, which waits for nothing
 * - `foreign-memory`: memory of another library, used on a stream that follows none of the wrapped streams
 */
export type ReportKind =
  | 'race'
  | 'host-access'
  | 'use-before-allocation'
  | 'use-after-free'
  | 'unrecorded-event'
  | 'foreign-memory'

/** One side of a report. */
export interface ReportedOperation {
  /** 'copy', 'fill', "kernel 'axpy'", 'a view' … */
  readonly what: string
  /** Undefined where no memory is touched. */
  readonly access: Access | undefined
  /** The stream's name, or `Stream(0x…)`; undefined for JavaScript outside of host functions. */
  readonly stream: string | undefined
  /** Where the program queued it: its own lines, innermost first. Empty where stacks are not taken. */
  readonly stack: readonly string[]
  /** False: the stack is that of an earlier operation of this kind, on this stream and with this memory. */
  readonly exactStack: boolean
  /** For a node of a graph: where it was captured. */
  readonly capturedAt: readonly string[]
  /** Where its stream was made, if that was seen. */
  readonly streamMadeAt: readonly string[]
}

/** One thing that was found. */
export interface SanitizerReport {
  /** What it is. */
  readonly kind: ReportKind
  /** A warning may be a false alarm, and is never thrown. */
  readonly severity: 'error' | 'warning'
  /** Called earlier; undefined where only one operation is at fault. */
  readonly first: ReportedOperation | undefined
  /** Called later. */
  readonly second: ReportedOperation
  /** The bytes that both touch, or all that the one does. */
  readonly memory: { readonly pointer: bigint; readonly byteLength: number } | undefined
  /** The line to add, and where. */
  readonly advice: string
  /** All of it, to be printed. */
  readonly message: string
}

/** What was found, before it is put into words. */
export interface Finding {
  readonly kind: ReportKind
  readonly first: { readonly operation: CheckedOperation; readonly access: Access | undefined } | undefined
  readonly second: { readonly operation: CheckedOperation; readonly access: Access | undefined }
  readonly start: number
  readonly end: number
}

export function isWarning(kind: ReportKind): boolean {
  return kind === 'unrecorded-event' || kind === 'foreign-memory'
}

export function reportOf(finding: Finding): SanitizerReport {
  const { kind, start, end } = finding
  const first = finding.first === undefined ? undefined : told(finding.first.operation, finding.first.access)
  const second = told(finding.second.operation, finding.second.access)
  const memory = end > start ? { pointer: BigInt(start), byteLength: end - start } : undefined
  const severity = isWarning(kind) ? 'warning' : 'error'
  const report = { kind, severity, first, second, memory, advice: adviceFor(finding) } as const
  return { ...report, message: textOf(report) }
}

function told(operation: CheckedOperation, access: Access | undefined): ReportedOperation {
  const { what, stream, stack, captured } = operation
  return {
    what,
    access,
    stream: stream?.label,
    stack: linesOf(stack),
    exactStack: stack?.exact ?? true,
    capturedAt: linesOf(captured?.stack),
    streamMadeAt: linesOf(stream?.made),
  }
}

const linesOf = (stack: TakenStack | undefined): readonly string[] =>
  stack === undefined ? [] : shownLines(stack.stack)

const HEADINGS: Readonly<Record<ReportKind, string>> = {
  race: 'Race: nothing orders two accesses',
  'host-access': 'JavaScript touches pinned memory while queued work does',
  'use-before-allocation': 'Memory is used, and nothing orders that after its allocation',
  'use-after-free': 'Memory is used, and nothing orders that before it is given back',
  'unrecorded-event': 'A wait for an event that was never recorded waits for nothing',
  'foreign-memory': "Another library's memory is used on a stream that waits for none of the wrapped streams",
}

function textOf({ kind, first, second, memory, advice }: Omit<SanitizerReport, 'message'>): string {
  const where = memory === undefined ? '' : ` (${bytesOf(memory.pointer, memory.byteLength)})`
  const sides =
    first === undefined ? sideLines('', second) : [...sideLines('first, ', first), ...sideLines('then, ', second)]
  return [`${HEADINGS[kind]}${where}`, ...sides, `  ${advice}`].join('\n')
}

function bytesOf(pointer: bigint, byteLength: number): string {
  return `${byteLength} byte${byteLength === 1 ? '' : 's'} from 0x${pointer.toString(16)} to 0x${(pointer + BigInt(byteLength)).toString(16)}`
}

const DOES: Readonly<Record<Access, string>> = {
  in: 'reads',
  out: 'writes',
  inout: 'reads and writes',
  atomic: 'updates atomically',
}

function sideLines(which: string, side: ReportedOperation): string[] {
  const does = side.access === undefined ? '' : ` ${DOES[side.access]}`
  const on = side.stream === undefined ? ' in JavaScript' : ` on ${side.stream}`
  const lines = [
    `  ${which}${side.what}${does}${on}${side.exactStack ? '' : ' (the lines are those of an earlier one like it)'}`,
  ]
  lines.push(...side.stack.map((line) => `      ${line}`))
  if (side.capturedAt.length > 0) lines.push('    captured', ...side.capturedAt.map((line) => `      ${line}`))
  const [made] = side.streamMadeAt
  if (made !== undefined && side.stream?.startsWith('Stream(0x')) lines.push(`    ${side.stream} was made ${made}`)
  return lines
}

/** The line that a program lacks. */
function adviceFor({ kind, first, second }: Finding): string {
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
