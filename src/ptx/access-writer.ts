/** Writes loads, stores and asynchronous copies, whose addresses the writer of addresses finds. */

import type { AddressWriter } from './address-writer.js'
import { type Decoded, errorAt, operandOf } from './decoding.js'
import { SHADOW } from './layout.js'
import { bitsOf, type Operand, ptxError } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { type FunctionBody, i32, memory, set } from './wasm-encoder.js'

export class AccessWriter {
  constructor(
    private readonly writer: ValueWriter,
    private readonly addresses: AddressWriter,
  ) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  /** The registers of a load or store, one for each value. */
  #registersOf(decoded: Decoded, name: 'd' | 'b', what: 'load' | 'store'): readonly Operand[] {
    const { vec } = decoded.modifiers
    const operand = operandOf(decoded, name)
    const items = vec === undefined ? [operand] : operand.kind === 'vector' ? operand.items : []
    const count = Number((vec ?? 'v1').slice(1))
    if (items.length !== count) throw errorAt(`A ${what} of ${count} values needs as many registers`, decoded)
    return items
  }

  load(decoded: Decoded): void {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const items = this.#registersOf(decoded, 'd', 'load')
    const size = Math.max(8, bitsOf(type)) / 8
    const operand = operandOf(decoded, 'a')
    const space = this.addresses.spaceOf(decoded, operand)
    const offset = this.addresses.offsetInRange(decoded)
    const address =
      offset === undefined
        ? this.addresses.locate(operand, space, size * items.length, SHADOW.read, decoded)
        : this.addresses.locateInRange(decoded, size * items.length, SHADOW.read)
    for (const [index, item] of items.entries()) {
      if (item.kind === 'sink') continue
      this.loadOne(item, type, address, (offset ?? 0) + index * size)
    }
    this.#body.release('i32', address)
  }

  loadOne(item: Operand, type: string, address: number, offset: number): void {
    const body = this.#body
    if (type === 'b128') {
      if (item.kind !== 'register') return
      body.write(
        address,
        memory('i64.load', offset),
        set(this.writer.localOf(item.register)),
        address,
        memory('i64.load', offset + 8),
        set(this.writer.upperOf(item.register)),
      )
      return
    }
    body.get(address)
    const own = item.kind === 'register' ? this.writer.typeOf(item.register) : 'i32'
    const bits = Math.max(8, bitsOf(type))
    // A register of f32 takes its bits directly.
    if (bits === 32 && own === 'f32') {
      body.memory('f32.load', offset)
      this.writer.pop(item, 'f32')
    } else if (bits === 64 && own === 'f64') {
      body.memory('f64.load', offset)
      this.writer.pop(item, 'f64')
    } else if (bits === 64) {
      body.memory('i64.load', offset)
      this.writer.pop(item, type === 'f64' ? 'b64' : type)
    } else if (bits === 32) {
      body.memory('i32.load', offset)
      this.writer.pop(item, type === 'f32' ? 'b32' : type)
    } else {
      body.memory(`i32.load${bits}_${type.startsWith('s') ? 's' : 'u'}`, offset)
      this.writer.pop(item, bits === 8 ? (type.startsWith('s') ? 's8' : 'u8') : type)
    }
  }

  store(decoded: Decoded): void {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const items = this.#registersOf(decoded, 'b', 'store')
    const size = Math.max(8, bitsOf(type)) / 8
    const operand = operandOf(decoded, 'a')
    const space = this.addresses.spaceOf(decoded, operand)
    const offset = this.addresses.offsetInRange(decoded)
    const write = (address: number): void => {
      for (const [index, item] of items.entries()) this.storeOne(item, type, address, (offset ?? 0) + index * size)
    }
    if (offset !== undefined) {
      const address = this.addresses.locateInRange(decoded, size * items.length, SHADOW.written)
      write(address)
      this.#body.release('i32', address)
      return
    }
    if (operand.kind === 'address' && (space === 'global' || space === 'generic')) {
      this.addresses.storeToGlobal(operand, size * items.length, decoded, write)
      return
    }
    const address = this.addresses.locate(operand, space, size * items.length, SHADOW.written, decoded)
    write(address)
    this.#body.release('i32', address)
  }

  storeOne(item: Operand, type: string, address: number, offset: number): void {
    const body = this.#body
    body.get(address)
    if (type === 'b128') {
      if (item.kind !== 'register') throw ptxError('ERR_COMPILATION', 'st.b128 takes a register', this.writer.place)
      this.writer.pushRegister(item.register)
      body.write(
        memory('i64.store', offset),
        address,
        this.writer.upperOf(item.register),
        memory('i64.store', offset + 8),
      )
      return
    }
    const own = item.kind === 'register' ? this.writer.typeOf(item.register) : 'i32'
    const bits = Math.max(8, bitsOf(type))
    if (bits === 32 && own === 'f32') {
      this.writer.push(item, 'f32')
      body.memory('f32.store', offset)
    } else if (bits === 64 && own === 'f64') {
      this.writer.push(item, 'f64')
      body.memory('f64.store', offset)
    } else if (bits === 64) {
      this.#pushBits(item, type)
      body.memory('i64.store', offset)
    } else if (bits === 32) {
      this.#pushBits(item, type)
      body.memory('i32.store', offset)
    } else {
      this.writer.push(item, 'b32')
      body.memory(bits === 8 ? 'i32.store8' : 'i32.store16', offset)
    }
  }

  /** Pushes a value as an integer with the bits of its type. */
  #pushBits(item: Operand, type: string): void {
    const body = this.#body
    if (item.kind !== 'register' && /^f(32|64)$/.test(type)) {
      this.writer.push(item, type)
      body.op(type === 'f32' ? 'i32.reinterpret_f32' : 'i64.reinterpret_f64')
    } else this.writer.push(item, type === 'f32' ? 'b32' : type === 'f64' ? 'b64' : type)
  }

  /** Writes cp.async, which copies at once: that is one of the orders that a GPU may take. */
  copy(decoded: Decoded): void {
    const body = this.#body
    const size = operandOf(decoded, 'c')
    if (size.kind !== 'integer') throw errorAt('The size of cp.async must be a constant', decoded)
    const bytes = Number(size.value)
    if (![4, 8, 16].includes(bytes)) throw errorAt('cp.async copies 4, 8 or 16 bytes', decoded)
    const to = this.addresses.locate(operandOf(decoded, 'a'), 'shared', bytes, SHADOW.written, decoded)
    const given = decoded.operands['e']
    const count = body.temporary('i32')
    if (given === undefined) body.i32(bytes)
    else if (given.kind === 'register' && given.register.type === 'pred') {
      // If ignore-src is set nothing is read.
      body.write(i32(0), i32(bytes))
      this.writer.push(given, 'pred')
      body.op('select')
    } else this.writer.push(given, 'u32')
    body.set(count)
    // Bytes that are not read are filled with zeros.
    for (let at = 0; at < bytes; at += 4) {
      body.write(to, i32(0), memory('i32.store', at))
    }
    body.get(count)
    body.if()
    const source = this.addresses.locate(operandOf(decoded, 'b'), 'global', bytes, SHADOW.read, decoded)
    body.write(to, source, count, i32(bytes), count, i32(bytes), 'i32.lt_u', 'select', 'memory.copy')
    body.release('i32', source)
    body.end()
    body.release('i32', count)
    body.release('i32', to)
  }
}
