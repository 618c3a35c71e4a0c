/** What the writers of one function share: its code and its locals, and the blocks of WebAssembly around the place where they write. */
import type { Decoded } from './decoding.js'
import { InstructionWriter } from './instruction-writer.js'
import type { LaneWriter } from './lane-writer.js'
import type { PreparedFunction } from './program.js'
import { type ModuleContext, ValueWriter } from './value-writer.js'
import type { LocalType } from './wasm-encoder.js'

/** The beginning of an entry: its block, and whether its threads begin there, so that nothing is saved yet. */
export interface EntryPlace {
  readonly block: number
  readonly isStart: boolean
}

interface Label {
  readonly kind: 'block' | 'loop' | 'threads' | 'end' | 'handed' | 'other'
  readonly block: number
}

export class FunctionParts {
  readonly values: ValueWriter
  readonly instructions: InstructionWriter
  /** The local with what is left of the thread's turn, in instructions. */
  readonly fuel: number
  /** The local with the state in which the thread stops. */
  readonly state: number
  /** Writes the code of several threads at once; undefined in code for one. */
  lanes: LaneWriter | undefined
  /** The local in which an entry adds up the instructions of its loops. */
  spent: number | undefined
  readonly #labels: Label[] = []

  /**
   * @param role An entry runs threads up to their next stops, a continuation is the rest of one for one thread, and a direct function is called and
   * never stops
   * @param entry The place at which the entry begins; undefined for a function that is called directly
   */
  constructor(
    readonly context: ModuleContext,
    readonly fn: PreparedFunction,
    readonly role: 'entry' | 'continuation' | 'direct',
    readonly entry: EntryPlace | undefined,
    parameters: readonly LocalType[] | undefined,
  ) {
    this.values = new ValueWriter(context, fn, role, parameters)
    this.fuel = this.values.body.local('i32')
    this.state = this.values.body.local('i32')
    this.instructions = new InstructionWriter(this.values)
  }

  /** Opens a block of WebAssembly; its label is found by `branch`. */
  open(what: 'block' | 'loop' | 'if', kind: Label['kind'] = 'other', block = -1): void {
    this.values.body[what]()
    this.#labels.push({ kind, block })
  }

  close(): void {
    this.#labels.pop()
    this.values.body.end()
  }

  branch(kind: Label['kind'], block = -1): void {
    for (let depth = 0; depth < this.#labels.length; depth++) {
      const label = this.#labels[this.#labels.length - 1 - depth]
      if (label?.kind === kind && label.block === block) {
        this.values.body.br(depth)
        return
      }
    }
    throw new Error('A branch leads nowhere')
  }

  /** Marks the code from here on as that of an instruction, or as that of none, in code that is made for stepping. */
  mark(decoded: Decoded | undefined): void {
    if (this.context.isStepped) this.values.body.mark(decoded?.instruction)
  }

  get firstDecoded(): Decoded | undefined {
    for (const { instructions, terminator } of this.fn.flow.blocks) {
      const first = instructions[0] ?? ('at' in terminator ? terminator.at : undefined)
      if (first !== undefined) return first
    }
    return undefined
  }
}
