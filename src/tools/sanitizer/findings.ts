/** Gathers the findings, drops those that were reported before, and makes the reports: data, and the text for people. */

import { streamInCode, streamInSentence } from '../../core/stream-names.js'
import { messageOf } from '../../foundation/base/errors.js'
import { isBefore } from '../../foundation/base/vector-clock.js'
import type { Access } from '../../foundation/driver/touched-memory.js'
import {
  type CapturedPlace,
  type CheckedOperation,
  type HostFunctionOrigin,
  identifyingLines,
  isSamePlace,
  linesOf,
  type OperationStream,
  placesInOneLaunch,
} from './operations.js'
import { pythonVariableMadeAt } from './python-variables.js'
import type { RaceFound, Region } from './regions.js'
import { variableMadeAt } from './stream-variables.js'
import { type Language, languageOf, waitInLanguage } from './waits-of-libraries.js'

/** The error of a sanitizer with findings, thrown in 'throw' mode, and by `sanitize()`. */
export class SanitizerError extends Error {
  /** The code by which a program recognises this error. */
  readonly code = 'ERR_RACE'
  /** The findings; the message has all of their texts. */
  declare readonly reports: readonly SanitizerReport[]

  /**
   * Makes the error of these findings, which only a sanitizer has to do.
   * @param reports The findings.
   * @param options `cause`: what the function of `sanitize()` has thrown besides. Default: it has thrown nothing.
   */
  constructor(reports: readonly SanitizerReport[], options: { readonly cause?: unknown } = {}) {
    const threw = 'cause' in options ? [`The function also threw: ${messageOf(options.cause)}`] : []
    super([...reports.map(({ message }) => message), ...threw].join('\n\n'), options)
    // Not enumerable: where nothing catches the error, Node prints the properties of an error behind its stack, which has all of this as text.
    Object.defineProperty(this, 'reports', { value: reports })
    const lines = reports[0]?.second.stack ?? []
    if (lines.length === 0) return
    // Test runners take the first line that looks like a frame for the place of the error, so that places in the message must not look like one.
    const message = this.message.replace(/^( *)at /gm, '$1- at ')
    this.stack = [`SanitizerError: ${message}`, ...lines.map((line) => `    ${line}`)].join('\n')
  }

  static {
    SanitizerError.prototype.name = 'SanitizerError'
  }
}

const MOST_REPORTS = 100
/** The most findings that are recognised by their whole stacks. */
const MOST_KNOWN = 1024

/** A finding that is not to be reported, and the reason. */
export interface Suppression {
  /** A part of the report's message: a name, a file and line, an operation. */
  readonly match: string
  /** The reason why the finding is no mistake, or is not fixed yet. */
  readonly reason: string
}

/** A suppression, and how many findings it has held back. */
export interface SuppressionUse extends Suppression {
  /** The number of different findings that the suppression has held back. */
  readonly count: number
}

/** The way in which a sanitizer reports findings. */
export type SanitizerMode = 'collect' | 'throw' | 'print'

export const MODES: readonly SanitizerMode[] = ['collect', 'throw', 'print']

/** The options that decide what is done with findings. */
interface FindingsOptions {
  readonly mode: SanitizerMode
  /** Whether missing waits are queued. */
  readonly fix: boolean
  readonly suppress: readonly Suppression[]
  /** Called with each report as soon as it is made. */
  readonly onReport: ((report: SanitizerReport) => void) | undefined
}

export class Findings {
  readonly reports: SanitizerReport[] = []
  readonly suppressed: { readonly match: string; readonly reason: string; count: number }[]
  /** The lines of the reported findings; keys are the other parts of their identity. */
  readonly #reported = new Map<string, (readonly (readonly string[])[])[]>()
  /** The raw stacks of known findings, which save the work of splitting a stack into lines. */
  readonly #known = new Set<string>()
  readonly #onReport: FindingsOptions['onReport']
  /** Whether each error is thrown, so that the call which completes a race is refused. */
  readonly throws: boolean
  readonly fixes: boolean

  constructor({ mode, fix, suppress, onReport }: FindingsOptions) {
    this.throws = mode === 'throw'
    this.fixes = fix
    this.suppressed = suppress.map(({ match, reason }) => ({ match, reason, count: 0 }))
    this.#onReport = onReport
  }

  /** Forgets all reports: what is found again is reported again. */
  forget(): void {
    this.reports.length = 0
    this.#reported.clear()
    this.#known.clear()
  }

  /** Adds findings. Throws in 'throw' mode, if one is an error that was not fixed. */
  add(findings: readonly Finding[], throws = this.throws): void {
    const reports = findings.flatMap((finding) => this.#new(finding) ?? [])
    for (const report of reports) this.#keep(report)
    const errors = reports.filter(({ severity, fixed }) => severity === 'error' && fixed !== true)
    if (throws && errors.length > 0) throw new SanitizerError(errors)
  }

  /** The findings of an operation that are not suppressed, one for each pair of operations. */
  gathered(findings: readonly Finding[], operation: CheckedOperation): readonly Finding[] {
    const pairs = gathered(findings, operation)
    return this.suppressed.length === 0 ? pairs : pairs.filter((finding) => !this.#isSuppressed(finding))
  }

  #isSuppressed(finding: Finding): boolean {
    const { message } = reportOf(finding)
    const suppression = this.suppressed.find(({ match }) => message.includes(match))
    if (suppression !== undefined && this.#isNew(finding)) suppression.count += 1
    return suppression !== undefined
  }

  /**
   * Replaces a report that shows a sampled stack by a later one of the same finding that shows the right one: from the first
   * report on, the stacks of such calls are taken.
   */
  #keep(report: SanitizerReport): void {
    const { first, kind, second } = report
    const isSame = (other: SanitizerReport): boolean =>
      other.kind === kind &&
      other.first?.what === first?.what &&
      other.second.what === second.what &&
      other.second.stack[0] === second.stack[0]
    const at = this.reports.findIndex((other) => other.first?.exactStack === false && isSame(other))
    if (first?.exactStack === false && this.reports.some(isSame)) return
    if (at >= 0) this.reports[at] = report
    else if (this.reports.length < MOST_REPORTS) this.reports.push(report)
    else return
    this.#onReport?.(report)
  }

  /** The report of a finding, unless there was one like it. In 'throw' mode each error is reported again, since each call is refused. */
  #new(finding: Finding): SanitizerReport | undefined {
    if (this.throws && finding.fixed !== true && !isWarning(finding.kind)) return reportOf(finding)
    return this.#isNew(finding) ? reportOf(finding) : undefined
  }

  #isNew(finding: Finding): boolean {
    if (this.reports.length >= MOST_REPORTS) return false
    const { key, stacks } = identityOf(finding)
    const known = [key, ...stacks].join('\n')
    if (this.#known.has(known)) return false
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.add(known)
    const places = stacks.map(identifyingLines)
    const reported = this.#reported.get(key) ?? []
    if (reported.some((others) => others.every((lines, index) => isSamePlace(lines, places[index] ?? [])))) return false
    this.#reported.set(key, [...reported, places])
    return true
  }
}

/**
 * The identity of a finding: the two lines of the program, whatever streams it used there. If no stacks are taken, the streams take their place. A
 * race inside a graph is the same wherever the graph is launched.
 */
function identityOf({ kind, first, second, says }: Finding): {
  readonly key: string
  readonly stacks: readonly string[]
} {
  const inOneGraph = first !== undefined && placesInOneLaunch(first.operation, second.operation) !== undefined
  const key: string[] = [kind, ...(says === undefined ? [] : [says])]
  const stacks: string[] = []
  for (const { what, stream, stack, captured } of [...(first ? [first.operation] : []), second.operation]) {
    const places = captured === undefined ? [] : [captured, ...captured.within]
    const all = [...(inOneGraph ? [] : [stack]), ...places.map((place) => place.stack)]
    const taken = all.filter((one) => one !== undefined)
    const label = (inOneGraph ? captured?.stream : stream)?.label ?? ''
    key.push(what, ...(taken.length > 0 ? taken.map(({ exact }) => String(exact)) : [label]))
    stacks.push(...taken.map((one) => one.stack))
  }
  return { key: key.join('\n'), stacks }
}

/** A race of `operation` with `other`. The `first` of the finding is the one that was called earlier. */
export function raceOf(
  { other, access: itsAccess, start, end }: RaceFound,
  operation: CheckedOperation,
  access: Access,
  region: Region,
): Finding {
  const one = { operation: other, access: accessOf(other, itsAccess) }
  const two = { operation, access: accessOf(operation, access) }
  const [first, second] = other.sequence < operation.sequence ? [one, two] : [two, one]
  return {
    kind: kindOf(first.operation, second.operation),
    first,
    second,
    start,
    end,
    region,
    awaited: undefined,
    fixed: undefined,
  }
}

/** The access that a report shows. An allocation or a free neither reads nor writes, and often it is not known what JavaScript does with a view. */
function accessOf({ kind }: CheckedOperation, access: Access): Access | undefined {
  return kind === 'work' || kind === 'host' || (kind === 'javascript' && access !== 'inout') ? access : undefined
}

const isOfHost = ({ kind }: CheckedOperation): boolean => kind === 'javascript' || kind === 'host'

function kindOf(first: CheckedOperation, second: CheckedOperation): ReportKind {
  if (first.kind === 'free' || second.kind === 'free') return 'use-after-free'
  if (first.kind === 'allocation' || second.kind === 'allocation') return 'use-before-allocation'
  return isOfHost(first) || isOfHost(second) ? 'host-access' : 'race'
}

/**
 * The findings with one for each pair of operations, which spans all their bytes; the latest of the other operations comes first. Findings about one
 * operation alone become one of each kind.
 */
function gathered(findings: readonly Finding[], operation: CheckedOperation): Finding[] {
  const other = ({ first, second }: Finding): CheckedOperation | undefined =>
    second.operation === operation ? first?.operation : second.operation
  const pairs = new Map<CheckedOperation | ReportKind, Finding>()
  for (const finding of findings) {
    const pair = other(finding) ?? finding.kind
    const known = pairs.get(pair)
    const start = Math.min(known?.start ?? finding.start, finding.start)
    const end = Math.max(known?.end ?? finding.end, finding.end)
    pairs.set(pair, { ...(known ?? finding), start, end })
  }
  const age = (finding: Finding): number => other(finding)?.sequence ?? 0
  const sorted = [...pairs.values()].sort((a, b) => age(b) - age(a))
  const earlier = sorted.flatMap((finding) => (finding.second.operation === operation ? (other(finding) ?? []) : []))
  // A wait before the launch does not order nodes of one launch.
  const awaited = latestOf(earlier.filter((one) => placesInOneLaunch(one, operation) === undefined))
  return sorted.map((finding) => (finding.second.operation === operation ? { ...finding, awaited } : finding))
}

/** The operations that none of the others comes after, one for each stream. */
function latestOf(operations: readonly CheckedOperation[]): readonly CheckedOperation[] {
  const latest: CheckedOperation[] = []
  for (const operation of operations) {
    const { stream } = operation
    if (stream !== undefined && latest.every((other) => other.stream !== stream && !isBefore(operation, other))) {
      latest.push(operation)
    }
  }
  return latest
}

/**
 * The kinds of findings:
 * - `race`: two accesses to the same bytes, one of them a write, that nothing orders
 * - `host-access`: JavaScript asked for a view of pinned memory that queued work still writes or reads, or the process touched it otherwise
 * - `use-before-allocation`: work that nothing orders after the allocation of its memory
 * - `use-after-free`: work that nothing orders before the memory is given back, or that comes after
 * - `unrecorded-event`: a wait for an event that was never recorded, which waits for nothing
 * - `foreign-memory`: memory of another library, used on a stream that follows none of the wrapped streams
 * - `wrong-signature`: a kernel writes memory that its signature says it only reads
 * - `outside-argument`: a kernel touches bytes of a buffer beside the part that it was given
 * - `uninitialised-read`: a kernel reads memory of the device that nothing has written, or the host gets the tail that a launch left
 * - `shared-memory-race`: threads of a block access the same shared memory without a barrier between
 * - `global-memory-race`: warps or blocks of a launch access the same global memory, and nothing orders them
 * - `diverging-barrier`: threads of a block wait at different barriers, or some at none
 * - `shuffle-from-absent-lane`, `lane-not-in-mask`: a warp's operation with lanes that do not take part
 * - `unfinished-product`: registers of `wgmma` are read before `wgmma.wait_group`, or changed without `wgmma.fence`
 * - `unfinished-copy`: a kernel uses shared memory while an asynchronous copy to or from it is under way
 * - `missing-proxy-fence`: an asynchronous copy, or `wgmma`, reads shared memory that a thread has written without `fence.proxy.async` behind it
 * - `wrong-copy`: an asynchronous copy whose size a GPU changes
 * - `block-that-ended`: a block accesses the shared memory of another one of its cluster that has ended
 *
 * The last twelve are found by the simulator alone, where it runs the code of a kernel.
 */
export type ReportKind =
  | 'race'
  | 'host-access'
  | 'use-before-allocation'
  | 'use-after-free'
  | 'unrecorded-event'
  | 'foreign-memory'
  | 'wrong-signature'
  | 'outside-argument'
  | 'uninitialised-read'
  | 'shared-memory-race'
  | 'global-memory-race'
  | 'diverging-barrier'
  | 'shuffle-from-absent-lane'
  | 'lane-not-in-mask'
  | 'unfinished-product'
  | 'unfinished-copy'
  | 'missing-proxy-fence'
  | 'wrong-copy'
  | 'block-that-ended'

/** One of the two operations of a report. */
export interface ReportedOperation {
  /** The kind and name of the operation: 'copy', 'fill', "kernel 'axpy'", 'a view' … */
  readonly what: string
  /** The access to the memory; undefined if no memory is touched. */
  readonly access: Access | undefined
  /** The stream's name, or 'stream 3', by `stream.id`; undefined for JavaScript outside of host functions. */
  readonly stream: string | undefined
  /** The thread of the operation (`threadId`), if it is another than the one which reports it. */
  readonly thread: number | undefined
  /** The place at which the program queued the operation: its own lines, innermost first. Empty if stacks are not taken. */
  readonly stack: readonly string[]
  /** Whether the stack is the operation's own. If not, it is that of an earlier operation of this kind, on this stream and with this memory. */
  readonly exactStack: boolean
  /** The index of the kernel's argument that is this memory, from 0. */
  readonly argument: number | undefined
  /** The place at which a node of a graph was captured; also for the operations of a host function that is such a node. */
  readonly capturedAt: readonly string[]
  /** The places at which a node's graph was launched within the capture of another graph. */
  readonly withinAt: readonly string[]
  /** The place at which a host function was queued, or a graph that runs it was launched, for operations of the host function. */
  readonly queuedAt: readonly string[]
  /** The place at which the operation's stream was made, if that was observed. */
  readonly streamMadeAt: readonly string[]
}

/** The whole of a buffer that a report is about. */
export interface ReportedBuffer {
  /** The first address of the buffer. */
  readonly pointer: bigint
  /** The length of the buffer in bytes. */
  readonly byteLength: number
  /** The place at which the program allocated the buffer. */
  readonly allocatedAt: readonly string[]
}

/** The report of one finding. */
export interface SanitizerReport {
  /** The kind of the finding. */
  readonly kind: ReportKind
  /** A warning may be a false alarm, and is never thrown. */
  readonly severity: 'error' | 'warning'
  /** The operation that was called earlier; undefined if only one operation is at fault. */
  readonly first: ReportedOperation | undefined
  /** The operation that was called later. */
  readonly second: ReportedOperation
  /** The bytes that both operations touch, or all that the single one touches. */
  readonly memory: { readonly pointer: bigint; readonly byteLength: number } | undefined
  /** The buffer that these bytes lie in, if its allocation was observed. */
  readonly buffer: ReportedBuffer | undefined
  /** The line to add to the program, and its place. */
  readonly advice: string
  /** Whether the library has queued the missing wait, or has waited itself. Undefined without the option `fix`. */
  readonly fixed: boolean | undefined
  /** The whole report as text, to be printed. */
  readonly message: string
}

/** A finding before it is described. */
export interface Finding {
  readonly kind: ReportKind
  readonly first: { readonly operation: CheckedOperation; readonly access: Access | undefined } | undefined
  readonly second: { readonly operation: CheckedOperation; readonly access: Access | undefined }
  readonly start: number
  readonly end: number
  readonly region: Region | undefined
  /** The operations on different streams for which the second one has to wait; the first one's is among them. */
  readonly awaited: readonly CheckedOperation[] | undefined
  readonly fixed: boolean | undefined
  /** The text that takes the place of the advice on a missing wait. */
  readonly says?: string
}

/** The description of writes of JavaScript that no call shows: only that they have happened is known. */
export const KEPT_VIEW = 'a view that was kept (it has been used by now)'
export const WRITTEN_ARRAY = 'an array that is registered (it has been written by now)'

/** Copies that read their source outside of the order of their stream. */
export const COPY_IN_ANY_ORDER = 'copy that may read before what its stream waits for (CU_MEMCPY_SRC_ACCESS_ORDER_ANY)'
export const COPY_DURING_CALL = 'copy that reads at once (CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)'

const WARNINGS: readonly ReportKind[] = [
  'unrecorded-event',
  'foreign-memory',
  'outside-argument',
  'uninitialised-read',
  'unfinished-product',
]

export function isWarning(kind: ReportKind): boolean {
  return WARNINGS.includes(kind)
}

function reportOf(finding: Finding): SanitizerReport {
  const { kind, start, end, region, fixed } = finding
  const places = finding.first && placesInOneLaunch(finding.first.operation, finding.second.operation)
  const first = finding.first && sideOf(finding.first, finding, places?.[0])
  const second = sideOf(finding.second, finding, places?.[1])
  const memory = end > start ? { pointer: BigInt(start), byteLength: end - start } : undefined
  const buffer = region?.made === undefined ? undefined : bufferOf(region)
  const severity = isWarning(kind) ? 'warning' : 'error'
  const report = { kind, severity, first, second, memory, buffer, advice: adviceFor(finding), fixed } as const
  return { ...report, message: textOf(report, isBeginning(finding), languageOf(finding.second.operation) === 'Python') }
}

/** Whether only the first byte of what a kernel touches is known: the trace of a whole process has no more than the kernel's arguments. */
const isBeginning = ({ first, second, start, end }: Finding): boolean =>
  end - start === 1 &&
  languageOf(second.operation, first?.operation) !== undefined &&
  [first, second].some((side) => side?.operation.what.startsWith('kernel ') === true)

function bufferOf({ start, end, made }: Region): ReportedBuffer {
  return { pointer: BigInt(start), byteLength: end - start, allocatedAt: linesOf(made) }
}

/** One side of a report. `place` is the place that is to be ordered with that of the other side. */
function sideOf(
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
    thread: operation.other?.thread,
    stack: linesOf(stack),
    exactStack: stack?.exact ?? true,
    argument: kind === 'work' ? given?.argument : undefined,
    capturedAt: linesOf(captured?.stack),
    withinAt: linesOf(within?.stack),
    queuedAt: linesOf(inside?.queued),
    streamMadeAt: linesOf(stream?.made),
  }
}

const HEADINGS: Readonly<Record<ReportKind, string>> = {
  race: 'Race: nothing orders two accesses',
  'host-access': 'JavaScript accesses pinned memory that queued work still uses',
  'use-before-allocation': 'Nothing orders a use of memory after its allocation',
  'use-after-free': 'Nothing orders a use of memory before it is freed',
  'unrecorded-event': 'A wait for an event that was never recorded waits for nothing',
  'foreign-memory': "Another library's memory is used on a stream that waits for no wrapped stream",
  'wrong-signature': 'A kernel writes memory that its signature says it only reads',
  'outside-argument': 'A kernel touches bytes of a buffer beside the part that it was given',
  'uninitialised-read': 'A kernel reads memory that nothing has written',
  'shared-memory-race': 'Threads of a kernel race for shared memory',
  'global-memory-race': 'Blocks or warps of one launch race for global memory',
  'diverging-barrier': 'Threads of a kernel do not meet at one barrier',
  'shuffle-from-absent-lane': 'A lane of a warp takes a value from one that does not take part',
  'lane-not-in-mask': 'A lane of a warp takes part that its mask leaves out',
  'unfinished-product': 'A kernel touches registers of a product that may be under way',
  'unfinished-copy': 'A kernel does not wait for an asynchronous copy',
  'missing-proxy-fence': 'An asynchronous copy or a product reads what a thread has written without a fence for it',
  'wrong-copy': 'An asynchronous copy has a size that is none',
  'block-that-ended': 'A block accesses the shared memory of another one that has ended',
}

/** The beginning of the description of what a process does itself, in any language. */
const BY_HOST = 'the host'

function headingOf(kind: ReportKind, { what }: ReportedOperation): string {
  if (what.startsWith(BY_HOST)) return 'The host uses page-locked memory that queued work still uses'
  if (kind === 'uninitialised-read' && !what.startsWith('kernel '))
    return 'The host gets memory that nothing has written'
  return HEADINGS[kind]
}

function textOf(
  { kind, first, second, memory, buffer, advice, fixed }: Omit<SanitizerReport, 'message'>,
  isOnlyBeginning: boolean,
  isPython: boolean,
): string {
  const bytes = memory && (isOnlyBeginning ? beginningOf(memory.pointer) : bytesOf(memory.pointer, memory.byteLength))
  const where = bytes === undefined ? '' : ` (${bytes})`
  const within = memory === undefined || buffer === undefined ? [] : bufferLines(buffer, memory.pointer, isPython)
  const sides =
    first === undefined ? sideLines('', second) : [...sideLines('first, ', first), ...sideLines('then, ', second)]
  const end = fixed === undefined ? [] : [fixed ? '  Fixed: the library has queued that wait.' : '  Not fixed.']
  return [`${headingOf(kind, second)}${where}`, ...within, ...sides, `  ${advice}`, ...end].join('\n')
}

function bufferLines(
  { pointer, byteLength, allocatedAt: [line] }: ReportedBuffer,
  from: bigint,
  isPython: boolean,
): string[] {
  const offset = from - pointer
  // What their allocators have from CUDA holds tensors of later lines, too.
  const since = isPython ? ' and perhaps divided since, as PyTorch and CuPy do' : ''
  const place = offset === 0n ? 'at the beginning' : `from byte ${offset} on`
  return [`  ${place} of a buffer of ${byteLength} bytes${line === undefined ? '' : `, allocated ${line}${since}`}`]
}

function bytesOf(pointer: bigint, byteLength: number): string {
  return `${byteLength} byte${byteLength === 1 ? '' : 's'} from 0x${pointer.toString(16)} to 0x${(pointer + BigInt(byteLength)).toString(16)}`
}

const beginningOf = (pointer: bigint): string =>
  `from 0x${pointer.toString(16)} on: of what a kernel touches only the first byte is known`

const DOES: Readonly<Record<Access, string>> = {
  in: 'reads',
  out: 'writes',
  inout: 'reads and writes',
  atomic: 'updates atomically',
}

function sideLines(which: string, side: ReportedOperation): string[] {
  const argument = side.argument === undefined ? '' : ` its argument ${side.argument}`
  const does = side.access === undefined ? '' : ` ${DOES[side.access]}${argument}`
  const byHost = side.what.startsWith(BY_HOST) ? '' : ' in JavaScript'
  const on = side.stream === undefined ? byHost : ` on ${streamInSentence(side.stream)}`
  const by = side.thread === undefined ? '' : ` by ${threadName(side.thread)}`
  const lines = [
    `  ${which}${side.what}${does}${on}${by}${side.exactStack ? '' : ' (the stack is that of an earlier operation of this kind)'}`,
  ]
  lines.push(...side.stack.map((line) => `      ${line}`))
  const isInHostFunction = side.queuedAt.length > 0
  const part = (title: string, stack: readonly string[]): void => {
    if (stack.length > 0) lines.push(`    ${title}`, ...stack.map((line) => `      ${line}`))
  }
  part(isInHostFunction ? 'in a host function captured' : 'its node was made', side.capturedAt)
  part('in a child graph, whose node was made', side.withinAt)
  part(side.capturedAt.length > 0 ? 'whose graph was launched' : 'in a host function queued', side.queuedAt)
  const [made] = side.streamMadeAt
  if (made !== undefined && side.stream !== undefined && UNNAMED.test(side.stream)) {
    const variable = variableMadeAt(made) ?? pythonVariableMadeAt(made)?.name
    lines.push(`    ${side.stream}${variable === undefined ? '' : `, \`${variable}\`,`} was made ${made}`)
  }
  return lines
}

const UNNAMED = /^(?:stream \d+|Stream\(0x.*)$/

/**
 * The names of streams in advice: the name that the program gave, else the variable that has the stream, else the number. Streams that are made by
 * one line, as those of an array are, have no variable of their own, nor have those of variables of one name.
 */
function inCode(stream: OperationStream, ...others: readonly (OperationStream | undefined)[]): string {
  const { label, made } = stream
  if (!UNNAMED.test(label)) return streamInCode(label)
  const [line] = linesOf(made)
  const variable = variableMadeAt(line)
  if (variable === undefined) return streamInCode(label)
  const isShared = others.some((other) => {
    if (other === undefined || other === stream) return false
    const [otherLine] = linesOf(other.made)
    return otherLine === line || variableMadeAt(otherLine) === variable
  })
  return isShared ? streamInCode(label) : variable
}

const threadName = (thread: number): string => (thread === 0 ? 'the main thread' : `thread ${thread}`)

/** The line that a program lacks. */
function adviceFor({ kind, first, second, awaited, says }: Finding): string {
  if (says !== undefined) return says
  const last = second.operation
  if (kind === 'unrecorded-event') {
    return 'Record the event before this wait: the wait does not refer to later records.'
  }
  if (kind === 'foreign-memory') {
    const stream = last.stream && inCode(last.stream)
    return `If a wrapped stream wrote it, add \`${stream}.wait(thatStream)\` before this ${last.what}.`
  }
  if (first === undefined) return ''
  if (last.what === COPY_IN_ANY_ORDER || last.what === COPY_DURING_CALL) {
    return `Give the copy \`srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM\`, or let the host wait for that ${first.operation.what} before this call: no wait of its stream orders the read.`
  }
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
  const language = languageOf(second, first)
  if (language !== undefined) return adviceInLanguage(language, first, second, awaited)
  if (first.kind === 'free') return 'Close the buffer only after this, or keep it open as long as graphs use it.'
  const all = [first.stream, second.stream, second.inside?.stream, ...awaited.map(({ stream }) => stream)]
  const code = (stream: OperationStream | undefined): string | undefined => stream && inCode(stream, ...all)
  const [from, to] = [code(first.stream), code(second.stream)]
  if (comesFromBefore(first, second)) {
    const { stream, launch } = second.inside as HostFunctionOrigin
    const { label } = stream
    if (launch !== undefined && first.sequence <= launch.last) {
      const wait = `\`${to}.wait(${code(stream)})\` before it`
      return `A host function of the same launch queues this ${second.what}: capture it in the graph, or add ${wait} so that it comes after the whole launch.`
    }
    const lines = `\`await ${code(stream)}.finished()\`, then \`${from}.wait(${to})\``
    const place =
      first.captured === undefined ? `the ${first.what}` : `the launch of the graph that has the ${first.what}`
    return `A host function of ${streamInSentence(label)}, queued before, queues this ${second.what}: add ${lines} before ${place}.`
  }
  const places = placesInOneLaunch(first, second)
  if (places !== undefined) return adviceWithinGraph(first, second, places)
  const before = `before ${placeOf(second)}`
  const sentences = awaited.flatMap(({ other, what }) => {
    if (other === undefined) return []
    const wait = to === undefined ? 'await theEvent.finished()' : `${to}.wait(theEvent)`
    return [
      `Let ${threadName(other.thread)} record an event after that ${what} and share it, and add \`${wait}\` ${before}.`,
    ]
  })
  const ofThisThread = awaited.filter(({ other }) => other === undefined)
  const open = ofThisThread.filter(({ stream }) => stream?.closed !== true)
  const waits = open.map(({ stream }) => waitFor(code(stream), to))
  if (waits.length > 0) sentences.push(`Add ${waits.join(' and ')} ${before}.`)
  for (const { stream } of ofThisThread.filter((one) => !open.includes(one))) {
    const wait = to === undefined ? 'await done.finished()' : `${to}.wait(done)`
    const name = code(stream)
    sentences.push(
      `Record an event before \`${name}\` is closed (\`const done = ${name}.record()\`), and add \`${wait}\` ${before}.`,
    )
  }
  return sentences.join(' ')
}

/** The advice for a program in Python or C++. */
function adviceInLanguage(
  language: Language,
  first: CheckedOperation,
  second: CheckedOperation,
  awaited: readonly CheckedOperation[],
): string {
  if (first.kind === 'free') return 'Free the memory only after this, or keep it as long as graphs use it.'
  const places = placesInOneLaunch(first, second)
  if (places === undefined) {
    const before = second.kind === 'free' ? 'before the memory is freed' : `before ${placeOf(second)}`
    return waitInLanguage(language, awaited, second, before)
  }
  const [earlier, later] = places
  const [one, other] = [nounAt(earlier, first), nounAt(later, second)]
  if (earlier.capture !== later.capture) {
    const [before, after] = [
      earlier === first.captured ? one : 'child graph',
      later === second.captured ? other : 'child graph',
    ]
    return `Let the node of this ${after} depend on that of that ${before} (\`cudaGraphAddDependencies\`).`
  }
  return waitInLanguage(
    language,
    [{ what: one, stream: earlier.stream, stack: earlier.stack }],
    { what: other, stream: later.stream, stack: later.stack },
    `before this ${other}, inside the capture`,
  )
}

/** The advice for two nodes of a graph. A stream orders what is captured together; what several captures add to one graph is ordered by its nodes. */
function adviceWithinGraph(
  first: CheckedOperation,
  second: CheckedOperation,
  [earlier, later]: readonly [CapturedPlace, CapturedPlace],
): string {
  const [one, other] = [nounAt(earlier, first), nounAt(later, second)]
  if (earlier.capture === later.capture) {
    const [from, to] = [inCode(earlier.stream, later.stream), inCode(later.stream, earlier.stream)]
    return `Add \`${to}.wait(${from})\` before this ${other}, inside the capture.`
  }
  return `Name the node of that ${one} in \`after\` where this ${other} is captured: \`capture(fn, { into, after })\`.`
}

const nounAt = (place: CapturedPlace, operation: CheckedOperation): string =>
  place === operation.captured ? nounOf(operation) : 'launch of a graph'

function waitFor(from: string | undefined, to: string | undefined): string {
  return to === undefined ? `\`await ${from}.finished()\` or \`${from}.synchronize()\`` : `\`${to}.wait(${from})\``
}

/**
 * Whether the later operation is queued by a host function that was queued before the earlier one. Then it is the one that is meant to come first,
 * and a wait before it would turn the order round.
 */
export function comesFromBefore(first: CheckedOperation, { kind, inside }: CheckedOperation): boolean {
  return kind === 'work' && inside !== undefined && first.inside === undefined && first.sequence > inside.sequence
}

const isUnseenWrite = (what: string): boolean => what === KEPT_VIEW || what === WRITTEN_ARRAY

/** The description of an operation as a part of a sentence. */
const nounOf = ({ kind, what }: CheckedOperation): string => (kind === 'javascript' ? 'host function' : what)

function placeOf({ captured, kind, what, stream, inside }: CheckedOperation): string {
  if (kind === 'free') return 'the buffer is closed'
  if (kind === 'host') return 'the host uses the memory'
  if (stream === undefined) return isUnseenWrite(what) ? 'JavaScript writes there' : 'JavaScript accesses the memory'
  if (kind !== 'javascript') return captured === undefined ? `this ${what}` : 'this launch of the graph'
  // The lines that the report begins with are of the host function, where a wait comes too late.
  const [line] = inside?.queued?.exact === true ? linesOf(inside.queued) : []
  if (captured === undefined) return line === undefined ? 'this host function is queued' : `it is queued ${line}`
  return line === undefined ? 'the graph of this host function is launched' : `its graph is launched ${line}`
}
