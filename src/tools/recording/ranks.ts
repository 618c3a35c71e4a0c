/**
 * The recordings of several processes that work together, on one axis. A collective ends on all of its ranks at about the same time, whatever their clocks
 * say: so its ends tell how far the clocks are apart, and its beginnings which rank the others had to wait for.
 */
import { basename } from 'node:path'
import { invalidValue } from '../../foundation/base/errors.js'
import { type Axis, onAxis } from '../timeline/joined-timelines.js'
import { EventKind, isHostOnly, isInstant } from '../timeline/kinds.js'
import type { Trace } from '../timeline/trace.js'
import { shortened } from './kernel-names.js'
import { Reader } from './reader.js'
import { traceOfRecording } from './recorded-timeline.js'

/** A rank of a run. */
export interface Rank {
  readonly name: string
  readonly file: string
  /** The recording, with times on the axis of all ranks. */
  readonly trace: Trace
  /** The collectives of the rank, in the order in which their streams have them. */
  readonly collectives: readonly Collective[]
}

export interface Collective {
  /** The operation, such as 'AllReduce'. */
  readonly operation: string
  readonly start: number
  readonly end: number
}

/** A collective with the ranks that took part. */
export interface Meeting {
  readonly members: readonly { readonly rank: number; readonly collective: Collective }[]
}

export interface Ranks {
  readonly ranks: readonly Rank[]
  readonly meetings: readonly Meeting[]
  /** The nanoseconds by which half of the ends of a collective are apart at most, on the one axis. */
  readonly precision: number
  /** The most that the clock of a rank had to be moved, in nanoseconds. */
  readonly moved: number
}

/**
 * Collectives that end on no rank before all have begun: NCCL's, and those of servers of language models. A broadcast or a point-to-point
 * transfer lets some go sooner.
 */
const COLLECTIVES: readonly RegExp[] = [
  /^nccl(?:Sym)?(?:Dev)?Kernel_(?<operation>AllReduce|AllGather|ReduceScatter)/,
  /^nccl(?<operation>AllReduce|AllGather|ReduceScatter)$/,
  /(?:^|::)(?<operation>cross_device_reduce|one_shot_all_reduce|two_shot_all_reduce|multimem_all_reduce)/,
]

/** The operation of a collective by the name of its kernel or call; undefined for other work. */
function operationOf(name: string): string | undefined {
  for (const pattern of COLLECTIVES) {
    const operation = pattern.exec(name)?.groups?.['operation']
    if (operation !== undefined) return operation
  }
  return undefined
}

/** The kernels that belong to communication, too, and are no work of a rank's own. */
const isCommunication = (name: string): boolean => /^nccl/.test(name) || operationOf(name) !== undefined

/** The collectives of each stream, in the order of the stream. */
function collectivesOf({ length, kind, name, track, parent, start, end }: Trace): readonly (readonly Collective[])[] {
  const streams = new Map<number, Collective[]>()
  for (let row = 0; row < length; row += 1) {
    const [began, over] = [start[row] ?? Number.NaN, end[row] ?? Number.NaN]
    if (kind[row] !== EventKind.KERNEL || parent[row] !== -1 || Number.isNaN(began) || Number.isNaN(over)) continue
    const operation = operationOf(name[row] ?? '')
    if (operation === undefined) continue
    const on = track[row] ?? 0
    const collectives = streams.get(on) ?? []
    streams.set(on, collectives)
    collectives.push({ operation, start: began, end: over })
  }
  return [...streams.values()]
}

/**
 * Reads the recordings of ranks.
 * @throws {Error} ERR_INVALID_ARG_VALUE for fewer than two, for files that are no recordings, and for ranks without a collective in common
 */
export async function readRanks(files: readonly string[]): Promise<Ranks> {
  const read: { readonly name: string; readonly rank: number; readonly file: string; readonly trace: Trace }[] = []
  for (const file of files) {
    const reader = new Reader(file)
    const { rank } = reader.header
    const name = rank === undefined ? basename(file, '.rec') : `rank ${rank}`
    read.push({ name, rank: rank ?? Number.POSITIVE_INFINITY, file, trace: await traceOfRecording(reader) })
  }
  read.sort((a, b) => (a.rank === b.rank ? a.file.localeCompare(b.file, 'en', { numeric: true }) : a.rank - b.rank))
  const streams = read.map(({ trace }) => collectivesOf(trace))
  // A process that only starts the others, or loads data, takes no part.
  const members = read.flatMap((one, index) => {
    const own = streams[index] ?? []
    return own.length === 0 ? [] : [{ ...one, streams: own }]
  })
  if (members.length < 2) throw noRanks(files)
  const pairs = members.flatMap((a, first) =>
    members.slice(first + 1).flatMap((b, index) => {
      const match = bestMatch(a.streams, b.streams, b.trace.epoch - a.trace.epoch)
      return match === undefined ? [] : [{ first, second: first + 1 + index, match }]
    }),
  )
  const { axes, spread } = axesOf(members.length, pairs)
  const apart = members.filter((_, index) => axes[index] === undefined).map(({ name }) => name)
  const [head] = members
  if (apart.length > 0 || head === undefined)
    throw invalidValue(
      `${apart.join(', ')} has no collective in common with ${head?.name}: give the recordings of one run, or each alone`,
    )
  const begin = Math.min(...axes.map((axis) => axis?.offset ?? 0))
  const ranks = members.map(({ name, file, trace, streams: own }, index) => {
    const { offset, scale } = axes[index] ?? SAME
    const axis = { offset: offset - begin, scale }
    const at = (time: number): number => axis.offset + scale * time
    const moved = own.map((stream) => stream.map((one) => ({ ...one, start: at(one.start), end: at(one.end) })))
    return {
      name,
      file,
      trace: onAxis({ name, trace, axis }, head.trace.epoch + begin),
      streams: moved,
      collectives: moved.flat(),
    }
  })
  const meetings = meetingsOf(
    ranks.map(({ streams: own }) => own),
    APART + APART_TIMES * spread,
  )
  const spreads = meetings.map(({ members: all }) => {
    const ends = all.map(({ collective }) => collective.end)
    return Math.max(...ends) - Math.min(...ends)
  })
  return {
    ranks: ranks.map(({ name, file, trace, collectives }) => ({ name, file, trace, collectives })),
    meetings,
    precision: median(spreads),
    moved: Math.max(
      ...axes.map((axis, index) =>
        Math.abs((axis?.offset ?? 0) - ((members[index]?.trace.epoch ?? 0) - head.trace.epoch)),
      ),
    ),
  }
}

const SAME: Axis = { offset: 0, scale: 1 }

const noRanks = (files: readonly string[]): Error =>
  invalidValue(
    `Of ${files.length === 1 ? files[0] : `${files.length} recordings`} fewer than two have collectives, such as NCCL's AllReduce, that bring ranks to one axis: record all ranks, as by cuda-streams record --out DIR -- torchrun …, or give one recording alone`,
  )

/** What brings a time of the second of two ranks to the clock of the first, by the ends of the collectives of two streams. */
interface Match extends Axis {
  /** Half of the ends differ by less than this afterwards. */
  readonly spread: number
}

/** The collectives that two streams must have in common. */
const FEWEST = 2
/** The number of collectives from which on the drift of a clock is told from the spread of the ends. */
const FOR_DRIFT = 12

/**
 * The match of two streams whose ends agree best: ranks have a stream for each communicator, and only the same communicator ends together. Where one follows
 * another by the same time in each step, their ends agree as well: then those that are the same in order count, since all ranks make their communicators
 * in one order, and of these the clocks that are least apart.
 */
function bestMatch(
  first: readonly (readonly Collective[])[],
  second: readonly (readonly Collective[])[],
  epochs: number,
): Match | undefined {
  const found = first.flatMap((own, at) =>
    second.flatMap((other, otherAt) => {
      const match = matchOf(own, other, epochs)
      return match === undefined ? [] : [{ match, order: Math.abs(at - otherAt) }]
    }),
  )
  const least = Math.min(...found.map(({ match }) => match.spread))
  const alike = found.filter(({ match }) => match.spread <= ALIKE_TIMES * least + ALIKE)
  const apart = ({ match }: (typeof found)[number]): number => Math.abs(match.offset - epochs)
  const [best] = alike.sort((a, b) => a.order - b.order || apart(a) - apart(b))
  return best?.match
}

/** Spreads are alike that differ by no more than these: a factor, and nanoseconds. */
const [ALIKE_TIMES, ALIKE] = [3, 1000]

/** The collectives that two streams have in common, which are the first ones of both; 0 if the streams do not do the same. */
function commonLength(own: readonly Collective[], other: readonly Collective[]): number {
  const length = Math.min(own.length, other.length)
  for (let at = 0; at < length; at += 1) if (own[at]?.operation !== other[at]?.operation) return 0
  return length < FEWEST || length < (Math.max(own.length, other.length) * 9) / 10 ? 0 : length
}

function matchOf(own: readonly Collective[], other: readonly Collective[], epochs: number): Match | undefined {
  const length = commonLength(own, other)
  if (length === 0) return undefined
  const differences = Array.from({ length }, (_, at) => (own[at]?.end ?? 0) - ((other[at]?.end ?? 0) + epochs))
  let scale = 1
  if (length >= FOR_DRIFT) {
    const third = Math.floor(length / 3)
    const middle = (from: number): number => other[from + Math.floor(third / 2)]?.end ?? 0
    const time = middle(length - third) - middle(0)
    const change = median(differences.slice(length - third)) - median(differences.slice(0, third))
    if (time > 0 && Math.abs(change) < time * MOST_DRIFT) scale = 1 + change / time
  }
  const left = differences.map((difference, at) => difference - (scale - 1) * (other[at]?.end ?? 0))
  const offset = median(left)
  return { offset: offset + epochs, scale, spread: median(left.map((value) => Math.abs(value - offset))) }
}

/** The clocks of two machines that are set by a network differ by less than this in speed. */
const MOST_DRIFT = 1e-3

interface Pair {
  readonly first: number
  readonly second: number
  readonly match: Match
}

/**
 * The axis of each rank: what brings its times to the clock of rank 0. Ranks are reached by the pairs that agree
 * best, since two ranks need not share a communicator. Undefined for a rank that is not reached. `spread` is that of the worst of these pairs.
 */
function axesOf(
  count: number,
  pairs: readonly Pair[],
): { readonly axes: readonly (Axis | undefined)[]; readonly spread: number } {
  const axes: (Axis | undefined)[] = Array.from({ length: count }, () => undefined)
  axes[0] = SAME
  const sorted = [...pairs].sort((a, b) => a.match.spread - b.match.spread)
  let spread = 0
  for (;;) {
    const next = sorted.find(({ first, second }) => (axes[first] === undefined) !== (axes[second] === undefined))
    if (next === undefined) return { axes, spread }
    const { first, second, match } = next
    spread = Math.max(spread, match.spread)
    const [known, found] = axes[first] === undefined ? [second, first] : [first, second]
    const base = axes[known] ?? SAME
    const step = found === second ? match : { offset: -match.offset / match.scale, scale: 1 / match.scale }
    axes[found] = { offset: base.offset + base.scale * step.offset, scale: base.scale * step.scale }
  }
}

/** The ends of a collective are this many nanoseconds apart at most on the axis, and as many times what the clocks leave, added up over some ranks. */
const [APART, APART_TIMES] = [5000, 4]

/** The collectives with their ranks: streams that do the same, and end together, are of one communicator. */
function meetingsOf(ranks: readonly (readonly (readonly Collective[])[])[], allowed: number): readonly Meeting[] {
  interface Group {
    readonly streams: { readonly rank: number; readonly collectives: readonly Collective[] }[]
  }
  const groups: Group[] = []
  for (const [rank, streams] of ranks.entries())
    for (const collectives of streams) {
      let best: { readonly group: Group; readonly apart: number } | undefined
      for (const group of groups) {
        const [head] = group.streams
        if (head === undefined || group.streams.some((one) => one.rank === rank)) continue
        const length = commonLength(head.collectives, collectives)
        if (length === 0) continue
        const usual = median(
          Array.from({ length }, (_, at) => Math.abs((head.collectives[at]?.end ?? 0) - (collectives[at]?.end ?? 0))),
        )
        if (usual <= allowed && usual < (best?.apart ?? Number.POSITIVE_INFINITY)) best = { group, apart: usual }
      }
      if (best === undefined) groups.push({ streams: [{ rank, collectives }] })
      else best.group.streams.push({ rank, collectives })
    }
  return groups
    .flatMap(({ streams }): Meeting[] => {
      const length = Math.min(...streams.map(({ collectives }) => collectives.length))
      if (streams.length < 2) return []
      // Processes begin at different times: whom the first collective waits for says nothing of the work.
      return Array.from({ length: length - 1 }, (_, index) => {
        const members = streams.flatMap(({ rank, collectives }) => {
          const collective = collectives[index + 1]
          return collective === undefined ? [] : [{ rank, collective }]
        })
        return { members }
      })
    })
    .sort((a, b) => (a.members[0]?.collective.start ?? 0) - (b.members[0]?.collective.start ?? 0))
}

/** What a rank did, and what others waited for it. Times are nanoseconds. */
export interface RankReport {
  readonly name: string
  readonly file: string
  /** The number of collectives that it was the last to begin, of how many. */
  readonly last: number
  readonly collectives: number
  /** How long the others waited for it, added up over the collectives, each by the rank that waited longest; and the longest of these. */
  readonly awaited: number
  readonly longest: number
  /** How long it waited for others. */
  readonly waited: number
  /** How long its GPU worked between the collectives, and was idle there. */
  readonly worked: number
  readonly idle: number
}

export interface RanksReport {
  readonly ranks: readonly RankReport[]
  /** The index of the rank that others wait for; undefined if there is none. */
  readonly straggler: number | undefined
  /** The nanoseconds from the first of these collectives to the last. */
  readonly duration: number
  /** The work that takes the straggler longer than the others, by the difference. */
  readonly slower: readonly { readonly name: string; readonly own: number; readonly others: number }[]
}

/** A rank is called a straggler if others waited so large a share of the run for it, and so many times as long as for any other. */
const [SHARE, TIMES] = [0.01, 2]

export function reportOf({ ranks, meetings }: Ranks): RanksReport {
  const sums = ranks.map(() => ({ last: 0, collectives: 0, awaited: 0, longest: 0, waited: 0 }))
  for (const { members } of meetings) {
    const latest = members.reduce((late, one) => (one.collective.start > late.collective.start ? one : late))
    let most = 0
    for (const { rank, collective } of members) {
      const own = sums[rank]
      if (own === undefined) continue
      own.collectives += 1
      // A rank that came later than another was through waits for nothing that this one did.
      const wait = Math.max(0, Math.min(latest.collective.start, collective.end) - collective.start)
      own.waited += wait
      most = Math.max(most, wait)
    }
    const late = sums[latest.rank]
    if (late === undefined) continue
    late.last += 1
    late.awaited += most
    late.longest = Math.max(late.longest, most)
  }
  const begin = Math.min(...meetings.flatMap(({ members }) => members.map(({ collective }) => collective.start)))
  const end = Math.max(...meetings.flatMap(({ members }) => members.map(({ collective }) => collective.end)))
  const works = ranks.map(({ trace, collectives }) => workOf(trace, collectives, begin, end))
  const reports = ranks.map(({ name, file }, index) => {
    const { worked = 0, idle = 0 } = works[index] ?? {}
    return {
      name,
      file,
      ...(sums[index] ?? { last: 0, collectives: 0, awaited: 0, longest: 0, waited: 0 }),
      worked,
      idle,
    }
  })
  const byAwaited = reports.map(({ awaited }, index) => ({ awaited, index })).sort((a, b) => b.awaited - a.awaited)
  const [first, second] = byAwaited
  const duration = end - begin
  const isOne =
    first !== undefined && first.awaited > SHARE * duration && first.awaited >= TIMES * (second?.awaited ?? 0)
  const straggler = isOne ? first.index : undefined
  return { ranks: reports, straggler, duration, slower: straggler === undefined ? [] : slowerIn(works, straggler) }
}

interface Work {
  readonly worked: number
  readonly idle: number
  readonly byName: ReadonlyMap<string, number>
}

/** The work of a rank in a time, without its communication. Idle is what is neither work nor a collective. */
function workOf(trace: Trace, collectives: readonly Collective[], begin: number, end: number): Work {
  const { length, kind, name, parent, start, end: ends, site } = trace
  const own: Interval[] = []
  const byName = new Map<string, number>()
  for (let row = 0; row < length; row += 1) {
    const what = kind[row] ?? 0
    if (parent[row] !== -1 || isHostOnly(what) || isInstant(what) || what === EventKind.HOST_FUNCTION) continue
    const from = Math.max(begin, start[row] ?? Number.NaN)
    const until = Math.min(end, ends[row] ?? Number.NaN)
    const called = name[row] ?? ''
    if (!(from < until) || isCommunication(called)) continue
    own.push([from, until])
    const place = site[row]
    const key = `${EventKind.KERNEL === what ? `kernel '${shortened(called)}'` : called}${place ? ` (${place})` : ''}`
    byName.set(key, (byName.get(key) ?? 0) + until - from)
  }
  const met: Interval[] = collectives.map((one) => [Math.max(begin, one.start), Math.min(end, one.end)])
  const worked = lengthOf(own)
  return { worked, idle: end - begin - lengthOf([...own, ...met]), byName }
}

type Interval = readonly [from: number, until: number]

/** The time that is in any of the intervals. */
function lengthOf(intervals: readonly Interval[]): number {
  const sorted = intervals.filter(([from, until]) => until > from).sort(([a], [b]) => a - b)
  let [sum, covered] = [0, Number.NEGATIVE_INFINITY]
  for (const [from, until] of sorted) {
    sum += Math.max(0, until - Math.max(from, covered))
    covered = Math.max(covered, until)
  }
  return sum
}

const MOST_SLOWER = 3

/** What takes the straggler longer than the others do, in the median. */
function slowerIn(works: readonly Work[], straggler: number): RanksReport['slower'] {
  const others = works.filter((_, index) => index !== straggler)
  return [...(works[straggler]?.byName ?? [])]
    .map(([name, own]) => ({ name, own, others: median(others.map(({ byName }) => byName.get(name) ?? 0)) }))
    .filter(({ own, others: usual }) => own > usual * 1.05)
    .sort((a, b) => b.own - b.others - (a.own - a.others))
    .slice(0, MOST_SLOWER)
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const high = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? 0) + high) / 2
}
