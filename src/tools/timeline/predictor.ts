/** Plays a recording again with changes, to predict what each gains. */
import { dataOrder } from '../prediction/data-order.js'
import { type MeasuredRun, measure } from '../prediction/measured-run.js'
import { type Change, playAgain } from '../prediction/replay.js'
import type { Operation, RecordedRun } from '../prediction/run.js'
import { hasUnknownMemory, ordersUnknown } from '../prediction/unknown-order.js'
import type { PredictedPart } from './summary.js'
import type { Trace } from './trace.js'
import { runOf, type TracedRun } from './traced-run.js'

/** The share of the run below which a gain is not worth a line. */
export const LEAST_SHARE = 0.01
/** The share by which a run that is played again may differ from the recorded one. */
const NEAR = 0.1
/** The steps that are played at most for one recording, some seconds: beyond that nothing more is predicted. */
const MOST_STEPS = 600_000

export class Predictor {
  readonly part: PredictedPart
  readonly run: RecordedRun
  readonly #measured: MeasuredRun
  readonly #stepOf: Int32Array
  readonly #track: Uint32Array
  #left = MOST_STEPS
  #data: ReadonlyMap<number, readonly number[]> | undefined
  #reads: ReadonlyMap<number, readonly number[]> | undefined
  #hasUnknown: boolean | undefined

  private constructor({ run, stepOf }: TracedRun, { track }: Trace, measured: MeasuredRun, part: PredictedPart) {
    this.run = run
    this.#stepOf = stepOf
    this.#track = track
    this.#measured = measured
    this.part = part
  }

  /** The predictor of a recording; undefined if the recording cannot be played as it was. */
  static of(trace: Trace): Predictor | undefined {
    const traced = runOf(trace)
    if (traced === undefined) return undefined
    const { run, isAll } = traced
    const operations = run.steps.reduce((sum, { what }) => sum + (what === 'operation' ? 1 : 0), 0)
    if (operations === 0) return undefined
    const measured = measure(run)
    const duration = playAgain(run, measured) - measured.began
    if (Math.abs(duration - measured.duration) > NEAR * measured.duration) return undefined
    return new Predictor(traced, trace, measured, { duration, operations, isAll })
  }

  /** The operations that each operation comes after by the memory that both touch. */
  get data(): ReadonlyMap<number, readonly number[]> {
    this.#data ??= dataOrder(this.run)
    return this.#data
  }

  /** The same without what is needed only because memory is used again. */
  get reads(): ReadonlyMap<number, readonly number[]> {
    this.#reads ??= dataOrder(this.run, 'reads')
    return this.#reads
  }

  /** Whether there are operations of which it is not known what memory they touch. */
  get hasUnknown(): boolean {
    this.#hasUnknown ??= this.run.steps.some((step) => step.what === 'operation' && hasUnknownMemory(step))
    return this.#hasUnknown
  }

  /** The number of the step of a row; -1 if it is not in the part that is played. */
  stepOf(row: number): number {
    return this.#stepOf[row] ?? -1
  }

  /** The track of a step's row. */
  trackOf(step: number): number {
    return this.#track[this.run.steps[step]?.number ?? -1] ?? 0
  }

  operationAt(step: number): Operation | undefined {
    const found = this.run.steps[step]
    return found?.what === 'operation' ? found : undefined
  }

  /** The nanoseconds by which the run is shorter with the change; undefined if there is no time left to play it. */
  gainOf(change: Change): number | undefined {
    this.#left -= this.run.steps.length
    if (this.#left < 0) return undefined
    return Math.max(0, this.part.duration - (playAgain(this.run, this.#measured, change) - this.#measured.began))
  }

  isWorthIt(gain: number | undefined): gain is number {
    return gain !== undefined && gain >= LEAST_SHARE * this.part.duration
  }

  /** Whether it is not known if the program needs these waits. */
  ordersUnknown(waits: ReadonlySet<number>): boolean {
    return ordersUnknown(this.run, waits)
  }
}
