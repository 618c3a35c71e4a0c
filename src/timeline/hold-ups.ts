/** The gaps of a recording by what caused them, each cause in a sentence, with what to write instead. */
import { isNullStream, type StreamHandle } from '../driver/driver.js'
import type { Bindings } from './bindings.js'
import type { Gap } from './gap.js'
import { inSentences, shortPlace } from './hold-up-sentences.js'
import { durationInWords, timesInWords } from './in-words.js'
import { isHostOnly, RowKind, STAGING } from './kinds.js'
import type { HoldUp, HoldUpKind } from './summary.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

/** What a gap is due to. */
interface Cause {
  readonly kind: HoldUpKind
  /** The call of the host, or the operation, that was waited for; NO_ROW where it is none. */
  readonly by: number
  /** The row of the call in the program that is to be changed; NO_ROW where it is none. */
  readonly at: number
}

/** Gaps of one cause. */
interface Group extends Cause {
  time: number
  /** Places in the program, '' among them where one is not known. */
  readonly sites: Set<string>
  readonly lanes: Set<number>
  readonly gaps: number[]
}

/** Gaps come longest first. */
export function holdUpsOf(trace: Trace, bindings: Bindings, gaps: readonly Gap[]): HoldUp[] {
  const causes = gaps.map((gap) => causeOf(trace, bindings, gap))
  const siteOf = ({ at }: Cause): string => trace.site[at] ?? ''
  // Of calls that look the same the places are told apart where all of them are known.
  const unknown = new Set(causes.filter((cause) => siteOf(cause) === '').map((cause) => callOf(trace, cause)))
  const groups = new Map<string, Group>()
  for (const [index, gap] of gaps.entries()) {
    const cause = causes[index]
    // The library's own stream waits until there is something to do for it.
    if (cause === undefined || trace.name[gap.next] === STAGING) continue
    const call = callOf(trace, cause)
    const key = call === undefined ? `${cause.kind} ${gap.lane} ${trace.lane[cause.by]}` : `${cause.kind} ${call}`
    const place = call !== undefined && unknown.has(call) ? '' : siteOf(cause)
    let group = groups.get(`${key} ${place}`)
    if (group === undefined) {
      group = { ...cause, time: 0, sites: new Set(), lanes: new Set(), gaps: [] }
      groups.set(`${key} ${place}`, group)
    }
    group.time += gap.end - gap.begin
    group.sites.add(siteOf(cause))
    group.lanes.add(gap.lane)
    group.gaps.push(index)
  }
  return Array.from(groups.values(), (group) => toHoldUp(trace, group))
}

function causeOf(trace: Trace, { host }: Bindings, { lane, begin, next, reason, wait, cause }: Gap): Cause {
  const { kind, lanes, called, returned, name, end } = trace
  const isHostFunction = kind[cause] === RowKind.HOST_FUNCTION
  const hostFunction: HoldUpKind = name[cause] === STAGING ? 'staging' : 'hostFunction'
  switch (reason) {
    case 'wait': {
      const by = cause === NO_ROW ? (trace.cause[wait] ?? NO_ROW) : cause
      return { kind: isHostFunction ? hostFunction : waitKindOf(trace, wait), by, at: wait }
    }
    case 'nullStream': {
      const isNull = isNullStream(lanes[lane]?.handle ?? (0 as StreamHandle))
      return { kind: isNull ? 'nullStreamWaited' : 'nullStreamAwaited', by: cause, at: NO_ROW }
    }
    case 'host': {
      const wasInside = isHostFunction && (end[cause] ?? 0) >= (called[next] ?? 0)
      if (wasInside) return { kind: hostFunction, by: cause, at: NO_ROW }
      const row = host.lateBecauseOf(begin, returned[next] ?? 0)
      const room = row === NO_ROW || !isHostOnly(kind[row] ?? 0) ? host.waitedForRoom(begin, next) : NO_ROW
      if (room !== NO_ROW) return { kind: 'fullQueue', by: room, at: room }
      if (row !== NO_ROW) return { kind: hostKindOf(trace, row), by: row, at: row }
      return { kind: isNextChunk(trace, next) ? 'staging' : 'hostLate', by: next, at: next }
    }
    case 'eventLoop':
      return { kind: 'hostFunctionDue', by: NO_ROW, at: NO_ROW }
    case 'instance':
      return { kind: 'sameInstance', by: cause, at: NO_ROW }
    case 'engine':
      return { kind: kind[next] === RowKind.COPY ? 'copyEngine' : 'computeEngine', by: cause, at: NO_ROW }
    default:
      return { kind: kind[next] === RowKind.GRAPH ? 'graphLaunch' : 'unseen', by: NO_ROW, at: NO_ROW }
  }
}

/** The library's own waits, for memory, refer to the operation itself and not to a record. */
function waitKindOf({ kind, cause }: Trace, wait: number): HoldUpKind {
  const awaited = kind[cause[wait] ?? NO_ROW]
  if (awaited === RowKind.RECORD) return 'wait'
  return awaited === RowKind.ALLOCATE ? 'memoryNotAllocated' : 'memoryInUse'
}

/** An array is copied in chunks, each of which JavaScript copies to or from pinned memory. */
function isNextChunk({ name, kind, previous }: Trace, row: number): boolean {
  const isStaged = kind[row] === RowKind.COPY && name[row] !== 'copy'
  return isStaged && name[previous[row] ?? NO_ROW] === name[row]
}

function hostKindOf({ kind }: Trace, row: number): HoldUpKind {
  if (kind[row] === RowKind.AWAIT) return 'await'
  return isHostOnly(kind[row] ?? 0) ? 'blockingCall' : 'slowCall'
}

/** The call of the host that is the cause, as it looks; it may hold several streams up. Undefined for other causes. */
function callOf({ name, lane }: Trace, { kind, by }: Cause): string | undefined {
  const isCall = kind === 'blockingCall' || kind === 'await' || kind === 'slowCall' || kind === 'fullQueue'
  return isCall ? `${name[by]} ${lane[by]}` : undefined
}

function toHoldUp(trace: Trace, { kind, by, at, time, sites, lanes, gaps }: Group): HoldUp {
  const { laneNames, name, lane, cause } = trace
  const [only = 0] = lanes
  const known = [...sites].filter((site) => site !== '')
  const nameOf = (on: number): string => `'${laneNames[on] ?? ''}'`
  const byLane = lane[by] ?? 0
  const place = placeOf(known, sites.size)
  const { message, advice } = inSentences(kind, {
    held: lanes.size === 1 ? nameOf(only) : `${lanes.size} streams`,
    by: by === NO_ROW ? 'it' : nameOf(byLane),
    call: name[by] ?? '',
    place,
    // Where the place is not known, the stream tells which of the calls it is.
    on: place.startsWith(' at') || (by !== NO_ROW && (cause[by] ?? NO_ROW) < NO_ROW) ? '' : ` on ${nameOf(byLane)}`,
    heldPriority: trace.lanes[only]?.priority ?? 0,
    byPriority: trace.lanes[byLane]?.priority ?? 0,
    often: `${timesInWords(gaps.length)}, ${durationInWords(time)}`,
  })
  const more =
    at === NO_ROW || known.length === sites.size
      ? ''
      : '. `{ callSites: true }`, or `CUDA_STREAMS_TIMELINE_SITES=1`, records where'
  return { kind, message, advice: `${advice}${more}`, count: gaps.length, time, callSite: known[0], gaps }
}

function placeOf([site, ...others]: readonly string[], places: number): string {
  if (site === undefined) return ''
  return others.length === 0 && places === 1 ? ` at ${shortPlace(site)}` : `, such as at ${shortPlace(site)},`
}
