/** What the run gains without each cause of its gaps: the change of the program that its advice means, played again. */
import type { Change } from '../prediction/replay.js'
import { deviceInCause, EventKind, isHostOnly, STAGING } from './kinds.js'
import type { Predictor } from './predictor.js'
import type { Gain, Group } from './stalls.js'
import type { StallKind } from './summary.js'
import type { Trace } from './trace.js'

export const NOT_PREDICTED: Gain = { nanoseconds: undefined, isAtMost: false, isWorthIt: false, isLagging: false }

type RowsOf = (isMeant: (row: number) => boolean) => ReadonlySet<number>

/** The gain of what the advice for a cause says. */
export function gainOf(trace: Trace, predictor: Predictor | undefined, group: Group): Gain {
  if (predictor === undefined) return NOT_PREDICTED
  /** The steps of the rows that are meant. */
  const steps: RowsOf = (isMeant) => {
    const found = new Set<number>()
    for (let row = 0; row < trace.length; row += 1) {
      const step = isMeant(row) ? predictor.stepOf(row) : -1
      if (step >= 0) found.add(step)
    }
    return found
  }
  switch (group.kind) {
    case 'blockingCall':
      return withoutHostWaits(predictor, steps(hostWaits(trace, group)), false)
    case 'await':
      return withoutHostWaits(predictor, steps(hostWaits(trace, group)), true)
    case 'wait':
      return withoutStreamWaits(predictor, steps(streamWaits(trace, group)))
    default: {
      const change = changeFor(trace, predictor, group, steps)
      return change === undefined
        ? NOT_PREDICTED
        : worth(predictor, predictor.gainOf(change), isBound(predictor, group.kind))
    }
  }
}

function worth(predictor: Predictor, nanoseconds: number | undefined, isAtMost: boolean, isLagging = false): Gain {
  return { nanoseconds, isAtMost, isLagging, isWorthIt: predictor.isWorthIt(nanoseconds) }
}

/** Whether the change takes away more than a program can, or more than it may, as far as memory is known. */
function isBound({ hasUnknown }: Predictor, kind: StallKind): boolean {
  const isOfMemory = kind === 'nullStreamAwaited' || kind === 'nullStreamWaited' || kind === 'sameInstance'
  return isOfMemory ? hasUnknown : kind !== 'memoryNotAllocated'
}

/**
 * The gain without waits of streams, where each operation still comes after what it needs; or that of waits for one round earlier, where what they
 * order is only the next use of memory. Of waits that order what is not known nothing is said.
 */
function withoutStreamWaits(predictor: Predictor, waits: ReadonlySet<number>): Gain {
  const without = predictor.gainOf({ without: waits, data: predictor.data })
  if (!predictor.isWorthIt(without)) {
    const later = waits.size > 1 && !predictor.ordersUnknown(waits) ? laterGain(predictor, waits) : undefined
    return predictor.isWorthIt(later) ? worth(predictor, later, false, true) : worth(predictor, without, false)
  }
  return predictor.ordersUnknown(waits) ? NOT_PREDICTED : worth(predictor, without, false)
}

/**
 * The gain without waits of the host. Where the host may need what it waits for, it is the most that is to be gained, or that of waits for one round
 * earlier.
 * @param awaits Whether the host awaits promises, and so may work on two items at a time
 */
function withoutHostWaits(predictor: Predictor, waits: ReadonlySet<number>, awaits: boolean): Gain {
  const without = predictor.gainOf({ without: waits, data: predictor.data })
  const isUnknown = predictor.ordersUnknown(waits)
  if (predictor.isWorthIt(without) && !(isUnknown && awaits)) return worth(predictor, without, isUnknown)
  const later = waits.size > 1 ? laterGain(predictor, waits) : undefined
  return predictor.isWorthIt(later) ? worth(predictor, later, true, true) : worth(predictor, without, isUnknown)
}

/** The gain of waits for one round earlier, where each operation still comes after what it reads. */
const laterGain = (predictor: Predictor, waits: ReadonlySet<number>): number | undefined =>
  predictor.gainOf({ lagging: laggingOf(predictor, waits), data: predictor.reads })

/** The waits with the rings in which one more buffer lets them lag: those of one place for one stream. */
const laggingOf = (predictor: Predictor, waits: ReadonlySet<number>): ReadonlyMap<number, string> =>
  new Map([...waits].map((index) => [index, `${predictor.run.steps[index]?.site} ${predictor.trackOf(index)}`]))

/** Whether a row is a wait of the host like those of the group: of the same call, at a place of the group or, without places, for its streams. */
function hostWaits(
  { kind, name, site, track, cause }: Trace,
  { by, sites, byTracks }: Group,
): (row: number) => boolean {
  const places = [...sites].every((place) => place !== '') ? sites : undefined
  const device = deviceInCause(cause[by] ?? -1)
  return (row) => {
    if (kind[row] !== kind[by] || name[row] !== name[by]) return false
    if (places !== undefined) return places.has(site[row] ?? '')
    return deviceInCause(cause[row] ?? -1) === device && byTracks.has(track[row] ?? 0)
  }
}

/** Whether a row is a wait of a stream like those of the group. */
function streamWaits({ kind, site, track, cause }: Trace, { at, sites }: Group): (row: number) => boolean {
  const places = [...sites].every((place) => place !== '') ? sites : undefined
  const [on, by] = [track[at], track[cause[at] ?? -1]]
  return (row) => {
    if (kind[row] !== EventKind.WAIT) return false
    return places === undefined ? track[row] === on && track[cause[row] ?? -1] === by : places.has(site[row] ?? '')
  }
}

function changeFor(trace: Trace, predictor: Predictor, group: Group, steps: RowsOf): Change | undefined {
  const { kind, track, tracks, name } = trace
  const { data } = predictor
  const isOnDevice = (row: number): boolean => tracks[track[row] ?? 0]?.device === tracks[track[group.by] ?? 0]?.device
  switch (group.kind) {
    case 'hostLate':
      return { hostTime: 0 }
    case 'slowCall':
    case 'fullQueue':
      return { instant: steps((row) => !isHostOnly(kind[row] ?? 0) && name[row] === name[group.by]) }
    case 'hostFunctionDue': {
      const due = new Map<number, number>()
      for (let row = 0; row < trace.length; row += 1) {
        const took = (trace.end[row] ?? 0) - (trace.start[row] ?? 0)
        const step = predictor.stepOf(row)
        if (step >= 0 && kind[row] === EventKind.HOST_FUNCTION && name[row] !== STAGING && took >= 0)
          due.set(step, took)
      }
      return { due }
    }
    case 'hostFunction':
      return { aside: steps((row) => kind[row] === EventKind.HOST_FUNCTION && name[row] !== STAGING) }
    case 'staging':
      return { aside: steps((row) => kind[row] === EventKind.HOST_FUNCTION && name[row] === STAGING), hostTime: 0 }
    case 'nullStreamAwaited':
    case 'nullStreamWaited': {
      const blocking = tracks.filter(
        ({ nonBlocking, device }) => !nonBlocking && device === tracks[track[group.by] ?? 0]?.device,
      )
      return { nonBlocking: new Set(blocking.map(({ index }) => index)), data }
    }
    case 'memoryNotAllocated': {
      const allocations = steps((row) => kind[row] === EventKind.ALLOCATE && isOnDevice(row))
      const waits = steps((row) => kind[row] === EventKind.WAIT && kind[trace.cause[row] ?? -1] !== EventKind.RECORD)
      return { without: waits, moved: new Map([...allocations].map((step) => [step, `allocation ${step}`])), data }
    }
    case 'copyEngine':
    case 'computeEngine':
      return { isRoomy: true }
    case 'sameInstance':
      return { areInstancesApart: true, data }
    case 'graphLaunch':
      return { prompt: steps((row) => kind[row] === EventKind.GRAPH) }
    default:
      return undefined
  }
}
