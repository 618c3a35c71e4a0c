/** The commands that read a recording. None of them needs a GPU. */
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { invalidValue } from '../../foundation/base/errors.js'
import { checkWritable } from '../../foundation/base/file-of-process.js'
import { readRanks } from '../recording/ranks.js'
import { Reader } from '../recording/reader.js'
import { timelineOfRecording } from '../recording/recorded-timeline.js'
import { type Proposal, shortLine, type WhatIf, whatIf } from '../recording/what-if.js'
import { joined } from '../timeline/joined-timelines.js'
import { mergeTraces } from '../timeline/merged-traces.js'
import { formatDuration, formatTimes } from '../timeline/summary.js'
import { checkExtension, contentsOf, timelineOf } from '../timeline/timeline.js'
import { missing } from './finding-reports.js'
import { textOfRanks } from './ranks-text.js'
import { checkOne, checkTraces, errorsOf } from './sanitize.js'

interface WhatIfRequest {
  readonly what: 'what-if'
  readonly file: string
  readonly proposals: readonly Proposal[]
  readonly seconds: number
  readonly json: boolean
}

export type RecordingRequest =
  | { readonly what: 'check'; readonly file: string; readonly possible: boolean }
  | { readonly what: 'why'; readonly files: readonly string[] }
  | { readonly what: 'timeline'; readonly files: readonly string[]; readonly out: string }
  | WhatIfRequest

/** Prints what is requested. Returns false if a check has found something. */
export async function readRecording(request: RecordingRequest): Promise<boolean> {
  switch (request.what) {
    case 'check':
      // A folder contains the traces of a process and of those that it started.
      if (statSync(request.file).isDirectory())
        return errorsOf(await checkTraces(request.file, request.file, request.possible)) === 0
      return (await checkOne(request.file)) === 0
    case 'why': {
      const [file, ...others] = recordingsIn(request.files)
      if (file === undefined) throw noRecordings(request.files)
      console.log(others.length === 0 ? await whyOf(file) : textOfRanks(await readRanks([file, ...others])))
      return true
    }
    case 'timeline': {
      checkWritable(request.out, `The timeline ${request.out}`)
      writeFileSync(request.out, contentsOf(request.out, await drawn(recordingsIn(request.files), request)))
      console.log(`${request.out} is written`)
      return true
    }
    case 'what-if': {
      const { file, proposals, seconds, json } = request
      const result = await whatIf(file, proposals, seconds)
      console.log(json ? JSON.stringify(result, null, 2) : textOf(result, proposals.length > 0))
      return true
    }
  }
}

/** The recordings that are meant: a folder stands for all that it has. */
function recordingsIn(files: readonly string[]): readonly string[] {
  return files.flatMap((file) =>
    statSync(file).isDirectory()
      ? readdirSync(file)
          .filter((name) => name.endsWith('.rec'))
          .map((name) => join(file, name))
      : [file],
  )
}

const noRecordings = (files: readonly string[]): Error =>
  invalidValue(
    `${files.join(', ')} has no recording, a file that ends in .rec: cuda-streams record --out DIR writes them`,
  )

/** The text of a timeline of one recording, or of several ranks. */
async function drawn(
  [file, ...others]: readonly string[],
  { files, out }: Pick<RecordingRequest & { readonly what: 'timeline' }, 'files' | 'out'>,
): Promise<string> {
  if (file === undefined) throw noRecordings(files)
  if (others.length === 0) return (await timelineOfRecording(new Reader(file))).render(out)
  const { ranks } = await readRanks([file, ...others])
  if (!/\.json(?:\.gz)?$/i.test(out)) return timelineOf(...joined(ranks.map(({ trace }) => trace))).render(out)
  // In a trace each rank has a host of its own.
  const traces = ranks.map(({ name, trace }) => [name, timelineOf(trace).toTraceEvents()] as const)
  return JSON.stringify(mergeTraces(Object.fromEntries(traces)))
}

/** The default file for a timeline. */
export function outFor(file: string, out = `${file.replace(/\/+$/, '').replace(/\.[^./]*$/, '')}.html`): string {
  checkExtension(out, '--out')
  return out
}

/** The calls that the end of the run comes after, beside the summary of its timeline. */
async function whyOf(file: string): Promise<string> {
  const reader = new Reader(file)
  const timeline = await timelineOfRecording(reader)
  const parts = new Map<string, { count: number; time: number }>()
  for (const { name, stream, callSite, start = 0, end = 0 } of timeline.criticalPath) {
    const key = `${name} on ${stream.name}${callSite === undefined ? '' : ` (${shortLine(callSite)})`}`
    const part = parts.get(key) ?? { count: 0, time: 0 }
    parts.set(key, { count: part.count + 1, time: part.time + end - start })
  }
  const sorted = [...parts].sort(([, a], [, b]) => b.time - a.time)
  const lines = sorted
    .slice(0, MOST_PARTS)
    .map(([key, { count, time }]) => `  ${formatDuration(time)}  ${key}, ${formatTimes(count)}`)
  return (
    [`${timeline.toText()}The critical path, by what takes most of it`, ...lines].join('\n') +
    missing(reader.isComplete)
  )
}

const MOST_PARTS = 12

function textOf(result: WhatIf, areAskedFor: boolean): string {
  const { recorded, played, unchanged, predictions, isComplete, operations, untimed, triedAll } = result
  const off = recorded === 0 ? 0 : (played - recorded) / recorded
  const lines = [
    `Recorded: ${formatDuration(recorded)}, ${operations} operations${missing(isComplete)}.`,
    `Played again without a change: ${formatDuration(played)}, ${percentOf(off)}.`,
  ]
  if (Math.round(played - unchanged) > 0) {
    lines.push(
      `Without what the recorder itself took: ${formatDuration(unchanged)}, with which the changes are compared.`,
    )
  }
  if (Math.abs(off) > NEAR) {
    lines.push(
      'These two differ by more than a tenth, so what is predicted is worth less: the recording does not show all that took time.',
    )
  }
  if (untimed > 0) lines.push(`${untimed} operations have no times, as where the process ended before they did.`)
  if (!triedAll) lines.push('There was no time to try all changes: give more with --timeout SECONDS.')
  const advised = predictions.filter(({ isRacy, isNeedKnown }) => !isRacy && isNeedKnown)
  const notKnown = predictions.filter(({ isNeedKnown }) => !isNeedKnown)
  const racy = predictions.filter(({ isRacy }) => isRacy)
  lines.push('')
  if (advised.length > 0) lines.push('Predicted, each change alone:', ...advised.flatMap(predictionLines))
  else if (!areAskedFor) lines.push('No change that was tried is predicted to gain half a percent.')
  if (notKnown.length > 0) lines.push('Not known whether the program needs it:', ...notKnown.flatMap(predictionLines))
  if (racy.length > 0)
    lines.push(
      'Not to be done: by the memory that was recorded there would be a race:',
      ...racy.flatMap(predictionLines),
    )
  return lines.join('\n')
}

const NEAR = 0.1

function predictionLines({
  title,
  advice,
  nanoseconds,
  change,
  isRacy,
  isNeedKnown,
}: WhatIf['predictions'][number]): readonly string[] {
  const line = `  ${title}: ${percentOf(change)}, ${formatDuration(nanoseconds)}`
  return advice === '' || isRacy || !isNeedKnown ? [line] : [line, `    ${advice}`]
}

/** A share as text, such as '−12.3 %'. */
const percentOf = (part: number): string => `${part < 0 ? '−' : '+'}${(Math.abs(part) * 100).toFixed(1)} %`
