/** The comparison on a GPU: all contestants take turns, row by row and round by round, in one sitting. */

import { ProgressLine } from '../src/base/progress-line.js'
import { type Contestant, type Row, type RowKey, rows } from './catalogue.js'
import { type Cell, median, table } from './table.js'

export interface MatchOptions {
  readonly rounds: number
  /** No round starts after this many milliseconds. */
  readonly limitMs: number
}

export interface MatchRow {
  readonly key: RowKey
  readonly title: string
  /** Bytes that a call moves, where it is for moving bytes. */
  readonly bytes: number | undefined
  /** Median nanoseconds per call, by contestant; what a contestant has not is absent. */
  readonly nanoseconds: Readonly<Record<string, number>>
  /** The median of each round's own ratio: what disturbs a machine for a while disturbs both. */
  readonly oursToC: number | undefined
  /** How many times faster than the fastest Python library. */
  readonly fasterThanPython: number | undefined
}

export interface MatchResult {
  /** Rounds counted; the warm-up is not. */
  readonly rounds: number
  readonly rows: readonly MatchRow[]
  /** Rows given up, and why. */
  readonly failures: readonly string[]
}

const C = 'C'
/** Of the time, for the rows that move no bytes. */
const PART_OF_CALLS = 0.75

/** `ours` plays against `others`; among them, the one named C is C and all the rest are Python. */
export async function match(
  ours: Contestant,
  others: readonly Contestant[],
  { rounds, limitMs }: MatchOptions,
): Promise<MatchResult> {
  const contestants = [ours, ...others]
  const samples = new Samples()
  const failures = new Map<string, string>()
  const began = performance.now()
  const line = new ProgressLine()
  const playRound = async (group: readonly Row[], round: number): Promise<void> => {
    for (const { key, calls } of group) {
      for (let turn = 0; turn < contestants.length; turn++) {
        const contestant = contestants[(turn + round) % contestants.length]
        if (contestant === undefined || !contestant.keys.has(key)) continue
        const label = `${contestant.name}, ${key}`
        if (failures.has(label)) continue
        line.show(() => `round ${round} of ${rounds}: ${label}`)
        try {
          const perCall = await contestant.run(key, calls)
          if (round > 0) samples.add(contestant.name, key, round, perCall)
        } catch (error) {
          failures.set(label, error instanceof Error ? error.message : String(error))
          samples.drop(contestant.name, key)
        }
      }
    }
  }
  const play = async (group: readonly Row[], end: number): Promise<number> => {
    let round = 0
    for (; round <= rounds && (round < 2 || performance.now() < end); round++) await playRound(group, round)
    return round - 1
  }
  // What moves many bytes leaves garbage, after which V8 compiles anew what the other rows run: it comes last.
  const all: readonly Row[] = rows
  const calls = all.filter(({ bytes }) => bytes === undefined)
  const moves = all.filter(({ bytes }) => bytes !== undefined)
  const roundsOfCalls = await play(calls, began + limitMs * PART_OF_CALLS)
  const roundsOfMoves = await play(moves, began + limitMs)
  line.erase()
  return {
    rounds: Math.min(roundsOfCalls, roundsOfMoves),
    rows: rows.map((row) => compare(row, ours, others, samples)),
    failures: [...failures].map(([label, reason]) => `${label}: ${reason}`),
  }
}

export function printMatch({ rows: results }: MatchResult, ours: Contestant, others: readonly Contestant[]): void {
  const names = [ours, ...others].map(({ name }) => name)
  const line = (result: MatchRow, show: (nanoseconds: number) => string): Cell[] => {
    const { title, nanoseconds, oursToC, fasterThanPython } = result
    const shown = names.map((name) => nanoseconds[name]).map((value) => (value === undefined ? value : show(value)))
    return [
      title,
      ...shown,
      oursToC?.toFixed(2),
      fasterThanPython === undefined ? undefined : `${fasterThanPython.toFixed(2)}x`,
    ]
  }
  const print = (
    unit: string,
    wanted: (result: MatchRow) => boolean,
    show: (result: MatchRow) => (nanoseconds: number) => string,
  ): void => {
    const header = [unit, ...names, 'ours / C, in time', 'faster than Python']
    console.log(
      table(
        header,
        results.filter(wanted).map((result) => line(result, show(result))),
      ),
    )
  }
  print(
    'ns per call',
    ({ bytes }) => bytes === undefined,
    () => (value) => value.toFixed(value < 10 ? 1 : 0),
  )
  console.log()
  print(
    'GB/s',
    ({ bytes }) => bytes !== undefined,
    ({ bytes = 0 }) =>
      (value) =>
        (bytes / value).toFixed(2),
  )
}

function compare(row: Row, ours: Contestant, others: readonly Contestant[], samples: Samples): MatchRow {
  const nanoseconds: Record<string, number> = {}
  const mine = samples.median(ours.name, row.key)
  if (mine !== undefined) nanoseconds[ours.name] = mine
  for (const { name } of others) {
    const theirs = samples.median(name, row.against ?? row.key)
    if (theirs !== undefined) nanoseconds[name] = theirs
  }
  const python = others.flatMap(({ name }) => (name === C ? [] : (nanoseconds[name] ?? [])))
  return {
    key: row.key,
    title: row.title,
    bytes: row.bytes,
    nanoseconds,
    oursToC: samples.ratio([ours.name, row.key], [C, row.against ?? row.key]),
    fasterThanPython: mine === undefined || python.length === 0 ? undefined : Math.min(...python) / mine,
  }
}

/** Nanoseconds per call, by round, for each contestant and row. */
class Samples {
  readonly #values = new Map<string, Map<number, number>>()

  add(name: string, key: string, round: number, value: number): void {
    const label = `${name} ${key}`
    const values = this.#values.get(label)
    if (values === undefined) this.#values.set(label, new Map([[round, value]]))
    else values.set(round, value)
  }

  drop(name: string, key: string): void {
    this.#values.delete(`${name} ${key}`)
  }

  median(name: string, key: string): number | undefined {
    return median([...this.#of(name, key).values()])
  }

  /** The median over all rounds of how many times longer the first took than the second. */
  ratio(first: readonly [name: string, key: string], second: readonly [name: string, key: string]): number | undefined {
    const [dividends, divisors] = [this.#of(...first), this.#of(...second)]
    return median(
      [...dividends].flatMap(([round, value]) => {
        const divisor = divisors.get(round)
        return divisor === undefined ? [] : value / divisor
      }),
    )
  }

  #of(name: string, key: string): ReadonlyMap<number, number> {
    return this.#values.get(`${name} ${key}`) ?? new Map()
  }
}
