/** What `why` says of the ranks of a run: which of them the others wait for, and what it does meanwhile. */
import { type Ranks, type RanksReport, reportOf } from '../recording/ranks.js'
import { formatDuration, formatPart, formatTimes } from '../timeline/summary.js'

export function textOfRanks(all: Ranks): string {
  const report = reportOf(all)
  const { ranks, straggler } = report
  const { precision, moved, meetings } = all
  const shares = ranks.map(
    ({ name, last, collectives, awaited, longest, waited, worked, idle }) =>
      `  ${name}: the last at ${last} of ${collectives}, awaited for ${formatDuration(awaited)}, at most ${formatDuration(longest)}; waited ${formatDuration(waited)}, worked ${formatDuration(worked)}, idle ${formatDuration(idle)}`,
  )
  return [
    `${ranks.length} ranks on one axis, by ${meetings.length} collectives: half of them end within ${formatDuration(precision)} on all ranks; the clocks were up to ${formatDuration(moved)} apart.`,
    '',
    ...(straggler === undefined ? [noStraggler(report)] : stragglerLines(report, straggler)),
    '',
    `Collectives of ${formatDuration(report.duration)}, without the first of each communicator`,
    ...shares,
  ].join('\n')
}

function noStraggler({ ranks, duration }: RanksReport): string {
  const most = Math.max(...ranks.map(({ awaited }) => awaited))
  return `No rank is a straggler: the others waited for one rank for ${formatDuration(most)} at most, ${formatPart(most, duration)} of the time, or for several alike.`
}

function stragglerLines({ ranks, duration, slower }: RanksReport, straggler: number): readonly string[] {
  const own = ranks[straggler]
  if (own === undefined) return []
  const others = ranks.filter((_, index) => index !== straggler)
  const usual = (of: 'worked' | 'idle'): number => {
    const sorted = others.map((one) => one[of]).sort((a, b) => a - b)
    return sorted[sorted.length >> 1] ?? 0
  }
  const [moreWork, moreIdle] = [own.worked - usual('worked'), own.idle - usual('idle')]
  const lines = [
    `${own.name} is the straggler: ${formatTimes(own.last)} of ${own.collectives} it was the last to begin, and others waited ${formatDuration(own.awaited)} for it, ${formatPart(own.awaited, duration)} of the time.`,
  ]
  if (moreIdle > moreWork)
    lines.push(
      `  Between collectives its GPU was idle for ${formatDuration(moreIdle)} longer than the others': its host comes late. cuda-streams why ${own.file} says where.`,
    )
  else
    lines.push(
      `  Between collectives its GPU worked for ${formatDuration(moreWork)} longer than the others':`,
      ...slower.map(
        ({ name, own: took, others: of }) =>
          `    ${name} took ${formatDuration(took)}, elsewhere ${formatDuration(of)}`,
      ),
    )
  return lines
}
