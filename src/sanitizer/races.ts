/** Findings about two operations that nothing orders. */
import type { Access } from '../driver/driver.js'
import type { CheckedOperation } from './operations.js'
import type { Finding, ReportKind } from './reports.js'

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
export function gathered(findings: readonly Finding[], operation: CheckedOperation): Finding[] {
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
