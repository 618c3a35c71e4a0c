/** Gathers findings: each once, no more than a program's author can read, and reported in the way that was asked for. */
import type { Access } from '../driver/driver.js'
import { isBefore } from './clocks.js'
import { type CheckedOperation, placesInOneLaunch } from './operations.js'
import type { RaceFound } from './ranges.js'
import type { Region } from './regions.js'
import { type Finding, isWarning, type ReportKind, reportOf, type SanitizerReport } from './reports.js'
import { isSamePlace, tellingLines } from './stacks.js'

/** Thrown in 'throw' mode, and by `sanitize()`. */
export class SanitizerError extends Error {
  /** What to match on. */
  readonly code = 'ERR_RACE'
  /** What was found; the message is all of their texts. */
  readonly reports: readonly SanitizerReport[]

  /**
   * Made by the sanitizer.
   * @param reports The findings.
   */
  constructor(reports: readonly SanitizerReport[]) {
    super(reports.map(({ message }) => message).join('\n\n'))
    this.reports = reports
    const lines = reports[0]?.second.stack ?? []
    if (lines.length > 0)
      this.stack = [`SanitizerError: ${this.message}`, ...lines.map((line) => `    ${line}`)].join('\n')
  }

  static {
    SanitizerError.prototype.name = 'SanitizerError'
  }
}

const MOST_REPORTS = 100
/** So many findings are known again by their whole stacks. */
const MOST_KNOWN = 1024

/** What is not to be reported, and why. */
export interface Suppression {
  /** A part of the report's message: a name, a file and line, an operation. */
  readonly match: string
  /** Why it is no mistake, or not yet mended. */
  readonly reason: string
}

/** A suppression, and how many findings it has held back. */
export interface SuppressionUse extends Suppression {
  /** Different findings. */
  readonly count: number
}

/** How a sanitizer reports what it finds. */
export type SanitizerMode = 'collect' | 'throw' | 'print'

export const MODES: readonly SanitizerMode[] = ['collect', 'throw', 'print']

/** How findings are dealt with. */
interface FindingsOptions {
  readonly mode: SanitizerMode
  /** Waits that are missing are queued. */
  readonly mend: boolean
  readonly suppress: readonly Suppression[]
  /** Called with each report at once. */
  readonly tell: ((report: SanitizerReport) => void) | undefined
}

export class Findings {
  readonly reports: SanitizerReport[] = []
  readonly suppressed: { readonly match: string; readonly reason: string; count: number }[]
  /** The lines of those that are reported, by what else tells them apart. */
  readonly #told = new Map<string, (readonly (readonly string[])[])[]>()
  /** By their stacks as they were taken: to take the lines out of one costs more than to take it. */
  readonly #known = new Set<string>()
  readonly #tell: FindingsOptions['tell']
  /** Each error is thrown, so that the call which completes a race is refused. */
  readonly throws: boolean
  readonly mends: boolean

  constructor({ mode, mend, suppress, tell }: FindingsOptions) {
    this.throws = mode === 'throw'
    this.mends = mend
    this.suppressed = suppress.map(({ match, reason }) => ({ match, reason, count: 0 }))
    this.#tell = tell
  }

  /** Findings about an operation. Throws in 'throw' mode, if one is an error that was not mended. */
  add(findings: readonly Finding[], throws = this.throws): void {
    const reports = findings.flatMap((finding) => this.#new(finding) ?? [])
    for (const report of reports) this.#keep(report)
    const errors = reports.filter(({ severity, mended }) => severity === 'error' && mended !== true)
    if (throws && errors.length > 0) throw new SanitizerError(errors)
  }

  /** Those of an operation that no suppression is for: one for each pair of operations. */
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
   * One whose earlier lines are those of another call makes room for the same with the right ones: once it is known, the
   * stacks of such calls are taken.
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
    this.#tell?.(report)
  }

  /** The report, if there was none like it. In 'throw' mode every error is new: each call is refused. */
  #new(finding: Finding): SanitizerReport | undefined {
    if (this.throws && finding.mended !== true && !isWarning(finding.kind)) return reportOf(finding)
    return this.#isNew(finding) ? reportOf(finding) : undefined
  }

  #isNew(finding: Finding): boolean {
    if (this.reports.length >= MOST_REPORTS) return false
    const { key, stacks } = identityOf(finding)
    const known = [key, ...stacks].join('\n')
    if (this.#known.has(known)) return false
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.add(known)
    const places = stacks.map(tellingLines)
    const told = this.#told.get(key) ?? []
    if (told.some((others) => others.every((lines, index) => isSamePlace(lines, places[index] ?? [])))) return false
    this.#told.set(key, [...told, places])
    return true
  }
}

/**
 * What makes a finding the same as another: the same two lines of the program, whatever streams it had there. Without
 * lines there are only the streams to tell. A race inside one graph is the same wherever the graph is launched.
 */
function identityOf({ kind, first, second }: Finding): { readonly key: string; readonly stacks: readonly string[] } {
  const inOneGraph = first !== undefined && placesInOneLaunch(first.operation, second.operation) !== undefined
  const key: string[] = [kind]
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

/** `operation` has come to what `other` did; whichever was called first is told first. */
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
    mended: undefined,
  }
}

/** What allocates or frees neither reads nor writes; what JavaScript does with a view is often not known. */
function accessOf({ kind }: CheckedOperation, access: Access): Access | undefined {
  return kind === 'work' || (kind === 'javascript' && access !== 'inout') ? access : undefined
}

function kindOf(first: CheckedOperation, second: CheckedOperation): ReportKind {
  if (first.kind === 'free' || second.kind === 'free') return 'use-after-free'
  if (first.kind === 'allocation' || second.kind === 'allocation') return 'use-before-allocation'
  return first.kind === 'javascript' || second.kind === 'javascript' ? 'host-access' : 'race'
}

/** One finding for each pair of operations, over all the bytes between; the latest of the others first. */
function gathered(findings: readonly Finding[], operation: CheckedOperation): Finding[] {
  const other = ({ first, second }: Finding): CheckedOperation | undefined =>
    second.operation === operation ? first?.operation : second.operation
  const pairs = new Map<CheckedOperation | undefined, Finding>()
  for (const finding of findings) {
    const known = pairs.get(other(finding))
    const start = Math.min(known?.start ?? finding.start, finding.start)
    const end = Math.max(known?.end ?? finding.end, finding.end)
    pairs.set(other(finding), { ...(known ?? finding), start, end })
  }
  const age = (finding: Finding): number => other(finding)?.sequence ?? 0
  const sorted = [...pairs.values()].sort((a, b) => age(b) - age(a))
  const awaited = latestOf(
    sorted.flatMap((finding) => (finding.second.operation === operation ? (other(finding) ?? []) : [])),
  )
  return sorted.map((finding) => (finding.second.operation === operation ? { ...finding, awaited } : finding))
}

/** Those that no other of them comes after. */
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
