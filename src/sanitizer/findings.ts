/** Gathers what was found: each once, no more than a program's author can read, and told in the way that was asked for. */
import { type CheckedOperation, isSameLaunch } from './operations.js'
import { type Finding, isWarning, reportOf, type SanitizerReport } from './reports.js'
import { shownLines } from './stacks.js'

/** Thrown in 'throw' mode, and by `sanitize()`. */
export class SanitizerError extends Error {
  /** What to match on. */
  readonly code = 'ERR_RACE'
  /** What was found; the message is all of their texts. */
  readonly reports: readonly SanitizerReport[]

  /** Made by the sanitizer. */
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

  /** Throws in 'throw' mode, if it is an error. */
  add(findings: readonly Finding[]): void {
    const reports = findings.flatMap((finding) => this.#new(finding) ?? [])
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
