/** The comparison: all contestants take turns, row by row and round by round, in one sitting; and beside C, slice by slice within a turn. */

import { ProgressLine } from '../src/foundation/base/standard-error.js'
import { type Contestant, type Group, groups, type Row } from './catalogue.js'
import type { ResultRow } from './result.js'

interface MatchOptions {
  readonly rounds: number
  /** No round starts after so many milliseconds, but that each row is played once. */
  readonly limitMs: number
  /** A row's key begins with one of them; undefined: all rows. */
  readonly only: readonly string[] | undefined
  /** Nothing that needs a GPU which takes time. */
  readonly onlyCalls: boolean
  /** Few calls, and nothing that moves many bytes: to see that all works. */
  readonly quick: boolean
}

interface MatchResult {
  readonly rows: readonly ResultRow[]
  readonly failures: readonly string[]
}

const QUICK_PART = 200

export async function match(contestants: readonly Contestant[], options: MatchOptions): Promise<MatchResult> {
  const { limitMs, only, onlyCalls, quick } = options
  const line = new ProgressLine()
  const failures = new Map<string, string>()
  const nameOfC = contestants.find(({ kind }) => kind === 'C')?.name ?? 'C'
  const isPlayed = (row: Row): boolean =>
    (only === undefined || only.some((word) => row.key.startsWith(word))) &&
    !(quick && row.bytes !== undefined) &&
    contestants.some(({ keys }) => keys.has(row.key))
  const wanted = (onlyCalls ? groups.slice(0, 1) : groups)
    .map((group) => ({ ...group, rows: group.rows.filter(isPlayed) }))
    .filter(({ rows }) => rows.length > 0)
  const shares = wanted.reduce((sum, { share }) => sum + share, 0)
  const began = performance.now()
  let share = 0
  const results: ResultRow[] = []
  for (const group of wanted) {
    share += group.share
    const samples = await playGroup(group, began + (limitMs * share) / shares)
    results.push(...group.rows.map((row) => resultOf(group, row, samples)))
  }
  line.erase()
  return { rows: results, failures: [...failures].map(([label, reason]) => `${label}: ${reason}`) }

  async function playGroup(group: Group, end: number): Promise<Samples> {
    const samples = new Samples()
    const rounds = Math.min(options.rounds, group.mostRounds ?? Number.POSITIVE_INFINITY)
    // Round 0 is to warm up, and is not counted.
    for (let round = group.isLong ? 1 : 0; round <= rounds && (round < 2 || performance.now() < end); round++) {
      for (const row of group.rows) await playRow(row, round, rounds, samples)
    }
    return samples
  }

  async function playRow({ key, calls }: Row, round: number, rounds: number, samples: Samples): Promise<void> {
    // Those who go first in one round go last in the next.
    const order = round % 2 === 0 ? contestants : contestants.toReversed()
    for (const contestant of order) {
      if (!contestant.keys.has(key)) continue
      const label = `${contestant.name}, ${key}`
      if (failures.has(label)) continue
      line.show(() => `round ${round} of ${rounds}: ${label}`)
      try {
        const { taken, besideC } = await contestant.run(key, quick ? Math.ceil(calls / QUICK_PART) : calls)
        if (round === 0) continue
        samples.add(contestant.name, key, round, taken)
        if (besideC === undefined) continue
        samples.addRatios(contestant.name, key, besideC.ratios)
        // The column of C has what it took beside the first.
        if (contestant === contestants[0]) samples.add(nameOfC, key, round, besideC.taken)
      } catch (error) {
        failures.set(label, error instanceof Error ? error.message : String(error))
      }
    }
  }

  function resultOf({ title: group, unit }: Group, row: Row, samples: Samples): ResultRow {
    const { key, title, bytes, against } = row
    const theirs = ({ name, kind }: Contestant): readonly (number | null)[] => {
      const own = samples.of(name, key)
      return own.length > 0 || against === undefined || kind !== 'Python' ? own : samples.of(name, against)
    }
    // Two contestants that share a name have rows of their own.
    const all: Record<string, readonly (number | null)[]> = {}
    for (const contestant of contestants) if (theirs(contestant).length > 0) all[contestant.name] = theirs(contestant)
    const besideC: Record<string, readonly number[]> = {}
    for (const { name } of contestants) {
      const ratios = samples.ratiosOf(name, key)
      if (ratios.length > 0) besideC[name] = ratios
    }
    return {
      ...{ key, title, unit, group, samples: all },
      ...(bytes === undefined ? {} : { bytes }),
      ...(Object.keys(besideC).length === 0 ? {} : { besideC }),
    }
  }
}

/** By round, for each contestant and row. */
class Samples {
  readonly #values = new Map<string, (number | null)[]>()
  readonly #ratios = new Map<string, number[]>()

  add(name: string, key: string, round: number, value: number): void {
    const label = `${name} ${key}`
    const values = this.#values.get(label) ?? []
    this.#values.set(label, values)
    while (values.length < round - 1) values.push(null)
    values.push(Number(value.toPrecision(5)))
  }

  addRatios(name: string, key: string, ratios: readonly number[]): void {
    const label = `${name} ${key}`
    const all = this.#ratios.get(label) ?? []
    this.#ratios.set(label, all)
    for (const ratio of ratios) all.push(Number(ratio.toPrecision(4)))
  }

  ratiosOf(name: string, key: string): readonly number[] {
    return this.#ratios.get(`${name} ${key}`) ?? []
  }

  of(name: string, key: string): readonly (number | null)[] {
    return this.#values.get(`${name} ${key}`) ?? []
  }
}
