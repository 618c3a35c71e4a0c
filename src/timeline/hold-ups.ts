/** The gaps of a recording by what caused them, each cause in a sentence, with what to write instead. */
import { isNullStream, type StreamHandle } from '../driver/driver.js'
import type { Bindings } from './bindings.js'
import type { Gap } from './gap.js'
import { inSentences, shortPlace } from './hold-up-sentences.js'
import { durationInWords, timesInWords } from './in-words.js'
import { isHostOnly, ROOM, RowKind, STAGING } from './kinds.js'
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
  readonly lanes: Set<number>
  readonly gaps: number[]
}

/** Gaps come longest first. */
export function holdUpsOf(trace: Trace, bindings: Bindings, gaps: readonly Gap[]): HoldUp[] {
  const groups = new Map<string, Group>()
  for (const [index, gap] of gaps.entries()) {
    // The library's own stream waits until there is something to do for it.
    if (trace.name[gap.next] === STAGING) continue
    const cause = causeOf(trace, bindings, gap)
    const key = keyOf(trace, gap, cause)
    let group = groups.get(key)
    if (group === undefined) {
      group = { ...cause, time: 0, lanes: new Set(), gaps: [] }
      groups.set(key, group)
    }
    group.time += gap.end - gap.begin
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
    case 'wait':
      return { kind: isHostFunction ? hostFunction : waitKindOf(trace, wait), by: cause, at: wait }
    case 'nullStream': {
      const isNull = isNullStream(lanes[lane]?.handle ?? (0 as StreamHandle))
      return { kind: isNull ? 'nullStreamWaited' : 'nullStreamAwaited', by: cause, at: NO_ROW }
    }
    case 'host': {
      const wasInside = isHostFunction && (end[cause] ?? 0) >= (called[next] ?? 0)
      if (wasInside) return { kind: hostFunction, by: cause, at: NO_ROW }
      const row = host.lateBecauseOf(begin, returned[next] ?? 0)
      return { kind: hostKindOf(trace, row), by: row, at: row === NO_ROW ? next : row }
    }
    case 'eventLoop':
      return { kind: 'hostFunctionDue', by: NO_ROW, at: NO_ROW }
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

function hostKindOf({ kind, name }: Trace, row: number): HoldUpKind {
  if (row === NO_ROW) return 'hostLate'
  if (kind[row] === RowKind.AWAIT) return 'await'
  if (!isHostOnly(kind[row] ?? 0)) return 'slowCall'
  return name[row] === ROOM ? 'fullQueue' : 'blockingCall'
}

/** Gaps with one key have one cause. A call of the host may hold several streams up. */
function keyOf({ name, lane, site }: Trace, gap: Gap, { kind, by, at }: Cause): string {
  const isCall = kind === 'blockingCall' || kind === 'await' || kind === 'slowCall' || kind === 'fullQueue'
  return isCall ? `${kind} ${name[by]} ${site[at] || lane[by]}` : `${kind} ${gap.lane} ${lane[by]} ${site[at]}`
}

function toHoldUp({ laneNames, site, name, lane }: Trace, { kind, by, at, time, lanes, gaps }: Group): HoldUp {
  const [only = 0] = lanes
  const callSite = site[at] || undefined
  const nameOf = (on: number): string => `'${laneNames[on] ?? ''}'`
  const place = callSite === undefined ? '' : ` at ${shortPlace(callSite)}`
  const { message, advice } = inSentences(kind, {
    held: lanes.size === 1 ? nameOf(only) : `${lanes.size} streams`,
    by: by === NO_ROW ? 'it' : nameOf(lane[by] ?? 0),
    call: name[by] ?? '',
    place,
    often: `${timesInWords(gaps.length)}, ${durationInWords(time)}`,
  })
  const more = at === NO_ROW || place !== '' ? '' : '. `{ callSites: true }` records where'
  return { kind, message, advice: `${advice}${more}`, count: gaps.length, time, callSite, gaps }
}
