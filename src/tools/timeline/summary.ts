/** The summary of a recording, as data and as text: how busy each stream was, what overlapped, and the stalls. */

/** The summary of a stream. Times are nanoseconds. */
export interface StreamSummary {
  /** The `index` of the stream among the timeline's streams. */
  readonly stream: number
  /** The name of the stream there. */
  readonly name: string
  /** The ordinal of the device. */
  readonly device: number
  /** The time in which the device worked on an operation of the stream: not the waits, and not the host functions. */
  readonly busy: number
  /** The time `busy` as a share of the timeline's duration, from 0 to 1. */
  readonly share: number
  /** The time between operations in which the stream did nothing: that of its gaps. */
  readonly idle: number
}

/** The summary of a device, on all its streams together: time in which several did the same counts once. In nanoseconds. */
export interface DeviceSummary {
  /** The ordinal of the device. */
  readonly device: number
  /** The name that the driver gives the device. */
  readonly name: string
  /** The time in which anything ran. */
  readonly busy: number
  /** The time in which the device copied. */
  readonly copy: number
  /** The time in which the device ran a kernel, a fill or a graph. */
  readonly compute: number
  /** The time in which the device both copied and computed. At most the smaller of the two. */
  readonly overlap: number
}

/** The cause of a stall. */
export type StallKind =
  /** A call of the host that blocked, such as `stream.synchronize()`. */
  | 'blockingCall'
  /** The host awaited a promise, such as that of `stream.finished()`, before it queued more. */
  | 'await'
  /** The host did something else: no call of this library. */
  | 'hostLate'
  /** A call that queues work took long: a kernel was compiled or loaded, memory was mapped, the driver was busy. */
  | 'slowCall'
  /** The host had to wait for room in a stream's hardware queue. */
  | 'fullQueue'
  /** JavaScript was busy, and a host function was due. */
  | 'hostFunctionDue'
  /** The stream waited for a host function of another. */
  | 'hostFunction'
  /** The stream waited until JavaScript had copied bytes between an ordinary array and pinned memory. */
  | 'staging'
  /** The null stream waited for a blocking stream. */
  | 'nullStreamWaited'
  /** A blocking stream waited for the null stream. */
  | 'nullStreamAwaited'
  /** The stream waited for an event, or for another stream. */
  | 'wait'
  /** The library let it wait for memory that was not allocated yet. */
  | 'memoryNotAllocated'
  /** Another copy had the copy engine. */
  | 'copyEngine'
  /** Other kernels had all of the device's room for kernels. */
  | 'computeEngine'
  /** A graph waited for the launch before it of the same instance, on another stream. */
  | 'sameInstance'
  /** A graph began late after its launch. */
  | 'graphLaunch'
  /** Nothing that was recorded: another library's work, or another process's. */
  | 'unseen'
  /** Copies and kernels of one stream come one after the other: the stream has no gap, but nothing overlaps. */
  | 'oneStream'

/** All the times that one cause held streams up. */
export interface Stall {
  /** The kind of the cause. */
  readonly kind: StallKind
  /** A sentence such as '`stream.synchronize()` at app.js:12 held stream a back 8 times, 7.00 ms'. */
  readonly message: string
  /** A sentence that says what to write instead. */
  readonly advice: string
  /** The number of times. */
  readonly count: number
  /** The nanoseconds together. Streams that were held up at once count each. */
  readonly time: number
  /** The place of the call as 'path:line:column', if it is known. */
  readonly callSite: string | undefined
  /** The indices of the stall's gaps in `timeline.gaps`, the longest first. None for 'oneStream'. */
  readonly gaps: readonly number[]
}

/** The type of `timeline.summary`: plain objects, which can be sent as JSON. */
export interface TimelineSummary {
  /** The nanoseconds of `timeline.duration`. */
  readonly duration: number
  /** The summaries of streams, in the order of the timeline's streams. */
  readonly streams: readonly StreamSummary[]
  /** The devices that were used, by their ordinals. */
  readonly devices: readonly DeviceSummary[]
  /** The stalls, the one that cost most time first. */
  readonly stalls: readonly Stall[]
}

/** The most stalls that the text lists. */
const MOST_STALLS = 10

/** The facts about the recording itself that the text has. */
interface Recorded {
  readonly driver: string
  readonly clock: string
  readonly dropped: number
  readonly length: number
}

/** The summary as text, for a terminal or a log. */
export function toText({ driver, clock, dropped, length }: Recorded, summary: TimelineSummary): string {
  const { duration, streams, devices, stalls } = summary
  const percent = (part: number, of: number): string => `${of === 0 ? 0 : Math.round((1000 * part) / of) / 10} %`
  const rest = stalls.slice(MOST_STALLS)
  const lines = [
    `${formatDuration(duration)}, ${length} event records, driver ${driver}, ${clock} clock${dropped === 0 ? '' : `; ${dropped} more operations came after the limit`}`,
    '',
    'Streams',
    ...streams.map(
      ({ name, device, busy, share, idle }) =>
        `  ${name} (device ${device}): busy ${formatDuration(busy)}, ${percent(share, 1)}; idle between operations ${formatDuration(idle)}`,
    ),
    'Devices',
    ...devices.map(
      ({ device, name, busy, copy, compute, overlap }) =>
        `  ${device}, ${name}: busy ${percent(busy, duration)}; copies ${formatDuration(copy)}, kernels ${formatDuration(compute)}, both at once ${formatDuration(overlap)}, ${percent(overlap, Math.min(copy, compute))} of what could be`,
    ),
    'What held them up',
    ...stalls.slice(0, MOST_STALLS).flatMap(({ message, advice }) => [`  ${message}.`, `    ${advice}.`]),
    ...(rest.length === 0
      ? []
      : [`  And ${rest.length} more, ${formatDuration(rest.reduce((sum, { time }) => sum + time, 0))} together.`]),
    ...(stalls.length === 0 ? ['  Nothing.'] : []),
  ]
  return `${lines.join('\n')}\n`
}

/** A duration in nanoseconds as text, with three digits. */
export function formatDuration(nanoseconds: number): string {
  if (nanoseconds < 1000) return `${Math.round(nanoseconds)} ns`
  if (nanoseconds < 999_500) return `${(nanoseconds / 1e3).toPrecision(3)} µs`
  if (nanoseconds < 999_500_000) return `${(nanoseconds / 1e6).toPrecision(3)} ms`
  const seconds = nanoseconds / 1e9
  return `${seconds < 999.5 ? seconds.toPrecision(3) : Math.round(seconds)} s`
}

export const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`)
