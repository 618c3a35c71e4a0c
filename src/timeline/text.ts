/** The summary as text, for a terminal or a log. */
import { durationInWords } from './in-words.js'
import type { TimelineSummary } from './summary.js'
import type { Trace } from './trace.js'

/** More hold-ups than this are counted only. */
const MOST_HOLD_UPS = 10

export function toText({ driver, clock, dropped, length }: Trace, summary: TimelineSummary): string {
  const { duration, streams, devices, holdUps } = summary
  const percent = (part: number, of: number): string => `${of === 0 ? 0 : Math.round((1000 * part) / of) / 10} %`
  const rest = holdUps.slice(MOST_HOLD_UPS)
  const lines = [
    `${durationInWords(duration)}, ${length} rows, driver ${driver}, ${clock} clock${dropped === 0 ? '' : `; ${dropped} more operations came after the limit`}`,
    '',
    'Streams',
    ...streams.map(
      ({ name, device, busy, share, idle }) =>
        `  ${name} (device ${device}): busy ${durationInWords(busy)}, ${percent(share, 1)}; idle between operations ${durationInWords(idle)}`,
    ),
    'Devices',
    ...devices.map(
      ({ device, name, busy, copy, compute, overlap }) =>
        `  ${device}, ${name}: busy ${percent(busy, duration)}; copies ${durationInWords(copy)}, kernels ${durationInWords(compute)}, both at once ${durationInWords(overlap)}, ${percent(overlap, Math.min(copy, compute))} of what could be`,
    ),
    'What held them up',
    ...holdUps.slice(0, MOST_HOLD_UPS).flatMap(({ message, advice }) => [`  ${message}.`, `    ${advice}.`]),
    ...(rest.length === 0
      ? []
      : [`  And ${rest.length} more, ${durationInWords(rest.reduce((sum, { time }) => sum + time, 0))} together.`]),
    ...(holdUps.length === 0 ? ['  Nothing.'] : []),
  ]
  return `${lines.join('\n')}\n`
}
