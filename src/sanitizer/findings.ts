/** Gathers what was found: each once, no more than a program's author can read, and told in the way that was asked for. */
import { adviceFor } from './advice.js'
import { isSameLaunch, type Operation } from './operations.js'
import { type Finding, isWarning, type ReportedOperation, reportOf, type SanitizerReport } from './reports.js'

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
/** Findings alike but for their stacks: so many are looked at closely. */
const MOST_ALIKE = 8

export class Findings {
  readonly reports: SanitizerReport[] = []
  readonly #throws: boolean
  readonly #seen = new Set<string>()
  readonly #alike = new Map<string, number>()

  constructor(throws: boolean) {
    this.#throws = throws
  }

  /** Throws in 'throw' mode, if it is an error. */
  add(findings: readonly Finding[]): void {
    const reports = findings.flatMap((finding) => this.#new(finding) ?? [])
    this.reports.push(...reports.slice(0, MOST_REPORTS - this.reports.length))
    const errors = reports.filter(({ severity }) => severity === 'error')
    if (this.#throws && errors.length > 0) throw new SanitizerError(errors)
  }

  /** The report, if there was none like it. In 'throw' mode every error is new: each call is refused. */
  #new(finding: Finding): SanitizerReport | undefined {
    if (this.#throws && !isWarning(finding.kind)) return reportOf(finding, adviceFor(finding))
    if (this.reports.length >= MOST_REPORTS) return undefined
    const alike = keyOf(finding)
    const count = (this.#alike.get(alike) ?? 0) + 1
    this.#alike.set(alike, count)
    if (count > MOST_ALIKE) return undefined
    const report = reportOf(finding, adviceFor(finding))
    const key = [alike, ...linesOf(report.first, finding), ...linesOf(report.second, finding)].join('\n')
    if (this.#seen.has(key)) return undefined
    this.#seen.add(key)
    return report
  }
}

/** A race inside one graph is the same wherever the graph is launched. */
function keyOf({ kind, first, second }: Finding): string {
  const inOneGraph = first !== undefined && isSameLaunch(first.operation, second.operation)
  const side = ({ what, stream, captured }: Operation): string =>
    `${what} on ${(inOneGraph ? captured?.stream : stream)?.label}`
  return `${kind}: ${first === undefined ? '' : side(first.operation)}, ${side(second.operation)}`
}

function linesOf(side: ReportedOperation | undefined, { first, second }: Finding): readonly string[] {
  if (side === undefined) return []
  const inOneGraph = first !== undefined && isSameLaunch(first.operation, second.operation)
  return inOneGraph ? side.capturedAt : [...side.stack, ...side.capturedAt]
}
