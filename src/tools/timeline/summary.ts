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
  /** Work of one stream could run beside the other work of that stream, on a stream of its own. */
  | 'sharedStream'
  /** A kernel without a gap before it: only if it is faster, the run is. */
  | 'slowKernel'

/** All the times that one cause held streams up. */
export interface Stall {
  /** The kind of the cause. */
  readonly kind: StallKind
  /** A sentence such as '`stream.synchronize()` at app.js:12 held stream a back 8 times, 7.00 ms'. */
  readonly message: string
  /** A sentence that says what to write instead; empty where less than a hundredth of the run would be gained, or nothing is predicted. */
  readonly advice: string
  /** The number of times. */
  readonly count: number
  /** The nanoseconds together. Streams that were held up at once count each. */
  readonly time: number
  /**
   * The nanoseconds by which the whole run would be shorter if the program did as advised: predicted by playing the recording again with this change
   * alone, in which each operation still comes behind all that it needs by the memory that it touches. 0 for what holds up nothing that matters.
   * Undefined where nothing can be predicted: see `TimelineSummary.predicted`.
   */
  readonly gain: number | undefined
  /** Whether `gain` is the most that is to be gained, as the host, or work whose memory is not known, may need what the change takes away. */
  readonly isAtMost: boolean
  /** The place of the call as 'path:line:column', if it is known. */
  readonly callSite: string | undefined
  /** The indices of the stall's gaps in `timeline.gaps`, the longest first. None for 'oneStream', 'sharedStream' and 'slowKernel'. */
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
  /** What held the run up, in one sentence: the largest gain, or that there is none. */
  readonly verdict: string
  /** The stalls, the one with the largest gain first. */
  readonly stalls: readonly Stall[]
  /** The part of the recording that was played to predict gains; undefined if it could not be played as it was recorded. */
  readonly predicted: PredictedPart | undefined
}

/** The part of a recording of which gains are predicted: its first 20 000 event records. */
export interface PredictedPart {
  /** The nanoseconds that the part takes: gains are to be compared with these. */
  readonly duration: number
  /** The number of its operations. */
  readonly operations: number
  /** Whether it is all of the recording. */
  readonly isAll: boolean
}

/** The order of stalls: the largest gain first, and of those alike the longest. */
export const byGain = (a: Stall, b: Stall): number => (b.gain ?? 0) - (a.gain ?? 0) || b.time - a.time

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
  const { duration, streams, devices, stalls, verdict, predicted } = summary
  const advised = stalls.filter(({ advice }) => advice !== '')
  const others = stalls.filter(({ advice }) => advice === '')
  const rest = others.slice(MOST_STALLS)
  const lines = [
    `${formatDuration(duration)}, ${length} event records, driver ${driver}, ${clock} clock${dropped === 0 ? '' : `; ${dropped} more operations came after the limit`}`,
    `${verdict}.`,
    '',
    'Streams',
    ...streams.map(
      ({ name, device, busy, share, idle }) =>
        `  ${name} (device ${device}): busy ${formatDuration(busy)}, ${formatPart(share, 1)}; idle between operations ${formatDuration(idle)}`,
    ),
    'Devices',
    ...devices.map(
      ({ device, name, busy, copy, compute, overlap }) =>
        `  ${device}, ${name}: busy ${formatPart(busy, duration)}; copies ${formatDuration(copy)}, kernels ${formatDuration(compute)}, both at once ${formatDuration(overlap)}, ${formatPart(overlap, Math.min(copy, compute))} of what could be`,
    ),
    ...(advised.length === 0 ? [] : ['What would make it faster, each change alone']),
    ...advised
      .slice(0, MOST_STALLS)
      .flatMap((stall) => [
        `  ${formatGain(stall, predicted?.duration ?? 0)}: ${stall.message}.`,
        `    ${stall.advice}.`,
      ]),
    advised.length === 0 ? 'What held them up' : 'What else held them up',
    ...others.slice(0, MOST_STALLS).map(({ message }) => `  ${message}.`),
    ...(rest.length === 0
      ? []
      : [`  And ${rest.length} more, ${formatDuration(rest.reduce((sum, { time }) => sum + time, 0))} together.`]),
    ...(others.length === 0 ? ['  Nothing.'] : []),
  ]
  return `${lines.join('\n')}\n`
}

/** The gain of a stall as text: 'up to −4.20 ms, −38 %'. */
function formatGain({ gain = 0, isAtMost }: Pick<Stall, 'gain' | 'isAtMost'>, duration: number): string {
  return `${isAtMost ? 'up to ' : ''}−${formatDuration(gain)}, −${formatPercent(duration === 0 ? 0 : gain / duration)}`
}

/** A share as a percentage, with a digit behind the point below ten. */
export const formatPercent = (share: number): string => `${(share * 100).toFixed(share >= 0.0995 ? 0 : 1)} %`

/** A duration in nanoseconds as text, with three digits. */
export function formatDuration(nanoseconds: number): string {
  if (nanoseconds < 1000) return `${Math.round(nanoseconds)} ns`
  if (nanoseconds < 999_500) return `${(nanoseconds / 1e3).toPrecision(3)} µs`
  if (nanoseconds < 999_500_000) return `${(nanoseconds / 1e6).toPrecision(3)} ms`
  const seconds = nanoseconds / 1e9
  return `${seconds < 999.5 ? seconds.toPrecision(3) : Math.round(seconds)} s`
}

/** A part as text, such as '12.3 %'. */
export const formatPart = (part: number, of: number): string =>
  `${of === 0 ? 0 : Math.round((1000 * part) / of) / 10} %`

export const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`)
