/** The changes that no gap shows: work on a stream of its own, and faster kernels. */
import { ownStream } from '../prediction/own-stream.js'
import type { Operation } from '../prediction/run.js'
import { EventKind, workOf } from './kinds.js'
import { LEAST_SHARE, type Predictor } from './predictor.js'
import { describeStall, type Gain, placeOf, type StallFacts } from './stalls.js'
import { formatDuration, formatTimes, type Stall, type StallKind } from './summary.js'
import type { Trace } from './trace.js'

/** The most groups of work that are tried on a stream of their own; the most kernels that are tried faster, and that are listed. */
const MOST_MOVED = 16
const MOST_KERNELS = 4
const KERNELS_LISTED = 2
/** The part of its time that a kernel takes which is 20 % faster. */
const FASTER = 0.8

/** Work of one place in the program on one stream. */
interface Work {
  readonly steps: Set<number>
  readonly names: Set<string>
  readonly site: string
  readonly track: number
  time: number
  /** Whether the memory of some of it is known. */
  isKnown: boolean
}

/** @param others The stalls of gaps: work is moved to another stream only where that gains more than is certain of these */
export function proposalsOf(trace: Trace, predictor: Predictor, others: readonly Stall[]): Stall[] {
  const most = MORE * Math.max(0, ...others.map(({ gain = 0, isAtMost }) => (isAtMost ? 0 : gain)))
  return [...movesOf(trace, predictor).filter(({ gain = 0 }) => gain > most), ...kernelsOf(trace, predictor)]
}

/** The factor by which a stream of its own has to gain more than what else is advised. */
const MORE = 1.05

/** The facts of what concerns no other stream and no call. */
export const NO_FACTS: StallFacts = {
  held: '',
  by: '',
  call: '',
  place: '',
  on: '',
  often: '',
  heldPriority: 0,
  byPriority: 0,
}

function stallOf(kind: StallKind, facts: Partial<StallFacts>, gain: Gain, work: Work, more = ''): Stall {
  const { message, advice } = describeStall(kind, { ...NO_FACTS, ...facts })
  return {
    kind,
    message,
    advice: gain.isWorthIt ? `${advice}${more}` : '',
    count: work.steps.size,
    time: work.time,
    gain: gain.nanoseconds,
    isAtMost: gain.isAtMost,
    callSite: work.site === '' ? undefined : work.site,
    gaps: [],
  }
}

/** The work of each place, or of each name where no place is known, that has a stream with other work. */
function worksOf({ length, kind, track, name, site, start, end, parent }: Trace, predictor: Predictor): Work[] {
  const works = new Map<string, Work>()
  const onTrack = new Map<number, number>()
  for (let row = 0; row < length; row += 1) {
    const step = predictor.stepOf(row)
    const time = (end[row] ?? Number.NaN) - (start[row] ?? Number.NaN)
    if (step < 0 || parent[row] !== -1 || workOf(kind[row] ?? 0) === undefined || !(time >= 0)) continue
    const on = track[row] ?? 0
    const operation = predictor.operationAt(step)
    if (operation?.memory === undefined) continue
    const place = lineOf(site[row] ?? '')
    const key = `${place === '' ? `${name[row]} ${operation.engine}` : place} ${on}`
    let work = works.get(key)
    if (work === undefined) {
      work = { steps: new Set(), names: new Set(), site: place, track: on, time: 0, isKnown: false }
      works.set(key, work)
      onTrack.set(on, (onTrack.get(on) ?? 0) + 1)
    }
    work.steps.add(step)
    work.names.add(name[row] ?? '')
    work.time += time
    if (!operation.isPartlyKnown) work.isKnown = true
  }
  return [...works.values()]
    .filter(({ track: on, isKnown }) => isKnown && (onTrack.get(on) ?? 0) > 1)
    .sort((a, b) => b.time - a.time)
}

/**
 * What each operation comes after, where a kernel that is given no memory comes after what the next of the same work does: what is written in one line
 * is for one thing.
 */
function inLines({ data, operationAt }: LineOrder, moved: ReadonlySet<number>): ReadonlyMap<number, readonly number[]> {
  const order = new Map(data)
  let next: readonly number[] = []
  for (const step of [...moved].sort((a, b) => b - a)) {
    if (operationAt(step)?.isPartlyKnown !== true) next = (data.get(step) ?? []).filter((other) => !moved.has(other))
    else order.set(step, [...(data.get(step) ?? []), ...next.filter((other) => other < step)])
  }
  return order
}

interface LineOrder {
  readonly data: ReadonlyMap<number, readonly number[]>
  readonly operationAt: (step: number) => Operation | undefined
}

/** The best of the works of each stream to have a stream of its own. */
function movesOf(trace: Trace, predictor: Predictor): Stall[] {
  const best = new Map<number, Stall & { readonly gain: number }>()
  const worthTrying = worksOf(trace, predictor).filter(({ time }) => time >= LEAST_SHARE * predictor.part.duration)
  for (const work of worthTrying.slice(0, MOST_MOVED)) {
    const key = `${work.site} ${[...work.names].join()} ${work.track}`
    const order = inLines({ data: predictor.data, operationAt: (step) => predictor.operationAt(step) }, work.steps)
    const { change, waitsFor, waitedForBy } = ownStream(predictor.run, order, work.steps, () => key)
    const nanoseconds = predictor.gainOf(change)
    const known = best.get(work.track)
    if (!predictor.isWorthIt(nanoseconds) || nanoseconds <= (known?.gain ?? 0)) continue
    const called = (operations: readonly Operation[]): string =>
      list(new Set(operations.map(({ name }) => `'${name}'`)))
    const parts = [
      ...(waitsFor.length === 0 ? [] : [`it has to wait for ${called(waitsFor)}`]),
      ...(waitedForBy.length === 0 ? [] : [`${called(waitedForBy)} for it`]),
    ]
    const facts = {
      held: `'${trace.trackNames[work.track] ?? ''}'`,
      call: list(new Set([...work.names].map((name) => `'${name}'`))),
      place: placeOf(
        [work.site].filter((site) => site !== ''),
        1,
      ),
      often: `${formatTimes(work.steps.size)}, ${formatDuration(work.time)}`,
    }
    const gain = { nanoseconds, isAtMost: predictor.hasUnknown, isWorthIt: true, isLagging: false }
    const needs = parts.length === 0 ? '' : `: ${parts.join(', and ')}`
    best.set(work.track, { ...stallOf('sharedStream', facts, gain, work, needs), gain: nanoseconds })
  }
  return [...best.values()]
}

function kernelsOf({ length, kind, track, name, start, end, parent }: Trace, predictor: Predictor): Stall[] {
  const kernels = new Map<string, Work>()
  for (let row = 0; row < length; row += 1) {
    const step = predictor.stepOf(row)
    const time = (end[row] ?? Number.NaN) - (start[row] ?? Number.NaN)
    if (step < 0 || parent[row] !== -1 || kind[row] !== EventKind.KERNEL || !(time >= 0)) continue
    const called = name[row] ?? ''
    let work = kernels.get(called)
    if (work === undefined) {
      work = { steps: new Set(), names: new Set([called]), site: '', track: track[row] ?? 0, time: 0, isKnown: true }
      kernels.set(called, work)
    }
    work.steps.add(step)
    work.time += time
  }
  const costliest = [...kernels].sort(([, a], [, b]) => b.time - a.time).slice(0, MOST_KERNELS)
  const stalls = costliest.flatMap(([call, work]): (Stall & { readonly gain: number })[] => {
    const nanoseconds = predictor.gainOf({ times: new Map([[call, FASTER]]) })
    if (!predictor.isWorthIt(nanoseconds)) return []
    const often = `${formatTimes(work.steps.size)}, ${formatDuration(work.time)}`
    const gain = { nanoseconds, isAtMost: false, isWorthIt: true, isLagging: false }
    return [{ ...stallOf('slowKernel', { call, often }, gain, work), gain: nanoseconds }]
  })
  return stalls.sort((a, b) => b.gain - a.gain).slice(0, KERNELS_LISTED)
}

/** The line of a place, 'path:line:column', so that the calls of one statement are moved together. */
const lineOf = (site: string): string => site.replace(/(:\d+):\d+$/, '$1')

function list(names: ReadonlySet<string>): string {
  const [...all] = names
  const last = all.pop() ?? ''
  return all.length === 0 ? last : `${all.join(', ')} and ${last}`
}
