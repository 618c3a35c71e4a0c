/** Writes the calls by which code that counts tells a thread's way: the parts of blocks that it enters, and the memory that it is about to access. */
import type { AddressWriter } from './address-writer.js'
import { type Decoded, operandOf } from './decoding.js'
import { SHARED_WINDOW } from './layout.js'
import { bitsOf, type Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, i32, i64 } from './wasm-encoder.js'

export class CountWriter {
  constructor(
    private readonly writer: ValueWriter,
    private readonly addresses: AddressWriter,
  ) {}

  /** Tells that the thread comes to a part of a block. */
  enterSegment(block: number, part: number): void {
    const { context, fn, body, thread } = this.writer
    if (!context.isCounted) return
    body.write(i32(context.segment(fn, block, part)), thread, call(context.runtime('entered')))
  }

  /** Tells which memory an instruction is about to access. */
  countAccess(decoded: Decoded): void {
    const { meaning } = decoded.form
    if (!this.writer.context.isCounted || meaning.kind !== 'code') return
    const { T: type = 'b32', vec = 'v1' } = decoded.modifiers
    if (/^(?:load|store|atomic)$/.test(meaning.code)) {
      const bytes = (Math.max(8, bitsOf(type)) / 8) * Number(vec.slice(1))
      const operand = operandOf(decoded, 'a')
      if (!/^const/.test(decoded.modifiers['space'] ?? ''))
        this.#countAddress(operand, this.addresses.spaceOf(decoded, operand), bytes, decoded)
    } else if (meaning.code === 'copy') {
      const size = operandOf(decoded, 'c')
      const bytes = size.kind === 'integer' ? Number(size.value) : 0
      this.#countAddress(operandOf(decoded, 'a'), 'shared', bytes, decoded)
      this.#countAddress(operandOf(decoded, 'b'), 'global', bytes, decoded)
    }
  }

  #countAddress(operand: Operand, space: string, bytes: number, decoded: Decoded): void {
    if (operand.kind !== 'address' || !/^(?:generic|global|shared)$/.test(space)) return
    const { context, body, thread } = this.writer
    body.i32(context.site(decoded).number)
    if (space === 'shared') {
      this.writer.push(operand.base, 'u32')
      body.write(i32(Number(BigInt.asIntN(32, operand.offset))), 'i32.add', 'i64.extend_i32_u')
      body.write(i64(SHARED_WINDOW), 'i64.add')
    } else this.writer.push(operand, 'u64')
    body.write('f64.convert_i64_u', i32(bytes), thread, call(context.runtime('accessed')))
  }
}
