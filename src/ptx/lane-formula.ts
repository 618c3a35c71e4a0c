/**
 * A formula (expression.ts) for four threads at once, in instructions of SIMD. A value of 32 bits is one v128 with a lane for each thread; one of 64
 * bits is two, its halves, with two threads each. A condition is a mask: all bits of a lane, or none. What is the same for all threads is computed as
 * for one, and what SIMD has no instruction for, lane by lane.
 */
import { type Formula, FormulaWriter, foldedComparison } from './expression.js'
import type { FunctionBody, Signature, ValueType } from './wasm-encoder.js'

/** The meaning of the names in a formula for lanes. */
export interface LaneEnvironment {
  readonly body: FunctionBody
  /** The WebAssembly type that `T.` means. */
  readonly type: ValueType
  /** The number of halves that a value of 64 bits has: one within a function that is called for two threads. */
  readonly halves: 1 | 2
  typeOf(name: string): ValueType | undefined
  /** Whether an operand has the same value in all lanes. */
  isUniform(name: string): boolean
  /** Whether an operand is a predicate, which lanes have as a mask. */
  isMask(name: string): boolean
  /** Pushes an operand that is the same for all lanes, as a value of one thread. */
  pushUniform(name: string): void
  /** Pushes an operand of 32 bits. */
  push(name: string): void
  /** Pushes a half of an operand of 64 bits. */
  pushHalf(name: string, half: number): void
  constant(name: string): bigint | undefined
  helper(name: string): { readonly index: number; readonly signature: Signature<ValueType> }
  /** The function that computes a helper for lanes, all of whose values have the same width; undefined if there is none. */
  laneHelper(name: string): number | undefined
  /** Pushes a constant that all threads share. */
  pushConstant(low: bigint, high: bigint): void
}

/** The locals that a name stands for: of one thread if it is the same for all, otherwise a v128 for 32 bits and for each half of 64 bits. */
interface Binding {
  readonly type: ValueType
  readonly kind: 'uniform' | 'lanes' | 'mask'
  readonly locals: readonly number[]
}

const COMPARISON = /^([if](?:32|64))\.(eqz|eq|ne|lt|gt|le|ge|[lg][te]_[su])$/
const CONNECTIVE = /^i32\.(and|or|xor)$/
/** Operations of 32 bits that have an instruction of SIMD under their own name. */
const PLAIN_32 = /^(?:i32\.(?:add|sub|mul)|f32\.(?:add|sub|mul|div|sqrt|min|max|neg|abs|ceil|floor|trunc|nearest))$/
const PLAIN_64 = /^(?:i64\.(?:add|sub|mul)|f64\.(?:add|sub|mul|div|sqrt|min|max|neg|abs|ceil|floor|trunc|nearest))$/
const BITWISE = /^i(?:32|64)\.(and|or|xor)$/
const SHIFT = /^i(?:32|64)\.(shl|shr_s|shr_u)$/
const SHAPES: Readonly<Record<ValueType, string>> = { i32: 'i32x4', i64: 'i64x2', f32: 'f32x4', f64: 'f64x2' }

const isWide = (type: ValueType): boolean => type === 'i64' || type === 'f64'

/** The bytes that a shuffle picks, given by words of 32 bits. */
const words = (...picked: readonly number[]): readonly number[] =>
  picked.flatMap((word) => [4 * word, 4 * word + 1, 4 * word + 2, 4 * word + 3])
/** The lower words of four values of 64 bits, their upper words, and the lower halves of two vectors beside each other. */
const LOWER_WORDS = words(0, 2, 4, 6)
const UPPER_WORDS = words(1, 3, 5, 7)
const LOWER_HALVES = words(0, 1, 4, 5)
/** The upper half of a vector, for conversions that read the lower one. */
const UPPER_HALF = words(2, 3, 2, 3)

/** The shape of the lanes of a type of WebAssembly, as instructions name it. */
export function shapeOf(type: ValueType): string {
  return SHAPES[type]
}

/** Whether a formula can be computed for all lanes even where only some need it: a division of integers may trap. */
export function isSafeForLanes(text: string): boolean {
  return !/\.(?:div|rem)_[su]/.test(text)
}

export class LaneFormulaWriter {
  readonly #names = new Map<string, Binding>()
  readonly #scalar: FormulaWriter

  constructor(private readonly environment: LaneEnvironment) {
    const { body, type } = environment
    this.#scalar = new FormulaWriter({
      body,
      type,
      typeOf: (name) => this.#names.get(name)?.type ?? environment.typeOf(name),
      push: (name) => {
        const known = this.#names.get(name)
        if (known === undefined) environment.pushUniform(name)
        else body.get(known.locals[0] ?? 0)
      },
      constant: (name) => (this.#names.has(name) ? undefined : environment.constant(name)),
      helper: (name) => environment.helper(name),
    })
  }

  typeOf(formula: Formula): ValueType {
    return this.#scalar.typeOf(formula)
  }

  /** Gives a name locals that hold its value: a v128, or one for each half. */
  bind(name: string, type: ValueType, locals: readonly number[]): void {
    this.#names.set(name, { type, kind: 'lanes', locals })
  }

  /** Pushes a value of 32 bits. */
  write(formula: Formula): void {
    const { body } = this.environment
    if (this.#isUniform(formula)) {
      this.#splat(formula)
      return
    }
    if (typeof formula === 'string') {
      const known = this.#names.get(formula)
      if (known === undefined && !this.environment.isMask(formula)) this.environment.push(formula)
      else if (known?.kind === 'lanes') body.get(known.locals[0] ?? 0)
      else {
        this.mask(formula)
        body.op('i32x4.neg')
      }
      return
    }
    const head = this.#head(formula)
    if (head === 'let') this.#let(formula, (inner) => this.write(inner))
    else if (head === 'if') this.#if(formula)
    else if (head.startsWith('$')) this.#call(formula, head.slice(1))
    else if (head === 'select') {
      const known = this.#folded(formula[3] ?? '')
      if (known !== undefined) {
        this.write(formula[known ? 1 : 2] ?? '')
        return
      }
      this.write(formula[1] ?? '')
      this.write(formula[2] ?? '')
      this.mask(formula[3] ?? '')
      body.op('v128.bitselect')
    } else if (this.#isCondition(formula)) {
      this.mask(formula)
      body.op('i32x4.neg')
    } else this.#operation(formula, head)
  }

  /** Computes a value of 64 bits; returns the locals of its halves, which the caller releases. */
  pair(formula: Formula): readonly number[] {
    const { body } = this.environment
    if (typeof formula !== 'string' && !this.#isUniform(formula)) {
      const head = this.#head(formula)
      if (head === 'let') {
        let locals: readonly number[] = []
        this.#let(formula, (inner) => {
          locals = this.pair(inner)
        })
        return locals
      }
      if (head === 'if') return this.#ifPair(formula)
    }
    return this.#halves.map((half) => {
      this.half(formula, half)
      const local = body.temporary('v128')
      body.set(local)
      return local
    })
  }

  /** Pushes a half of a value of 64 bits. */
  half(formula: Formula, half: number): void {
    const { body } = this.environment
    if (this.#isUniform(formula)) {
      this.#splat(formula)
      return
    }
    if (typeof formula === 'string') {
      const known = this.#names.get(formula)
      if (known === undefined) this.environment.pushHalf(formula, half)
      else body.get(known.locals[half] ?? 0)
      return
    }
    const head = this.#head(formula)
    const [, a = '', b = '', c = ''] = formula
    const [, operation = ''] = head.split('.')
    if (head === 'let') this.#let(formula, (inner) => this.half(inner, half))
    else if (head === 'if') {
      const locals = this.#ifPair(formula)
      body.get(locals[half] ?? 0)
      for (const each of locals) body.release('v128', each)
    } else if (head === 'select') {
      const known = this.#folded(c)
      if (known !== undefined) {
        this.half(known ? a : b, half)
        return
      }
      this.half(a, half)
      this.half(b, half)
      this.mask(c, 64, half)
      body.op('v128.bitselect')
    } else if (head.startsWith('$')) this.#callHalf(formula, head.slice(1), half)
    else if (/^i64\.extend_i32_[su]$/.test(head)) {
      this.write(a)
      body.op(`i64x2.extend_${half === 0 ? 'low' : 'high'}_i32x4_${head.at(-1)}`)
    } else if (head === 'f64.promote_f32') {
      this.write(a)
      this.#toLow(half)
      body.op('f64x2.promote_low_f32x4')
    } else if (/^f64\.convert_i32_[su]$/.test(head)) {
      this.write(a)
      this.#toLow(half)
      body.op(`f64x2.convert_low_i32x4_${head.at(-1)}`)
    } else if (/^(?:i64\.reinterpret_f64|f64\.reinterpret_i64)$/.test(head)) this.half(a, half)
    else if (PLAIN_64.test(head)) {
      this.half(a, half)
      if (formula.length > 2) this.half(b, half)
      body.op(`${shapeOf(head.startsWith('i') ? 'i64' : 'f64')}.${operation}`)
    } else if (BITWISE.test(head)) {
      this.half(a, half)
      this.half(b, half)
      body.op(`v128.${operation}`)
    } else if (SHIFT.test(head) && this.#isUniform(b)) {
      this.half(a, half)
      this.#scalar.write(b)
      body.op('i32.wrap_i64')
      body.op(`i64x2.${operation}`)
    } else if (head === 'f64.copysign') {
      this.half(b, half)
      this.half(a, half)
      this.environment.pushConstant(1n << 63n, 1n << 63n)
      body.op('v128.bitselect')
    } else if (/^i64\.extend(?:8|16|32)_s$/.test(head)) {
      const room = 64 - Number(/\d+(?=_s)/.exec(head)?.[0])
      this.half(a, half)
      body.i32(room)
      body.op('i64x2.shl')
      body.i32(room)
      body.op('i64x2.shr_s')
    } else if (head === 'f64.fma') {
      for (const each of [a, b, c]) this.half(each, half)
      body.op('f64x2.relaxed_madd')
    } else this.#laneByLane(formula.slice(1), this.typeOf(formula), () => this.#plain(head), half)
  }

  /** Pushes the mask of a condition, with lanes of 32 bits, or of 64 bits for one half of the threads. */
  mask(formula: Formula, width: 32 | 64 = 32, half = 0): void {
    const { body } = this.environment
    if (this.#isUniform(formula)) {
      body.i32(0)
      this.#scalar.write(formula)
      body.i32(0)
      body.op('i32.ne')
      body.op('i32.sub')
      body.op('i32x4.splat')
      return
    }
    const widen = (): void => {
      if (width === 64) body.op(`i64x2.extend_${half === 0 ? 'low' : 'high'}_i32x4_s`)
    }
    if (typeof formula === 'string') {
      const known = this.#names.get(formula)
      if (known?.kind === 'mask') body.get(known.locals[0] ?? 0)
      else if (known === undefined && this.environment.isMask(formula)) this.environment.push(formula)
      else this.#isNotZero(formula)
      widen()
      return
    }
    const head = this.#head(formula)
    const [, a = '', b = ''] = formula
    if (head === 'let') this.#let(formula, (inner) => this.mask(inner, width, half))
    else if (head === 'i32.eqz' && this.#isCondition(a)) {
      this.mask(a, width, half)
      body.op('v128.not')
    } else if (CONNECTIVE.test(head) && this.#isCondition(a) && this.#isCondition(b)) {
      this.mask(a, width, half)
      this.mask(b, width, half)
      body.op(`v128.${head.slice(4)}`)
    } else if (COMPARISON.test(head)) this.#comparison(head, a, head.endsWith('eqz') ? undefined : b, width, half)
    else {
      this.#isNotZero(formula)
      widen()
    }
  }

  get #halves(): readonly number[] {
    return this.environment.halves === 1 ? [0] : [0, 1]
  }

  #head(formula: readonly Formula[]): string {
    const head = String(formula[0])
    return head.startsWith('T.') ? this.environment.type + head.slice(1) : head
  }

  #isUniform(formula: Formula): boolean {
    if (typeof formula === 'string') {
      const known = this.#names.get(formula)
      if (known !== undefined) return known.kind === 'uniform'
      return this.environment.typeOf(formula) === undefined || this.environment.isUniform(formula)
    }
    // Operations of relaxed SIMD stand for instructions of SIMD, and names that are bound within are not followed.
    const head = this.#head(formula)
    if (head === 'let' || head.endsWith('.fma')) return false
    if (head === 'i32.const' || head === 'i64.const') return true
    return formula.slice(head === 'if' ? 2 : 1).every((each) => this.#isUniform(each))
  }

  #isCondition(formula: Formula): boolean {
    if (typeof formula === 'string') {
      const known = this.#names.get(formula)
      return known === undefined ? this.environment.isMask(formula) : known.kind === 'mask'
    }
    const head = this.#head(formula)
    if (COMPARISON.test(head)) return true
    return CONNECTIVE.test(head) && this.#isCondition(formula[1] ?? '') && this.#isCondition(formula[2] ?? '')
  }

  #folded(condition: Formula): boolean | undefined {
    return foldedComparison(condition, (operand) =>
      this.#names.has(operand) ? undefined : this.environment.constant(operand),
    )
  }

  /** Pushes a value that all lanes share. */
  #splat(formula: Formula): void {
    const constant = this.#constantOf(formula)
    if (constant !== undefined) {
      this.environment.pushConstant(constant, constant)
      return
    }
    this.#scalar.write(formula)
    this.environment.body.op(`${shapeOf(this.typeOf(formula))}.splat`)
  }

  /** The bits of 64 that a literal has: one of 32 bits is there twice. */
  #constantOf(formula: Formula): bigint | undefined {
    if (typeof formula !== 'string' || this.#names.has(formula) || this.environment.typeOf(formula) !== undefined)
      return undefined
    const view = new DataView(new ArrayBuffer(8))
    const twice = (): bigint => {
      view.setUint32(4, view.getUint32(0, true), true)
      return view.getBigUint64(0, true)
    }
    if (formula.startsWith('f:')) view.setFloat32(0, Number(formula.slice(2)), true)
    else if (formula.startsWith('f#')) view.setUint32(0, Number.parseInt(formula.slice(2), 16), true)
    else if (formula.startsWith('d:')) {
      view.setFloat64(0, Number(formula.slice(2)), true)
      return view.getBigUint64(0, true)
    } else if (formula.startsWith('d#')) return BigInt(`0x${formula.slice(2)}`)
    else if (formula.endsWith('L')) {
      const text = formula.slice(0, -1)
      return BigInt.asUintN(64, text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text))
    } else view.setUint32(0, Number(formula) >>> 0, true)
    return twice()
  }

  #let(formula: readonly Formula[], write: (inner: Formula) => void): void {
    const { body } = this.environment
    const [, given = '', value = '', inner = ''] = formula
    const name = String(given)
    const type = this.typeOf(value)
    let binding: Binding
    if (this.#isUniform(value)) {
      this.#scalar.write(value)
      const local = body.temporary(type)
      body.set(local)
      binding = { type, kind: 'uniform', locals: [local] }
    } else if (isWide(type)) binding = { type, kind: 'lanes', locals: this.pair(value) }
    else {
      const isMask = type === 'i32' && this.#isCondition(value)
      if (isMask) this.mask(value)
      else this.write(value)
      const local = body.temporary('v128')
      body.set(local)
      binding = { type, kind: isMask ? 'mask' : 'lanes', locals: [local] }
    }
    const outer = this.#names.get(name)
    this.#names.set(name, binding)
    write(inner)
    if (outer === undefined) this.#names.delete(name)
    else this.#names.set(name, outer)
    for (const each of binding.locals) body.release(binding.kind === 'uniform' ? type : 'v128', each)
  }

  /** Whether both sides of a condition are computed: they are short, and call nothing. */
  #areShort(...sides: readonly Formula[]): boolean {
    const length = (formula: Formula): number =>
      typeof formula === 'string'
        ? 0
        : String(formula[0]).startsWith('$')
          ? 100
          : formula.slice(1).reduce<number>((sum, each) => sum + length(each), 1)
    return sides.every((each) => length(each) <= 8)
  }

  #if(formula: readonly Formula[]): void {
    const { body } = this.environment
    const [, , condition = '', one = '', other = ''] = formula
    if (this.#areShort(one, other)) {
      this.write(one)
      this.write(other)
      this.mask(condition)
      body.op('v128.bitselect')
      return
    }
    this.mask(condition)
    const mask = body.temporary('v128')
    body.set(mask)
    const [result = 0] = this.#choose([mask], one, other, (side) => {
      this.write(side)
      const local = body.temporary('v128')
      body.set(local)
      return [local]
    })
    body.get(result)
    body.release('v128', mask)
    body.release('v128', result)
  }

  #ifPair(formula: readonly Formula[]): readonly number[] {
    const { body } = this.environment
    const [, , condition = '', one = '', other = ''] = formula
    const masks = this.#halves.map((half) => {
      this.mask(condition, 64, half)
      const mask = body.temporary('v128')
      body.set(mask)
      return mask
    })
    const results = this.#choose(masks, one, other, (side) => this.pair(side))
    for (const each of masks) body.release('v128', each)
    return results
  }

  /** Computes a side of a condition always if it is short, otherwise where a lane needs it; returns the locals of the result. */
  #choose(
    masks: readonly number[],
    one: Formula,
    other: Formula,
    compute: (side: Formula) => readonly number[],
  ): readonly number[] {
    const { body } = this.environment
    const results = masks.map(() => body.temporary('v128'))
    const side = (formula: Formula, isNeeded: () => void, take: (local: number, half: number) => void): void => {
      const isShort = this.#areShort(formula)
      if (!isShort) {
        isNeeded()
        body.if()
      }
      const locals = compute(formula)
      for (const [half, local] of locals.entries()) {
        take(local, half)
        body.set(results[half] ?? 0)
        body.release('v128', local)
      }
      if (!isShort) body.end()
    }
    const joined = (operation: string): void => {
      for (const [at, mask] of masks.entries()) {
        body.get(mask)
        if (at > 0) body.op(operation)
      }
    }
    const isAny = (): void => {
      joined('v128.or')
      body.op('v128.any_true')
    }
    const isNotAll = (): void => {
      joined('v128.and')
      body.op('v128.not')
      body.op('v128.any_true')
    }
    side(one, isAny, (local) => body.get(local))
    side(other, isNotAll, (local, half) => body.write(results[half] ?? 0, local, masks[half] ?? 0, 'v128.bitselect'))
    return results
  }

  /** Moves the upper half of the vector on the stack down, for an operation on the upper two threads. */
  #toLow(half: number): void {
    if (half === 0) return
    const { body } = this.environment
    const value = body.temporary('v128')
    body.set(value)
    body.write(value, value)
    body.shuffle(UPPER_HALF)
    body.release('v128', value)
  }

  #isNotZero(formula: Formula): void {
    const { body } = this.environment
    this.write(formula)
    this.environment.pushConstant(0n, 0n)
    body.op('i32x4.ne')
  }

  #comparison(head: string, a: Formula, b: Formula | undefined, width: 32 | 64, half: number): void {
    const { body } = this.environment
    const type = head.slice(0, 3) as ValueType
    const operation = b === undefined ? 'eq' : head.slice(4)
    if (!isWide(type)) {
      this.write(a)
      if (b === undefined) this.environment.pushConstant(0n, 0n)
      else this.write(b)
      body.op(`${shapeOf(type)}.${operation}`)
      if (width === 64) body.op(`i64x2.extend_${half === 0 ? 'low' : 'high'}_i32x4_s`)
      return
    }
    const one = (at: number): void => {
      const isUnsigned = operation.endsWith('_u')
      const side = (formula: Formula | undefined): void => {
        if (formula === undefined) this.environment.pushConstant(0n, 0n)
        else this.half(formula, at)
        if (!isUnsigned) return
        // There is no comparison of lanes of 64 bits without a sign: the sign bits are turned round.
        this.environment.pushConstant(1n << 63n, 1n << 63n)
        body.op('v128.xor')
      }
      side(a)
      side(b)
      body.op(`${shapeOf(type)}.${isUnsigned ? operation.replace('_u', '_s') : operation}`)
    }
    if (width === 64) {
      one(half)
      return
    }
    this.#narrow(one, LOWER_WORDS)
  }

  /** Makes one vector of 32 bits of two of 64: of the halves of the threads, or of the first one twice. */
  #narrow(half: (at: number) => void, picked: readonly number[]): void {
    const { body } = this.environment
    half(0)
    if (this.environment.halves === 2) half(1)
    else {
      const value = body.temporary('v128')
      body.set(value)
      body.write(value, value)
      body.release('v128', value)
    }
    body.shuffle(picked)
  }

  /** Writes an operation whose result has 32 bits. */
  #operation(formula: readonly Formula[], head: string): void {
    const { body } = this.environment
    const [, a = '', b = '', c = ''] = formula
    const [type = '', operation = ''] = head.split('.')
    if (PLAIN_32.test(head)) {
      this.write(a)
      if (formula.length > 2) this.write(b)
      body.op(`${shapeOf(type === 'i32' ? 'i32' : 'f32')}.${operation}`)
    } else if (BITWISE.test(head)) {
      this.write(a)
      this.write(b)
      body.op(`v128.${operation}`)
    } else if (SHIFT.test(head) && this.#isUniform(b)) {
      this.write(a)
      this.#scalar.write(b)
      body.op(`i32x4.${operation}`)
    } else if (head === 'i32.wrap_i64') {
      const isUpper = typeof a !== 'string' && this.#head(a) === 'i64.shr_u' && a[2] === '32L'
      this.#narrow((at) => this.half(isUpper ? (a[1] ?? '') : a, at), isUpper ? UPPER_WORDS : LOWER_WORDS)
    } else if (head === 'f32.demote_f64') {
      this.#narrow((at) => {
        this.half(a, at)
        body.op('f32x4.demote_f64x2_zero')
      }, LOWER_HALVES)
    } else if (/^i32\.trunc_sat_f64_[su]$/.test(head)) {
      this.#narrow((at) => {
        this.half(a, at)
        body.op(`i32x4.trunc_sat_f64x2_${head.at(-1)}_zero`)
      }, LOWER_HALVES)
    } else if (/^(?:f32\.reinterpret_i32|i32\.reinterpret_f32)$/.test(head)) this.write(a)
    else if (/^f32\.convert_i32_[su]$/.test(head)) {
      this.write(a)
      body.op(`f32x4.convert_i32x4_${head.at(-1)}`)
    } else if (/^i32\.trunc_sat_f32_[su]$/.test(head)) {
      this.write(a)
      body.op(`i32x4.trunc_sat_f32x4_${head.at(-1)}`)
    } else if (/^i32\.extend(?:8|16)_s$/.test(head)) {
      const room = head.includes('16') ? 16 : 24
      this.write(a)
      body.i32(room)
      body.op('i32x4.shl')
      body.i32(room)
      body.op('i32x4.shr_s')
    } else if (head === 'f32.copysign') {
      this.write(b)
      this.write(a)
      this.environment.pushConstant(0x8000000080000000n, 0x8000000080000000n)
      body.op('v128.bitselect')
    } else if (head === 'f32.fma') {
      for (const each of [a, b, c]) this.write(each)
      body.op('f32x4.relaxed_madd')
    } else this.#laneByLane(formula.slice(1), this.typeOf(formula), () => this.#plain(head))
  }

  /** Writes an instruction for one lane. */
  #plain(head: string): void {
    if (head.includes('.load')) this.environment.body.memory(head)
    else this.environment.body.op(head)
  }

  #call(formula: readonly Formula[], name: string): void {
    const given = formula.slice(1)
    const { body } = this.environment
    const areNarrow = given.every((each) => !isWide(this.typeOf(each)))
    const index = areNarrow ? this.environment.laneHelper(name) : undefined
    if (index === undefined) {
      const { index: scalar } = this.environment.helper(name)
      this.#laneByLane(given, this.typeOf(formula), () => body.call(scalar))
      return
    }
    for (const each of given) this.write(each)
    body.call(index)
  }

  #callHalf(formula: readonly Formula[], name: string, half: number): void {
    const { body } = this.environment
    const given = formula.slice(1)
    const index = given.every((each) => isWide(this.typeOf(each))) ? this.environment.laneHelper(name) : undefined
    if (index === undefined) {
      const { index: scalar } = this.environment.helper(name)
      this.#laneByLane(given, this.typeOf(formula), () => body.call(scalar), half)
      return
    }
    for (const each of given) this.half(each, half)
    body.call(index)
  }

  /** Computes what SIMD has no instruction for: each lane is taken out, computed, and put back. For a result of 64 bits, those of one half. */
  #laneByLane(given: readonly Formula[], type: ValueType, operation: () => void, half?: number): void {
    const { body } = this.environment
    const parts = given.map((each) => {
      const own = this.typeOf(each)
      if (this.#isUniform(each)) {
        this.#scalar.write(each)
        const local = body.temporary(own)
        body.set(local)
        return { own, isUniform: true, locals: [local] }
      }
      if (isWide(own)) {
        if (half === undefined) return { own, isUniform: false, locals: this.pair(each) }
        this.half(each, half)
      } else this.write(each)
      const local = body.temporary('v128')
      body.set(local)
      return { own, isUniform: false, locals: [local] }
    })
    const result = body.temporary('v128')
    const count = half === undefined ? 2 * this.environment.halves : 2
    for (let lane = 0; lane < count; lane++) {
      if (lane > 0) body.get(result)
      for (const { own, isUniform, locals } of parts) {
        if (isUniform) body.get(locals[0] ?? 0)
        else if (!isWide(own)) {
          body.get(locals[0] ?? 0)
          body.op(`${shapeOf(own)}.extract_lane_${half === undefined ? lane : 2 * half + lane}`)
        } else {
          body.get(locals[half === undefined ? lane >> 1 : 0] ?? 0)
          body.op(`${shapeOf(own)}.extract_lane_${half === undefined ? lane & 1 : lane}`)
        }
      }
      operation()
      body.op(lane === 0 ? `${shapeOf(type)}.splat` : `${shapeOf(type)}.replace_lane_${lane}`)
      body.set(result)
    }
    for (const { own, isUniform, locals } of parts)
      for (const each of locals) body.release(isUniform ? own : 'v128', each)
    body.get(result)
    body.release('v128', result)
  }
}
