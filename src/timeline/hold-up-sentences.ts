/** What held a stream up, in a sentence, and what to write instead. */
import { process } from '#platform'
import type { HoldUpKind } from './summary.js'

export interface HoldUpFacts {
  /** The stream that was held up, or how many. */
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

interface Sentences {
  readonly message: string
  readonly advice: string
}

/** What a promise or an event does in the place of a call that blocks. */
const INSTEAD: Readonly<Record<string, string>> = {
  'stream.synchronize()': 'If the next work needs what it waits for, let the stream wait: `stream.wait(other)`',
  'event.synchronize()': 'If the next work needs what it waits for, let the stream wait: `stream.wait(event)`',
  'device.synchronize()': 'Wait for the one stream whose results are read, not for all of them',
  'device.drainHostFunctions()': 'Call it only before a blocking call of another library',
}

const SLOW: Readonly<Record<string, string>> = {
  allocate: 'Allocate before the work begins, and use the buffers again',
  graph: 'Upload the graph before its first launch: `exec.upload(stream)`',
}

const WRITTEN: Readonly<Record<HoldUpKind, (facts: HoldUpFacts) => Sentences>> = {
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
      'Queue further ahead, and let JavaScript do its own work after that; a sequence that repeats can be one graph',
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
    message: `${held} waited${place} for JavaScript to copy bytes to or from an ordinary array ${often}`,
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
    advice: `Record an event on ${by} as soon as what is needed is done, and wait for that; or work in smaller parts, so that one is copied while another is computed`,
  }),
  memoryNotAllocated: ({ by, held, place, often }) => ({
    message: `${held} waited${place} for memory that ${by} had not allocated yet ${often}`,
    advice: `Allocate before the work begins, and use the buffers again; or allocate on ${held}`,
  }),
  memoryInUse: ({ by, held, place, often }) => ({
    message: `${held} waited${place} for memory that ${by} still used ${often}`,
    advice: 'Use two buffers in turns, and close them when the work is over',
  }),
  copyEngine: ({ by, held, often }) => ({
    message: `Copies of ${held} waited for the copy engine that ${by} had ${often}`,
    advice:
      'Copies in one direction come one after the other, on any stream: copy fewer bytes, or what is needed first',
  }),
  computeEngine: (facts) => ({
    message: `Kernels of ${facts.held} waited for room on the device that kernels of ${facts.by} had ${facts.often}`,
    advice: roomByPriority(facts),
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
      'Work of other libraries and processes is not recorded, nor is what was queued before: give it streams of its own',
  }),
  oneStream: ({ held, often }) => ({
    message: `Copies and kernels of ${held} came one after the other ${often}`,
    advice:
      'Copy on a second stream, and let each wait for the other only where it needs its bytes: `stream.wait(other)`',
  }),
}

export const inSentences = (kind: HoldUpKind, facts: HoldUpFacts): Sentences => WRITTEN[kind](facts)

/** Of 'path:line:column' the path from here, and the line. */
export function shortPlace(callSite: string): string {
  const here = `${process.cwd()}/`
  const path = callSite.startsWith(here) ? callSite.slice(here.length) : callSite
  return path.replace(/:\d+$/, '')
}

/** A priority decides which of the blocks that have not begun goes first. */
function roomByPriority({ held, by, heldPriority, byPriority }: HoldUpFacts): string {
  if (heldPriority < byPriority) {
    return `Launch smaller grids on ${by}: the priority of ${held} is higher already, but it stops no block that runs`
  }
  const advice = `Launch smaller grids, or give ${held} a higher priority`
  if (byPriority >= 0) return `${advice}: \`{ priority: -1 }\``
  return `${advice} than ${by}, which has ${byPriority}: lower numbers go first`
}

const promised = (call: string): string =>
  call.endsWith('.synchronize()') ? `\`${call.replace('synchronize', 'finished')}\`` : 'its promise'
