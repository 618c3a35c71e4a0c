/** What the sanitizer has to say, as data and as text. */
import type { Access } from '../driver/driver.js'
import { type CapturedPlace, type CheckedOperation, type HostFunctionOrigin, placesInOneLaunch } from './operations.js'
import type { Region } from './regions.js'
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
  /** Which argument of the kernel the memory is, from 0. */
  readonly argument: number | undefined
  /** For a node of a graph, and what a host function does that is one: where it was captured. */
  readonly capturedAt: readonly string[]
  /** For a node of a graph that was launched within the capture of another: where that was done. */
  readonly withinAt: readonly string[]
  /** For what a host function does: where that was queued, or the graph launched that runs it. */
  readonly queuedAt: readonly string[]
  /** Where its stream was made, if that was seen. */
  readonly streamMadeAt: readonly string[]
}

/** The whole of a buffer that a report is about. */
export interface ReportedBuffer {
  /** Its first address. */
  readonly pointer: bigint
  /** Its length in bytes. */
  readonly byteLength: number
  /** Where the program allocated it. */
  readonly allocatedAt: readonly string[]
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
  /** The buffer that these bytes lie in, where its allocation was seen. */
  readonly buffer: ReportedBuffer | undefined
  /** The line to add, and where. */
  readonly advice: string
  /** With `mend`: has the library queued the wait that was missing, or waited itself? */
  readonly mended: boolean | undefined
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
  readonly region: Region | undefined
  /** All that the second operation has to wait for, on different streams; the first one's is among it. */
  readonly awaited: readonly CheckedOperation[] | undefined
  readonly mended: boolean | undefined
}

/** Where it was written cannot be known, only that it has been. */
export const KEPT_VIEW = 'a view that was kept (it has been used by now)'
export const WRITTEN_ARRAY = 'an array that is registered (it has been written by now)'

export function isWarning(kind: ReportKind): boolean {
  return kind === 'unrecorded-event' || kind === 'foreign-memory'
}

export function reportOf(finding: Finding): SanitizerReport {
  const { kind, start, end, region, mended } = finding
  const places = finding.first && placesInOneLaunch(finding.first.operation, finding.second.operation)
  const first = finding.first && told(finding.first, finding, places?.[0])
  const second = told(finding.second, finding, places?.[1])
  const memory = end > start ? { pointer: BigInt(start), byteLength: end - start } : undefined
  const buffer = region?.made === undefined ? undefined : bufferOf(region)
  const severity = isWarning(kind) ? 'warning' : 'error'
  const report = { kind, severity, first, second, memory, buffer, advice: adviceFor(finding), mended } as const
  return { ...report, message: textOf(report) }
}

function bufferOf({ start, end, made }: Region): ReportedBuffer {
  return { pointer: BigInt(start), byteLength: end - start, allocatedAt: linesOf(made) }
}

/** `place`: that which is to be ordered with the place of the other. */
function told(
  { operation, access }: Finding['second'],
  { start, end }: Finding,
  place: CapturedPlace | undefined,
): ReportedOperation {
  const { what, stream, stack, memory, kind, inside } = operation
  const captured = operation.captured ?? inside?.captured
  const within = place === undefined || place === captured ? captured?.within[0] : place
  const given = memory.find(({ pointer, byteLength }) => pointer < end && pointer + byteLength > start)
  return {
    what,
    access,
    stream: stream?.label,
    stack: linesOf(stack),
    exactStack: stack?.exact ?? true,
    argument: kind === 'work' ? given?.argument : undefined,
    capturedAt: linesOf(captured?.stack),
    withinAt: linesOf(within?.stack),
    queuedAt: linesOf(inside?.queued),
    streamMadeAt: linesOf(stream?.made),
  }
}

const linesOf = (stack: TakenStack | undefined): readonly string[] =>
  stack === undefined ? [] : shownLines(stack.stack)

const HEADINGS: Readonly<Record<ReportKind, string>> = {
  race: 'Race: nothing orders two accesses',
  'host-access': 'JavaScript accesses pinned memory that queued work still uses',
  'use-before-allocation': 'Nothing orders a use of memory after its allocation',
  'use-after-free': 'Nothing orders a use of memory before it is freed',
  'unrecorded-event': 'A wait for an event that was never recorded waits for nothing',
  'foreign-memory': "Another library's memory is used on a stream that waits for no wrapped stream",
}

function textOf({ kind, first, second, memory, buffer, advice, mended }: Omit<SanitizerReport, 'message'>): string {
  const where = memory === undefined ? '' : ` (${bytesOf(memory.pointer, memory.byteLength)})`
  const within = memory === undefined || buffer === undefined ? [] : bufferLines(buffer, memory.pointer)
  const sides =
    first === undefined ? sideLines('', second) : [...sideLines('first, ', first), ...sideLines('then, ', second)]
  const end = mended === undefined ? [] : [mended ? '  Mended: the library has queued that wait.' : '  Not mended.']
  return [`${HEADINGS[kind]}${where}`, ...within, ...sides, `  ${advice}`, ...end].join('\n')
}

function bufferLines({ pointer, byteLength, allocatedAt: [line] }: ReportedBuffer, from: bigint): string[] {
  const offset = from - pointer
  const place = offset === 0n ? 'at the beginning' : `from byte ${offset} on`
  return [`  ${place} of a buffer of ${byteLength} bytes${line === undefined ? '' : `, allocated ${line}`}`]
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
  const argument = side.argument === undefined ? '' : ` its argument ${side.argument}`
  const does = side.access === undefined ? '' : ` ${DOES[side.access]}${argument}`
  const on = side.stream === undefined ? ' in JavaScript' : ` on ${side.stream}`
  const lines = [
    `  ${which}${side.what}${does}${on}${side.exactStack ? '' : ' (the stack is that of an earlier operation of this kind)'}`,
  ]
  lines.push(...side.stack.map((line) => `      ${line}`))
  const isInHostFunction = side.queuedAt.length > 0
  const part = (title: string, stack: readonly string[]): void => {
    if (stack.length > 0) lines.push(`    ${title}`, ...stack.map((line) => `      ${line}`))
  }
  part(isInHostFunction ? 'in a host function captured' : 'captured', side.capturedAt)
  part('in a graph launched within the capture of another', side.withinAt)
  part(side.capturedAt.length > 0 ? 'whose graph was launched' : 'in a host function queued', side.queuedAt)
  const [made] = side.streamMadeAt
  if (made !== undefined && side.stream?.startsWith('Stream(0x')) lines.push(`    ${side.stream} was made ${made}`)
  return lines
}

/** The line that a program lacks. */
function adviceFor({ kind, first, second, awaited }: Finding): string {
  const last = second.operation
  if (kind === 'unrecorded-event') {
    return 'Record the event before this wait: the wait does not refer to later records.'
  }
  if (kind === 'foreign-memory') {
    return `If a wrapped stream wrote it, add \`${last.stream?.label}.wait(thatStream)\` before this ${last.what}.`
  }
  if (first === undefined) return ''
  return orderingAdvice(
    first.operation,
    last,
    awaited === undefined || awaited.length === 0 ? [first.operation] : awaited,
  )
}

function orderingAdvice(
  first: CheckedOperation,
  second: CheckedOperation,
  awaited: readonly CheckedOperation[],
): string {
  if (first.kind === 'free') return 'Close the buffer only after this, or keep it open as long as graphs use it.'
  const [from, to] = [first.stream?.label, second.stream?.label]
  if (comesFromBefore(first, second)) {
    const { label } = (second.inside as HostFunctionOrigin).stream
    const lines = `\`await ${label}.finished()\`, then \`${from}.wait(${to})\``
    return `A host function of ${label}, queued before, queues this ${second.what}: add ${lines} before the ${first.what}.`
  }
  const places = placesInOneLaunch(first, second)
  if (places !== undefined) return adviceWithinGraph(first, second, places)
  const before = `before ${placeOf(second)}`
  const sentences: string[] = []
  const open = awaited.filter(({ stream }) => stream?.closed !== true)
  const waits = open.map(({ stream }) => waitFor(stream?.label, second))
  if (waits.length > 0) sentences.push(`Add ${waits.join(' and ')} ${before}.`)
  for (const { stream } of awaited.filter((one) => !open.includes(one))) {
    const wait = to === undefined ? 'await done.finished()' : `${to}.wait(done)`
    const { label = '' } = stream ?? {}
    sentences.push(
      `Record an event before \`${label}\` is closed (\`const done = ${label}.record()\`), and add \`${wait}\` ${before}.`,
    )
  }
  return sentences.join(' ')
}

/** A stream orders what is captured together; what several captures add to one graph is ordered by its nodes. */
function adviceWithinGraph(
  first: CheckedOperation,
  second: CheckedOperation,
  [earlier, later]: readonly [CapturedPlace, CapturedPlace],
): string {
  const nameOf = (place: CapturedPlace, operation: CheckedOperation): string =>
    place === operation.captured ? nounOf(operation) : 'launch of a graph'
  const [one, other] = [nameOf(earlier, first), nameOf(later, second)]
  if (earlier.capture === later.capture) {
    return `Add \`${later.stream.label}.wait(${earlier.stream.label})\` before this ${other}, inside the capture.`
  }
  return `Name the node of that ${one} in \`after\` where this ${other} is captured: \`capture(fn, { into, after })\`.`
}

function waitFor(from: string | undefined, { stream }: CheckedOperation): string {
  return stream === undefined
    ? `\`await ${from}.finished()\` or \`${from}.synchronize()\``
    : `\`${stream.label}.wait(${from})\``
}

/**
 * Is the later one queued by a host function that was queued before the earlier one? Then it is the one that is meant to come
 * first, and a wait before it would turn the order round.
 */
export function comesFromBefore(first: CheckedOperation, { kind, inside }: CheckedOperation): boolean {
  return kind === 'work' && inside !== undefined && first.inside === undefined && first.sequence > inside.sequence
}

const isUnseenWrite = (what: string): boolean => what === KEPT_VIEW || what === WRITTEN_ARRAY

/** As a part of a sentence. */
const nounOf = ({ kind, what }: CheckedOperation): string => (kind === 'javascript' ? 'host function' : what)

function placeOf({ captured, kind, what, stream }: CheckedOperation): string {
  if (kind === 'free') return 'the buffer is closed'
  if (stream === undefined) return isUnseenWrite(what) ? 'JavaScript writes there' : 'JavaScript accesses the memory'
  if (captured !== undefined) return 'this launch of the graph'
  return kind === 'javascript' ? 'this host function is queued' : `this ${what}`
}
