/** Writes arithmetic that no formula gives: lop3, carries, comparisons with two results, and packing. */

import { type Decoded, errorAt, operandOf } from './decoding.js'
import { conditionOf, packedConditions } from './forms.js'
import { bitsOf, type Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { type FunctionBody, i32, set, tee } from './wasm-encoder.js'

export class ArithmeticWriter {
  constructor(private readonly writer: ValueWriter) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  lop3(decoded: Decoded): void {
    this.writer.formula(lop3Formula(decoded), decoded)
    const target = operandOf(decoded, 'd')
    if (decoded.modifiers['B'] === undefined) {
      this.writer.pop(target, 'b32')
      return
    }
    // The forms lop3.or and lop3.and also give a predicate.
    if (target.kind !== 'pair') throw errorAt('lop3 with a predicate writes d|p', decoded)
    const result = this.#body.temporary('i32')
    this.#body.write(tee(result), i32(0), 'i32.ne')
    this.writer.push(operandOf(decoded, 'g'), 'pred')
    this.#body.op(decoded.modifiers['B'] === 'or' ? 'i32.or' : 'i32.and')
    this.writer.pop(target.second, 'pred')
    this.#body.get(result)
    this.writer.pop(target.first, 'b32')
    this.#body.release('i32', result)
  }

  /**
   * Writes add, sub and mad with the carry in and out. The flag after a subtraction is that of adding the complement, as GPUs have it: 1 if nothing
   * was borrowed. Code that reads it by `addc` depends on that, as the division of 128 bits by NVRTC does.
   */
  carry(decoded: Decoded): void {
    const { form, modifiers } = decoded
    const type = modifiers['T'] ?? 'u32'
    const t = bitsOf(type) === 64 ? 'i64' : 'i32'
    const body = this.#body
    const isMad = form.opcode.startsWith('mad')
    const takes = form.opcode.endsWith('c') && form.opcode !== 'mad.cc'
    const subtracts = form.opcode.startsWith('sub')
    const [x, y, sum] = [body.temporary(t), body.temporary(t), body.temporary(t)]
    if (isMad) {
      const high = modifiers['H'] === 'hi'
      const sign = type.startsWith('s') ? 's' : 'u'
      const product =
        t === 'i64'
          ? `($mulhi_${sign}64 a b)`
          : `(i32.wrap_i64 (i64.shr_u (i64.mul (i64.extend_i32_${sign} a) (i64.extend_i32_${sign} b)) 32L))`
      this.writer.formula(high ? product : `(${t}.mul a b)`, decoded)
      body.set(x)
      this.writer.push(operandOf(decoded, 'c'), type)
    } else {
      this.writer.push(operandOf(decoded, 'a'), type)
      body.set(x)
      this.writer.push(operandOf(decoded, 'b'), type)
    }
    body.set(y)
    const { carry } = this.writer
    const carryIn = (): void => {
      if (takes) body.get(carry)
      else body.i32(0)
      if (takes && subtracts) body.op('i32.eqz')
    }
    body.write(x, y, subtracts ? `${t}.sub` : `${t}.add`)
    carryIn()
    if (t === 'i64') body.op('i64.extend_i32_u')
    body.write(subtracts ? `${t}.sub` : `${t}.add`, set(sum))
    if (modifiers['cc'] !== undefined || decoded.form.pattern.includes('.cc.')) {
      const writes = decoded.instruction.opcode.split('.').includes('cc')
      if (writes) {
        // A carry out means that the sum is less than an operand, or equal to it with a carry in. The same comparison finds a borrow.
        body.write(
          subtracts ? x : sum,
          subtracts ? y : x,
          `${t}.lt_u`,
          subtracts ? x : sum,
          subtracts ? y : x,
          `${t}.eq`,
        )
        carryIn()
        body.write('i32.and', 'i32.or')
        if (subtracts) body.op('i32.eqz')
        body.write(set(carry))
      }
    }
    body.get(sum)
    this.writer.pop(operandOf(decoded, 'd'), type)
    for (const each of [x, y, sum]) body.release(t, each)
  }

  setp(decoded: Decoded): void {
    const { modifiers } = decoded
    const body = this.#body
    const target = operandOf(decoded, 'd')
    const boolean = modifiers['bool']
    const finish = (condition: () => void, operand: Operand, opposite: boolean): void => {
      condition()
      if (opposite) body.op('i32.eqz')
      if (boolean !== undefined) {
        this.writer.push(operandOf(decoded, 'c'), 'pred')
        body.op(`i32.${boolean}`)
      }
      this.writer.pop(operand, 'pred')
    }
    if (/f16x2/.test(modifiers['T'] ?? '')) {
      if (target.kind !== 'pair') throw errorAt('A packed comparison writes p|q', decoded)
      const [low, high] = packedConditions(modifiers).map((text) => {
        const local = body.temporary('i32')
        this.writer.formula(text, decoded)
        body.set(local)
        return local
      })
      finish(() => body.get(low ?? 0), target.first, false)
      finish(() => body.get(high ?? 0), target.second, false)
      for (const each of [low, high]) body.release('i32', each ?? 0)
      return
    }
    if (target.kind !== 'pair') {
      finish(() => this.writer.formula(conditionOf(modifiers), decoded), target, false)
      return
    }
    const condition = body.temporary('i32')
    const c = body.temporary('i32')
    this.writer.formula(conditionOf(modifiers), decoded)
    body.set(condition)
    // The register of the first predicate may be that of the Boolean operand, too.
    if (boolean !== undefined) {
      this.writer.push(operandOf(decoded, 'c'), 'pred')
      body.set(c)
    }
    for (const [operand, opposite] of [
      [target.first, false],
      [target.second, true],
    ] as const) {
      body.get(condition)
      if (opposite) body.op('i32.eqz')
      if (boolean !== undefined) {
        body.write(c, `i32.${boolean}`)
      }
      this.writer.pop(operand, 'pred')
    }
    body.release('i32', condition)
    body.release('i32', c)
  }

  /** Writes cvt.pack: two integers, saturated, beside each other and in front of the third operand. */
  pack(decoded: Decoded): void {
    const type = decoded.modifiers['T'] ?? 'u8'
    const bits = Number(type.slice(1))
    const signed = type.startsWith('s')
    const most = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1
    const least = signed ? -(2 ** (bits - 1)) : 0
    const one = (x: string): string =>
      `(i32.and (let v (select ${x} ${most} (i32.lt_s ${x} ${most})) (select v ${least} (i32.gt_s v ${least}))) ${2 ** bits - 1})`
    const both = `(i32.or ${one('b')} (i32.shl ${one('a')} ${bits}))`
    this.writer.formula(bits === 16 ? both : `(i32.or ${both} (i32.shl c ${2 * bits}))`, decoded)
    this.writer.pop(operandOf(decoded, 'd'), 'b32')
  }
}

/** The formula of lop3: any function of three bits by its table, f(a, b, c) from f(0, b, c) and f(1, b, c). */
export function lop3Formula(decoded: Decoded): string {
  const table = operandOf(decoded, 'e')
  if (table.kind !== 'integer') throw errorAt('The table of lop3 must be a constant', decoded)
  const bits = Number(BigInt.asUintN(8, table.value))
  const ofC = (two: number): string => ['0', '(i32.xor c -1)', 'c', '-1'][two & 3] ?? '0'
  const choose = (name: string, zero: string, one: string): string => {
    if (zero === one) return zero
    if (zero === '0' && one === '-1') return name
    if (zero === '-1' && one === '0') return `(i32.xor ${name} -1)`
    if (zero === '0') return `(i32.and ${name} ${one})`
    if (one === '0') return `(i32.and (i32.xor ${name} -1) ${zero})`
    if (one === '-1') return `(i32.or ${name} ${zero})`
    if (zero === '-1') return `(i32.or (i32.xor ${name} -1) ${one})`
    if (one === `(i32.xor ${zero} -1)` || zero === `(i32.xor ${one} -1)`) return `(i32.xor ${name} ${zero})`
    return `(i32.xor ${zero} (i32.and ${name} (i32.xor ${zero} ${one})))`
  }
  const ofB = (four: number): string => choose('b', ofC(four), ofC(four >> 2))
  return choose('a', ofB(bits), ofB(bits >> 4))
}
