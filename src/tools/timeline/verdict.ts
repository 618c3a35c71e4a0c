/** The verdict on a run, in one sentence. */
import { formatDuration, formatPercent, type Stall, type StallKind, type TimelineSummary } from './summary.js'

/** The ways in which each kind of stall is ended, as a part of a sentence: '−38 % by ...'. */
const WAYS: Readonly<Record<StallKind, string>> = {
  blockingCall: 'waits of the host that hold no work back',
  await: 'two items under way at a time',
  hostLate: 'a program that queues its work further ahead',
  slowCall: 'driver calls that take less time',
  fullQueue: 'less work queued ahead',
  hostFunctionDue: 'host functions that run when they are due',
  hostFunction: 'no work of the GPU behind host functions',
  staging: 'bytes that are kept in pinned memory',
  nullStreamWaited: 'a stream of its own in place of the null stream',
  nullStreamAwaited: 'a stream of its own in place of the null stream',
  wait: 'a wait for no more than what is needed',
  memoryNotAllocated: 'memory that is allocated before the work begins',
  copyEngine: 'fewer bytes to copy',
  computeEngine: 'smaller grids, or priorities',
  sameInstance: 'an instance of the graph for each stream',
  graphLaunch: 'a graph that is uploaded before its launch',
  unseen: 'a GPU without other work',
  oneStream: 'copies on a second stream',
  sharedStream: 'a stream of its own for some work',
  slowKernel: 'a faster kernel',
}

/** What a program does that follows an advice, in a few words. */
const wayOf = ({ kind, message, advice }: Stall): string => {
  const call = /^`[^`]+`/.exec(message)?.[0]
  const isOfWaits = kind === 'blockingCall' || kind === 'await'
  if (isOfWaits && call !== undefined && !advice.includes('two are under way')) return `without ${call}`
  if (isOfWaits) return `by ${WAYS.await}`
  if (kind === 'wait' && advice.includes('one more buffer')) return 'by one more buffer'
  const named = /^(?:Kernel )?('[^`]*?'(?: and '[^`]*?'|, '[^`]*?')*)/.exec(message)?.[1]
  if (kind === 'sharedStream' && named !== undefined) return `by ${named} on a stream of its own`
  if (kind === 'slowKernel' && named !== undefined) return `by ${named} in 20 % less time`
  return `by ${WAYS[kind]}`
}

/** The gain as a share of the run: 'up to −38 %'. */
const shareOfGain = ({ gain, isAtMost }: Pick<Stall, 'gain' | 'isAtMost'>, duration: number): string =>
  `${isAtMost ? 'up to ' : ''}−${formatPercent(duration === 0 ? 0 : (gain ?? 0) / duration)}`

export function verdictOf({
  duration,
  streams,
  stalls,
  predicted,
}: Pick<TimelineSummary, 'duration' | 'streams' | 'stalls' | 'predicted'>): string {
  if (streams.length === 0 || stalls.length === 0) return `${formatDuration(duration)}, in which nothing was held up`
  if (predicted === undefined) return `${formatDuration(duration)}, of which no gain can be predicted`
  const part = predicted.isAll
    ? formatDuration(duration)
    : `${formatDuration(duration)}, by the first ${predicted.operations.toLocaleString('en')} operations`
  const advised = stalls.filter(({ advice }) => advice !== '')
  const best = advised.find(({ kind }) => kind !== 'slowKernel')
  if (best !== undefined) return `${part}: ${shareOfGain(best, predicted.duration)} ${wayOf(best)}`
  const busiest = streams.reduce((most, one) => (one.busy > most.busy ? one : most))
  const busy = `of which '${busiest.name}' was busy ${formatPercent(busiest.share)}`
  const [kernel] = advised
  const rest = kernel === undefined ? '' : `${shareOfGain(kernel, predicted.duration)} ${wayOf(kernel)}`
  const waits = 'nothing that waits can gain 1 %'
  return `${part}, ${busy}: ${waits}${rest === '' ? '' : `; ${rest}`}`
}
