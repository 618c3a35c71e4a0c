/** What a run of the bench found, as it is stored: every sample, so that all that is shown is computed from it. */

import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Kind, Unit } from './catalogue.js'
import { type Summary, summaryOf } from './statistics.js'

export interface ResultRow {
  readonly key: string
  readonly title: string
  readonly unit: Unit
  readonly group: string
  readonly bytes?: number | undefined
  /** By contestant and round: nanoseconds a call, or per cent. Null in a round that it did not play. */
  readonly samples: Readonly<Record<string, readonly (number | null)[]>>
  /** By contestant: how many times longer than C it took in one process, slice by slice in turns. */
  readonly besideC?: Readonly<Record<string, readonly number[]>> | undefined
}

export interface ResultContestant {
  readonly name: string
  readonly kind: Kind
  readonly facts: Readonly<Record<string, string>>
}

export interface Result {
  readonly date: string
  /** Of the sources. */
  readonly commit: string
  readonly command: string
  readonly machine: Readonly<Record<string, string>>
  /** The first is what the others are compared with. */
  readonly contestants: readonly ResultContestant[]
  readonly leftOut: readonly string[]
  /** Rows given up, and why. */
  readonly failures: readonly string[]
  readonly rows: readonly ResultRow[]
}

const digestOf = (result: Result): string => createHash('sha256').update(JSON.stringify(result)).digest('hex')

/** One row a line. A folder that is missing is made: a run takes minutes. */
export function writeResult(file: string, result: Result): void {
  mkdirSync(dirname(file), { recursive: true })
  const { rows, ...head } = result
  const text = JSON.stringify({ digest: digestOf(result), ...head }, null, 1).slice(0, -2)
  writeFileSync(file, `${text},\n "rows": [\n${rows.map((row) => `  ${JSON.stringify(row)}`).join(',\n')}\n ]\n}\n`)
}

/** @throws where the file is not as a run wrote it. */
export function readResult(file: string): Result {
  const { digest, ...result } = JSON.parse(readFileSync(file, 'utf8')) as Result & { readonly digest: string }
  if (digest !== digestOf(result)) throw new Error(`${file} is not as \`npm run bench\` wrote it: store a new run`)
  return result
}

/** What a contestant took. */
export function taken(row: ResultRow, name: string): Summary | undefined {
  return summaryOf((row.samples[name] ?? []).filter((value) => value !== null))
}

/** How many times longer the first took than the second in each round: what disturbs a machine for a while disturbs both. */
export function ratio(row: ResultRow, first: string, second: string): Summary | undefined {
  const divisors = row.samples[second] ?? []
  const ratios = (row.samples[first] ?? []).flatMap((value, round) => {
    const divisor = divisors[round] ?? null
    return value === null || divisor === null || divisor <= 0 ? [] : value / divisor
  })
  return summaryOf(ratios)
}

/** How many times longer than C this contestant took: of slices that were neighbours in one process, or of the rounds of two. */
export function ratioToC(row: ResultRow, name: string, c: string): Summary | undefined {
  const ratios = row.besideC?.[name]
  return ratios === undefined ? ratio(row, name, c) : summaryOf(ratios)
}

/** The Python library that took the least time. */
export function fastestPython({ contestants }: Result, row: ResultRow): string | undefined {
  const times = contestants
    .filter(({ kind }) => kind === 'Python')
    .flatMap(({ name }) => {
      const time = taken(row, name)
      return time === undefined ? [] : { name, median: time.median }
    })
  return times.sort((a, b) => a.median - b.median)[0]?.name
}
