/** Predicts what a run would gain by changes: those that are requested, or all that may be worth it. */

import { nearest } from '../../foundation/base/arguments.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { type Checked, checkRecording } from './check.js'
import { dataOrder } from './data-order.js'
import { follow, type MeasuredRun, measure } from './measured-run.js'
import { Reader } from './reader.js'
import { type Operation, type RecordedRun, type RecordedStream, readRun, STAGING, type Step } from './recorded-run.js'
import { type Change, playAgain } from './replay.js'
import { isHeldByHost, StreamOrder } from './stream-order.js'

/** A change of the program to be tried. A line is given as 'file.js:41', by the end of its path. */
export type Proposal =
  | { readonly kind: 'without-wait' | 'own-stream' | 'more-buffers'; readonly line: string }
  /** A kernel that is faster by `percent` of its time. */
  | { readonly kind: 'faster'; readonly name: string; readonly percent: number }
  | { readonly kind: 'queues'; readonly count: number }
  | { readonly kind: 'idle-host' }

export interface Prediction {
  /** The title, such as 'video.js:41: copy on a stream of its own'. */
  readonly title: string
  /** The other things that the change needs, or the reason why it is not known whether the program can do without; empty for nothing. */
  readonly advice: string
  /** The nanoseconds that the run is predicted to take. */
  readonly nanoseconds: number
  /** The part of the unchanged run's time by which it changes: negative if it is faster. */
  readonly change: number
  /** Whether the change would make a race, by the memory that was recorded. */
  readonly isRacy: boolean
  /**
   * Whether it is known if the program needs the wait. It is not if the wait orders an operation whose memory was not recorded, or what the host may
   * read.
   */
  readonly isNeedKnown: boolean
}

export interface WhatIf {
  /** The nanoseconds that the recorded run took. */
  readonly recorded: number
  /** The nanoseconds that the recorded run takes when it is played: the nearer to `recorded`, the better. */
  readonly played: number
  /** The nanoseconds of the played run without the time that the recorder itself took, with which changes are compared. */
  readonly unchanged: number
  /** The predictions; the one that gains most comes first. */
  readonly predictions: readonly Prediction[]
  /** Whether the recording is complete. If not, the process was ended before the recording was. */
  readonly isComplete: boolean
  readonly operations: number
  /** The number of operations whose times were not measured. */
  readonly untimed: number
  /** Whether all changes were tried. If not, there were more than there was time for. */
  readonly triedAll: boolean
}

/** The least change that is worth a line. */
const LEAST = 0.005
const NOT_KNOWN =
  'it is not known whether the program needs it: it orders what the host may read, or what touches memory that was not recorded'
/** The percentage by which each kernel is made faster. */
const FASTER = 20

/**
 * @param proposals The changes; without any, all are tried that may be worth it
 * @param seconds The time for which changes are tried
 */
export async function whatIf(path: string, proposals: readonly Proposal[], seconds: number): Promise<WhatIf> {
  const run = readRun(new Reader(path))
  const tries = new Tries(path, run, measure(run))
  const until = monotonicTime() + seconds * 1000
  const predictions: Prediction[] = []
  let triedAll = true
  for (const proposal of proposals.length > 0 ? proposals : tries.worthTrying()) {
    if (proposals.length === 0 && monotonicTime() > until) {
      triedAll = false
      break
    }
    const prediction = await tries.predict(proposal, proposals.length > 0)
    if (prediction !== undefined) predictions.push(prediction)
  }
  predictions.sort((a, b) => a.change - b.change)
  const { isComplete, operations, untimed } = run
  const { unchanged, played, recorded } = tries
  return { recorded, played, unchanged, predictions, isComplete, operations, untimed, triedAll }
}

class Tries {
  readonly played: number
  readonly unchanged: number
  readonly recorded: number
  #data: ReadonlyMap<number, readonly number[]> | undefined
  /** The findings of the sanitizer without a change. */
  #checked: Promise<Checked> | undefined
  /** The lines of waits that gain something if they are left out, and without which there would be a race. */
  readonly #needed = new Set<string>()

  constructor(
    private readonly path: string,
    private readonly run: RecordedRun,
    private readonly measured: MeasuredRun,
  ) {
    this.recorded = measured.duration
    this.played = playAgain(run, measured, { recorder: true })
    this.unchanged = playAgain(run, measured)
  }

  *worthTrying(): Generator<Proposal> {
    for (const line of this.#lines(isWait, this.#lastOperation)) yield { kind: 'without-wait', line }
    for (const line of this.#lines(isMovable)) if (this.#isBesideOthers(line)) yield { kind: 'own-stream', line }
    for (const line of this.#needed) yield { kind: 'more-buffers', line }
    for (const name of this.#kernels()) yield { kind: 'faster', name, percent: FASTER }
    yield { kind: 'idle-host' }
  }

  /** The prediction for a change; undefined for one that gains nothing, unless it is requested. */
  async predict(proposal: Proposal, isAskedFor: boolean): Promise<Prediction | undefined> {
    const { change, title, advice, skipped } = this.#plan(proposal)
    const nanoseconds = playAgain(this.run, this.measured, change)
    const gain = this.unchanged === 0 ? 0 : (nanoseconds - this.unchanged) / this.unchanged
    if (!isAskedFor && gain > -LEAST) return undefined
    if (skipped !== undefined && ordersUnknown(this.run, skipped)) {
      if (proposal.kind === 'more-buffers' && !isAskedFor) return undefined
      // What is known of a kernel in the trace of a process is enough to find a race, and not to exclude one.
      const numbers = this.#isOfProcess ? this.#numbersOf(skipped) : undefined
      if (numbers !== undefined && (await this.#isRacyWithout(numbers, proposal.kind)))
        return { title, advice, nanoseconds, change: gain, isRacy: true, isNeedKnown: true }
      return { title, advice: NOT_KNOWN, nanoseconds, change: gain, isRacy: false, isNeedKnown: false }
    }
    const isRacy = skipped === undefined ? false : await this.#isRacyWithout(this.#numbersOf(skipped), proposal.kind)
    if (isRacy && proposal.kind === 'without-wait') this.#needed.add(proposal.line)
    if (isRacy && proposal.kind === 'more-buffers' && !isAskedFor) return undefined
    return { title, advice, nanoseconds, change: gain, isRacy, isNeedKnown: true }
  }

  #plan(proposal: Proposal): { change: Change; title: string; advice: string; skipped?: ReadonlySet<number> } {
    switch (proposal.kind) {
      case 'without-wait': {
        const without = this.#at(proposal.line, isWait)
        const title = `${shortLine(proposal.line)}: without this ${this.#nameOfWait(without)}`
        return { change: { without }, title, advice: 'it orders nothing that shares memory', skipped: without }
      }
      case 'own-stream':
        return this.#planOwnStream(proposal.line)
      case 'more-buffers': {
        const waits = this.#at(proposal.line, isWait)
        const lagging = new Map([...waits].map((index) => [index, this.#keyOf(index)]))
        const title = `${shortLine(proposal.line)}: one more buffer in the ring`
        const advice = `this ${this.#nameOfWait(waits)} then waits for one round earlier; each round uses the next of the buffers`
        return { change: { lagging }, title, advice, skipped: waits }
      }
      case 'faster': {
        const { name, percent } = proposal
        if (!this.#kernels().includes(name)) throw this.#noKernel(name)
        const times = new Map([[name, 1 - percent / 100]])
        return { change: { times }, title: `kernel '${name}' ${percent} % faster`, advice: '' }
      }
      case 'queues':
        return { change: { queues: proposal.count }, title: `${proposal.count} hardware queues`, advice: '' }
      case 'idle-host': {
        const advice = 'the most that is to be gained where the program queues its work: by fewer calls, or a graph'
        return { change: { hostTime: 0 }, title: 'no time of the program between the calls', advice }
      }
    }
  }

  #planOwnStream(line: string): { change: Change; title: string; advice: string } {
    this.#data ??= dataOrder(this.run)
    const data = this.#data
    const at = this.#at(line, isMovable)
    const moved = new Map([...at].map((index) => [index, this.#keyOf(index)]))
    const crossing = new Map<number, readonly number[]>()
    const waitsFor = new Set<string>()
    const waitedForBy = new Set<string>()
    for (const [index, before] of data) {
      const across = before.filter((other) => moved.get(index) !== moved.get(other))
      if (across.length === 0) continue
      crossing.set(index, across)
      for (const other of across) {
        // The library itself frees memory behind all that uses it.
        if (moved.has(index) && !this.#isOfMemory(other)) waitsFor.add(this.#called(other))
        else if (!moved.has(index) && !this.#isOfMemory(index)) waitedForBy.add(this.#called(index))
      }
    }
    // Each moved operation may be waited for, and so is kept.
    for (const index of at) if (!crossing.has(index)) crossing.set(index, [])
    for (const before of [...crossing.values()])
      for (const other of before) if (!crossing.has(other)) crossing.set(other, [])
    const names = new Set([...at].map((index) => this.#operation(index)?.name ?? ''))
    const parts = [
      waitsFor.size === 0 ? '' : `it has to wait for ${list(waitsFor)}`,
      waitedForBy.size === 0 ? '' : `${list(waitedForBy)} ${waitedForBy.size === 1 ? 'has' : 'have'} to wait for it`,
      this.#isOfProcess
        ? 'of a kernel only the beginning of what it touches is known, so there may be more to wait for'
        : '',
    ]
    const title = `${shortLine(line)}: ${[...names].join(' and ')} on a stream of its own`
    return { change: { moved, data: crossing }, title, advice: parts.filter((part) => part !== '').join('; ') }
  }

  /** Whether the run is that of a whole process. */
  get #isOfProcess(): boolean {
    return this.run.steps.some((step) => step.what === 'operation' && step.isPartlyKnown)
  }

  /** The key of an operation: its line, on its stream. */
  #keyOf(index: number): string {
    const step = this.run.steps[index]
    const stream = step !== undefined && 'stream' in step ? step.stream.index : ''
    return `${step?.site} ${stream}`
  }

  #operation(index: number): Operation | undefined {
    const step = this.run.steps[index]
    return step?.what === 'operation' ? step : undefined
  }

  #numbersOf(indices: ReadonlySet<number>): ReadonlySet<number> {
    return new Set([...indices].map((index) => this.run.steps[index]?.number ?? -1))
  }

  #isOfMemory(index: number): boolean {
    const kind = this.#operation(index)?.kind
    return kind === 'allocate' || kind === 'free'
  }

  #called(index: number): string {
    const operation = this.#operation(index)
    if (operation === undefined) return ''
    const name = operation.kind === 'kernel' ? `kernel '${operation.name}'` : operation.name
    return operation.site === '' ? name : `${name} (${shortLine(operation.site)})`
  }

  #nameOfWait(indices: ReadonlySet<number>): string {
    const steps = [...indices].map((index) => this.run.steps[index])
    return steps.every((step) => step?.what === 'begin') ? 'wait of the host' : 'wait'
  }

  /** The lines of steps up to this one. */
  #lines(isMeant: (step: Step) => boolean, last = this.run.steps.length): readonly string[] {
    const lines = new Set<string>()
    for (const step of this.run.steps.slice(0, last)) if (step.site !== '' && isMeant(step)) lines.add(step.site)
    return [...lines]
  }

  /** The number of the last operation's step. A wait behind it holds nothing up. */
  get #lastOperation(): number {
    return this.run.steps.findLastIndex(({ what }) => what === 'operation')
  }

  #kernels(): readonly string[] {
    const names = this.run.steps.flatMap((step) =>
      step.what === 'operation' && step.kind === 'kernel' ? [step.name] : [],
    )
    return [...new Set(names)]
  }

  /** Whether there is other work on the streams of the line. */
  #isBesideOthers(line: string): boolean {
    const streams = new Set(
      this.run.steps.flatMap((step) => (isMovable(step) && step.site === line ? [step.stream] : [])),
    )
    return this.run.steps.some((step) => isMovable(step) && step.site !== line && streams.has(step.stream))
  }

  #at(line: string, isMeant: (step: Step) => boolean): ReadonlySet<number> {
    const found = new Set<number>()
    for (const [index, step] of this.run.steps.entries())
      if (isMeant(step) && endsWithLine(step.site, line)) found.add(index)
    if (found.size === 0) {
      const lines = this.#lines(isMeant).map(shortLine)
      const what = isMeant === isWait ? 'wait' : 'timed work'
      const there =
        lines.length === 0 ? 'there is none in the recording' : `there is some at ${lines.slice(0, 8).join(', ')}`
      throw invalidValue(`There is no ${what} at '${line}': ${there}`)
    }
    return found
  }

  #noKernel(name: string): Error {
    const names = this.#kernels()
    const meant = nearest(name, names)
    return invalidValue(
      `There is no kernel '${name}' in the recording: ${meant === undefined ? `there are ${names.slice(0, 8).join(', ')}` : `did you mean '${meant}'?`}`,
    )
  }

  /** Whether a race arises without these waits. With more buffers only what reads the bytes of its own round still needs the wait. */
  async #isRacyWithout(skipped: ReadonlySet<number>, kind: Proposal['kind']): Promise<boolean> {
    this.#checked ??= checkRecording(new Reader(this.path))
    const [before, without] = [await this.#checked, await checkRecording(new Reader(this.path), skipped)]
    return kind === 'more-buffers' ? without.readsTooEarly > before.readsTooEarly : without.races > before.races
  }
}

/** The number, within each stream, of the latest operation that something comes after. */
type Clock = ReadonlyMap<RecordedStream, number>

/** The order of operations, with some waits or without them. */
class Known {
  readonly order = new StreamOrder<Clock>((all) => [latestOf(all)])
  /** The operations that the host has waited for. */
  host: Clock = new Map()
  readonly #begun = new Map<number, Clock>()

  constructor(private readonly skipped: ReadonlySet<number>) {}

  /** The operations that this one comes after. It becomes the operation with this number in its stream. */
  queue(operation: Operation, place: number): Clock {
    const { order } = this
    const before = latestOf([this.host, ...order.beforeOperation(operation)])
    const end = new Map(before).set(operation.stream, place)
    if (isHeldByHost(operation)) {
      order.reached.set(operation.number, [before])
      order.hostFunctions.set(operation.number, end)
    }
    order.queued(operation, end)
    return before
  }

  follow(step: Exclude<Step, Operation>, index: number): void {
    if (step.what === 'begin') this.#begun.set(index, latestOf(this.order.awaited(step.awaited)))
    else if (step.what === 'let') {
      this.order.reached.delete(step.operation)
      this.order.hostFunctions.delete(step.operation)
    } else if (step.what === 'go') {
      const awaited = this.#begun.get(step.begun)
      this.#begun.delete(step.begun)
      if (awaited !== undefined && !this.skipped.has(step.begun)) this.host = latestOf([this.host, awaited])
    } else if (!this.skipped.has(index)) follow(this.order, step)
  }
}

function latestOf(clocks: readonly Clock[]): Clock {
  const [first = new Map<RecordedStream, number>(), ...others] = clocks
  if (others.length === 0) return first
  const latest = new Map(first)
  for (const clock of others)
    for (const [stream, place] of clock) if (place > (latest.get(stream) ?? NONE)) latest.set(stream, place)
  return latest
}

const NONE = -1

/**
 * Whether the program without these waits loses an order that the sanitizer cannot check: that of an operation whose memory is not known, or of bytes
 * that were written for the host and the host, which may read them through a view that it kept.
 */
function ordersUnknown({ steps, hostMemory }: RecordedRun, skipped: ReadonlySet<number>): boolean {
  const [kept, without] = [new Known(new Set()), new Known(skipped)]
  const places = new Map<RecordedStream, number>()
  /** The numbers of operations, within each stream, whose memory is not known. */
  const unknown = new Map<RecordedStream, number[]>()
  const forHost = new Map<RecordedStream, number[]>()
  /** The promises that streams wait for: the program may settle them because it has waited. */
  const promises = new Set<number>()
  for (const [index, step] of steps.entries()) {
    if (step.what === 'operation') {
      const place = (places.get(step.stream) ?? NONE) + 1
      places.set(step.stream, place)
      const [before, still] = [kept.queue(step, place), without.queue(step, place)]
      const isUnknown = hasUnknownMemory(step)
      if (isLost(before, still, isUnknown ? undefined : unknown)) return true
      if (isUnknown) note(unknown, step.stream, place)
      if (writesForHost(step, hostMemory)) note(forHost, step.stream, place)
      if (step.kind === 'promise') promises.add(step.number)
    } else {
      kept.follow(step, index)
      without.follow(step, index)
      if (step.what === 'let') promises.delete(step.operation)
      if (step.what !== 'go') continue
      if (skipped.has(step.begun) && promises.size > 0) return true
      if (isLost(kept.host, without.host, forHost)) return true
    }
  }
  return false
}

/** Whether there is an operation that only the first clock comes after, among those with these numbers, or among all. */
function isLost(
  first: Clock,
  second: Clock,
  places: ReadonlyMap<RecordedStream, readonly number[]> | undefined,
): boolean {
  for (const [stream, place] of first) {
    const still = second.get(stream) ?? NONE
    if (place <= still) continue
    if (places === undefined) return true
    const latest = places.get(stream)?.findLast((at) => at <= place) ?? NONE
    if (latest > still) return true
  }
  return false
}

function note(places: Map<RecordedStream, number[]>, stream: RecordedStream, place: number): void {
  const known = places.get(stream)
  if (known === undefined) places.set(stream, [place])
  else known.push(place)
}

/** Whether the memory of an operation is not known. Frees come after all that uses the memory, and staging uses memory of the library's own. */
const hasUnknownMemory = (operation: Operation): boolean =>
  operation.isPartlyKnown || (operation.memory === undefined && operation.kind !== 'free' && !isStaging(operation))

const isStaging = ({ kind, name }: Operation): boolean => kind === 'hostFunction' && name === STAGING

const writesForHost = (operation: Operation, hostMemory: RecordedRun['hostMemory']): boolean =>
  operation.sharesWithHost ||
  operation.engine === 'toHost' ||
  isStaging(operation) ||
  (operation.memory ?? []).some(
    ({ pointer, byteLength, access }) =>
      access !== 'in' && !hostMemory.overlapping(pointer, pointer + byteLength).next().done,
  )

const isWait = (step: Step): boolean =>
  step.what === 'wait' || step.what === 'waitStream' || (step.what === 'begin' && step.awaited.of !== 'hostFunctions')

const isMovable = (step: Step): step is Operation =>
  step.what === 'operation' && step.memory !== undefined && !Number.isNaN(step.end) && step.site !== ''

const endsWithLine = (site: string, line: string): boolean => site === line || site.endsWith(`/${line}`)

/** The line with the last part of its path. */
export const shortLine = (site: string): string => site.slice(site.lastIndexOf('/') + 1)

function list(names: ReadonlySet<string>): string {
  const [...all] = names
  const last = all.pop() ?? ''
  return all.length === 0 ? last : `${all.join(', ')} and ${last}`
}
