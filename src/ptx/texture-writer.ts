/**
 * Writes the instructions on textures and surfaces: their operands go to cells at the start of the memory, where the run time (texture-accesses.ts) finds
 * them and leaves the results.
 */
import type { AccessWriter } from './access-writer.js'
import { type Decoded, operandOf } from './decoding.js'
import { TEXTURE_CELLS } from './layout.js'
import type { Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, type FunctionBody, i32, i64, set, tee } from './wasm-encoder.js'

export class TextureWriter {
  constructor(
    private readonly writer: ValueWriter,
    private readonly accesses: AccessWriter,
  ) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  write(decoded: Decoded): void {
    const body = this.#body
    const { operands, modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const cells = body.temporary('i32')
    body.write(i32(TEXTURE_CELLS.coordinates), set(cells))
    for (const [index, item] of itemsOf(operands['x']).entries()) this.#storeWord(cells, item, 4 * index)
    const given = TEXTURE_CELLS.values - TEXTURE_CELLS.coordinates
    for (const [index, item] of itemsOf(operands['b']).entries())
      this.accesses.storeOne(item, type, cells, given + 8 * index)
    this.#callRunTime(decoded)
    const results = TEXTURE_CELLS.results - TEXTURE_CELLS.coordinates
    for (const [index, item] of itemsOf(operands['d']).entries()) {
      if (item.kind !== 'sink') this.accesses.loadOne(item, type, cells, results + 8 * index)
    }
    body.release('i32', cells)
  }

  #storeWord(cells: number, item: Operand, offset: number): void {
    this.#body.get(cells)
    this.writer.push(item, 'u32')
    this.#body.memory('i32.store', offset)
  }

  #callRunTime(decoded: Decoded): void {
    const body = this.#body
    const { writer } = this
    const handle = body.temporary('i64')
    body.i32(writer.context.site(decoded).number)
    writer.push(operandOf(decoded, 'a'), 'u64')
    body.write(
      tee(handle),
      'i32.wrap_i64',
      handle,
      i64(32n),
      'i64.shr_u',
      'i32.wrap_i64',
      writer.frame,
      writer.thread,
      call(writer.context.runtime('texture')),
    )
    body.release('i64', handle)
  }
}

const itemsOf = (operand: Operand | undefined): readonly Operand[] =>
  operand === undefined ? [] : operand.kind === 'vector' ? operand.items : [operand]
