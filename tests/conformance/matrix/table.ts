/** The tables of the matrix, their rows and cells, as a child process plays them. */
import {
  describeSituation,
  HOLDS,
  type Hold,
  holdsFor,
  MEMORY_KINDS,
  type MemoryKind,
  memoryChoices,
  SITUATIONS,
} from './axes.js'
import type { Call } from './call.js'
import { closingRows } from './closings.js'
import type { Lab } from './lab.js'
import { libraryCalls } from './library-calls.js'
import { otherCalls } from './other-calls.js'
import { play } from './play.js'
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

export const calls: readonly Call[] = [...streamCalls, ...otherCalls, ...libraryCalls]

/** Of two operands every pair of kinds is tried where the call is copy(), else one kind after the other beside plain memory. */
export function choicesFor({ memory = [], name, slow = false }: Call): readonly (readonly MemoryKind[])[] {
  const plain: readonly MemoryKind[] = memory.map(() => 'device')
  if (slow) return [plain]
  if (memory.length < 2 || name === 'stream.copy()') return memoryChoices(memory.length)
  const others = plain.flatMap((_, index) =>
    MEMORY_KINDS.filter((kind) => kind !== 'device').map((kind) => plain.with(index, kind)),
  )
  return [plain, ...others]
}

function rowOf(call: Call): Row {
  return {
    name: call.name,
    lacks: (lab) => call.lacks?.({ lab, bench: lab.bench }),
    *cells(lab) {
      const { slow = false } = call
      for (const situation of slow ? SITUATIONS.slice(0, FEW_SITUATIONS) : SITUATIONS) {
        // First where nothing stands: what is loaded at the first use of all is loaded then.
        const holds: readonly Hold[] = slow ? ['nothing', 'own'] : [...holdsFor(situation)].reverse()
        for (const hold of holds) {
          for (const memory of choicesFor(call)) {
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
  'user code': userCodeRows,
}
