/** Writes the instructions that are not given as formulas: memory, atomics, carries, calls and a few others. */
import { calleeOf } from './control-flow.js'
import { accessesOf, callParts, type Decoded } from './decoding.js'
import { conditionOf, hardwareFma, packedConditions, softwareFma } from './forms.js'
import {
  BLOCK,
  BOUNCE_END,
  type CallLayout,
  callLayout,
  FRAME,
  FUNCTION_WINDOW,
  LAUNCH,
  LOCAL_WINDOW,
  NO_WINDOW,
  PARAMETER_WINDOW,
  SHADOW,
  SHARED_WINDOW,
} from './layout.js'
import { HOST_FUNCTIONS, prototypeOf } from './program.js'
import { slotType, wasmTypeOf } from './register-types.js'
import type { RowRanges } from './row-ranges.js'
import { bitsOf, type Operand, ptxError, type Variable } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, type FunctionBody, f32, i32, i64, memory, set, tee, type ValueType } from './wasm-encoder.js'

/** Accesses of one block of code through the same register, which are checked together before the first of them. */
interface AccessGroup {
  readonly members: Decoded[]
  readonly space: 'global' | 'shared'
  readonly bytes: number
  least: bigint
  most: bigint
  /** The local with the location of the access at the least offset, or 0 if each access must be checked by itself. */
  local: number
}

/** The fences that order accesses for other blocks, too. */
const FENCE_OF_BLOCKS = /^(?:membar\.(?:gl|sys)|fence\.(?!proxy|mbarrier).*(?:cluster|gpu|sys))/
/** The greatest distance of accesses that are checked together. */
const GROUP_REACH = 1n << 20n

/** The formula of a * b + c for a product that is exact unless it is very small or large: then fusing changes nothing. */
const SCALED_SUM = `(let p (f64.mul a b) (if f64
  (i32.lt_u (i32.sub (i32.and (i32.wrap_i64 (i64.shr_u (i64.reinterpret_f64 p) 52L)) 2047) 100) 1900)
  (f64.add p c) ($fma64 a b c)))`

type Space = 'generic' | 'global' | 'shared' | 'local' | 'parameter' | 'frame'

export class InstructionWriter {
  constructor(private readonly writer: ValueWriter) {
    writer.define = (decoded) => this.write(decoded)
  }

  get #body(): FunctionBody {
    return this.writer.body
  }

  readonly #groups = new Map<Decoded, AccessGroup>()
  /** The accesses that were checked for all threads of the row. */
  ranges: RowRanges | undefined

  /**
   * Finds accesses of a block of code that can be checked together: they have the same register and the same width, and nothing in between changes
   * the register or frees memory.
   */
  groupAccesses(instructions: readonly Decoded[]): void {
    const { recorded, checked } = this.writer.context
    if (recorded || checked) return
    const open = new Map<string, AccessGroup>()
    for (const decoded of instructions) {
      const meaning = decoded.form.meaning
      const code = meaning.kind === 'code' ? meaning.code : ''
      if (code === 'call') open.clear()
      if (code === 'load' || code === 'store') this.#joinGroup(decoded, open)
      for (const { id } of accessesOf(decoded).writes) {
        for (const key of open.keys()) if (key.endsWith(`/${id}`)) open.delete(key)
      }
    }
    for (const [decoded, group] of this.#groups) if (group.members.length < 2) this.#groups.delete(decoded)
  }

  #joinGroup(decoded: Decoded, open: Map<string, AccessGroup>): void {
    const operand = decoded.operands['a']
    if (this.ranges?.of(decoded) !== undefined) return
    if (decoded.instruction.guard !== undefined || operand?.kind !== 'address' || operand.base.kind !== 'register')
      return
    const space = this.#spaceOf(decoded, operand)
    if (space !== 'global' && space !== 'shared') return
    const { T: type = 'b32', vec = 'v1' } = decoded.modifiers
    const bytes = (Math.max(8, bitsOf(type)) / 8) * Number(vec.slice(1))
    const size = BigInt(bytes)
    const key = `${space}/${bytes}/${((operand.offset % size) + size) % size}/${operand.base.register.id}`
    const known = open.get(key)
    const least = known === undefined || operand.offset < known.least ? operand.offset : known.least
    const most = known === undefined || operand.offset > known.most ? operand.offset : known.most
    if (known !== undefined && most - least < GROUP_REACH) {
      known.members.push(decoded)
      known.least = least
      known.most = most
      this.#groups.set(decoded, known)
      return
    }
    const { offset } = operand
    const group: AccessGroup = { members: [decoded], space, bytes, least: offset, most: offset, local: -1 }
    open.set(key, group)
    this.#groups.set(decoded, group)
  }

  write(decoded: Decoded): void {
    this.writer.current = decoded
    const { meaning } = decoded.form
    if (meaning.kind === 'formula') this.#formula(decoded, meaning.formula(decoded.modifiers), meaning.arithmetic)
    else if (meaning.kind === 'code') this.#code(meaning.code, decoded)
    else if (this.writer.context.checked && FENCE_OF_BLOCKS.test(decoded.instruction.opcode)) {
      this.#body.call(this.writer.context.runtime('fence'))
    }
  }

  #error(message: string, decoded: Decoded): Error {
    return ptxError('ERR_COMPILATION', message, decoded.instruction)
  }

  #operand(decoded: Decoded, name: string): Operand {
    const operand = decoded.operands[name]
    if (operand === undefined) throw this.#error(`'${decoded.instruction.opcode}' lacks an operand`, decoded)
    return operand
  }

  #formula(decoded: Decoded, text: string, arithmetic: boolean): void {
    const { writer } = this
    const target = this.#operand(decoded, 'd')
    const [slot] = decoded.form.operands
    const scaled = this.#isScaled(decoded) ? text.replace('(fma64 a b c)', SCALED_SUM) : text
    const formula = writer.context.hardwareFma ? hardwareFma(text) : softwareFma(scaled)
    writer.formula(formula, decoded)
    writer.pop(target, slotType(slot?.type ?? 'T', decoded), arithmetic)
  }

  /** Whether a product is exact since one factor is a power of two, as in averages. */
  #isScaled({ operands }: Decoded): boolean {
    return ['a', 'b'].some((name) => {
      const operand = operands[name]
      const value =
        operand?.kind === 'float'
          ? operand.value
          : operand?.kind === 'register'
            ? this.writer.fn.facts.constants.get(operand.register.id)
            : undefined
      if (value === undefined || !(Math.abs(value) > 1e-9 && Math.abs(value) < 1e9)) return false
      return Number.isInteger(Math.log2(Math.abs(value)))
    })
  }

  #code(code: string, decoded: Decoded): void {
    const write = this.#writers[code]
    if (write === undefined) throw new Error(`No code is written for '${code}'`)
    write(decoded)
  }

  readonly #writers: Readonly<Record<string, (decoded: Decoded) => void>> = {
    lop3: (decoded) => this.#lop3(decoded),
    carry: (decoded) => this.#carry(decoded),
    setp: (decoded) => this.#setp(decoded),
    pack: (decoded) => this.#pack(decoded),
    mov: (decoded) => this.#mov(decoded),
    cvta: (decoded) => this.#cvta(decoded),
    isspacep: (decoded) => this.#isspacep(decoded),
    load: (decoded) => this.#load(decoded),
    store: (decoded) => this.#store(decoded),
    atomic: (decoded) => this.#atomic(decoded),
    copy: (decoded) => this.#copy(decoded),
    mbarrier: (decoded) => this.#mbarrier(decoded),
    nanosleep: (decoded) => {
      this.writer.push(this.#operand(decoded, 'a'), 'u32')
      this.#body.call(this.writer.context.runtime('sleep'))
    },
    call: (decoded) => this.#call(decoded),
    alloca: (decoded) => this.#alloca(decoded),
    stack: (decoded) => this.#stackPointer(decoded),
  }

  // Arithmetic of several words -----------------------------------------------------------------------------------------

  /** Writes lop3: any function of three bits by its table, f(a, b, c) from f(0, b, c) and f(1, b, c). */
  #lop3(decoded: Decoded): void {
    const table = this.#operand(decoded, 'e')
    if (table.kind !== 'integer') throw this.#error('The table of lop3 must be a constant', decoded)
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
    this.writer.formula(choose('a', ofB(bits), ofB(bits >> 4)), decoded)
    const target = this.#operand(decoded, 'd')
    if (decoded.modifiers['B'] === undefined) {
      this.writer.pop(target, 'b32')
      return
    }
    // The forms lop3.or and lop3.and also give a predicate.
    if (target.kind !== 'pair') throw this.#error('lop3 with a predicate writes d|p', decoded)
    const result = this.#body.temporary('i32')
    this.#body.write(tee(result), i32(0), 'i32.ne')
    this.writer.push(this.#operand(decoded, 'g'), 'pred')
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
  #carry(decoded: Decoded): void {
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
      this.writer.push(this.#operand(decoded, 'c'), type)
    } else {
      this.writer.push(this.#operand(decoded, 'a'), type)
      body.set(x)
      this.writer.push(this.#operand(decoded, 'b'), type)
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
    this.writer.pop(this.#operand(decoded, 'd'), type)
    for (const each of [x, y, sum]) body.release(t, each)
  }

  #setp(decoded: Decoded): void {
    const { modifiers } = decoded
    const body = this.#body
    const target = this.#operand(decoded, 'd')
    const boolean = modifiers['bool']
    const finish = (condition: () => void, operand: Operand, opposite: boolean): void => {
      condition()
      if (opposite) body.op('i32.eqz')
      if (boolean !== undefined) {
        this.writer.push(this.#operand(decoded, 'c'), 'pred')
        body.op(`i32.${boolean}`)
      }
      this.writer.pop(operand, 'pred')
    }
    if (/f16x2/.test(modifiers['T'] ?? '')) {
      if (target.kind !== 'pair') throw this.#error('A packed comparison writes p|q', decoded)
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
      this.writer.push(this.#operand(decoded, 'c'), 'pred')
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
  #pack(decoded: Decoded): void {
    const type = decoded.modifiers['T'] ?? 'u8'
    const bits = Number(type.slice(1))
    const signed = type.startsWith('s')
    const most = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1
    const least = signed ? -(2 ** (bits - 1)) : 0
    const one = (x: string): string =>
      `(i32.and (let v (select ${x} ${most} (i32.lt_s ${x} ${most})) (select v ${least} (i32.gt_s v ${least}))) ${2 ** bits - 1})`
    const both = `(i32.or ${one('b')} (i32.shl ${one('a')} ${bits}))`
    this.writer.formula(bits === 16 ? both : `(i32.or ${both} (i32.shl c ${2 * bits}))`, decoded)
    this.writer.pop(this.#operand(decoded, 'd'), 'b32')
  }

  // Movement ------------------------------------------------------------------------------------------------------------

  #mov(decoded: Decoded): void {
    const type = decoded.modifiers['T'] ?? 'b32'
    const [target, source] = [this.#operand(decoded, 'd'), this.#operand(decoded, 'a')]
    if (type === 'b128') {
      this.#mov128(target, source, decoded)
      return
    }
    if (target.kind === 'vector') this.#unpack(target.items, source, type, decoded)
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

  #mov128(target: Operand, source: Operand, decoded: Decoded): void {
    const body = this.#body
    if (target.kind === 'register' && source.kind === 'vector') {
      const [low, high] = source.items
      if (low === undefined || high === undefined) throw this.#error('mov.b128 takes two registers', decoded)
      const value = body.temporary('i64')
      this.writer.push(low, 'b64')
      body.set(value)
      this.writer.push(high, 'b64')
      body.write(set(this.writer.upperOf(target.register)), value, set(this.writer.localOf(target.register)))
      body.release('i64', value)
    } else if (target.kind === 'vector' && source.kind === 'register') {
      const [low, high] = target.items
      if (low === undefined || high === undefined) throw this.#error('mov.b128 gives two registers', decoded)
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
    } else throw this.#error('mov.b128 takes registers', decoded)
  }

  #unpack(items: readonly Operand[], source: Operand, type: string, decoded: Decoded): void {
    const body = this.#body
    const total = bitsOf(type)
    const part = total / items.length
    if (![8, 16, 32].includes(part)) throw this.#error(`${type} is not made of ${items.length} parts`, decoded)
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
    if (![8, 16, 32].includes(part)) throw this.#error(`${type} is not made of ${items.length} parts`, decoded)
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
  #cvta(decoded: Decoded): void {
    const type = decoded.modifiers['T'] ?? 'u64'
    const window = this.#window(decoded.modifiers['space'] ?? 'global')
    this.writer.push(this.#operand(decoded, 'a'), 'u64')
    if (window !== 0n) {
      this.#body.write(i64(window), decoded.form.pattern.includes('cvta.to') ? 'i64.sub' : 'i64.add')
    }
    if (bitsOf(type) === 32) this.#body.op('i32.wrap_i64')
    this.writer.pop(this.#operand(decoded, 'd'), type)
  }

  #isspacep(decoded: Decoded): void {
    const body = this.#body
    const space = decoded.modifiers['space'] ?? 'global'
    const window = this.#window(space)
    this.writer.push(this.#operand(decoded, 'a'), 'u64')
    if (space === 'const') {
      // Constant variables are blocks of device memory; the run time knows which of the blocks are constant.
      body.write('drop', i32(0))
    } else if (window === 0n) {
      body.write(i64(SHARED_WINDOW), 'i64.lt_u')
    } else {
      body.write(i64(33n), 'i64.shr_u', i64(window >> 33n), 'i64.eq')
    }
    this.writer.pop(this.#operand(decoded, 'd'), 'pred')
  }

  // Memory --------------------------------------------------------------------------------------------------------------

  #spaceOf(decoded: Decoded, address: Operand): Space {
    const space = decoded.modifiers['space'] ?? (decoded.form.pattern.startsWith('cp.') ? 'global' : 'generic')
    const variable = address.kind === 'address' ? this.writer.variableOf(address.base) : undefined
    if (space.startsWith('param')) {
      if (variable === undefined) return this.writer.fn.fn.entry ? 'parameter' : 'local'
      return this.writer.frameOffset(variable) === undefined ? 'parameter' : 'frame'
    }
    if (space.startsWith('shared')) return 'shared'
    if (space === 'local') return 'local'
    if (space === 'global' || space === 'const') return 'global'
    // The name of a variable in a generic access means the address space of the variable.
    if (variable?.space === 'shared') return 'shared'
    if (variable?.space === 'local') return 'local'
    return variable === undefined ? 'generic' : 'global'
  }

  /**
   * Computes the location of an access in WebAssembly's memory, after all checks.
   * @returns A local that has the location; the caller releases it
   */
  #address(operand: Operand, space: Space, bytes: number, access: number, decoded: Decoded): number {
    const body = this.#body
    const result = body.temporary('i32')
    if (operand.kind !== 'address') throw this.#error('Expected an address in brackets', decoded)
    const group = this.#groups.get(decoded)
    if (group !== undefined) {
      this.#enterGroup(group, operand, decoded)
      body.get(group.local)
      body.if('i32')
      this.#pushInGroup(group, operand)
      body.else()
      if (space === 'shared') this.#sharedAddress(operand, undefined, bytes, access, decoded)
      else {
        this.writer.push(operand, 'u64')
        this.#slowFromStack(bytes, access, decoded, NO_WINDOW)
      }
      body.end()
      body.set(result)
      this.#leaveGroup(group, decoded)
      return result
    }
    const variable = this.writer.variableOf(operand.base)
    if (space === 'frame' && variable !== undefined) {
      body.write(this.writer.stack, i32((this.writer.frameOffset(variable) ?? 0) + Number(operand.offset)), 'i32.add')
    } else if (space === 'parameter') this.#parameterAddress(operand, variable, bytes, decoded)
    else if (space === 'shared') this.#sharedAddress(operand, variable, bytes, access, decoded)
    else if (space === 'local') this.#localAddress(operand, variable, bytes, access, decoded)
    else this.#globalAddress(operand, bytes, access, decoded)
    body.set(result)
    return result
  }

  /** Writes the common check of a group before its first access. */
  #enterGroup(group: AccessGroup, operand: Extract<Operand, { kind: 'address' }>, decoded: Decoded): void {
    if (group.members[0] !== decoded) return
    const body = this.#body
    const { bytes, least, most } = group
    const span = Number(most - least)
    group.local = body.temporary('i32')
    const first = { ...operand, offset: least }
    if (group.space === 'shared') {
      const address = body.temporary('i32')
      const limit = this.writer.uniform(`shared/${bytes}/${span}`, 'i32', () => this.#sharedLimit(bytes, span))
      const shared = this.writer.blockCell('shared')
      this.#pushSharedOffset(first)
      body.write(
        tee(address),
        shared,
        'i32.add',
        i32(0),
        address,
        i32(Math.log2(bytes)),
        'i32.rotr',
        limit,
        'i32.lt_u',
        'select',
        set(group.local),
      )
      body.release('i32', address)
      return
    }
    const [address, distance] = [body.temporary('i64'), body.temporary('i64')]
    const window = this.#openWindow(first, bytes, decoded, address, distance)
    body.if('i32')
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 16), 'i32.add')
    body.else()
    body.write(address, i32(window), i32(bytes), i32(span), call(this.writer.context.runtime('lookup')))
    body.end()
    body.set(group.local)
    body.release('i64', distance)
    body.release('i64', address)
  }

  #pushInGroup(group: AccessGroup, operand: Extract<Operand, { kind: 'address' }>): void {
    const body = this.#body
    body.get(group.local)
    if (operand.offset === group.least) return
    body.write(i32(Number(operand.offset - group.least)), 'i32.add')
  }

  #leaveGroup(group: AccessGroup, decoded: Decoded): void {
    if (group.members.at(-1) === decoded) this.#body.release('i32', group.local)
  }

  /** Pushes the number of accesses that fit into shared memory with `span` bytes behind the first. */
  #sharedLimit(bytes: number, span: number): void {
    const body = this.#body
    body.write(
      this.writer.block,
      memory('i32.load', BLOCK.sharedBytes),
      i32(span),
      'i32.sub',
      i32(0),
      this.writer.block,
      memory('i32.load', BLOCK.sharedBytes),
      i32(span),
      'i32.ge_u',
      'select',
      i32(Math.log2(bytes)),
      'i32.shr_u',
    )
  }

  #pushSharedOffset({ base, offset }: Extract<Operand, { kind: 'address' }>): void {
    this.writer.push(base, 'u32')
    if (offset === 0n) return
    this.#body.write(i32(Number(BigInt.asIntN(32, offset))), 'i32.add')
  }

  #parameterAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    variable: Variable | undefined,
    bytes: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const { parameters } = this.writer.context.program
    if (variable !== undefined) {
      const offset = (parameters.offsets.get(variable) ?? 0) + Number(operand.offset)
      if (offset < 0 || offset + bytes > parameters.byteLength)
        throw this.#error('This reads beyond the parameters of the kernel', decoded)
      body.write(this.writer.launch, i32(LAUNCH.parameters + offset), 'i32.add')
      return
    }
    const address = body.temporary('i64')
    this.writer.push(operand, 'u64')
    body.write(tee(address), i64(BigInt(Math.max(0, parameters.byteLength - bytes))), 'i64.gt_u')
    body.if()
    this.#slow(address, bytes, 0, decoded)
    body.op('drop')
    body.end()
    body.write(address, 'i32.wrap_i64', this.writer.launch, i32(LAUNCH.parameters), 'i32.add', 'i32.add')
    body.release('i64', address)
  }

  #sharedAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    variable: Variable | undefined,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const { program, checked } = this.writer.context
    const shared = this.writer.blockCell('shared')
    if (variable !== undefined && !checked) {
      const begin = program.shared.offsets.get(variable.name) ?? 0
      const offset = begin + Number(operand.offset)
      if (offset >= 0 && offset % bytes === 0 && offset + bytes <= program.shared.staticBytes) {
        body.write(shared, i32(offset), 'i32.add')
        return
      }
    }
    const address = body.temporary('i32')
    this.#pushSharedOffset(operand)
    body.set(address)
    const count = this.writer.uniform(`shared/${bytes}/0`, 'i32', () => this.#sharedLimit(bytes, 0))
    // An address that is not aligned becomes very large when it is rotated.
    body.write(address, i32(Math.log2(bytes)), 'i32.rotr', count, 'i32.ge_u')
    body.if()
    body.write(address, 'i64.extend_i32_u', i64(SHARED_WINDOW), 'i64.add')
    this.#slowFromStack(bytes, access, decoded)
    body.op('drop')
    body.end()
    if (checked) {
      body.write(
        i32(this.writer.context.site(decoded).number),
        address,
        i32(bytes),
        i32(access),
        this.writer.thread,
        call(this.writer.context.runtime('shared')),
      )
    }
    body.write(address, shared, 'i32.add')
    body.release('i32', address)
  }

  #localAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    variable: Variable | undefined,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const frame = variable === undefined ? undefined : this.writer.frameOffset(variable)
    if (frame !== undefined && variable !== undefined) {
      const offset = Number(operand.offset)
      if (offset >= 0 && offset + bytes <= variable.byteLength && offset % bytes === 0) {
        body.write(this.writer.stack, i32(frame + offset), 'i32.add')
        return
      }
    }
    const { threadBytes } = this.writer.context.program
    const address = body.temporary('i32')
    this.writer.push(operand.base, 'u32')
    if (operand.offset !== 0n) {
      body.write(i32(Number(BigInt.asIntN(32, operand.offset))), 'i32.add')
    }
    body.set(address)
    // The first bytes of a frame are the simulator's own; the program must not access them.
    body.write(
      address,
      i32(FRAME.cells),
      'i32.sub',
      i32(threadBytes - FRAME.cells - bytes),
      'i32.gt_u',
      address,
      i32(bytes - 1),
      'i32.and',
      'i32.or',
    )
    body.if()
    body.write(address, 'i64.extend_i32_u', i64(LOCAL_WINDOW), 'i64.add')
    this.#slowFromStack(bytes, access, decoded)
    body.op('drop')
    body.end()
    body.write(address, this.writer.frame, 'i32.add')
    body.release('i32', address)
  }

  /**
   * Writes the translation of a global address. The window of this place in the code says which block it used last. An address that lies in the block
   * and is aligned is found with one comparison: its distance from the start is rotated by the width of the access, so that one that is not aligned
   * becomes very large.
   */
  #globalAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const fixed = this.#fixedAddress(operand, bytes, decoded)
    if (fixed !== undefined) {
      body.i32(fixed)
      return
    }
    const { recorded } = this.writer.context
    const [address, distance] = [body.temporary('i64'), body.temporary('i64')]
    const window = this.#openWindow(operand, bytes, decoded, address, distance)
    body.if('i32')
    if (recorded) this.#recordAt(distance, window, bytes, access, decoded)
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 16), 'i32.add')
    body.else()
    this.#slow(address, bytes, access, decoded)
    body.end()
    body.release('i64', address)
    body.release('i64', distance)
  }

  /** The location in WebAssembly's memory of an access to a variable of the module; undefined if the access does not stay within the variable. */
  #fixedAddress(operand: Extract<Operand, { kind: 'address' }>, bytes: number, decoded: Decoded): number | undefined {
    const variable = this.writer.variableOf(operand.base)
    if (variable === undefined || this.writer.context.recorded) return undefined
    if (variable.space !== 'global' && variable.space !== 'const') return undefined
    const offset = Number(operand.offset) + (operand.base.kind === 'symbol' ? Number(operand.base.offset) : 0)
    if (offset < 0 || offset % bytes !== 0 || offset + bytes > variable.byteLength) return undefined
    const base = this.writer.context.residentAt(variable.name, decoded)
    return base === undefined ? undefined : base + offset
  }

  /** Computes an address and its distance from the start of the window, and pushes whether the window contains it. */
  #openWindow(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    decoded: Decoded,
    address: number,
    distance: number,
  ): number {
    const body = this.#body
    const { window } = this.writer.context.site(decoded)
    this.writer.push(operand, 'u64')
    body.write(tee(address), i32(0), memory('i64.load', window), 'i64.sub', tee(distance))
    if (bytes > 1) {
      body.write(i64(BigInt(Math.log2(bytes))), 'i64.rotr')
    }
    body.write(i32(0), memory('i64.load', window + 8), 'i64.lt_u')
    return window
  }

  #recordAt(distance: number, window: number, bytes: number, access: number, decoded: Decoded): void {
    const body = this.#body
    if (this.writer.context.checked) {
      body.write(i32(0), memory('i32.load', window + 28))
      body.if()
      body.i32(this.writer.context.site(decoded).number)
      body.write(distance, i32(0), memory('i64.load', window), 'i64.add')
      this.#split()
      body.write(i32(bytes), i32(access), this.writer.thread, call(this.writer.context.runtime('global')))
      body.end()
    }
    const shadow = body.temporary('i32')
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 20), 'i32.add', set(shadow))
    this.#record(shadow, 0, bytes, access, decoded)
    body.release('i32', shadow)
  }

  /** Marks the bytes of an access in the shadow of its block; checks whether bytes that are read were written, unless that is known. */
  #record(shadow: number, offset: number, bytes: number, access: number, decoded: Decoded, isWritten = false): void {
    const body = this.#body
    const bits = access & SHADOW.written ? access | SHADOW.initialised : access
    const steps = bytes >= 8 ? bytes / 8 : 1
    const width = Math.min(bytes, 8)
    const [load, store, t] =
      width === 8
        ? ['i64.load', 'i64.store', 'i64' as const]
        : width === 4
          ? ['i32.load', 'i32.store', 'i32' as const]
          : width === 2
            ? ['i32.load16_u', 'i32.store16', 'i32' as const]
            : ['i32.load8_u', 'i32.store8', 'i32' as const]
    const spread = (value: number): void => {
      const all = Array.from({ length: width }, (_, at) => BigInt(value) << BigInt(8 * at)).reduce((a, b) => a | b)
      if (t === 'i64') body.i64(all)
      else body.i32(Number(BigInt.asIntN(32, all)))
    }
    const seen = body.temporary(t)
    for (let step = 0; step < steps; step++) {
      // The marks are written only if they change, since most bytes that are accessed again are marked already.
      body.write(shadow, memory(load, offset + 8 * step), tee(seen))
      spread(bits)
      body.op(`${t}.and`)
      spread(bits)
      body.op(`${t}.ne`)
      body.if()
      body.write(shadow, seen)
      spread(bits)
      body.write(`${t}.or`, memory(store, offset + 8 * step))
      body.write(shadow, i32(offset + 8 * step), 'i32.add', i32(width), call(this.writer.context.runtime('touch')))
      body.end()
      if (isWritten || (access & SHADOW.read) === 0) continue
      body.get(seen)
      spread(SHADOW.initialised)
      body.op(`${t}.and`)
      spread(SHADOW.initialised)
      body.op(`${t}.ne`)
      body.if()
      body.i32(this.writer.context.site(decoded).number)
      this.writer.push(this.#operand(decoded, 'a'), 'u64')
      this.#split()
      body.write(i32(bytes), this.writer.thread, call(this.writer.context.runtime('uninitialised')))
      body.end()
    }
    body.release(t, seen)
  }

  /** Splits an i64 into its lower and its upper half. */
  #split(): void {
    const body = this.#body
    const value = body.temporary('i64')
    body.write(tee(value), 'i32.wrap_i64', value, i64(32n), 'i64.shr_u', 'i32.wrap_i64')
    body.release('i64', value)
  }

  /** Calls the run time to find an address. It moves the window to the block of the address, or ends the launch with a fault. */
  #slow(address: number, bytes: number, access: number, decoded: Decoded): void {
    this.#body.get(address)
    this.#slowFromStack(bytes, access, decoded)
  }

  #slowFromStack(bytes: number, access: number, decoded: Decoded, window?: number): void {
    const body = this.#body
    const site = this.writer.context.site(decoded)
    body.write(
      i32(site.number),
      i32(window ?? site.window),
      i32(bytes),
      i32(access),
      this.writer.block,
      this.writer.frame,
      this.writer.thread,
      call(this.writer.context.runtime('find')),
    )
  }

  /** Copies the bytes of a write to memory outside WebAssembly, after the write. */
  #flush(address: number, space: Space): void {
    if (space !== 'generic' && space !== 'global') return
    const body = this.#body
    body.write(address, i32(BOUNCE_END), 'i32.lt_u')
    body.if()
    body.call(this.writer.context.runtime('flush'))
    body.end()
  }

  /** The distance of an access from the least one of its range; undefined unless it was checked for all threads of the row. */
  #offsetInRange(decoded: Decoded): number | undefined {
    const range = this.ranges?.of(decoded)
    const address = decoded.operands['a']
    return range === undefined || address?.kind !== 'address' ? undefined : Number(address.offset - range.least)
  }

  /** @returns A local that has the location of the least access of the range; the caller releases it */
  #addressInRange(decoded: Decoded, bytes: number, access: number): number {
    const address = this.#body.temporary('i32')
    const range = this.ranges?.of(decoded)
    if (range === undefined) throw new Error('This access lies in no range')
    if (range.shadow !== undefined && !(this.ranges?.isMarked && range.isWhole)) {
      const shadow = this.#body.temporary('i32')
      this.ranges?.pushShadow(range)
      this.#body.set(shadow)
      this.#record(shadow, this.#offsetInRange(decoded) ?? 0, bytes, access, decoded, true)
      this.#body.release('i32', shadow)
    }
    this.ranges?.push(range)
    this.#body.set(address)
    return address
  }

  /** The registers of a load or store, one for each value. */
  #registersOf(decoded: Decoded, name: 'd' | 'b', what: 'load' | 'store'): readonly Operand[] {
    const { vec } = decoded.modifiers
    const operand = this.#operand(decoded, name)
    const items = vec === undefined ? [operand] : operand.kind === 'vector' ? operand.items : []
    const count = Number((vec ?? 'v1').slice(1))
    if (items.length !== count) throw this.#error(`A ${what} of ${count} values needs as many registers`, decoded)
    return items
  }

  #load(decoded: Decoded): void {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const items = this.#registersOf(decoded, 'd', 'load')
    const size = Math.max(8, bitsOf(type)) / 8
    const operand = this.#operand(decoded, 'a')
    const space = this.#spaceOf(decoded, operand)
    const offset = this.#offsetInRange(decoded)
    const address =
      offset === undefined
        ? this.#address(operand, space, size * items.length, SHADOW.read, decoded)
        : this.#addressInRange(decoded, size * items.length, SHADOW.read)
    for (const [index, item] of items.entries()) {
      if (item.kind === 'sink') continue
      this.#loadOne(item, type, address, (offset ?? 0) + index * size)
    }
    this.#body.release('i32', address)
  }

  #loadOne(item: Operand, type: string, address: number, offset: number): void {
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

  #store(decoded: Decoded): void {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const items = this.#registersOf(decoded, 'b', 'store')
    const size = Math.max(8, bitsOf(type)) / 8
    const operand = this.#operand(decoded, 'a')
    const space = this.#spaceOf(decoded, operand)
    const offset = this.#offsetInRange(decoded)
    const write = (address: number): void => {
      for (const [index, item] of items.entries()) this.#storeOne(item, type, address, (offset ?? 0) + index * size)
    }
    if (offset !== undefined) {
      const address = this.#addressInRange(decoded, size * items.length, SHADOW.written)
      write(address)
      this.#body.release('i32', address)
      return
    }
    if (operand.kind === 'address' && (space === 'global' || space === 'generic')) {
      this.#globalStore(operand, size * items.length, decoded, write)
      return
    }
    const address = this.#address(operand, space, size * items.length, SHADOW.written, decoded)
    write(address)
    this.#body.release('i32', address)
  }

  /**
   * Writes a store to global memory: directly if the window contains the address; elsewhere it may be memory outside, to which it has to be copied.
   */
  #globalStore(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    decoded: Decoded,
    write: (address: number) => void,
  ): void {
    const body = this.#body
    const [address, distance, to] = [body.temporary('i64'), body.temporary('i64'), body.temporary('i32')]
    const group = this.#groups.get(decoded)
    if (group !== undefined) {
      this.#enterGroup(group, operand, decoded)
      body.get(group.local)
      body.if()
      this.#pushInGroup(group, operand)
      body.set(to)
      write(to)
      body.else()
      this.writer.push(operand, 'u64')
      this.#slowFromStack(bytes, SHADOW.written, decoded, NO_WINDOW)
      body.set(to)
      write(to)
      this.#flush(to, 'global')
      body.end()
      this.#leaveGroup(group, decoded)
      return
    }
    const window = this.#openWindow(operand, bytes, decoded, address, distance)
    body.if()
    if (this.writer.context.recorded) this.#recordAt(distance, window, bytes, SHADOW.written, decoded)
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 16), 'i32.add', set(to))
    write(to)
    body.else()
    this.#slow(address, bytes, SHADOW.written, decoded)
    body.set(to)
    write(to)
    this.#flush(to, 'global')
    body.end()
    body.release('i32', to)
    body.release('i64', distance)
    body.release('i64', address)
  }

  #storeOne(item: Operand, type: string, address: number, offset: number): void {
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

  // Atomics: one thread runs at a time, so that a load and a store are one step -----------------------------------------

  #atomic(decoded: Decoded): void {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? 'b32'
    const count = Number((modifiers['vec'] ?? 'v1').slice(1))
    const size = bitsOf(type) / 8
    const operand = this.#operand(decoded, 'a')
    const space = this.#spaceOf(decoded, operand)
    const access = SHADOW.read | SHADOW.written | SHADOW.atomic
    const address = this.#address(operand, space, size * count, access, decoded)
    const parts = (name: string): readonly (Operand | undefined)[] => {
      const given = decoded.operands[name]
      return count > 1 && given?.kind === 'vector' ? given.items : [given]
    }
    const [targets, sources] = [parts('d'), parts('b')]
    if (sources.length !== count) throw this.#error(`This takes ${count} values`, decoded)
    if (type === 'b128') this.#atomic128(address, decoded)
    else
      for (let index = 0; index < count; index++)
        this.#atomicOne(targets[index], sources[index], address, index * size, decoded)
    this.#flush(address, space)
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
    if (source === undefined) throw this.#error('This lacks a value', decoded)
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
      this.writer.push(this.#operand(decoded, 'c'), type)
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
      if (operand?.kind !== 'register') throw this.#error('This takes registers of 128 bits', decoded)
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

  /** Writes cp.async, which copies at once: that is one of the orders that a GPU may take. */
  #copy(decoded: Decoded): void {
    const body = this.#body
    const size = this.#operand(decoded, 'c')
    if (size.kind !== 'integer') throw this.#error('The size of cp.async must be a constant', decoded)
    const bytes = Number(size.value)
    if (![4, 8, 16].includes(bytes)) throw this.#error('cp.async copies 4, 8 or 16 bytes', decoded)
    const to = this.#address(this.#operand(decoded, 'a'), 'shared', bytes, SHADOW.written, decoded)
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
    const source = this.#address(this.#operand(decoded, 'b'), 'global', bytes, SHADOW.read, decoded)
    body.write(to, source, count, i32(bytes), count, i32(bytes), 'i32.lt_u', 'select', 'memory.copy')
    body.release('i32', source)
    body.end()
    body.release('i32', count)
    body.release('i32', to)
  }

  /**
   * Writes the operations of an mbarrier, a word of 64 bits: arrivals that are missing (bits 0 to 19), arrivals of each phase (20 to 39), bytes that
   * are missing (40 to 62, signed), and the parity of the phase (63).
   */
  #mbarrier(decoded: Decoded): void {
    // Copies count as an additional arrival unless the opcode says noinc. They are done already here, so neither changes anything.
    if (decoded.form.opcode === 'cp' && decoded.modifiers['noinc'] === undefined) return
    const body = this.#body
    const operation = decoded.modifiers['op'] ?? 'arrive'
    const operand = this.#operand(decoded, 'a')
    const space = decoded.modifiers['space'] === undefined ? 'generic' : 'shared'
    const address = this.#address(operand, space, 8, SHADOW.read | SHADOW.written | SHADOW.atomic, decoded)
    const old = body.temporary('i64')
    body.write(address, memory('i64.load'), set(old))
    const finish = (write: () => void): void => {
      body.get(address)
      write()
      body.write(call(this.writer.context.runtime('phase')), memory('i64.store'))
    }
    switch (operation) {
      case 'init':
        body.get(address)
        this.writer.push(this.#operand(decoded, 'b'), 'u32')
        body.write('i64.extend_i32_u', i64(0x100001n), 'i64.mul', memory('i64.store'))
        break
      case 'inval':
        body.write(address, i64(0n), memory('i64.store'))
        break
      case 'expect_tx':
      case 'complete_tx':
        finish(() => {
          body.get(old)
          this.#transactions(decoded, operation === 'complete_tx')
        })
        break
      case 'test_wait':
      case 'try_wait':
        this.#waitResult(decoded, old)
        break
      default:
        finish(() => {
          body.get(old)
          const expects = decoded.modifiers['expect_tx'] !== undefined
          if (expects) this.#transactions(decoded, false)
          const count = decoded.operands['b']
          const arrivals = (): void => {
            if (count === undefined || expects) body.i64(1n)
            else {
              this.writer.push(count, 'u32')
              body.op('i64.extend_i32_u')
            }
          }
          arrivals()
          body.op('i64.sub')
          if (operation === 'arrive_drop') {
            // A thread that drops out is not awaited in later phases either.
            arrivals()
            body.write(i64(20n), 'i64.shl', 'i64.sub')
          }
        })
        if (decoded.operands['d'] !== undefined) {
          body.get(old)
          this.writer.pop(this.#operand(decoded, 'd'), 'b64')
        }
    }
    body.release('i64', old)
    body.release('i32', address)
  }

  /** Adds to the bytes that are awaited, or subtracts those that have come. */
  #transactions(decoded: Decoded, came: boolean): void {
    const body = this.#body
    this.writer.push(this.#operand(decoded, 'b'), 'u32')
    body.write('i64.extend_i32_u', i64(40n), 'i64.shl', came ? 'i64.sub' : 'i64.add')
  }

  /** Pushes whether the awaited phase is over: then the parity of the mbarrier differs from that of the phase. */
  #waitResult(decoded: Decoded, now: number): void {
    const body = this.#body
    body.write(now, i64(63n), 'i64.shr_u', 'i32.wrap_i64')
    const phase = this.#operand(decoded, 'b')
    if (decoded.modifiers['parity'] !== undefined) {
      this.writer.push(phase, 'u32')
      body.write(i32(1), 'i32.and')
    } else {
      this.writer.push(phase, 'b64')
      body.write(i64(63n), 'i64.shr_u', 'i32.wrap_i64')
    }
    body.op('i32.ne')
    this.writer.pop(this.#operand(decoded, 'd'), 'pred')
  }

  // Calls ---------------------------------------------------------------------------------------------------------------

  /** Pushes the location at which the frame of a called function begins. */
  #pushTop(): void {
    const body = this.#body
    body.get(this.writer.stack)
    if (this.writer.usesAlloca) body.memory('i32.load', this.writer.fn.frame.top)
    else {
      body.write(i32(this.writer.fn.frame.byteLength), 'i32.add')
    }
  }

  #layoutOf(decoded: Decoded): CallLayout {
    const callee = calleeOf(decoded)
    const { text } = this.writer.context.program
    if (callee !== undefined) {
      const fn = text.functions.get(text.aliases.get(callee) ?? callee)
      if (fn === undefined) throw this.#error(`The function '${callee}' is declared nowhere`, decoded)
      return callLayout(fn)
    }
    const layout = prototypeOf(decoded, text)
    if (layout === undefined) throw this.#error('A call through a pointer needs a prototype', decoded)
    return layout
  }

  /** Copies the arguments into the frame of the called function, which begins at `top`. */
  #passParameters(decoded: Decoded, layout: CallLayout, top: number): void {
    const { parameters } = callParts(decoded.instruction)
    if (parameters.length < layout.parameters.length)
      throw this.#error(`This call passes ${parameters.length} arguments of ${layout.parameters.length}`, decoded)
    for (const [index, { offset, variable }] of layout.parameters.entries()) {
      const operand = parameters[index]
      const given = operand === undefined ? undefined : this.writer.variableOf(operand)
      if (operand?.kind === 'symbol' && given?.space === 'param') {
        this.#copyBytes(top, offset, this.writer.stack, this.writer.frameOffset(given) ?? 0, variable.byteLength, given)
      } else if (operand !== undefined) this.#storeOne(operand, this.#argumentType(operand, variable), top, offset)
    }
  }

  #argumentType(operand: Operand, variable: Variable): string {
    if (operand.kind === 'register') return bitsOf(operand.register.type) === 1 ? 'b8' : operand.register.type
    return variable.type
  }

  #copyBytes(
    to: number,
    toOffset: number,
    from: number,
    fromOffset: number,
    byteLength: number,
    given: Variable,
  ): void {
    const body = this.#body
    const fromKernel = this.writer.frameOffset(given) === undefined
    const base = fromKernel ? this.writer.launch : from
    const shift = fromKernel
      ? LAUNCH.parameters + (this.writer.context.program.parameters.offsets.get(given) ?? 0)
      : fromOffset
    let at = 0
    for (const [width, load, store] of [
      [8, 'i64.load', 'i64.store'],
      [4, 'i32.load', 'i32.store'],
      [2, 'i32.load16_u', 'i32.store16'],
      [1, 'i32.load8_u', 'i32.store8'],
    ] as const) {
      if (byteLength > 256 && at === 0) {
        body.write(to, i32(toOffset), 'i32.add', base, i32(shift), 'i32.add', i32(byteLength), 'memory.copy')
        return
      }
      for (; at + width <= byteLength; at += width) {
        body.write(to, base, memory(load, shift + at), memory(store, toOffset + at))
      }
    }
  }

  /** Copies the results out of the frame of the function that was called. */
  receiveResults(decoded: Decoded): void {
    this.writer.current = decoded
    const body = this.#body
    const top = body.temporary('i32')
    this.#pushTop()
    body.set(top)
    this.#takeResults(decoded, this.#layoutOf(decoded), top)
    body.release('i32', top)
  }

  #takeResults(decoded: Decoded, layout: CallLayout, top: number): void {
    const { results } = callParts(decoded.instruction)
    for (const [index, operand] of results.entries()) {
      const from = layout.results[index]
      if (from === undefined) throw this.#error('This function has fewer results', decoded)
      const variable = this.writer.variableOf(operand)
      if (variable?.space === 'param') {
        const offset = this.writer.frameOffset(variable) ?? 0
        this.#copyResult(offset, top, from.offset, Math.min(from.variable.byteLength, variable.byteLength))
      } else if (operand.kind === 'register')
        this.#loadOne(operand, this.#argumentType(operand, from.variable), top, from.offset)
    }
  }

  #copyResult(toOffset: number, top: number, fromOffset: number, byteLength: number): void {
    const body = this.#body
    body.write(
      this.writer.stack,
      i32(toOffset),
      'i32.add',
      top,
      i32(fromOffset),
      'i32.add',
      i32(byteLength),
      'memory.copy',
    )
  }

  #call(decoded: Decoded): void {
    const body = this.#body
    const { context } = this.writer
    const { program } = context
    const layout = this.#layoutOf(decoded)
    const top = body.temporary('i32')
    this.#pushTop()
    body.set(top)
    this.#passParameters(decoded, layout, top)
    const callee = calleeOf(decoded)
    const name = callee === undefined ? undefined : (program.text.aliases.get(callee) ?? callee)
    const fn = name === undefined ? undefined : program.functions.get(name)
    if (name !== undefined && fn === undefined && HOST_FUNCTIONS.has(name)) this.#callHost(name, layout, top, decoded)
    else if (fn !== undefined) {
      this.#pushCallContext(top)
      body.call(context.direct(fn))
    } else if (name === undefined) {
      this.#pushCallContext(top)
      this.#pushFunctionNumber(decoded)
      body.callIndirect(context.directType())
    } else throw this.#error(`The function '${name}' is not in this module`, decoded)
    this.#takeResults(decoded, layout, top)
    body.release('i32', top)
  }

  #pushCallContext(top: number): void {
    const body = this.#body
    body.write(this.writer.block, this.writer.frame, this.writer.thread, top)
  }

  /** Pushes the number in the address of a function; an address that is not one of a function is a fault. */
  #pushFunctionNumber(decoded: Decoded): void {
    const body = this.#body
    const number = body.temporary('i64')
    this.writer.push(callParts(decoded.instruction).target, 'u64')
    body.write(
      i64(FUNCTION_WINDOW),
      'i64.sub',
      i64(4n),
      'i64.rotr',
      tee(number),
      'i32.wrap_i64',
      call(this.writer.context.runtime('callable')),
      number,
      i64(32n),
      'i64.shr_u',
      'i64.eqz',
      'i32.and',
      'i32.eqz',
    )
    body.if()
    this.writer.fail('pointer', decoded)
    body.end()
    body.write(number, 'i32.wrap_i64')
    body.release('i64', number)
  }

  #callHost(name: string, layout: CallLayout, top: number, decoded: Decoded): void {
    const body = this.#body
    body.write(
      i32(this.writer.context.site(decoded).number),
      top,
      i32(layout.parameters[0]?.offset ?? 0),
      'i32.add',
      top,
      i32(layout.results[0]?.offset ?? 0),
      'i32.add',
      this.writer.frame,
      this.writer.thread,
      call(this.writer.context.runtime(name)),
    )
  }

  /**
   * Writes a call of a function that may stop: the thread goes on there, and the function's frame links back to this one. Pushes the state of the
   * thread.
   */
  callStopping(decoded: Decoded): void {
    this.writer.current = decoded
    const body = this.#body
    const { context, fn } = this.writer
    const layout = this.#layoutOf(decoded)
    const top = body.temporary('i32')
    this.#pushTop()
    body.set(top)
    // The frame must fit on the stack, with the room that is kept for calls of the run time.
    body.write(
      top,
      i32(layout.end),
      'i32.add',
      this.writer.frame,
      i32(context.program.threadBytes),
      'i32.add',
      'i32.gt_u',
    )
    body.if()
    this.writer.fail('overflow', decoded)
    body.end()
    this.#passParameters(decoded, layout, top)
    const back = [...fn.stopAt.values()].find(({ kind, at }) => kind === 'return' && at === decoded)
    if (back === undefined) throw new Error('A call has no way back')
    body.write(
      top,
      i32(back.id),
      memory('i32.store', 0),
      top,
      this.writer.stack,
      memory('i32.store', 4),
      this.writer.frame,
      top,
      memory('i32.store', FRAME.stack),
    )
    const callee = calleeOf(decoded)
    if (callee === undefined) {
      this.#pushFunctionNumber(decoded)
      body.call(context.runtime('enter'))
    } else {
      const target = context.program.functions.get(context.program.text.aliases.get(callee) ?? callee)
      const entry = target === undefined ? undefined : [...target.stopAt.values()].find(({ kind }) => kind === 'enter')
      if (entry === undefined) throw this.#error(`'${callee}' cannot be entered`, decoded)
      body.i32(entry.id)
    }
    body.release('i32', top)
  }

  // The stack -----------------------------------------------------------------------------------------------------------

  #alloca(decoded: Decoded): void {
    const body = this.#body
    const { stack, fn } = this.writer
    const { top } = fn.frame
    const given = decoded.operands['b']
    const alignment = given?.kind === 'integer' ? Math.max(16, Number(given.value)) : 16
    const begin = body.temporary('i32')
    body.write(
      stack,
      memory('i32.load', top),
      i32(alignment - 1),
      'i32.add',
      i32(-alignment),
      'i32.and',
      set(begin),
      stack,
      begin,
    )
    this.writer.push(this.#operand(decoded, 'a'), 'u32')
    body.write(
      i32(15),
      'i32.add',
      i32(-16),
      'i32.and',
      'i32.add',
      memory('i32.store', top),
      stack,
      memory('i32.load', top),
      this.writer.frame,
      i32(this.writer.context.program.threadBytes),
      'i32.add',
      'i32.gt_u',
    )
    body.if()
    this.writer.fail('overflow', decoded)
    body.end()
    body.write(begin, this.writer.frame, 'i32.sub', 'i64.extend_i32_u')
    this.writer.pop(this.#operand(decoded, 'd'), 'u64')
    body.release('i32', begin)
  }

  #stackPointer(decoded: Decoded): void {
    const body = this.#body
    const { stack, fn, frame } = this.writer
    if (decoded.form.opcode === 'stacksave') {
      body.write(stack, memory('i32.load', fn.frame.top), frame, 'i32.sub', 'i64.extend_i32_u')
      this.writer.pop(this.#operand(decoded, 'd'), 'u64')
      return
    }
    body.get(stack)
    this.writer.push(this.#operand(decoded, 'a'), 'u32')
    body.write(frame, 'i32.add', memory('i32.store', fn.frame.top))
  }
}
