/** Writes atomics. One thread runs at a time, so that a load and a store are one step. */

import type { AddressWriter } from './address-writer.js'
import { type Decoded, errorAt, operandOf } from './decoding.js'
import { SHADOW } from './layout.js'
import { wasmTypeOf } from './register-types.js'
import { bitsOf, type Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, type FunctionBody, f32, i32, memory, set, tee } from './wasm-encoder.js'

export class AtomicWriter {
  constructor(
    private readonly writer: ValueWriter,
    private readonly addresses: AddressWriter,
  ) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  write(decoded: Decoded): void {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const count = Number((modifiers['vec'] ?? 'v1').slice(1))
    const size = bitsOf(type) / 8
    const operand = operandOf(decoded, 'a')
    const space = this.addresses.spaceOf(decoded, operand)
    const access = SHADOW.read | SHADOW.written | SHADOW.atomic
    const address = this.addresses.locate(operand, space, size * count, access, decoded)
    const parts = (name: string): readonly (Operand | undefined)[] => {
      const given = decoded.operands[name]
      return count > 1 && given?.kind === 'vector' ? given.items : [given]
    }
    const [targets, sources] = [parts('d'), parts('b')]
    if (sources.length !== count) throw errorAt(`This takes ${count} values`, decoded)
    if (type === 'b128') this.#atomic128(address, decoded)
    else
      for (let index = 0; index < count; index++)
        this.#atomicOne(targets[index], sources[index], address, index * size, decoded)
    this.addresses.flush(address, space)
    this.#body.release('i32', address)
  }

  #atomicOne(
    target: Operand | undefined,
    source: Operand | undefined,
    address: number,
    offset: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    if (source === undefined) throw errorAt('This lacks a value', decoded)
    const isHalf = /f16/.test(type)
    const t = isHalf ? 'i32' : wasmTypeOf(type)
    const suffix = bitsOf(type) === 16 ? '16' : ''
    const [old, value] = [body.temporary(t), body.temporary(t)]
    // The value is read first, since its register may be the one that gets the old value.
    this.writer.push(source, type)
    body.write(set(value), address, memory(`${t}.load${suffix === '' ? '' : '16_u'}`, offset), set(old))
    if (modifiers['op'] === 'cas') {
      const wanted = body.temporary(t)
      body.write(value, set(wanted))
      this.writer.push(operandOf(decoded, 'c'), type)
      body.write(set(value), old, wanted, `${t}.eq`)
      body.if()
      body.write(address, value, memory(`${t}.store${suffix}`, offset))
      body.end()
      body.release(t, wanted)
    } else {
      body.get(address)
      this.#combine(modifiers['op'] ?? 'add', type, old, value)
      body.memory(`${t}.store${suffix}`, offset)
    }
    if (target !== undefined && target.kind !== 'sink') {
      body.get(old)
      this.writer.pop(target, type)
    }
    body.release(t, old)
    body.release(t, value)
  }

  #combine(operation: string, type: string, old: number, value: number): void {
    const body = this.#body
    const t = wasmTypeOf(type)
    if (/f16/.test(type)) {
      this.#combineHalves(operation, type, old, value)
      return
    }
    if (operation === 'exch') {
      body.get(value)
      return
    }
    if (operation === 'inc' || operation === 'dec') {
      // The new value for inc is old >= value ? 0 : old + 1; for dec it is old == 0 or old > value ? value : old - 1.
      if (operation === 'inc') {
        body.write(i32(0), old, i32(1), 'i32.add', old, value, 'i32.ge_u')
      } else {
        body.write(value, old, i32(1), 'i32.sub', old, 'i32.eqz', old, value, 'i32.gt_u', 'i32.or')
      }
      body.op('select')
      return
    }
    body.write(old, value)
    if (operation === 'min' || operation === 'max') {
      body.write(old, value, `${t}.${operation === 'min' ? 'lt' : 'gt'}_${type.startsWith('s') ? 's' : 'u'}`, 'select')
      return
    }
    body.op(`${t}.${operation}`)
    if (t !== 'f32') return
    // A NaN gets the bits that a GPU gives it.
    const sum = body.temporary('f32')
    body.write(tee(sum), f32(0x7fffffff), sum, sum, 'f32.eq', 'select')
    body.release('f32', sum)
  }

  #combineHalves(operation: string, type: string, old: number, value: number): void {
    const body = this.#body
    const isBf16 = type.startsWith('bf16')
    const { context } = this.writer
    const halves = type.endsWith('x2') ? [0, 16] : [0]
    for (const shift of halves) {
      for (const local of [old, value]) {
        body.get(local)
        if (isBf16) {
          if (shift === 0) {
            body.write(i32(16), 'i32.shl')
          } else {
            body.write(i32(-65536), 'i32.and')
          }
          body.op('f32.reinterpret_i32')
        } else {
          body.write(i32(shift), 'i32.shr_u', i32(65535), 'i32.and', call(context.helper('half_to_f32').index))
        }
      }
      body.write(`f32.${operation}`, call(context.helper(isBf16 ? 'f32_to_bf16' : 'f32_to_half').index))
      if (shift > 0) {
        body.write(i32(shift), 'i32.shl', 'i32.or')
      }
    }
  }

  #atomic128(address: number, decoded: Decoded): void {
    const body = this.#body
    const { modifiers, operands } = decoded
    const registerOf = (name: string): [number, number] => {
      const operand = operands[name]
      if (operand?.kind !== 'register') throw errorAt('This takes registers of 128 bits', decoded)
      return [this.writer.localOf(operand.register), this.writer.upperOf(operand.register)]
    }
    const [oldLow, oldHigh] = [body.temporary('i64'), body.temporary('i64')]
    body.write(address, memory('i64.load'), set(oldLow), address, memory('i64.load', 8), set(oldHigh))
    const isCas = modifiers['op'] === 'cas'
    const [low, high] = registerOf(isCas ? 'c' : 'b')
    if (isCas) {
      const [wantedLow, wantedHigh] = registerOf('b')
      body.write(oldLow, wantedLow, 'i64.eq', oldHigh, wantedHigh, 'i64.eq', 'i32.and')
    } else body.i32(1)
    body.if()
    body.write(address, low, memory('i64.store'), address, high, memory('i64.store', 8))
    body.end()
    if (operands['d']?.kind === 'register') {
      const [toLow, toHigh] = registerOf('d')
      body.write(oldLow, set(toLow), oldHigh, set(toHigh))
    }
    body.release('i64', oldLow)
    body.release('i64', oldHigh)
  }
}
