/** Writes moves between registers: mov with its vectors, and the conversions and tests of address spaces. */

import { type Decoded, errorAt, operandOf } from './decoding.js'
import { CLUSTER_STRIDE_BITS, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW } from './layout.js'
import { bitsOf, type Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { type FunctionBody, i32, i64, set, type ValueType } from './wasm-encoder.js'

export class MoveWriter {
  constructor(private readonly writer: ValueWriter) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  mov(decoded: Decoded): void {
    const type = decoded.modifiers['T'] ?? 'b32'
    const [target, source] = [operandOf(decoded, 'd'), operandOf(decoded, 'a')]
    if (type === 'b128') {
      this.#mov128(target, source, decoded)
      return
    }
    if (decoded.modifiers['vec'] !== undefined) this.#movVector(target, source, type, decoded)
    else if (target.kind === 'vector') this.#unpack(target.items, source, type, decoded)
    else if (source.kind === 'vector') this.#packVector(target, source.items, type, decoded)
    else {
      // A register keeps its bits: mov of b32 from a float to a float changes no type.
      if (source.kind === 'register' && target.kind === 'register') {
        const [from, to] = [this.writer.typeOf(source.register), this.writer.typeOf(target.register)]
        if (from === to && bitsOf(source.register.type) === bitsOf(target.register.type)) {
          this.writer.pushRegister(source.register)
          this.#body.set(this.writer.localOf(target.register))
          return
        }
      }
      this.writer.push(source, type)
      this.writer.pop(target, type)
    }
  }

  /** Writes mov.v2 and mov.v4: all parts are read before the first is written, as they may be the same registers. */
  #movVector(target: Operand, source: Operand, type: string, decoded: Decoded): void {
    const count = Number(decoded.modifiers['vec']?.slice(1))
    if (target.kind !== 'vector' || source.kind !== 'vector')
      throw errorAt(`'${decoded.instruction.opcode}' takes two vectors`, decoded)
    if (target.items.length !== count || source.items.length !== count)
      throw errorAt(`'${decoded.instruction.opcode}' takes vectors of ${count}`, decoded)
    for (const item of source.items) this.writer.push(item, type)
    for (const item of [...target.items].reverse()) this.writer.pop(item, type)
  }

  #mov128(target: Operand, source: Operand, decoded: Decoded): void {
    const body = this.#body
    if (target.kind === 'register' && source.kind === 'vector') {
      const [low, high] = source.items
      if (low === undefined || high === undefined) throw errorAt('mov.b128 takes two registers', decoded)
      const value = body.temporary('i64')
      this.writer.push(low, 'b64')
      body.set(value)
      this.writer.push(high, 'b64')
      body.write(set(this.writer.upperOf(target.register)), value, set(this.writer.localOf(target.register)))
      body.release('i64', value)
    } else if (target.kind === 'vector' && source.kind === 'register') {
      const [low, high] = target.items
      if (low === undefined || high === undefined) throw errorAt('mov.b128 gives two registers', decoded)
      this.writer.pushRegister(source.register)
      this.writer.pop(low, 'b64')
      body.get(this.writer.upperOf(source.register))
      this.writer.pop(high, 'b64')
    } else if (target.kind === 'register' && source.kind === 'register') {
      this.writer.pushRegister(source.register)
      body.write(
        set(this.writer.localOf(target.register)),
        this.writer.upperOf(source.register),
        set(this.writer.upperOf(target.register)),
      )
    } else throw errorAt('mov.b128 takes registers', decoded)
  }

  #unpack(items: readonly Operand[], source: Operand, type: string, decoded: Decoded): void {
    const body = this.#body
    const total = bitsOf(type)
    const part = total / items.length
    if (![8, 16, 32].includes(part)) throw errorAt(`${type} is not made of ${items.length} parts`, decoded)
    const t: ValueType = total === 64 ? 'i64' : 'i32'
    const value = body.temporary(t)
    this.writer.push(source, total === 64 ? 'b64' : total === 32 ? 'b32' : 'b16')
    body.set(value)
    for (const [index, item] of items.entries()) {
      if (item.kind === 'sink') continue
      body.get(value)
      if (index > 0) {
        if (t === 'i64') {
          body.write(i64(BigInt(part * index)), 'i64.shr_u')
        } else {
          body.write(i32(part * index), 'i32.shr_u')
        }
      }
      if (t === 'i64') body.op('i32.wrap_i64')
      this.writer.pop(item, part === 32 ? 'b32' : part === 16 ? 'b16' : 'b8')
    }
    body.release(t, value)
  }

  #packVector(target: Operand, items: readonly Operand[], type: string, decoded: Decoded): void {
    const body = this.#body
    const total = bitsOf(type)
    const part = total / items.length
    if (![8, 16, 32].includes(part)) throw errorAt(`${type} is not made of ${items.length} parts`, decoded)
    if (part === 8 && items.some(({ kind }) => kind === 'special'))
      throw errorAt('A special register of several parts is read by mov.v4, or one part of it by its name', decoded)
    const t: ValueType = total === 64 ? 'i64' : 'i32'
    for (const [index, item] of items.entries()) {
      this.writer.push(item, part === 32 ? 'b32' : part === 16 ? 'u16' : 'u8')
      if (t === 'i64') body.op('i64.extend_i32_u')
      if (index === 0) continue
      if (t === 'i64') {
        body.write(i64(BigInt(part * index)), 'i64.shl')
      } else {
        body.write(i32(part * index), 'i32.shl')
      }
      body.op(`${t}.or`)
    }
    this.writer.pop(target, total === 64 ? 'b64' : total === 32 ? 'b32' : 'b16')
  }

  #window(space: string): bigint {
    if (space.startsWith('shared')) return SHARED_WINDOW
    if (space === 'local') return LOCAL_WINDOW
    // Parameters of a function lie in its frame, those of a kernel in a window of their own.
    if (space.startsWith('param')) return this.writer.fn.fn.entry ? PARAMETER_WINDOW : LOCAL_WINDOW
    return 0n
  }

  /** Converts an address to or from a generic one: the windows of shared and local memory lie above all memory of the device. */
  cvta(decoded: Decoded): void {
    const type = decoded.modifiers['T'] ?? 'u64'
    const window = this.#window(decoded.modifiers['space'] ?? 'global')
    this.writer.push(operandOf(decoded, 'a'), 'u64')
    if (window !== 0n) {
      this.#body.write(i64(window), decoded.form.pattern.includes('cvta.to') ? 'i64.sub' : 'i64.add')
    }
    if (bitsOf(type) === 32) this.#body.op('i32.wrap_i64')
    this.writer.pop(operandOf(decoded, 'd'), type)
  }

  isspacep(decoded: Decoded): void {
    const body = this.#body
    const space = decoded.modifiers['space'] ?? 'global'
    const window = this.#window(space)
    this.writer.push(operandOf(decoded, 'a'), 'u64')
    if (space === 'const') {
      // Constant variables are blocks of device memory; the run time knows which of the blocks are constant.
      body.write('drop', i32(0))
    } else if (window === 0n) {
      body.write(i64(SHARED_WINDOW), 'i64.lt_u')
    } else if (/^shared(?:::cta)?$/.test(space)) {
      // Addresses of the other blocks of a cluster lie above those of the block itself.
      body.write(i64(BigInt(CLUSTER_STRIDE_BITS)), 'i64.shr_u')
      body.write(i64(window >> BigInt(CLUSTER_STRIDE_BITS)), 'i64.eq')
    } else {
      body.write(i64(33n), 'i64.shr_u', i64(window >> 33n), 'i64.eq')
    }
    this.writer.pop(operandOf(decoded, 'd'), 'pred')
  }
}
