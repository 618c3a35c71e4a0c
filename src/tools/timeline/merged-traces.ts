/** One trace of the recordings of several threads, each with rows of its own. */
import { isObject } from '../../foundation/base/arguments.js'
import { invalidType } from '../../foundation/base/errors.js'
import type { TraceEvent, TraceFile } from './trace-events.js'

/**
 * One trace of those of several threads: each has recorded its own work. Each thread keeps its rows, with
 * its name behind theirs, and all have one clock: on a GPU that of the machine. On the simulator each thread has virtual times of its own,
 * which say nothing of the order of two threads.
 * @param traces By the names of the threads, what `timeline.toTraceEvents()` returned there: plain objects, which can be posted.
 * @throws {Error} ERR_INVALID_ARG_TYPE
 * @example
 * ```ts
 * import { mergeTraces, Timeline } from 'cuda-streams/timeline'
 *
 * const timeline = await Timeline.record(() => stream.copy(to, from))
 * worker.once('message', (trace) => {
 *   const merged = mergeTraces({ main: timeline.toTraceEvents(), worker: trace })
 *   console.log(JSON.stringify(merged)) // ui.perfetto.dev opens it
 * })
 * ```
 */
export function mergeTraces(traces: Readonly<Record<string, TraceFile>>): TraceFile {
  if (!isObject(traces)) throw invalidType('traces', 'an object with a trace for each thread', traces)
  const named = Object.entries(traces)
  for (const [name, trace] of named) checkTrace(`traces['${name}']`, trace)
  const [first] = named
  if (first === undefined) throw invalidType('traces', 'an object with a trace for each thread', traces)
  const base = Math.min(...named.map(([, { baseTimeNanoseconds }]) => baseTimeNanoseconds))
  const devices = new Map<number, { readonly id: number; readonly name: string }>()
  const events: TraceEvent[] = []
  let rows = 0
  let ids = 0
  for (const [name, { traceEvents, deviceProperties, baseTimeNanoseconds }] of named) {
    for (const device of deviceProperties) devices.set(device.id, device)
    const moved = { name, rows, ids, later: (baseTimeNanoseconds - base) / 1000 }
    for (const event of traceEvents) {
      events.push(inMerged(event, moved))
      rows = Math.max(rows, moved.rows + event.tid)
      ids = Math.max(ids, moved.ids + (event.id ?? 0), moved.ids + correlationOf(event))
    }
  }
  return { ...first[1], deviceProperties: [...devices.values()], baseTimeNanoseconds: base, traceEvents: events }
}

function checkTrace(name: string, trace: unknown): void {
  const { traceEvents, baseTimeNanoseconds, deviceProperties } = (isObject(trace) ? trace : {}) as Partial<TraceFile>
  const isOne = Array.isArray(traceEvents) && Array.isArray(deviceProperties) && typeof baseTimeNanoseconds === 'number'
  if (!isOne) throw invalidType(name, 'what timeline.toTraceEvents() returned', trace)
}

interface Moved {
  /** The name of the thread. */
  readonly name: string
  /** The numbers of rows that other threads have before it; `ids` counts their arrows and operations. */
  readonly rows: number
  readonly ids: number
  /** The microseconds by which the thread's recording began later than the first. */
  readonly later: number
}

function correlationOf({ args }: TraceEvent): number {
  const correlation = args?.['correlation']
  return typeof correlation === 'number' ? correlation + 1 : 0
}

function inMerged(event: TraceEvent, { name, rows, ids, later }: Moved): TraceEvent {
  const { ph, tid, ts, id, args } = event
  if (ph === 'M') {
    if (event.name === 'thread_name') return { ...event, tid: rows + tid, args: { name: `${args?.['name']}, ${name}` } }
    if (event.name === 'thread_sort_index') return { ...event, tid: rows + tid, args: { sort_index: rows + tid } }
    return event
  }
  const correlation = correlationOf(event)
  return {
    ...event,
    tid: rows + tid,
    // The sum is rounded to as many digits as the events have.
    ts: Math.round((ts + later) * 1000) / 1000,
    ...(id === undefined ? {} : { id: ids + id }),
    ...(correlation === 0 ? {} : { args: { ...args, correlation: ids + correlation - 1 } }),
  }
}
