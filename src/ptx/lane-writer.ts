/**
 * Writes instructions for four threads at once. A register that is the same in all lanes, or grows evenly from lane to lane, is the local that it has
 * in code for one thread, with the value of the first lane; any other is one v128, or two for 64 bits. What cannot be written for all lanes at once
 * is written as for one thread, for one lane after the other.
 */
import { lop3Formula } from './arithmetic-writer.js'
import { accessesOf, type Decoded, operandOf } from './decoding.js'
import { parseFormula } from './expression.js'
import { conditionOf, softwareFma } from './forms.js'
import type { InstructionWriter } from './instruction-writer.js'
import { isSafeForLanes, LaneFormulaWriter, shapeOf } from './lane-formula.js'
import { LANES, type LaneShapes } from './lane-shapes.js'
import { SHADOW } from './layout.js'
import { slotType, wasmTypeOf } from './register-types.js'
import { bitsOf, type Operand, type Register } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { type FunctionBody, i32, memory, memory128, set, tee } from './wasm-encoder.js'

type Address = Extract<Operand, { kind: 'address' }>

const each32 = (value: number): bigint => {
  const bits = BigInt(value >>> 0)
  return (bits << 32n) | bits
}
const both = (low: number, high: number): bigint => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
/** The lower words of four values of 64 bits. */
const LOWER_WORDS = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]

export class LaneWriter {
  readonly #locals = new Map<number, readonly number[]>()
  /** The mask of the lanes for which the instruction that is being written has an effect. */
  #guard: number | undefined

  constructor(
    private readonly writer: ValueWriter,
    private readonly instructions: InstructionWriter,
    readonly shapes: LaneShapes,
  ) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  // Registers -----------------------------------------------------------------------------------------------------------

  /** The locals of a register of which each lane has its own value: one, or one for each half. */
  localsOf({ id }: Register): readonly number[] {
    const known = this.#locals.get(id)
    if (known !== undefined) return known
    const type = this.writer.typeOfId(id)
    const count = type === 'i64' || type === 'f64' ? 2 : 1
    const locals = Array.from({ length: count }, () => this.#body.local('v128'))
    this.#locals.set(id, locals)
    return locals
  }

  #isOwn({ id }: Register): boolean {
    return this.shapes.of(id) === 'lanes'
  }

  #strideOf({ id }: Register): number {
    const shape = this.shapes.of(id)
    return shape === 'lanes' ? 0 : shape
  }

  #registerOf(id: number): Register {
    const register = this.writer.fn.fn.registers[id]
    if (register === undefined) throw new Error('There is no such register')
    return register
  }

  /** Pushes the mask of a predicate that is not the same in all lanes. */
  pushMask(register: Register): void {
    this.#body.get(this.localsOf(register)[0] ?? 0)
  }

  /** Sets a register to the value that it has in one lane, in the local that code for one thread reads. */
  #toScalar(register: Register, lane: number): void {
    const body = this.#body
    const type = this.writer.typeOf(register)
    const locals = this.localsOf(register)
    if (locals.length === 2) body.write(locals[lane >> 1] ?? 0, `${shapeOf(type)}.extract_lane_${lane & 1}`)
    else body.write(locals[0] ?? 0, `${shapeOf(type)}.extract_lane_${lane}`)
    if (register.type === 'pred') body.write(i32(1), 'i32.and')
    body.set(this.writer.localOf(register))
  }

  #fromScalar(register: Register, lane: number): void {
    const body = this.#body
    const type = this.writer.typeOf(register)
    const locals = this.localsOf(register)
    const [local = 0, at] = locals.length === 2 ? [locals[lane >> 1], lane & 1] : [locals[0], lane]
    body.get(local)
    if (register.type === 'pred') body.i32(0)
    body.get(this.writer.localOf(register))
    if (register.type === 'pred') body.op('i32.sub')
    body.write(`${shapeOf(type)}.replace_lane_${at}`, set(local))
  }

  /** Adds to a register that grows evenly what it grows by from one lane to another. */
  #step(register: Register, lanes: number): void {
    const body = this.#body
    const by = lanes * this.#strideOf(register)
    const local = this.writer.localOf(register)
    if (this.writer.typeOf(register) === 'i64') {
      body.get(local)
      body.i64(BigInt(by))
      body.write('i64.add', set(local))
    } else body.write(local, i32(by), 'i32.add', set(local))
  }

  /** Moves on to another thread: its number, its frame and its %tid.x. */
  #stepThread(by: number): void {
    const body = this.#body
    const { thread, frame } = this.writer
    body.write(thread, i32(by), 'i32.add', set(thread))
    body.write(frame, i32(by * this.writer.context.program.threadBytes), 'i32.add', set(frame))
    if (this.writer.row === undefined) return
    const [x = 0] = this.writer.tids()
    body.write(x, i32(by), 'i32.add', set(x))
  }

  /** Runs code for one lane after the other, which reads and writes these registers as code for one thread does. */
  eachLane(reads: readonly Register[], writes: readonly Register[], write: (lane: number) => void): void {
    const distinct = [...new Map(reads.map((each) => [each.id, each])).values()]
    const own = distinct.filter((each) => this.#isOwn(each))
    const growing = distinct.filter((each) => !this.#isOwn(each) && this.#strideOf(each) !== 0)
    for (let lane = 0; lane < LANES; lane++) {
      if (lane > 0) {
        this.#stepThread(1)
        for (const each of growing) this.#step(each, 1)
      }
      for (const each of own) this.#toScalar(each, lane)
      write(lane)
      for (const each of writes) this.#fromScalar(each, lane)
    }
    this.#stepThread(1 - LANES)
    for (const each of growing) this.#step(each, 1 - LANES)
  }

  /** Sets a register that is read before it is written to zero in all lanes. */
  clear(id: number): void {
    if (this.shapes.of(id) !== 'lanes') return
    for (const each of this.localsOf(this.#registerOf(id))) {
      this.#constant(0n, 0n)
      this.#body.set(each)
    }
  }

  /** Loads a register of all lanes from their frames; `failed` collects whether one has not the shape that the code takes it to have. */
  restore(id: number, offset: number, failed: number): void {
    const body = this.#body
    const { frame } = this.writer
    const { threadBytes } = this.writer.context.program
    const register = this.#registerOf(id)
    const type = this.writer.typeOfId(id)
    const isWide = type === 'i64' || type === 'f64'
    const at = (lane: number): number => offset + lane * threadBytes
    if (this.#isOwn(register)) {
      for (const [half, local] of this.localsOf(register).entries()) {
        if (isWide) {
          body.write(frame, frame, memory128('v128.load64_zero', at(2 * half)))
          body.write(memory128('v128.load64_lane', at(2 * half + 1), 1), set(local))
          continue
        }
        body.write(frame, frame, frame, frame, memory128('v128.load32_zero', at(0)))
        for (const lane of [1, 2, 3]) body.write(memory128('v128.load32_lane', at(lane), lane))
        // Frames have predicates as 0 and 1.
        if (register.type === 'pred') body.op('i32x4.neg')
        body.set(local)
      }
      return
    }
    const local = this.writer.localOfId(id)
    body.write(frame, memory(`${type}.load`, offset), set(local))
    for (const lane of [1, 2, 3]) {
      // Bits are compared, since a NaN is not equal to itself.
      body.write(frame, memory(isWide ? 'i64.load' : 'i32.load', at(lane)), local)
      if (type === 'f32') body.op('i32.reinterpret_f32')
      if (type === 'f64') body.op('i64.reinterpret_f64')
      const by = lane * this.#strideOf(register)
      if (by !== 0) {
        if (isWide) body.i64(BigInt(by))
        else body.i32(by)
        body.op(isWide ? 'i64.add' : 'i32.add')
      }
      body.write(isWide ? 'i64.ne' : 'i32.ne', failed, 'i32.or', set(failed))
    }
  }

  /** Whether a cell of a frame has the bytes of a register as they are. */
  #isWhole(register: Register, bytes: number): boolean {
    return register.type === 'pred' ? bytes === 4 : bitsOf(register.type) === 8 * bytes
  }

  /** Loads what a meeting leaves in the frames of all lanes; returns false if it has to be converted. */
  restoreCell(register: Register, offset: number, bytes: number): boolean {
    if (!this.#isWhole(register, bytes) || !this.#isOwn(register)) return false
    this.restore(register.id, offset, -1)
    return true
  }

  /** Stores what a meeting takes in the frames of all lanes; returns false if it is no register of that width. */
  saveCell(operand: Operand, offset: number, bytes: number): boolean {
    if (operand.kind !== 'register' || !this.#isWhole(operand.register, bytes)) return false
    this.save(operand.register.id, offset)
    return true
  }

  /** Stores a register of all lanes in their frames. */
  save(id: number, offset: number): void {
    const body = this.#body
    const { frame } = this.writer
    const { threadBytes } = this.writer.context.program
    const register = this.#registerOf(id)
    const type = this.writer.typeOfId(id)
    const isWide = type === 'i64' || type === 'f64'
    for (let lane = 0; lane < LANES; lane++) {
      const at = offset + lane * threadBytes
      body.get(frame)
      if (this.#isOwn(register)) {
        const locals = this.localsOf(register)
        body.get(locals[isWide ? lane >> 1 : 0] ?? 0)
        if (register.type === 'pred') body.op('i32x4.neg')
        body.write(memory128(isWide ? 'v128.store64_lane' : 'v128.store32_lane', at, isWide ? lane & 1 : lane))
        continue
      }
      body.get(this.writer.localOfId(id))
      const by = lane * this.#strideOf(register)
      if (by !== 0) {
        if (isWide) body.i64(BigInt(by))
        else body.i32(by)
        body.op(isWide ? 'i64.add' : 'i32.add')
      }
      body.memory(`${type}.store`, at)
    }
  }

  /** Pushes the value of a register in one lane. */
  pushLane(id: number, lane: number): void {
    const body = this.#body
    const register = this.#registerOf(id)
    const type = this.writer.typeOfId(id)
    if (!this.#isOwn(register)) {
      body.get(this.writer.localOfId(id))
      const by = lane * this.#strideOf(register)
      if (by === 0) return
      if (type === 'i64') body.i64(BigInt(by))
      else body.i32(by)
      body.op(`${type}.add`)
      return
    }
    const locals = this.localsOf(register)
    if (locals.length === 2) body.write(locals[lane >> 1] ?? 0, `${shapeOf(type)}.extract_lane_${lane & 1}`)
    else body.write(locals[0] ?? 0, `${shapeOf(type)}.extract_lane_${lane}`)
    if (register.type === 'pred') body.write(i32(1), 'i32.and')
  }

  // Instructions --------------------------------------------------------------------------------------------------------

  /** Writes an instruction without its guard. */
  write(decoded: Decoded): void {
    this.writer.current = decoded
    const { meaning } = decoded.form
    if (meaning.kind === 'nothing') return
    const { writes } = accessesOf(decoded)
    const code = meaning.kind === 'code' ? meaning.code : 'formula'
    if (code !== 'store' && writes.every((each) => !this.#isOwn(each))) {
      this.instructions.write(decoded)
      return
    }
    if (code === 'load' && this.#load(decoded)) return
    if (code === 'store' && this.#store(decoded)) return
    if (code === 'formula' && this.#formula(decoded)) return
    if (code === 'setp' && this.#setp(decoded)) return
    if (code === 'lop3' && this.#lop3(decoded)) return
    if ((code === 'mov' || code === 'cvta') && this.#mov(decoded)) return
    this.#oneByOne(decoded)
  }

  /** Writes an instruction that has an effect for the lanes of a mask alone. */
  writeGuarded(decoded: Decoded, register: Register, negated: boolean): void {
    const body = this.#body
    const { meaning } = decoded.form
    const isPure =
      meaning.kind === 'formula' || (meaning.kind === 'code' && /^(?:mov|cvta|setp|lop3)$/.test(meaning.code))
    const target = decoded.operands['d']
    if (!isPure || target?.kind !== 'register') {
      const { reads, writes } = accessesOf(decoded)
      this.eachLane([...reads, ...writes], writes, () => {
        this.writer.pushRegister(register)
        if (negated) body.op('i32.eqz')
        body.if()
        this.#whole(decoded)
        body.end()
      })
      return
    }
    const mask = body.temporary('v128')
    this.pushMask(register)
    if (negated) body.op('v128.not')
    body.set(mask)
    this.#guard = mask
    this.write(decoded)
    this.#guard = undefined
    body.release('v128', mask)
  }

  #oneByOne(decoded: Decoded): void {
    const { reads, writes } = accessesOf(decoded)
    const guard = this.#guard
    if (guard === undefined) {
      this.eachLane(reads, writes, () => this.#whole(decoded))
      return
    }
    this.eachLane([...reads, ...writes], writes, (lane) => {
      this.#body.write(guard, `i32x4.extract_lane_${lane}`)
      this.#body.if()
      this.#whole(decoded)
      this.#body.end()
    })
  }

  /** Writes an instruction for one thread, whose access is not checked together with others. */
  #whole(decoded: Decoded): void {
    const { addresses } = this.instructions
    const outer = addresses.isAlone
    addresses.isAlone = true
    this.instructions.write(decoded)
    addresses.isAlone = outer
  }

  #isUniform(operand: Operand): boolean {
    return this.shapes.ofOperand(operand) === 0
  }

  /** Whether an operand can be pushed for all lanes. */
  #canPush(operand: Operand): boolean {
    if (this.#isUniform(operand) || operand.kind === 'register') return true
    if (operand.kind === 'not') return this.#canPush(operand.operand)
    return operand.kind === 'special' && (operand.name === 'tid.x' || operand.name === 'laneid')
  }

  #constant(low: bigint, high: bigint): void {
    this.#body.get(this.writer.constant128(low, high))
  }

  /** Adds to the lanes on the stack what a value grows by along them. */
  #grow(by: number): void {
    if (by === 0) return
    this.#constant(both(0, by), both(2 * by, 3 * by))
    this.#body.op('i32x4.add')
  }

  /** Pushes an operand of 32 bits or fewer; a predicate as a mask. */
  push(operand: Operand, type: string): void {
    const body = this.#body
    if (this.#isUniform(operand)) {
      if (type === 'pred') {
        body.i32(0)
        this.writer.push(operand, type)
        body.write('i32.sub', 'i32x4.splat')
        return
      }
      this.writer.push(operand, type)
      body.op(`${shapeOf(wasmTypeOf(type))}.splat`)
      return
    }
    if (operand.kind === 'not') {
      this.push(operand.operand, type)
      body.op('v128.not')
      return
    }
    if (operand.kind === 'special') {
      if (operand.name === 'tid.x') {
        this.writer.push(operand, 'u32')
        body.op('i32x4.splat')
        this.#grow(1)
      } else {
        body.write(this.writer.thread, 'i32x4.splat')
        this.#grow(1)
        this.#constant(each32(31), each32(31))
        body.op('v128.and')
      }
      if (bitsOf(type) === 16) this.#mask(65535)
      return
    }
    if (operand.kind !== 'register') throw new Error('This operand has no lanes')
    const { register } = operand
    const own = this.writer.typeOf(register)
    const ownBits = bitsOf(register.type)
    if (!this.#isOwn(register)) {
      this.writer.push(operand, 'b32')
      body.op('i32x4.splat')
      this.#grow(this.#strideOf(register))
    } else {
      const [low = 0, high] = this.localsOf(register)
      body.get(low)
      if (high !== undefined) {
        body.get(high)
        body.shuffle(LOWER_WORDS)
      }
    }
    if (wasmTypeOf(type) === 'f32' || type === 'pred') return
    const wasWide = own === 'i64' || own === 'f64'
    if (type === 's16') this.#extend(16)
    else if (type === 's8') this.#extend(24)
    else if (bitsOf(type) === 8 && (wasWide || ownBits > 8)) this.#mask(255)
    else if (bitsOf(type) === 16 && (wasWide || ownBits > 16)) this.#mask(65535)
  }

  #mask(bits: number): void {
    this.#constant(each32(bits), each32(bits))
    this.#body.op('v128.and')
  }

  #extend(room: number): void {
    this.#body.write(i32(room), 'i32x4.shl', i32(room), 'i32x4.shr_s')
  }

  /** Pushes a half of an operand of 64 bits. */
  pushHalf(operand: Operand, type: string, half: number): void {
    const body = this.#body
    if (this.#isUniform(operand)) {
      this.writer.push(operand, type)
      body.op(`${shapeOf(wasmTypeOf(type))}.splat`)
      return
    }
    if (operand.kind === 'register') {
      const { register } = operand
      const own = this.writer.typeOf(register)
      if (own === 'i64' || own === 'f64') {
        if (this.#isOwn(register)) {
          body.get(this.localsOf(register)[half] ?? 0)
          return
        }
        const by = this.#strideOf(register)
        body.get(this.writer.localOf(register))
        body.op('i64x2.splat')
        this.#constant(BigInt(2 * half * by), BigInt((2 * half + 1) * by))
        body.op('i64x2.add')
        return
      }
    }
    // A narrower value is extended by the sign of the type that is read.
    this.push(operand, 'b32')
    body.op(`i64x2.extend_${half === 0 ? 'low' : 'high'}_i32x4_${type.startsWith('s') ? 's' : 'u'}`)
  }

  /** Pops the lanes of a type of 32 bits or fewer into a register; a predicate is a mask. */
  pop(operand: Operand, type: string, arithmetic = false): void {
    const body = this.#body
    if (operand.kind === 'sink') {
      body.op('drop')
      return
    }
    if (operand.kind !== 'register') throw new Error('Lanes need a register')
    const { register } = operand
    const own = this.writer.typeOf(register)
    const [ownBits, bits] = [bitsOf(register.type), bitsOf(type)]
    const isFloat = type === 'f32'
    if (isFloat && arithmetic && (own !== 'f32' || this.writer.fn.facts.observed.has(register.id))) {
      const value = body.temporary('v128')
      body.write(tee(value))
      this.#constant(each32(0x7fffffff), each32(0x7fffffff))
      body.write(value, value, 'f32x4.eq', 'v128.bitselect')
      body.release('v128', value)
    }
    if (type !== 'pred' && !(bits >= 32 && bits === ownBits)) {
      if (bits < 32) {
        const wider = ownBits > bits
        if (type.startsWith('s') && wider) this.#extend(bits === 8 ? 24 : 16)
        else if (bits === 8) this.#mask(255)
        else if (!wider || !type.startsWith('s')) this.#mask(65535)
      }
      if (ownBits === 16 && (bits > 16 || type === 's8')) this.#mask(65535)
      if (ownBits === 8 && bits > 8) this.#mask(255)
    }
    const locals = this.localsOf(register)
    if (locals.length === 1) {
      this.#set(locals[0] ?? 0)
      return
    }
    const value = body.temporary('v128')
    body.set(value)
    const sign = type.startsWith('s') && own === 'i64' ? 's' : 'u'
    for (const [half, local] of locals.entries()) {
      body.write(value, `i64x2.extend_${half === 0 ? 'low' : 'high'}_i32x4_${sign}`)
      this.#set(local, half)
    }
    body.release('v128', value)
  }

  /** Pops a value of 64 bits, whose halves are in locals, into a register. */
  #popPair(operand: Operand, halves: readonly number[]): void {
    const body = this.#body
    if (operand.kind === 'sink') return
    if (operand.kind !== 'register') throw new Error('Lanes need a register')
    const { register } = operand
    const locals = this.localsOf(register)
    if (locals.length === 2) {
      for (const [half, local] of locals.entries()) {
        body.get(halves[half] ?? 0)
        this.#set(local, half)
      }
      return
    }
    for (const each of halves) body.get(each)
    body.shuffle(LOWER_WORDS)
    if (bitsOf(register.type) === 16) this.#mask(65535)
    this.#set(locals[0] ?? 0)
  }

  /** Sets a local, for the lanes of the guard alone if there is one. */
  #set(local: number, half?: number): void {
    const body = this.#body
    if (this.#guard !== undefined) {
      body.write(local, this.#guard)
      if (half !== undefined) body.op(`i64x2.extend_${half === 0 ? 'low' : 'high'}_i32x4_s`)
      body.op('v128.bitselect')
    }
    body.set(local)
  }

  // Formulas ------------------------------------------------------------------------------------------------------------

  #writerFor(decoded: Decoded): LaneFormulaWriter {
    const { writer } = this
    const { context } = writer
    const type = wasmTypeOf(decoded.modifiers['T'] ?? decoded.modifiers['D'] ?? 'b32')
    const slots = new Map(decoded.form.operands.map((slot) => [slot.name, slotType(slot.type, decoded)]))
    const plain = (name: string): string => (name.endsWith('~') ? name.slice(0, -1) : name)
    const named = (name: string): readonly [operand: Operand, type: string] | undefined => {
      const [operand, slot] = [decoded.operands[plain(name)], slots.get(plain(name))]
      return operand === undefined || slot === undefined ? undefined : [operand, slot]
    }
    const isFlushed = (name: string, operand: Operand): boolean => !name.endsWith('~') || writer.isFlushed(operand)
    return new LaneFormulaWriter({
      body: this.#body,
      type,
      halves: 2,
      typeOf: (name) => {
        const found = named(name)
        return found === undefined ? undefined : wasmTypeOf(found[1])
      },
      isUniform: (name) => this.#isUniform(named(name)?.[0] ?? { kind: 'sink' }),
      isMask: (name) => named(name)?.[1] === 'pred',
      pushUniform: (name) => {
        const found = named(name)
        if (found === undefined) return
        writer.push(...found)
        if (!isFlushed(name, found[0])) writer.flush()
      },
      push: (name) => {
        const found = named(name)
        if (found === undefined) return
        this.push(...found)
        if (!isFlushed(name, found[0])) this.#flush()
      },
      pushHalf: (name, half) => {
        const found = named(name)
        if (found !== undefined) this.pushHalf(found[0], found[1], half)
      },
      constant: (name) => {
        const operand = decoded.operands[name]
        return operand?.kind === 'integer' ? operand.value : undefined
      },
      helper: (name) => context.helper(name),
      laneHelper: (name) => context.laneHelper(name),
      pushConstant: (low, high) => this.#constant(low, high),
    })
  }

  #flush(): void {
    const body = this.#body
    const value = body.temporary('v128')
    body.set(value)
    body.get(value)
    this.#constant(each32(0x80000000), each32(0x80000000))
    body.write('v128.and', value, value, 'f32x4.abs')
    this.#constant(each32(0x00800000), each32(0x00800000))
    body.write('f32x4.lt', 'v128.bitselect')
    body.release('v128', value)
  }

  #canWrite(decoded: Decoded): boolean {
    return decoded.form.operands.every(({ name, written }) => {
      const operand = decoded.operands[name]
      if (operand === undefined) return true
      return written ? operand.kind === 'register' || operand.kind === 'sink' : this.#canPush(operand)
    })
  }

  #formula(decoded: Decoded): boolean {
    const { meaning } = decoded.form
    if (meaning.kind !== 'formula' || !this.#canWrite(decoded)) return false
    const given = meaning.formula(decoded.modifiers)
    if (!isSafeForLanes(given)) return false
    const { hardwareFma } = this.writer.context
    const text = hardwareFma
      ? given.replaceAll('(fma32 ', '(f32.fma ').replaceAll('(fma64 ', '(f64.fma ')
      : softwareFma(this.instructions.scaled(decoded, given))
    const formula = parseFormula(text)
    const writer = this.#writerFor(decoded)
    const target = operandOf(decoded, 'd')
    const [slot] = decoded.form.operands
    const type = slotType(slot?.type ?? 'T', decoded)
    const wasm = wasmTypeOf(type)
    if (wasm === 'i64' || wasm === 'f64') {
      const halves = writer.pair(formula)
      this.#popPair(target, halves)
      for (const each of halves) this.#body.release('v128', each)
      return true
    }
    if (type === 'pred') writer.mask(formula)
    else writer.write(formula)
    this.pop(target, type, meaning.arithmetic)
    return true
  }

  #lop3(decoded: Decoded): boolean {
    if (decoded.modifiers['B'] !== undefined || !this.#canWrite(decoded)) return false
    this.#writerFor(decoded).write(parseFormula(lop3Formula(decoded)))
    this.pop(operandOf(decoded, 'd'), 'b32')
    return true
  }

  #setp(decoded: Decoded): boolean {
    const { modifiers } = decoded
    const body = this.#body
    const target = operandOf(decoded, 'd')
    const reads = ['a', 'b', 'c'].flatMap((name) => decoded.operands[name] ?? [])
    if (/f16x2/.test(modifiers['T'] ?? '') || !reads.every((each) => this.#canPush(each))) return false
    const targets = target.kind === 'pair' ? [target.first, target.second] : [target]
    if (targets.some((each) => each.kind !== 'sink' && !(each.kind === 'register' && this.#isOwn(each.register))))
      return false
    const boolean = modifiers['bool']
    const [condition, other] = [body.temporary('v128'), body.temporary('v128')]
    this.#writerFor(decoded).mask(parseFormula(conditionOf(modifiers)))
    body.set(condition)
    if (boolean !== undefined) {
      this.push(operandOf(decoded, 'c'), 'pred')
      body.set(other)
    }
    for (const [index, each] of targets.entries()) {
      body.get(condition)
      if (index > 0) body.op('v128.not')
      if (boolean !== undefined) body.write(other, `v128.${boolean}`)
      this.pop(each, 'pred')
    }
    body.release('v128', condition)
    body.release('v128', other)
    return true
  }

  #mov(decoded: Decoded): boolean {
    const { modifiers } = decoded
    const type = modifiers['T'] ?? (decoded.form.opcode === 'cvta' ? 'u64' : 'b32')
    const [target, source] = [operandOf(decoded, 'd'), operandOf(decoded, 'a')]
    if (modifiers['vec'] !== undefined || target.kind !== 'register') return false
    if (source.kind === 'vector' || !this.#canPush(source)) return false
    if (decoded.form.opcode === 'cvta' && ((modifiers['space'] ?? 'global') !== 'global' || bitsOf(type) !== 64))
      return false
    if (bitsOf(type) === 64) {
      const body = this.#body
      const halves = [0, 1].map((half) => {
        this.pushHalf(source, type, half)
        const local = body.temporary('v128')
        body.set(local)
        return local
      })
      this.#popPair(target, halves)
      for (const each of halves) body.release('v128', each)
      return true
    }
    this.push(source, type)
    this.pop(target, type)
    return true
  }

  // Accesses ------------------------------------------------------------------------------------------------------------

  /** What is known of an access that lanes can make together: its values have 32 or 64 bits, as their registers have. */
  #accessOf(decoded: Decoded, name: 'd' | 'b') {
    const { T: type = 'b32', vec } = decoded.modifiers
    const bytes = Math.max(8, bitsOf(type)) / 8
    const operand = operandOf(decoded, name)
    const items = vec === undefined ? [operand] : operand.kind === 'vector' ? operand.items : []
    const address = operandOf(decoded, 'a')
    if ((bytes !== 4 && bytes !== 8) || items.length !== Number((vec ?? 'v1').slice(1))) return undefined
    if (address.kind !== 'address' || address.base.kind !== 'register') return undefined
    const space = this.instructions.addresses.spaceOf(decoded, address)
    if (space !== 'global' && space !== 'generic' && space !== 'shared') return undefined
    if (!this.shapes.isCommon(decoded, address)) return undefined
    const fits = (item: Operand): boolean =>
      item.kind === 'sink' || (item.kind === 'register' ? bitsOf(item.register.type) === 8 * bytes : name === 'b')
    return items.every(fits) ? { type, bytes, items, name, address, space } : undefined
  }

  #load(decoded: Decoded): boolean {
    const access = this.#accessOf(decoded, 'd')
    if (access === undefined || this.#guard !== undefined) return false
    const { bytes, items } = access
    if (items.some((item) => item.kind === 'register' && !this.#isOwn(item.register))) return false
    return this.#access(decoded, access, (address, offset, stride) => {
      const body = this.#body
      for (const [index, item] of items.entries()) {
        if (item.kind !== 'register') continue
        const at = offset + index * bytes
        const locals = this.localsOf(item.register)
        for (const [half, local] of locals.entries()) {
          const width = 8 * bytes
          const first = locals.length === 2 ? 2 * half : 0
          const count = bytes === 4 ? 4 : 2
          if (stride === bytes) body.write(address, memory128('v128.load', at + first * stride))
          else if (stride === 0) body.write(address, memory128(`v128.load${width}_splat`, at))
          else {
            for (let lane = 0; lane < count; lane++) body.get(address)
            body.write(memory128(`v128.load${width}_zero`, at + first * stride))
            for (let lane = 1; lane < count; lane++)
              body.write(memory128(`v128.load${width}_lane`, at + (first + lane) * stride, lane))
          }
          body.set(local)
        }
      }
    })
  }

  #store(decoded: Decoded): boolean {
    const access = this.#accessOf(decoded, 'b')
    if (access === undefined || this.#guard !== undefined) return false
    const { bytes, items, type } = access
    if (!items.every((item) => this.#canPush(item))) return false
    return this.#access(decoded, access, (address, offset, stride) => {
      const body = this.#body
      const push = (item: Operand, half: number): void => {
        // The bits of a register are stored as they are; a constant has the type of the access.
        const own = item.kind === 'register' ? `b${8 * bytes}` : type
        if (bytes === 8) this.pushHalf(item, own, half)
        else this.push(item, own)
      }
      for (const [index, item] of items.entries()) {
        if (item.kind === 'sink') continue
        const at = offset + index * bytes
        const width = 8 * bytes
        for (const half of bytes === 8 ? [0, 1] : [0]) {
          const first = 2 * half
          if (stride === bytes) {
            body.get(address)
            push(item, half)
            body.write(memory128('v128.store', at + first * stride))
            continue
          }
          const value = body.temporary('v128')
          push(item, half)
          body.set(value)
          for (let lane = 0; lane < (bytes === 4 ? 4 : 2); lane++) {
            body.write(address, value, memory128(`v128.store${width}_lane`, at + (first + lane) * stride, lane))
          }
          body.release('v128', value)
        }
      }
    })
  }

  /** Writes an access for all lanes with one check of its address; where that fails, lanes access memory one by one. */
  #access(
    decoded: Decoded,
    {
      bytes,
      items,
      name,
      address,
      space,
    }: { bytes: number; items: readonly Operand[]; name: 'd' | 'b'; address: Address; space: string },
    write: (address: number, offset: number, stride: number) => void,
  ): boolean {
    const body = this.#body
    const { addresses } = this.instructions
    const shape = this.shapes.ofOperand(address.base)
    const size = bytes * items.length
    const offset = addresses.offsetInRange(decoded)
    if (offset !== undefined && typeof shape === 'number') {
      if (!addresses.isFreeInRange(decoded)) return false
      const local = addresses.locateInRange(decoded, size, 0)
      // Offsets in instructions are not negative: where addresses fall along the row, the last lane's is the least.
      const fall = Math.max(0, -shape) * (LANES - 1)
      if (fall > 0) body.write(local, i32(fall), 'i32.sub', set(local))
      write(local, offset + fall, shape)
      body.release('i32', local)
      return true
    }
    if (typeof shape === 'number') {
      const local = addresses.locateGroup(decoded, address)
      if (local === undefined) return false
      body.get(local)
      body.if()
      write(local, addresses.offsetInGroup(decoded, address), shape)
      body.else()
      this.#oneByOne(decoded)
      body.end()
      addresses.leaveGroup(decoded)
      return true
    }
    if (items.length !== 1 || address.base.kind !== 'register') return false
    // Lanes whose addresses happen to lie beside each other access memory together.
    const base = address.base.register
    const [first = 0, second] = this.localsOf(base)
    const located = body.temporary('i32')
    body.write(i32(0), set(located))
    if (second === undefined) {
      body.write(first, first, 'i32x4.extract_lane_0', 'i32x4.splat')
      this.#grow(bytes)
      body.write('i32x4.eq', 'i32x4.all_true')
    } else {
      const beside = (local: number, half: number): void => {
        body.write(local, first, 'i64x2.extract_lane_0', 'i64x2.splat')
        this.#constant(BigInt(2 * half * bytes), BigInt((2 * half + 1) * bytes))
        body.write('i64x2.add', 'i64x2.eq')
      }
      beside(first, 0)
      beside(second, 1)
      body.write('v128.and', 'i64x2.all_true')
    }
    body.if()
    this.#toScalar(base, 0)
    const access = name === 'd' ? SHADOW.read : SHADOW.written
    addresses.locateBeside(address, space === 'shared', bytes, access, decoded)
    body.set(located)
    body.end()
    body.get(located)
    body.if()
    write(located, 0, bytes)
    body.else()
    this.#oneByOne(decoded)
    body.end()
    body.release('i32', located)
    return true
  }
}
