/** The stalls of a recording: its gaps, grouped by cause, each with a description and with what to write instead. */
import { process } from '../../foundation/base/node-modules.js'
import { isNullStream, type StreamHandle } from '../../foundation/driver/handle-types.js'
import type { Bindings, Gap } from './bindings.js'
import { NO_ROW } from './event-records.js'
import { EventKind, isHostOnly, STAGING } from './kinds.js'
import { formatDuration, formatTimes, type Stall, type StallKind } from './summary.js'
import type { Trace } from './trace.js'

/** The cause of a gap. */
export interface Cause {
  readonly kind: StallKind
  /** The row of the host's call or of the operation that was waited for, or NO_ROW. */
  readonly by: number
  /** The row of the call that the program should change, or NO_ROW. */
  readonly at: number
}

/** The prediction of what a run gains if it is changed as the advice says. */
export interface Gain {
  /** The nanoseconds by which the run would be shorter; undefined where nothing is predicted. */
  readonly nanoseconds: number | undefined
  /** Whether less may be gained: what touches memory that is not known may need what is taken away. */
  readonly isAtMost: boolean
  /** Whether it is so much that it is advised. */
  readonly isWorthIt: boolean
  /** Whether what is gained is that each wait is for one round earlier, with one more buffer, in place of none. */
  readonly isLagging: boolean
}

/** The gaps of one cause. */
export interface Group extends Cause {
  time: number
  /** The places in the program, with '' for one that is not known. */
  readonly sites: Set<string>
  /** The streams that were held up; `byTracks` are those that were waited for. */
  readonly tracks: Set<number>
  readonly byTracks: Set<number>
  readonly gaps: number[]
}

/** The gaps of each cause, the costliest cause first. The gaps come longest first. */
export function causesOf(trace: Trace, bindings: Bindings, gaps: readonly Gap[]): Group[] {
  const causes = gaps.map((gap) => causeOf(trace, bindings, gap))
  const siteOf = ({ at }: Cause): string => trace.site[at] ?? ''
  // Calls of one name are grouped by their places if all of these are known.
  const unknown = new Set(causes.filter((cause) => siteOf(cause) === '').map((cause) => callOf(trace, cause)))
  const groups = new Map<string, Group>()
  for (const [index, gap] of gaps.entries()) {
    const cause = causes[index]
    // A gap of the library's own stream is no stall: it waits until there is something to copy.
    if (cause === undefined || trace.name[gap.next] === STAGING) continue
    const call = callOf(trace, cause)
    const place = call !== undefined && unknown.has(call) ? '' : siteOf(cause)
    // A call whose line is known is the same for whatever stream it waits.
    const named = place === '' ? call : trace.name[cause.by]
    const key = call === undefined ? `${cause.kind} ${gap.track} ${trace.track[cause.by]}` : `${cause.kind} ${named}`
    let group = groups.get(`${key} ${place}`)
    if (group === undefined) {
      group = { ...cause, time: 0, sites: new Set(), tracks: new Set(), byTracks: new Set(), gaps: [] }
      groups.set(`${key} ${place}`, group)
    }
    group.time += gap.end - gap.begin
    group.sites.add(siteOf(cause))
    group.tracks.add(gap.track)
    group.byTracks.add(trace.track[cause.by] ?? 0)
    group.gaps.push(index)
  }
  return [...groups.values()].sort((a, b) => b.time - a.time)
}

/** Puts causes by one call of the host together, with all other calls of that name; undefined if the causes are all calls of that name. */
export function togetherOf({ kind, name, track, site }: Trace, groups: readonly Group[]): Group | undefined {
  const [first] = groups
  if (first === undefined) return undefined
  const calls: number[] = []
  for (const [row, called] of name.entries())
    if (called === name[first.by] && kind[row] === kind[first.by]) calls.push(row)
  const byTracks = new Set(calls.map((row) => track[row] ?? 0))
  const sites = new Set(calls.map((row) => site[row] ?? ''))
  const isMore = first.sites.has('') ? byTracks.size > first.byTracks.size : sites.size > first.sites.size
  if (groups.length === 1 && !isMore) return undefined
  const all = <T>(of: (group: Group) => Iterable<T>): T[] => groups.flatMap((group) => [...of(group)])
  return {
    ...first,
    time: groups.reduce((sum, { time }) => sum + time, 0),
    sites,
    tracks: new Set(all(({ tracks }) => tracks)),
    byTracks,
    gaps: all(({ gaps }) => gaps).sort((a, b) => a - b),
  }
}

function causeOf(trace: Trace, { host }: Bindings, { track, begin, next, reason, wait, cause }: Gap): Cause {
  const { kind, tracks, called, returned, name, end } = trace
  const isHostFunction = kind[cause] === EventKind.HOST_FUNCTION
  const hostFunction: StallKind = name[cause] === STAGING ? 'staging' : 'hostFunction'
  switch (reason) {
    case 'wait': {
      const by = cause === NO_ROW ? (trace.cause[wait] ?? NO_ROW) : cause
      return { kind: isHostFunction ? hostFunction : waitKindOf(trace, wait), by, at: wait }
    }
    case 'nullStream': {
      const isNull = isNullStream(tracks[track]?.handle ?? (0 as StreamHandle))
      return { kind: isNull ? 'nullStreamWaited' : 'nullStreamAwaited', by: cause, at: NO_ROW }
    }
    case 'host': {
      const wasInside = isHostFunction && (end[cause] ?? 0) >= (called[next] ?? 0)
      if (wasInside) return { kind: hostFunction, by: cause, at: NO_ROW }
      const row = host.lateBecauseOf(begin, returned[next] ?? 0)
      const room = row === NO_ROW || !isHostOnly(kind[row] ?? 0) ? host.waitedForCapacity(begin, next) : NO_ROW
      if (room !== NO_ROW) return { kind: 'fullQueue', by: room, at: room }
      if (row !== NO_ROW) return { kind: hostKindOf(trace, row), by: row, at: row }
      return { kind: isNextChunk(trace, next) ? 'staging' : 'hostLate', by: next, at: next }
    }
    case 'eventLoop':
      return { kind: 'hostFunctionDue', by: NO_ROW, at: NO_ROW }
    case 'instance':
      return { kind: 'sameInstance', by: cause, at: NO_ROW }
    case 'engine':
      return { kind: kind[next] === EventKind.COPY ? 'copyEngine' : 'computeEngine', by: cause, at: NO_ROW }
    default:
      return { kind: kind[next] === EventKind.GRAPH ? 'graphLaunch' : 'unseen', by: NO_ROW, at: NO_ROW }
  }
}

/** The kind of a wait. The library's own waits for memory refer to an operation, not to a record. */
function waitKindOf({ kind, cause }: Trace, wait: number): StallKind {
  const awaited = kind[cause[wait] ?? NO_ROW]
  if (awaited === EventKind.RECORD) return 'wait'
  return 'memoryNotAllocated'
}

/** Whether a row is the next chunk of an array, which JavaScript copies to or from pinned memory. */
function isNextChunk({ name, kind, previous }: Trace, row: number): boolean {
  const isStaged = kind[row] === EventKind.COPY && name[row] !== 'copy'
  return isStaged && name[previous[row] ?? NO_ROW] === name[row]
}

function hostKindOf({ kind }: Trace, row: number): StallKind {
  if (kind[row] === EventKind.AWAIT) return 'await'
  return isHostOnly(kind[row] ?? 0) ? 'blockingCall' : 'slowCall'
}

/** The identity of the host's call that is the cause, which may hold several streams up. Undefined for other causes. */
function callOf({ name, track }: Trace, { kind, by }: Cause): string | undefined {
  const isCall = kind === 'blockingCall' || kind === 'await' || kind === 'slowCall' || kind === 'fullQueue'
  return isCall ? `${name[by]} ${track[by]}` : undefined
}

/**
 * The stall of a cause.
 * @param gain What the run is predicted to gain
 */
export function toStall(trace: Trace, group: Group, gain: Gain): Stall {
  const { kind, by, at, time, sites, tracks, byTracks, gaps } = group
  const { trackNames, name, track, cause } = trace
  const [only = 0] = tracks
  const known = [...sites].filter((site) => site !== '')
  const nameOf = (on: number): string => `'${trackNames[on] ?? ''}'`
  const byTrack = track[by] ?? 0
  const place = placeOf(known, sites.size)
  const waitedFor = byTracks.size === 1 ? nameOf(byTrack) : `${byTracks.size} streams`
  const { message, advice } = describeStall(kind, {
    held: tracks.size === 1 ? nameOf(only) : `${tracks.size} streams`,
    by: by === NO_ROW ? 'it' : nameOf(byTrack),
    call: name[by] ?? '',
    place,
    // The stream identifies the call if its place is not known.
    on: place.startsWith(' at') || (by !== NO_ROW && (cause[by] ?? NO_ROW) < NO_ROW) ? '' : ` on ${waitedFor}`,
    heldPriority: trace.tracks[only]?.priority ?? 0,
    byPriority: trace.tracks[byTrack]?.priority ?? 0,
    often: `${formatTimes(gaps.length)}, ${formatDuration(time)}`,
  })
  const more =
    at === NO_ROW || known.length === sites.size
      ? ''
      : '. `{ callSites: true }`, or `CUDA_STREAMS_TIMELINE_SITES=1`, records where'
  const { nanoseconds, isAtMost } = gain
  const said = (gain.isLagging ? LAGGING[kind] : undefined) ?? advice
  return {
    kind,
    message,
    advice: gain.isWorthIt ? `${said}${more}` : '',
    count: gaps.length,
    time,
    gain: nanoseconds,
    isAtMost,
    callSite: known[0],
    gaps,
  }
}

export function placeOf([site, ...others]: readonly string[], places: number): string {
  if (site === undefined) return ''
  return others.length === 0 && places === 1 ? ` at ${shortPlace(site)}` : `, such as at ${shortPlace(site)},`
}

export interface StallFacts {
  /** The stream that was held up, or the number of such streams. */
  readonly held: string
  /** The stream that was waited for. */
  readonly by: string
  /** The call of the host: 'stream.synchronize()'. */
  readonly call: string
  /** ' at app.js:12', ', such as at app.js:12,' or nothing. */
  readonly place: string
  /** ' on ' and the stream of the call, where its place is not known. */
  readonly on: string
  /** '8 times, 7.00 ms'. */
  readonly often: string
  /** The priorities of both streams: lower numbers go first. */
  readonly heldPriority: number
  readonly byPriority: number
}

interface Description {
  readonly message: string
  readonly advice: string
}

/** The code to write in place of a call that blocks. */
const INSTEAD: Readonly<Record<string, string>> = {
  'stream.synchronize()': 'If the next work needs what it waits for, let the stream wait: `stream.wait(other)`',
  'event.synchronize()': 'If the next work needs what it waits for, let the stream wait: `stream.wait(event)`',
  'device.synchronize()': 'Wait for the one stream whose results are read, not for all of them',
  'device.drainHostFunctions()': 'Call it only before a blocking call of another library',
}

/** The advice to wait for one round earlier. */
const LAGGING: Readonly<Partial<Record<StallKind, string>>> = {
  blockingCall:
    'Queue the next item before this wait, so that two are under way at a time, each with buffers of its own',
  await: 'Queue the next item before the `await`, so that two are under way at a time, each with buffers of its own',
  wait: 'Use one more buffer in turn, and let each round wait for one round earlier',
}

const SLOW: Readonly<Record<string, string>> = {
  allocate: 'Allocate before the work begins, and use the buffers again',
  graph: 'Upload the graph before its first launch: `exec.upload(stream)`',
}

const DESCRIPTIONS: Readonly<Record<StallKind, (facts: StallFacts) => Description>> = {
  blockingCall: ({ call, on, place, held, often }) => ({
    message: `\`${call}\`${on}${place} held ${held} back ${often}`,
    advice: `${INSTEAD[call] ?? 'Do it before the work begins'}. Otherwise queue the next work first, and \`await\` ${promised(call)} where the host reads the results`,
  }),
  await: ({ call, on, place, held, often }) => ({
    message: `\`await ${call}\`${on}${place} held ${held} back ${often}`,
    advice:
      'Queue the work that does not need the result before the `await`, so that two items are under way at a time',
  }),
  hostLate: ({ place, held, often }) => ({
    message: `The program was late to queue work${place} on ${held} ${often}`,
    advice:
      'Queue further ahead, and let the program do its own work after that; a sequence that repeats can be one graph',
  }),
  slowCall: ({ call, place, held, often }) => ({
    message: `A call of the driver (${call})${place} took long, and held ${held} back ${often}`,
    advice:
      SLOW[call] ??
      'Compile kernels before the work begins: `await kernel.prepare(device)`; make fewer calls, as one graph does',
  }),
  fullQueue: ({ by, held, often }) => ({
    message: `The hardware queue of ${by} was full, and the host waited for room before it queued work on ${held} ${often}`,
    advice: 'Queue less ahead: `await stream.finished()` after some hundred operations, or put them into one graph',
  }),
  hostFunctionDue: ({ held, often }) => ({
    message: `JavaScript was busy while a host function of ${held} was due ${often}`,
    advice: 'Host functions run between two pieces of JavaScript: make the pieces shorter, or use a worker thread',
  }),
  hostFunction: ({ by, held, place, often }) => ({
    message: `${held} waited${place} for a host function of ${by} ${often}`,
    advice:
      'Let no GPU work come behind JavaScript: do it after `await stream.finished()`, or on data of an earlier item',
  }),
  staging: ({ held, place, often }) => ({
    message: `${held} waited${place} for the host to copy bytes to or from an ordinary array ${often}`,
    advice: 'Keep the bytes in pinned memory: `device.allocPinned(byteLength)`, and `stream.copy()`',
  }),
  nullStreamWaited: ({ by, held, often }) => ({
    message: `${held} waited for ${by}, as the null stream does for every blocking stream, ${often}`,
    advice: `Use a stream of its own in place of the null stream, or make ${by} with \`{ nonBlocking: true }\`; order them by \`wait\``,
  }),
  nullStreamAwaited: ({ by, held, often }) => ({
    message: `${held} waited for ${by}, as every blocking stream does for the null stream, ${often}`,
    advice: `Make ${held} with \`{ nonBlocking: true }\`, or use a stream of its own in place of the null stream; order them by \`wait\``,
  }),
  wait: ({ by, held, place, often }) => ({
    message: `${held} waited${place} for ${by} ${often}`,
    advice: `Record an event on ${by} as soon as what is needed is done, and wait for that`,
  }),
  memoryNotAllocated: ({ by, held, place, often }) => ({
    message: `${held} waited${place} for memory that ${by} had not allocated yet ${often}`,
    advice: `Allocate before the work begins, and use the buffers again; or allocate on ${held}`,
  }),
  copyEngine: ({ by, held, often }) => ({
    message: `Copies of ${held} waited for the copy engine that ${by} had ${often}`,
    advice:
      'Copies in one direction come one after the other, on any stream: copy fewer bytes, or what is needed first',
  }),
  computeEngine: (facts) => ({
    message: `Kernels of ${facts.held} waited for room on the device that kernels of ${facts.by} had ${facts.often}`,
    advice: capacityByPriority(facts),
  }),
  sameInstance: ({ by, held, often }) => ({
    message: `Graphs on ${held} waited for a launch of the same instance on ${by} ${often}`,
    advice:
      'CUDA runs the launches of one instance one after another: make an instance for each stream, with `graph.instantiate()`',
  }),
  graphLaunch: ({ held, often }) => ({
    message: `Graphs on ${held} began late after their launch ${often}`,
    advice:
      'Upload the graph before its first launch: `exec.upload(stream)`; and launch the next one before this one is over',
  }),
  unseen: ({ held, often }) => ({
    message: `${held} stood idle for nothing that was recorded ${often}`,
    advice:
      'What is not recorded may have run there, such as work of other processes, or what was queued before: give it streams of its own',
  }),
  oneStream: ({ held, often }) => ({
    message: `Copies and kernels of ${held} came one after the other ${often}`,
    advice:
      'Copy on a second stream, and let each wait for the other only where it needs its bytes: `stream.wait(other)`',
  }),
  sharedStream: ({ call, held, place, often }) => ({
    message: `${call}${place} took turns with the other work of ${held} ${often}`,
    advice: 'Queue it on a stream of its own',
  }),
  slowKernel: ({ call, often }) => ({
    message: `Kernel '${call}' ran ${often}`,
    advice:
      'The gain is that of a kernel which takes 20 % less time: `simulation.profile()`, or Nsight Compute, shows where its time goes',
  }),
}

export const describeStall = (kind: StallKind, facts: StallFacts): Description => DESCRIPTIONS[kind](facts)

/** Shortens 'path:line:column' to the path from the current directory, and the line. */
function shortPlace(callSite: string): string {
  const here = `${process.cwd()}/`
  const path = callSite.startsWith(here) ? callSite.slice(here.length) : callSite
  // A line of Python has no column.
  return path.replace(/(:\d+):\d+$/, '$1')
}

/** The advice for kernels that waited for room. A priority decides only among blocks that have not begun. */
function capacityByPriority({ held, by, heldPriority, byPriority }: StallFacts): string {
  if (heldPriority < byPriority) {
    return `Launch smaller grids on ${by}: the priority of ${held} is higher already, but it stops no block that runs`
  }
  const advice = `Launch smaller grids, or give ${held} a higher priority`
  if (byPriority >= 0) return `${advice}: \`{ priority: -1 }\``
  return `${advice} than ${by}, which has ${byPriority}: lower numbers go first`
}

const promised = (call: string): string =>
  call.endsWith('.synchronize()') ? `\`${call.replace('synchronize', 'finished')}\`` : 'its promise'
