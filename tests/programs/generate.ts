/**
 * The generator of random programs: of all suites, by fast-check. A suite gives the weights of its steps, and how many
 * there are of what a field names; what a program has to come to is its own affair.
 */
import fc from 'fast-check'
import { FIELDS, type Field, type StepOf, type Use, type Value, type What } from './steps.js'

/** How often a step comes, among the others of a plan. */
export type Weights<W extends What = What> = { readonly [S in W]?: number }

/** What a field holds: any of so many, from 0 on, or something else; `rest` is for the fields that are not there. */
export type Ranges = { readonly [F in Field]?: number | fc.Arbitrary<Value<F>> } & { readonly rest?: number }

/** A step of each kind, by its weight. */
export function oneOf<W extends What>(weights: Weights<W>, ranges: Ranges): fc.Arbitrary<StepOf<W>> {
  const choices = Object.entries<number | undefined>(weights).map(([what, weight = 0]) => ({
    weight,
    arbitrary: stepOf(what as W, ranges),
  }))
  return fc.oneof(...choices)
}

export function stepOf<W extends What>(what: W, ranges: Ranges): fc.Arbitrary<StepOf<W>> {
  const fields = FIELDS[what].map((field: Field) => [field, rangeOf(field, ranges)])
  return fc.record({ what: fc.constant(what), ...Object.fromEntries(fields) }) as unknown as fc.Arbitrary<StepOf<W>>
}

/** A step that has steps of its own. */
export const withBody = <W extends What, B>(
  what: W,
  ranges: Ranges,
  body: fc.Arbitrary<B>,
): fc.Arbitrary<StepOf<W> & { readonly body: B }> =>
  fc.tuple(stepOf(what, ranges), body).map(([step, steps]) => ({ ...step, body: steps }))

function rangeOf(field: Field, ranges: Ranges): fc.Arbitrary<unknown> {
  // A stream waits for any stream, itself too.
  const range = ranges[field] ?? (field === 'other' ? ranges.stream : undefined) ?? ranges.rest
  if (range === undefined) throw new RangeError(`The ranges lack ${field}`)
  return typeof range === 'number' ? fc.nat(range - 1) : range
}

export interface Length {
  readonly minLength?: number
  readonly maxLength: number
  /** As many as `maxLength` in any program; without it, mostly few. */
  readonly size?: 'max'
}

export const stepsOf = <W extends What>(
  weights: Weights<W>,
  ranges: Ranges,
  length: Length,
): fc.Arbitrary<StepOf<W>[]> => fc.array(oneOf(weights, ranges), length)

/** Steps each of which a thread makes, one after the other. */
export const stepsOfThreads = <W extends What>(
  threads: number,
  weights: Weights<W>,
  ranges: Ranges,
  length: Length,
): fc.Arbitrary<(StepOf<W> & { readonly thread: number })[]> =>
  fc.array(
    fc.tuple(fc.nat(threads - 1), oneOf(weights, ranges)).map(([thread, step]) => ({ ...step, thread })),
    length,
  )

/** The streams of a program, by their kinds; a kind that stands there twice comes twice as often. */
export const streamsOf = <K>(kinds: readonly K[], least: number, most: number): fc.Arbitrary<K[]> =>
  fc.array(fc.constantFrom(...kinds), { minLength: least, maxLength: most })

/** Uses of pieces of memory that have so many parts. */
export function useOf(memory: fc.Arbitrary<number>, parts: number, writes = fc.boolean()): fc.Arbitrary<Use> {
  return fc
    .record({ memory, start: fc.nat(parts - 1), length: fc.integer({ min: 1, max: parts }), writes })
    .map(({ memory: piece, start, length, writes: isWrite }) => ({
      memory: piece,
      start,
      end: Math.min(parts, start + length),
      writes: isWrite,
    }))
}
