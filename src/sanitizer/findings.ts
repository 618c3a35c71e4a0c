/** Gathers findings: each once, no more than a program's author can read, and reported in the way that was asked for. */
import type { Access } from '../driver/driver.js'
import { type CheckedOperation, isSameLaunch } from './operations.js'
import { type Finding, isWarning, type ReportKind, reportOf, type SanitizerReport } from './reports.js'
import { shownLines } from './stacks.js'

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
  }

  static {
    SanitizerError.prototype.name = 'SanitizerError'
  }
}

const MOST_REPORTS = 100
/** So many findings are known again by their whole stacks. */
const MOST_KNOWN = 1024

export class Findings {
  readonly reports: SanitizerReport[] = []
  /** By the lines that are reported. */
  readonly #told = new Set<string>()
  /** By their stacks as they were taken: to take the lines out of one costs more than to take it. */
  readonly #known = new Set<string>()

  /** `throws`: each error is thrown, so that the call which completes a race is refused. */
  constructor(readonly throws: boolean) {}

  /** Findings about an operation. Throws in 'throw' mode, if one is an error. */
  add(findings: readonly Finding[], operation: CheckedOperation): void {
    const reports = gathered(findings, operation).flatMap((finding) => this.#new(finding) ?? [])
    this.reports.push(...reports.slice(0, MOST_REPORTS - this.reports.length))
    const errors = reports.filter(({ severity }) => severity === 'error')
    if (this.throws && errors.length > 0) throw new SanitizerError(errors)
  }

  /** The report, if there was none like it. In 'throw' mode every error is new: each call is refused. */
  #new(finding: Finding): SanitizerReport | undefined {
    if (this.throws && !isWarning(finding.kind)) return reportOf(finding)
    if (this.reports.length >= MOST_REPORTS) return undefined
    const known = keyOf(finding, (stack) => [stack])
    if (this.#known.has(known)) return undefined
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.add(known)
    const lines = keyOf(finding, shownLines)
    if (this.#told.has(lines)) return undefined
    this.#told.add(lines)
    return reportOf(finding)
  }
}

/**
 * What makes a finding the same as another: the same two lines of the program, whatever streams it had there. Without
 * lines there are only the streams to tell. A race inside one graph is the same wherever the graph is launched.
 */
function keyOf({ kind, first, second }: Finding, linesIn: (stack: string) => readonly string[]): string {
  const inOneGraph = first !== undefined && isSameLaunch(first.operation, second.operation)
  const sideOf = ({ what, stream, stack, captured }: CheckedOperation): readonly string[] => {
    const stacks = inOneGraph ? [captured?.stack] : [stack, captured?.stack]
    const lines = stacks.flatMap((taken) => (taken === undefined ? [] : linesIn(taken.stack)))
    const label = (inOneGraph ? captured?.stream : stream)?.label ?? ''
    return [what, ...(lines.length > 0 ? lines : [label])]
  }
  return [kind, ...(first === undefined ? [] : sideOf(first.operation)), ...sideOf(second.operation)].join('\n')
}

/** `operation` has come to what `other` did; whichever was called first is told first. */
export function raceOf(
  other: CheckedOperation,
  itsAccess: Access,
  operation: CheckedOperation,
  access: Access,
  start: number,
  end: number,
): Finding {
  const one = { operation: other, access: accessOf(other, itsAccess) }
  const two = { operation, access: accessOf(operation, access) }
  const [first, second] = other.sequence < operation.sequence ? [one, two] : [two, one]
  return { kind: kindOf(first.operation, second.operation), first, second, start, end }
}

/** What allocates or frees neither reads nor writes; what JavaScript does with a view cannot be known. */
function accessOf({ kind }: CheckedOperation, access: Access): Access | undefined {
  return kind === 'work' ? access : undefined
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
  return [...pairs.values()].sort((a, b) => age(b) - age(a))
}
