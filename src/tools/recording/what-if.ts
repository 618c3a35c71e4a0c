/** Predicts what a run would gain by changes: those that are requested, or all that may be worth it. */

import { nearest } from '../../foundation/base/arguments.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { dataOrder } from '../prediction/data-order.js'
import { type MeasuredRun, measure } from '../prediction/measured-run.js'
import { ownStream } from '../prediction/own-stream.js'
import { type Change, playAgain } from '../prediction/replay.js'
import type { Operation, RecordedRun, Step } from '../prediction/run.js'
import { ordersUnknown } from '../prediction/unknown-order.js'
import { type Checked, checkRecording } from './check.js'
import { Reader } from './reader.js'
import { readRun } from './recorded-run.js'

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
    const at = this.#at(line, isMovable)
    const { change, waitsFor, waitedForBy } = ownStream(this.run, this.#data, at, (index) => this.#keyOf(index))
    const before = new Set(waitsFor.map((step) => this.#called(step)))
    const behind = new Set(waitedForBy.map((step) => this.#called(step)))
    const names = new Set([...at].map((index) => this.#operation(index)?.name ?? ''))
    const parts = [
      before.size === 0 ? '' : `it has to wait for ${list(before)}`,
      behind.size === 0 ? '' : `${list(behind)} ${behind.size === 1 ? 'has' : 'have'} to wait for it`,
      this.#isOfProcess
        ? 'of a kernel only the beginning of what it touches is known, so there may be more to wait for'
        : '',
    ]
    const title = `${shortLine(line)}: ${[...names].join(' and ')} on a stream of its own`
    return { change, title, advice: parts.filter((part) => part !== '').join('; ') }
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

  #called(operation: Operation): string {
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
