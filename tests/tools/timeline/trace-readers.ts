/**
 * How programs that open trace files read them, written down from what they do: speedscope adds floating-point
 * microseconds, Perfetto rounds to nanoseconds, and both want the slices of a thread inside each other or apart.
 */
import assert from 'node:assert/strict'
import type { TraceEvent } from 'cuda-streams/timeline'

/** A slice as it is shown. Times are nanoseconds. */
export interface Shown {
  readonly event: TraceEvent
  readonly start: number
  readonly duration: number
  /** How many slices are around it. */
  readonly depth: number
}

function byThread(events: readonly TraceEvent[]): TraceEvent[][] {
  const threads = new Map<string, TraceEvent[]>()
  for (const event of events) {
    if (event.ph !== 'X') continue
    const key = `${event.pid}/${event.tid}`
    const own = threads.get(key)
    if (own === undefined) threads.set(key, [event])
    else own.push(event)
  }
  return [...threads.values()]
}

/**
 * Times count from the first of the thread; begins and ends wait in two queues; where both have the same time, an end
 * goes first, unless a slice of its name begins. A slice that is not the innermost one is not ended.
 */
export function readAsSpeedscope(events: readonly TraceEvent[]): Shown[] {
  return byThread(events).flatMap((thread) => {
    const first = Math.min(...thread.map(({ ts }) => ts))
    const slices = thread
      .map((event) => ({ event, ts: event.ts - first, dur: event.dur ?? 0 }))
      .sort((a, b) => a.ts - b.ts || b.dur - a.dur)
    const ends = slices.map((slice) => ({ slice, ts: slice.ts + slice.dur })).sort((a, b) => a.ts - b.ts)
    const shown: Shown[] = []
    const open: (typeof slices)[number][] = []
    let begun = 0
    for (let ended = 0; ended < ends.length; ) {
      const next = slices[begun]
      const end = ends[ended]
      assert.ok(end !== undefined)
      const beginsFirst = next !== undefined && (next.ts < end.ts || (next.ts === end.ts && sameName(next, end.slice)))
      if (beginsFirst) {
        open.push(next)
        begun += 1
        continue
      }
      // Of ends at the same time, that of the innermost slice goes first.
      const innermost = open.pop()
      const match = ends.findIndex(({ slice, ts }, at) => at >= ended && ts === end.ts && slice === innermost)
      assert.ok(innermost !== undefined && match >= 0, `never ends: ${JSON.stringify(innermost?.event)}`)
      const swapped = ends[match]
      assert.ok(swapped !== undefined)
      ends[match] = end
      ends[ended] = swapped
      ended += 1
      const start = Math.round((innermost.ts + first) * 1000)
      shown.push({
        event: innermost.event,
        start,
        duration: (swapped.ts - innermost.ts) * 1000,
        depth: open.length,
      })
    }
    assert.equal(open.length, 0)
    return shown
  })
}

interface Named {
  readonly event: TraceEvent
}
const sameName = (a: Named, b: Named): boolean => a.event.name === b.event.name

/** Nanoseconds, rounded; events of one time in the order of the file. A slice that does not fit the one around it is lost. */
export function readAsPerfetto(events: readonly TraceEvent[]): Shown[] {
  const nanoseconds = (value: number): number => Math.round(value * 1000)
  return byThread(events).flatMap((thread) => {
    const open: number[] = []
    return thread
      .map((event) => ({ event, start: nanoseconds(event.ts), duration: nanoseconds(event.dur ?? 0) }))
      .sort((a, b) => a.start - b.start)
      .map((slice) => {
        while ((open.at(-1) ?? Number.POSITIVE_INFINITY) <= slice.start) open.pop()
        const around = open.at(-1) ?? Number.POSITIVE_INFINITY
        assert.ok(slice.start + slice.duration <= around, `overlaps what is around it: ${JSON.stringify(slice.event)}`)
        open.push(slice.start + slice.duration)
        return { ...slice, depth: open.length - 1 }
      })
  })
}
