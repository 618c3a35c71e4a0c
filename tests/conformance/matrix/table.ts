/** The tables of the matrix, their rows and cells, as a child process plays them. */
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import {
  describeSituation,
  HOLDS,
  type Hold,
  holdsFor,
  MEMORY_KINDS,
  type MemoryKind,
  memoryChoices,
  SITUATIONS,
  type Situation,
} from './axes.js'
import type { Call } from './call.js'
import { closingRows } from './closings.js'
import type { Lab } from './lab.js'
import { libraryCalls } from './library-calls.js'
import { otherCalls } from './other-calls.js'
import { play } from './play.js'
import { standingRows } from './standing.js'
import { streamCalls } from './stream-calls.js'
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
/** A non-blocking stream. */
const QUICK_SITUATION = 1

export const calls: readonly Call[] = [...streamCalls, ...otherCalls, ...libraryCalls]

const isPlain = (choice: readonly MemoryKind[]): boolean => choice.every((kind) => kind === 'device')

/** Of two operands every pair of kinds is tried where the call is copy(), else one kind after the other beside plain memory. */
export function choicesFor({ memory = [], name, slow = false }: Call): readonly (readonly MemoryKind[])[] {
  const plain: readonly MemoryKind[] = memory.map(() => 'device')
  if (slow) return [plain]
  if (memory.length < 2 || name === 'stream.copy()') {
    return memoryChoices(memory.length).toSorted((a, b) => Number(isPlain(b)) - Number(isPlain(a)))
  }
  const others = plain.flatMap((_, index) =>
    MEMORY_KINDS.filter((kind) => kind !== 'device').map((kind) => plain.with(index, kind)),
  )
  return [plain, ...others]
}

/** At these places the call is made with every choice of memory, elsewhere with a third, so that each kind still meets each. */
const FULL: readonly Hold[] = ['nothing', 'own']
const SHARE = 3
/** On a fake GPU, which has threads that sleep: with every kind of memory in one situation. */
const isQuick = isFakeDriver()

function choicesAt(choices: readonly (readonly MemoryKind[])[], situation: number, hold: Hold): typeof choices {
  if (isQuick && situation !== QUICK_SITUATION) return choices.slice(0, 1)
  if (FULL.includes(hold)) return choices
  const turn = situation + Object.keys(HOLDS).indexOf(hold)
  return choices.filter((_, index) => index === 0 || (index + turn) % SHARE === 0)
}

function holdsAt(call: Call, situation: Situation): readonly Hold[] {
  if (call.slow) return FULL
  const holds = holdsFor(situation)
  return isQuick ? holds.filter((hold) => FULL.includes(hold)) : [...holds].reverse()
}

function rowOf(call: Call): Row {
  return {
    name: call.name,
    lacks: (lab) => call.lacks?.({ lab, bench: lab.bench }),
    *cells(lab) {
      const { slow = false } = call
      const choices = choicesFor(call)
      for (const [at, situation] of (slow ? SITUATIONS.slice(0, FEW_SITUATIONS) : SITUATIONS).entries()) {
        // First where nothing stands: what is loaded at the first use of all is loaded then.
        for (const hold of holdsAt(call, situation)) {
          for (const memory of choicesAt(choices, at, hold)) {
            const operands = memory.length === 0 ? '' : `, with memory: ${memory.join(', ')}`
            yield {
              name: `${describeSituation(situation)}, ${HOLDS[hold]} stands${operands}`,
              lacks: memory.map((kind) => lab.lacks(kind)).find((lack) => lack !== undefined),
              play: () => play(lab, call, { situation, hold, memory }),
            }
          }
        }
      }
    },
  }
}

export const TABLES: Readonly<Record<string, readonly Row[]>> = {
  calls: calls.map(rowOf),
  closings: closingRows(calls),
  standing: standingRows(calls, (call) => (isQuick ? choicesFor(call).slice(0, 1) : choicesFor(call))),
  'user code': userCodeRows,
}
