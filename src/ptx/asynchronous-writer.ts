/**
 * Writes instructions that the run time carries out by itself: copies in bulk and of tiles, what an mbarrier counts, fields of tensor maps. Their
 * operands are put into memory as words of 64 bits, addresses as generic ones. Addresses of other blocks of the cluster are computed here, too.
 */

import { checkOperands, partsOf, spaceOfOperand } from './asynchronous-operands.js'
import { type Decoded, operandOf } from './decoding.js'
import { CLUSTER_STRIDE, CLUSTER_STRIDE_BITS, OPERANDS, SHARED_WINDOW } from './layout.js'
import { bitsOf, type Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, type FunctionBody, i32, i64, memory, set } from './wasm-encoder.js'

export class AsynchronousWriter {
  constructor(private readonly writer: ValueWriter) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  write(decoded: Decoded): void {
    const { context, thread, frame } = this.writer
    const body = this.#body
    checkOperands(decoded)
    // Groups end at once; only the checks want to know which copies a thread has waited for.
    if (!context.checked && /commit_group|wait_group/.test(decoded.form.pattern)) return
    let at = OPERANDS
    for (const { name, type } of decoded.form.operands) {
      const operand = decoded.operands[name]
      if (operand === undefined) continue
      for (const part of partsOf(operand)) {
        body.i32(0)
        if (part.kind === 'address') this.#pushAddress(part, spaceOfOperand(decoded, name))
        else this.#pushWord(part, type === 'T' ? (decoded.modifiers['T'] ?? 'b32') : type)
        body.write(memory('i64.store', at))
        at += 8
      }
    }
    body.write(i32(context.site(decoded).number), frame, thread, call(context.runtime('asynchronous')))
  }

  #pushAddress(operand: Extract<Operand, { kind: 'address' }>, space: string | undefined): void {
    const body = this.#body
    if (space === undefined || space === 'global') {
      this.writer.push(operand, 'u64')
      return
    }
    this.writer.push(operand.base, 'u32')
    if (operand.offset !== 0n) body.write(i32(Number(BigInt.asIntN(32, operand.offset))), 'i32.add')
    body.write('i64.extend_i32_u', i64(SHARED_WINDOW), 'i64.add')
  }

  /** Pushes the bits of a value as a word; coordinates, whose type is that of an address, are signed. */
  #pushWord(operand: Operand, type: string): void {
    if (operand.kind === 'float' && bitsOf(type) === 32) {
      this.writer.push(operand, 'f32')
      this.#body.write('i32.reinterpret_f32', 'i64.extend_i32_u')
    } else if (type === 'address') {
      this.writer.push(operand, 'b32')
      this.#body.op('i64.extend_i32_s')
    } else if (bitsOf(type) <= 32) {
      this.writer.push(operand, bitsOf(type) === 16 ? 'u16' : 'b32')
      this.#body.op('i64.extend_i32_u')
    } else this.writer.push(operand, type === 'f64' ? 'f64' : 'b64')
    if (type === 'f64') this.#body.op('i64.reinterpret_f64')
  }

  /** Writes mapa: the address of the same place in the shared memory of another block of the cluster. In its own block it is the address there. */
  mapa(decoded: Decoded): void {
    const body = this.#body
    const type = decoded.modifiers['T'] ?? 'u32'
    const [low, rank] = [body.temporary('i32'), body.temporary('i32')]
    this.writer.push(operandOf(decoded, 'a'), 'u64')
    body.write('i32.wrap_i64', i32(CLUSTER_STRIDE - 1), 'i32.and', set(low))
    this.writer.push(operandOf(decoded, 'b'), 'u32')
    body.set(rank)
    body.write(low, low, rank, i32(1), 'i32.add', i32(CLUSTER_STRIDE_BITS), 'i32.shl', 'i32.or', rank)
    this.writer.pushClusterRank()
    body.write('i32.eq', 'select')
    if (type === 'u64') {
      body.op('i64.extend_i32_u')
      if (decoded.modifiers['space'] === undefined) body.write(i64(SHARED_WINDOW), 'i64.add')
    }
    this.writer.pop(operandOf(decoded, 'd'), type)
    body.release('i32', low)
    body.release('i32', rank)
  }

  /** Writes getctarank: the rank of the block in whose shared memory an address lies. */
  getctarank(decoded: Decoded): void {
    const body = this.#body
    const part = body.temporary('i32')
    this.writer.push(operandOf(decoded, 'a'), 'u64')
    body.write('i32.wrap_i64', i32(CLUSTER_STRIDE_BITS), 'i32.shr_u', set(part), part, i32(1), 'i32.sub')
    this.writer.pushClusterRank()
    body.write(part, 'select')
    this.writer.pop(operandOf(decoded, 'd'), 'u32')
    body.release('i32', part)
  }

  /** Writes a fence between the accesses of threads to shared memory and those of asynchronous copies, which only the checks notice. */
  proxyFence({ modifiers }: Decoded): void {
    if (this.writer.context.checked && modifiers['space'] !== 'global')
      this.#body.call(this.writer.context.runtime('proxyFence'))
  }
}
