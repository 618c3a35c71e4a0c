/**
 * Accesses to global memory whose addresses grow evenly along a row of threads. One check at the start of the row says
 * whether all of them, by all threads of the row, lie in one block and are aligned: then the threads need no checks.
 */
import type { Decoded } from './decoding.js'
import { SHADOW } from './layout.js'
import type { RowGuard } from './row-guard.js'
import { bitsOf, type Operand } from './syntax.js'
import type { StridedRegister } from './uniform-registers.js'
import type { ValueWriter } from './value-writer.js'
import { call, EACH_BYTE, i32, i64, memory, set, tee } from './wasm-encoder.js'

type Address = Extract<Operand, { kind: 'address' }>

/** Accesses through one register and of one width. */
export interface RowRange {
  readonly address: Address
  readonly bytes: number
  readonly stride: number
  /** The least offset of the accesses; `most` is the greatest. */
  least: bigint
  most: bigint
  /** The offsets of loads; `writes` has those of stores. */
  readonly reads: bigint[]
  readonly writes: bigint[]
  /** Whether all threads make all of the accesses, and leave out no byte from the least to the last. */
  isWhole: boolean
  readonly window: number
  /** The local with the location of the least access, as it would be for %tid.x = 0. */
  readonly local: number
  /** The local with the same location in the shadow of the block; undefined unless accesses are recorded. */
  readonly shadow: number | undefined
}

/** A value that is converted to 64 bits on the way to an address: it must not wrap within the row. */
export interface Widened {
  readonly operand: Operand
  readonly stride: number
  readonly isSigned: boolean
}

/** The greatest distance of accesses that are checked together. */
const REACH = 1n << 20n
const MOST_RANGES = 12
/** The most instructions that are written twice, with checks and without. */
const MOST_INSTRUCTIONS = 400
/** The limits of a range if reads of unwritten bytes are looked for: the whole span of a row is checked, so it must not be much more than is read. */
const RECORDED = { reach: 256n, stride: 4 }
/** The fewest threads of a row for which its checks save more than they cost. */
const FEWEST_THREADS = 4

/** Whether the known loads and stores of a range access each of its bytes, even in the shortest row that is checked. */
function hasNoGaps({ reads, writes, stride, bytes, least, most }: RowRange): boolean {
  if (stride !== 0 && Math.abs(stride) !== bytes) return false
  const reach = BigInt(bytes * (stride === 0 ? 1 : FEWEST_THREADS))
  return [reads, writes].every((offsets) => {
    const sorted = [...offsets].sort((a, b) => (a < b ? -1 : 1))
    const hasEnds = sorted.length === 0 || (sorted[0] === least && sorted.at(-1) === most)
    return hasEnds && sorted.every((offset, at) => at === 0 || offset - (sorted[at - 1] ?? offset) <= reach)
  })
}

export class RowRanges {
  readonly #ranges = new Map<string, RowRange>()
  readonly #rangeOf = new Map<Decoded, RowRange>()
  readonly #widened = new Map<string, Widened>()

  /** Whether the code being written is for rows whose whole ranges have been marked. */
  isMarked = false
  readonly guard: RowGuard | undefined

  /**
   * @param instructions The instructions that threads may run from the start of a row to their next stop
   * @param always The instructions that every thread runs that passes the guard
   */
  constructor(
    private readonly writer: ValueWriter,
    instructions: readonly Decoded[],
    always: ReadonlySet<Decoded>,
    guard: RowGuard | undefined,
  ) {
    if (instructions.length > MOST_INSTRUCTIONS) return
    // Code with a guard is written three times, so fewer instructions are allowed.
    if (instructions.length <= MOST_INSTRUCTIONS / 2) this.guard = guard
    for (const decoded of instructions) this.#add(decoded, always.has(decoded) && this.guard === guard)
    if (this.#ranges.size > MOST_RANGES) this.#rangeOf.clear()
    for (const range of this.#ranges.values()) range.isWhole &&= hasNoGaps(range)
    for (const condition of this.guard?.conditions ?? []) {
      if (condition.kind === 'uniform') continue
      for (const { operand, stride } of condition.sides) this.#addWidened(operand, stride, condition.isSigned)
    }
  }

  get isEmpty(): boolean {
    return this.#rangeOf.size === 0
  }

  of(decoded: Decoded): RowRange | undefined {
    return this.#rangeOf.get(decoded)
  }

  #add(decoded: Decoded, isAlways: boolean): void {
    const { meaning } = decoded.form
    const { T: type = 'b32', vec = 'v1', space = 'generic' } = decoded.modifiers
    const address = decoded.operands['a']
    if (meaning.kind !== 'code' || !/^(?:load|store)$/.test(meaning.code) || !/^(?:global|generic)$/.test(space)) return
    if (address?.kind !== 'address' || address.base.kind !== 'register') return
    const { register } = address.base
    const { uniform, strided } = this.writer.fn.uniform
    const stride = uniform.has(register.id) ? 0 : strided.get(register.id)?.stride
    const bytes = (Math.max(8, bitsOf(type)) / 8) * Number(vec.slice(1))
    if (stride === undefined || stride % bytes !== 0 || this.writer.typeOf(register) !== 'i64') return
    const size = BigInt(bytes)
    const key = `${register.id}/${bytes}/${((address.offset % size) + size) % size}`
    const known = this.#ranges.get(key)
    const { offset } = address
    const { body, context } = this.writer
    const isLoad = meaning.code === 'load'
    if (context.recorded && Math.abs(stride) > RECORDED.stride * bytes) return
    if (known !== undefined) {
      const least = offset < known.least ? offset : known.least
      const most = offset > known.most ? offset : known.most
      if (most - least > (context.recorded ? RECORDED.reach : REACH)) return
      if (isLoad) known.reads.push(offset)
      else known.writes.push(offset)
      known.isWhole &&= isAlways && decoded.instruction.guard === undefined
      known.least = least
      known.most = most
      this.#rangeOf.set(decoded, known)
      return
    }
    if (!this.#follow(address.base)) return
    const { range: window } = this.writer.context.site(decoded)
    const local = body.local('i32')
    const shadow = context.recorded ? body.local('i32') : undefined
    const isWhole = isAlways && decoded.instruction.guard === undefined
    const kind = { reads: isLoad ? [offset] : [], writes: isLoad ? [] : [offset], isWhole }
    const range = { address, bytes, stride, least: offset, most: offset, ...kind, window, local, shadow }
    this.#ranges.set(key, range)
    this.#rangeOf.set(decoded, range)
  }

  /** Collects the values that are converted to 64 bits on the way to a value. */
  #follow(operand: Operand): boolean {
    const definition = this.#stridedAt(operand)?.definition
    if (definition === undefined) return true
    const { form, modifiers, operands } = definition
    const widens = form.opcode === 'cvt' || form.pattern.includes('.wide')
    return ['a', 'b', 'c'].every((name) => {
      const source = operands[name]
      if (source === undefined) return true
      const strided = this.#stridedAt(source)
      if (widens && strided !== undefined) {
        const type = (form.opcode === 'cvt' ? modifiers['S'] : modifiers['T']) ?? 's32'
        this.#addWidened(source, strided.stride, type.startsWith('s'))
      }
      return this.#follow(source)
    })
  }

  #addWidened(operand: Operand, stride: number, isSigned: boolean): void {
    if (stride === 0 || operand.kind !== 'register') return
    this.#widened.set(`${operand.register.id}/${isSigned}`, { operand, stride, isSigned })
  }

  #stridedAt(operand: Operand): StridedRegister | undefined {
    return operand.kind === 'register' ? this.writer.fn.uniform.strided.get(operand.register.id) : undefined
  }

  /** Pushes whether `count` threads, from the one whose %tid.x is `x` on, need no checks. */
  check(x: number, count: number): void {
    const { body } = this.writer
    const [within, last] = [body.temporary('i32'), body.temporary('i32')]
    body.write(i32(0), set(within), count, i32(1), 'i32.sub', set(last))
    body.block()
    body.write(count, i32(FEWEST_THREADS), 'i32.lt_u')
    body.brIf(0)
    this.writer.atFirst(() => {
      for (const each of this.#widened.values()) checkWidened(this.writer, each, last)
      for (const range of new Set(this.#rangeOf.values())) this.#checkRange(range, x, last)
    })
    body.write(i32(1), set(within))
    body.end()
    body.get(within)
    body.release('i32', within)
    body.release('i32', last)
  }

  #checkRange(range: RowRange, x: number, last: number): void {
    const { body } = this.writer
    const { address, bytes, stride, least, most, window, local, shadow } = range
    const [first, distance] = [body.temporary('i64'), body.temporary('i64')]
    const span = body.temporary('i32')
    this.writer.push({ ...address, offset: least }, 'u64')
    if (stride < 0) body.write(last, 'i64.extend_i32_u', i64(BigInt(stride)), 'i64.mul', 'i64.add')
    body.write(tee(first), 'i32.wrap_i64', i32(bytes - 1), 'i32.and')
    body.brIf(0)
    body.write(last, i32(Math.abs(stride)), 'i32.mul', i32(Number(most - least) + bytes), 'i32.add', set(span))
    body.write(first, i32(0), memory('i64.load', window), 'i64.sub', tee(distance))
    body.write(i32(0), memory('i64.load', window + 8), 'i64.lt_u')
    body.write(distance, span, 'i64.extend_i32_u', 'i64.add', i32(0), memory('i64.load', window + 8), 'i64.le_u')
    body.write('i32.and', 'i32.eqz')
    body.if()
    body.write(first, span, i32(window))
    body.call(this.writer.context.runtime('cover'))
    body.op('i32.eqz')
    body.brIf(1)
    body.write(first, i32(0), memory('i64.load', window), 'i64.sub', set(distance))
    body.end()
    if (shadow !== undefined && range.reads.length > 0) {
      body.write(i32(0), memory('i32.load', window + 24), 'i32.eqz')
      body.if()
      body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 20), 'i32.add', span)
      body.call(this.writer.context.runtime('initialised'))
      body.op('i32.eqz')
      body.brIf(1)
      body.end()
    }
    body.write(distance, 'i32.wrap_i64')
    if (stride < 0) body.write(last, i32(-stride), 'i32.mul', 'i32.add')
    body.write(x, i32(stride), 'i32.mul', 'i32.sub', tee(local))
    if (shadow !== undefined) body.write(i32(0), memory('i32.load', window + 20), 'i32.add', set(shadow), local)
    body.write(i32(0), memory('i32.load', window + 16), 'i32.add', set(local))
    body.release('i32', span)
    body.release('i64', distance)
    body.release('i64', first)
  }

  /** Pushes whether all threads up to `end` of a checked row pass the guard. */
  checkGuard(end: number): void {
    const { body, thread } = this.writer
    const [within, last] = [body.temporary('i32'), body.temporary('i32')]
    body.write(i32(0), set(within), end, thread, 'i32.sub', i32(1), 'i32.sub', set(last))
    body.block()
    this.writer.atFirst(() => {
      for (const condition of this.guard?.conditions ?? []) {
        if (condition.kind === 'uniform') {
          this.writer.push(condition.operand, 'pred')
          body.brIf(0)
          continue
        }
        const { relation, isSigned, sides } = condition
        for (const atLast of sides.every(({ stride }) => stride === 0) ? [false] : [false, true]) {
          for (const { operand, stride } of sides) {
            this.writer.push(operand, isSigned ? 's32' : 'u32')
            body.op(isSigned ? 'i64.extend_i32_s' : 'i64.extend_i32_u')
            if (!atLast || stride === 0) continue
            body.write(last, 'i64.extend_i32_u', i64(BigInt(stride)), 'i64.mul', 'i64.add')
          }
          body.op(`i64.${relation}_s`)
          body.brIf(0)
        }
      }
    })
    body.write(i32(1), set(within))
    body.end()
    body.get(within)
    body.release('i32', within)
    body.release('i32', last)
  }

  /** Marks the bytes that all threads up to `end` access, of a row that was checked and passes the guard. */
  mark(end: number): void {
    this.isMarked = true
    const { body, context, thread } = this.writer
    const [x = 0, y = 0, z = 0] = this.writer.tids()
    const ranges = [...new Set(this.#rangeOf.values())].filter(({ shadow, isWhole }) => shadow !== undefined && isWhole)
    if (ranges.length === 0) return
    const [last, row] = [body.temporary('i32'), body.temporary('i32')]
    body.write(end, thread, 'i32.sub', i32(1), 'i32.sub', set(last))
    body.write(z, this.writer.blockDimension(1), 'i32.mul', y, 'i32.add', i32(8), 'i32.mul', set(row))
    for (const { shadow = 0, stride, bytes, least, most, reads, writes, window } of ranges) {
      const isRead = reads.length > 0
      const bits = (isRead ? SHADOW.read : 0) | (writes.length > 0 ? SHADOW.written | SHADOW.initialised : 0)
      const { waiting, latest } = context.pendingMarks(bits)
      body.write(row, i32(waiting), 'i32.add', i32(latest), shadow, x)
      if (stride < 0) body.write(last, 'i32.add')
      body.write(i32(stride), 'i32.mul', 'i32.add')
      body.write(last, i32(Math.abs(stride)), 'i32.mul', i32(Number(most - least) + bytes), 'i32.add')
      // Bytes that are read count as written already, so that their marks may wait. Writes are marked at once, as later reads depend on the
      // marks, unless the whole block counts as written.
      if (isRead) body.i32(1)
      else body.write(i32(0), memory('i32.load', window + 24))
      body.write(i64(EACH_BYTE * BigInt(bits)), call(context.runtime('note')))
    }
    body.release('i32', row)
    body.release('i32', last)
  }

  /** Pushes the location of the least access of a range, for the thread that runs. */
  push({ stride, local }: RowRange): void {
    this.#pushFor(stride, local)
  }

  /** Pushes the location in the shadow of the least access of a range, for the thread that runs. */
  pushShadow({ stride, shadow = 0 }: RowRange): void {
    this.#pushFor(stride, shadow)
  }

  #pushFor(stride: number, local: number): void {
    const { body } = this.writer
    body.get(local)
    if (stride === 0) return
    body.get(this.writer.tids()[0] ?? 0)
    if (Number.isInteger(Math.log2(stride))) body.write(i32(Math.log2(stride)), 'i32.shl')
    else body.write(i32(stride), 'i32.mul')
    body.op('i32.add')
  }
}

/** Leaves the block of WebAssembly if a value wraps between the first thread of a row and the one `last` threads behind it. */
export function checkWidened(writer: ValueWriter, { operand, stride, isSigned }: Widened, last: number): void {
  const { body } = writer
  const value = body.temporary('i64')
  writer.push(operand, isSigned ? 's32' : 'u32')
  body.write(isSigned ? 'i64.extend_i32_s' : 'i64.extend_i32_u', last, 'i64.extend_i32_u', i64(BigInt(stride)))
  body.write('i64.mul', 'i64.add', tee(value), value)
  if (isSigned) body.op('i64.extend32_s')
  else body.write('i32.wrap_i64', 'i64.extend_i32_u')
  body.op('i64.ne')
  body.brIf(0)
  body.release('i64', value)
}
