/** The tables of the matrix, their rows and cells, as a child process plays them. */

import {
  describeSituation,
  HOLDS,
  type Hold,
  holdsFor,
  MEMORY_KINDS,
  type MemoryKind,
  SITUATIONS,
  type Situation,
} from '../../catalogue/axes.js'
import type { Call } from '../../catalogue/call.js'
import { calls as all } from '../../catalogue/catalogue.js'
import type { Lab } from '../../catalogue/lab.js'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { closingRows } from './closings.js'
import { chosen, combinations } from './combinations.js'
import { play } from './play.js'
import { standingRows } from './standing.js'
import { userCodeRows } from './user-code.js'

export interface PlayableCell {
  readonly name: string
  /** Why it cannot be played here, if it cannot. */
  readonly lacks?: string | undefined
  play(): Promise<void>
}

export interface Row {
  readonly name: string
  /** Why none of it can be played here, if it cannot. */
  lacks(lab: Lab): string | undefined | Promise<string | undefined>
  cells(lab: Lab): Iterable<PlayableCell>
}

/** Every kind of stream, and one capture. */
const FEW_SITUATIONS = 7

const calls = all.filter(({ apart }) => apart === undefined)

/** A fake GPU has threads that sleep: there fewer combinations are tried. */
const isQuick = isFakeDriver()
/** Where nothing stands, and where the stream itself does. */
const FEW_HOLDS: readonly Hold[] = ['nothing', 'own']

/** The kinds of memory that each operand of a call is tried with, the plain one first. */
function memoryAxes({ memory = [], slow = false }: Call): readonly (readonly MemoryKind[])[] {
  const others = MEMORY_KINDS.filter((kind) => kind !== 'device')
  return memory.map(() => (slow ? ['device'] : ['device', ...others]))
}

interface Combination {
  readonly situation: Situation
  readonly hold: Hold
  readonly memory: readonly MemoryKind[]
}

function* combinationsFor(call: Call, turn: number): Generator<Combination> {
  const { slow = false } = call
  const situations = slow ? SITUATIONS.slice(0, FEW_SITUATIONS) : SITUATIONS
  // First where nothing stands: what is loaded at the first use of all is loaded then.
  const holds = slow || isQuick ? FEW_HOLDS : (Object.keys(HOLDS) as Hold[]).reverse()
  const kinds = memoryAxes(call)
  for (const [first = 0, second = 0, ...rest] of combinations([situations, holds, ...kinds], turn)) {
    const [situation, hold] = [situations[first], holds[second]]
    if (situation === undefined || hold === undefined) continue
    // Two of the holds are one there.
    const standing = holdsFor(situation).includes(hold) ? hold : 'own'
    yield { situation, hold: standing, memory: chosen(kinds, rest) }
  }
}

function rowOf(call: Call, turn: number): Row {
  return {
    name: call.name,
    lacks: (lab) => call.lacks?.({ lab, bench: lab.bench }),
    *cells(lab) {
      for (const { situation, hold, memory } of combinationsFor(call, turn)) {
        const operands = memory.length === 0 ? '' : `, with memory: ${memory.join(', ')}`
        yield {
          name: `${describeSituation(situation)}, ${HOLDS[hold]} stands${operands}`,
          lacks: memory.map((kind) => lab.lacks(kind)).find((lack) => lack !== undefined),
          play: () => play(lab, call, { situation, hold, memory }),
        }
      }
    },
  }
}

export const TABLES: Readonly<Record<string, readonly Row[]>> = {
  calls: calls.map(rowOf),
  closings: closingRows(calls),
  standing: standingRows(calls, (call) => memoryAxes(call).map((kinds) => (isQuick ? kinds.slice(0, 1) : kinds))),
  'user code': userCodeRows,
}
