/** Writes WebAssembly's binary format: the code of functions, and modules of them. */
import type { Place } from './syntax.js'

export type ValueType = 'i32' | 'i64' | 'f32' | 'f64'
/** The type of a local or parameter: a value of one thread, or 128 bits with the values of several. */
export type LocalType = ValueType | 'v128'

const VALUE_TYPES: Readonly<Record<LocalType, number>> = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b }

const INTEGER_OPERATIONS =
  'clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr'.split(' ')
const FLOAT_OPERATIONS = 'abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign'.split(' ')
const INTEGER_COMPARISONS = 'eqz eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u'.split(' ')
const FLOAT_COMPARISONS = 'eq ne lt gt le ge'.split(' ')

/** The numbers of the instructions of SIMD, and of relaxed SIMD from 256 on, that take no immediate. */
const SIMD_OPERATIONS: readonly (readonly [name: string, number: number])[] = [
  ...'i32x4 i64x2 f32x4 f64x2'.split(' ').map((shape, index) => [`${shape}.splat`, 0x11 + index] as const),
  ...series128('i32x4', 'eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u', 0x37),
  ...series128('f32x4', 'eq ne lt gt le ge', 0x41),
  ...series128('f64x2', 'eq ne lt gt le ge', 0x47),
  ...series128('v128', 'not and andnot or xor bitselect any_true', 0x4d),
  ['f32x4.demote_f64x2_zero', 0x5e],
  ['f64x2.promote_low_f32x4', 0x5f],
  ...series128('f32x4', 'ceil floor trunc nearest', 0x67),
  ...series128('f64x2', 'ceil floor', 0x74),
  ['f64x2.trunc', 0x7a],
  ['f64x2.nearest', 0x94],
  ...series128(
    'i32x4',
    'abs neg - all_true bitmask - - - - - - shl shr_s shr_u add - - sub - - - mul min_s min_u max_s',
    0xa0,
  ),
  ...series128('i64x2', 'abs neg - all_true bitmask - -', 0xc0),
  ...series128('i64x2', 'extend_low_i32x4_s extend_high_i32x4_s extend_low_i32x4_u extend_high_i32x4_u', 0xc7),
  ...series128('i64x2', 'shl shr_s shr_u add - - sub - - - mul eq ne lt_s gt_s le_s ge_s', 0xcb),
  ...series128('f32x4', 'abs neg - sqrt add sub mul div min max', 0xe0),
  ...series128('f64x2', 'abs neg - sqrt add sub mul div min max', 0xec),
  ...series128('i32x4', 'trunc_sat_f32x4_s trunc_sat_f32x4_u', 0xf8),
  ...series128('f32x4', 'convert_i32x4_s convert_i32x4_u', 0xfa),
  ...series128('i32x4', 'trunc_sat_f64x2_s_zero trunc_sat_f64x2_u_zero', 0xfc),
  ...series128('f64x2', 'convert_low_i32x4_s convert_low_i32x4_u', 0xfe),
  ['f32x4.relaxed_madd', 0x105],
  ['f64x2.relaxed_madd', 0x107],
]

/** The shapes whose lanes are read and written one by one: the number of the instruction that reads one, and the number of lanes. */
const LANES: readonly (readonly [shape: string, first: number, lanes: number])[] = [
  ['i32x4', 0x1b, 4],
  ['i64x2', 0x1d, 2],
  ['f32x4', 0x1f, 4],
  ['f64x2', 0x21, 2],
]

function series128(shape: string, names: string, first: number): (readonly [string, number])[] {
  return names
    .split(' ')
    .map((name, index) => [`${shape}.${name}`, first + index] as const)
    .filter(([name]) => !name.endsWith('-'))
}

/** An instruction of SIMD: its number follows the prefix, seven bits in a byte. */
function simd(number: number): readonly number[] {
  return number < 128 ? [0xfd, number] : [0xfd, (number & 127) | 128, number >> 7]
}

/** The numbers of the loads and stores of SIMD. */
const SIMD_MEMORY: ReadonlyMap<string, number> = new Map([
  ['v128.load', 0x00],
  ['v128.load32_splat', 0x09],
  ['v128.load64_splat', 0x0a],
  ['v128.store', 0x0b],
  ['v128.load32_lane', 0x56],
  ['v128.load64_lane', 0x57],
  ['v128.store32_lane', 0x5a],
  ['v128.store64_lane', 0x5b],
  ['v128.load32_zero', 0x5c],
  ['v128.load64_zero', 0x5d],
])

/** The opcode of each instruction that takes no immediate, by its name in the text format. */
const OPCODES: ReadonlyMap<string, readonly number[]> = opcodes()

/** The opcode of each load and store, with the width of the access as a power of two. */
const MEMORY_OPCODES: ReadonlyMap<string, readonly [opcode: number, log2: number]> = new Map([
  ['i32.load', [0x28, 2]],
  ['i64.load', [0x29, 3]],
  ['f32.load', [0x2a, 2]],
  ['f64.load', [0x2b, 3]],
  ['i32.load8_s', [0x2c, 0]],
  ['i32.load8_u', [0x2d, 0]],
  ['i64.load8_u', [0x31, 0]],
  ['i32.load16_s', [0x2e, 1]],
  ['i32.load16_u', [0x2f, 1]],
  ['i64.load32_u', [0x35, 2]],
  ['i32.store', [0x36, 2]],
  ['i64.store', [0x37, 3]],
  ['f32.store', [0x38, 2]],
  ['f64.store', [0x39, 3]],
  ['i32.store8', [0x3a, 0]],
  ['i64.store8', [0x3c, 0]],
  ['i32.store16', [0x3b, 1]],
])

function opcodes(): Map<string, readonly number[]> {
  const all = new Map<string, readonly number[]>([
    ['unreachable', [0x00]],
    ['return', [0x0f]],
    ['drop', [0x1a]],
    ['select', [0x1b]],
  ])
  const series = (type: string, names: readonly string[], first: number): void => {
    names.forEach((name, index) => {
      all.set(`${type}.${name}`, [first + index])
    })
  }
  series('i32', INTEGER_COMPARISONS, 0x45)
  series('i64', INTEGER_COMPARISONS, 0x50)
  series('f32', FLOAT_COMPARISONS, 0x5b)
  series('f64', FLOAT_COMPARISONS, 0x61)
  series('i32', INTEGER_OPERATIONS, 0x67)
  series('i64', INTEGER_OPERATIONS, 0x79)
  series('f32', FLOAT_OPERATIONS, 0x8b)
  series('f64', FLOAT_OPERATIONS, 0x99)
  const conversions =
    'i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s i64.extend_i32_u i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64 f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32 i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s'
  conversions.split(' ').forEach((name, index) => {
    all.set(name, [0xa7 + index])
  })
  const saturating =
    'i32.trunc_sat_f32_s i32.trunc_sat_f32_u i32.trunc_sat_f64_s i32.trunc_sat_f64_u i64.trunc_sat_f32_s i64.trunc_sat_f32_u i64.trunc_sat_f64_s i64.trunc_sat_f64_u'
  saturating.split(' ').forEach((name, index) => {
    all.set(name, [0xfc, index])
  })
  all.set('memory.copy', [0xfc, 10, 0, 0])
  all.set('memory.fill', [0xfc, 11, 0])
  for (const [name, number] of SIMD_OPERATIONS) all.set(name, simd(number))
  for (const [shape, first, lanes] of LANES) {
    for (let lane = 0; lane < lanes; lane++) {
      all.set(`${shape}.extract_lane_${lane}`, [...simd(first), lane])
      all.set(`${shape}.replace_lane_${lane}`, [...simd(first + 1), lane])
    }
  }
  return all
}

/** A growing list of bytes, with what WebAssembly writes into one. */
export class ByteWriter {
  #bytes = new Uint8Array(256)
  length = 0

  byte(value: number): void {
    if (this.length === this.#bytes.length) {
      const larger = new Uint8Array(2 * this.length)
      larger.set(this.#bytes)
      this.#bytes = larger
    }
    this.#bytes[this.length++] = value
  }

  append(bytes: Iterable<number>): void {
    for (const each of bytes) this.byte(each)
  }

  unsigned(value: number): void {
    let rest = value
    while (rest >= 0x80) {
      this.byte((rest & 0x7f) | 0x80)
      rest = Math.floor(rest / 128)
    }
    this.byte(rest)
  }

  signed(value: number): void {
    let rest = value
    for (;;) {
      const low = rest & 0x7f
      rest >>= 7
      if ((rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0)) {
        this.byte(low)
        return
      }
      this.byte(low | 0x80)
    }
  }

  signed64(value: bigint): void {
    let rest = BigInt.asIntN(64, value)
    for (;;) {
      const low = Number(rest & 0x7fn)
      rest >>= 7n
      if ((rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0)) {
        this.byte(low)
        return
      }
      this.byte(low | 0x80)
    }
  }

  text(value: string): void {
    this.unsigned(value.length)
    for (let index = 0; index < value.length; index++) this.byte(value.charCodeAt(index))
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.length)
  }
}

const scratch = new DataView(new ArrayBuffer(8))

/** The factor that repeats a byte eight times in a word. */
export const EACH_BYTE = 0x0101010101010101n

/** An instruction with an immediate, for `FunctionBody.write`. */
type Immediate = (body: FunctionBody) => void

export const i32 =
  (value: number): Immediate =>
  (body) =>
    body.i32(value)
export const i64 =
  (value: bigint): Immediate =>
  (body) =>
    body.i64(value)
export const f32 =
  (bits: number): Immediate =>
  (body) =>
    body.f32(bits)
export const set =
  (local: number): Immediate =>
  (body) =>
    body.set(local)
export const tee =
  (local: number): Immediate =>
  (body) =>
    body.tee(local)
export const call =
  (index: number): Immediate =>
  (body) =>
    body.call(index)
export const memory =
  (name: string, offset = 0): Immediate =>
  (body) =>
    body.memory(name, offset)

/** A load or store of SIMD, of a single lane if its name says so. */
export const memory128 =
  (name: string, offset = 0, lane?: number): Immediate =>
  (body) =>
    body.memory128(name, offset, lane)

/** The offset at which the code of a place in a text begins; without a place, code that belongs to none. */
export interface CodeMark {
  readonly at: number
  readonly place: Place | undefined
}

/** What an inspector shows of a function: its name, those of its locals, and the places in the text that its code comes from. */
export interface FunctionDescription {
  readonly name: string
  /** The names of locals; keys are their indices. */
  readonly locals: ReadonlyMap<number, string>
  /** The marks in the encoded body, in the order of the code. */
  readonly marks: readonly CodeMark[]
}

/** The body of one function. Locals are declared as they are needed. */
export class FunctionBody {
  /** The code that runs before all other code of the function. */
  readonly start = new ByteWriter()
  /** The code, in pieces; more may be written at the end of each of them. */
  readonly #pieces: ByteWriter[] = [new ByteWriter()]
  #code = this.#pieces[0] ?? this.start
  readonly #locals: LocalType[] = []
  readonly #free: Record<LocalType, number[]> = { i32: [], i64: [], f32: [], f64: [], v128: [] }
  readonly #reads: number[] = []
  #marks: { readonly into: ByteWriter; readonly at: number; readonly place: Place | undefined }[] = []
  /** The offsets in the encoded body at which the pieces begin. */
  readonly #begins = new Map<ByteWriter, number>()

  constructor(private readonly parameters: readonly LocalType[]) {}

  /** A new local variable. */
  local(type: LocalType): number {
    return this.parameters.length + this.#locals.push(type) - 1
  }

  /** A local that is free again once `release` is called. */
  temporary(type: LocalType): number {
    return this.#free[type].pop() ?? this.local(type)
  }

  release(type: LocalType, index: number): void {
    this.#free[type].push(index)
  }

  /** Opens a place in the code at which more can be written later, by `at`. */
  place(): ByteWriter {
    const [place, rest] = [new ByteWriter(), new ByteWriter()]
    this.#pieces.push(place, rest)
    this.#code = rest
    return place
  }

  /**
   * Runs `write`, whose code goes to a place. The code is appended last, so that code written to the place meanwhile, which it may need, comes first.
   */
  at(place: ByteWriter, write: () => void): void {
    const outer = this.#code
    this.#code = new ByteWriter()
    write()
    const inner = this.#code
    this.#marks = this.#marks.map((each) =>
      each.into === inner ? { ...each, into: place, at: place.length + each.at } : each,
    )
    place.append(inner.bytes())
    this.#code = outer
  }

  /** Notes that the code from here on is that of a place in a text, or of none. */
  mark(place: Place | undefined): void {
    this.#marks.push({ into: this.#code, at: this.#code.length, place })
  }

  /** The marks by their offsets in the encoded body, which has been encoded before. */
  marks(): readonly CodeMark[] {
    return this.#marks
      .map(({ into, at, place }) => ({ at: (this.#begins.get(into) ?? 0) + at, place }))
      .sort((a, b) => a.at - b.at)
  }

  /** Writes instructions one after the other: a number is a local to push, a string the name of an instruction. */
  write(...parts: readonly (number | string | Immediate)[]): void {
    for (const part of parts) {
      if (typeof part === 'number') this.get(part)
      else if (typeof part === 'string') this.op(part)
      else part(this)
    }
  }

  op(name: string): void {
    const bytes = OPCODES.get(name)
    if (bytes === undefined) throw new Error(`WebAssembly has no instruction ${name}`)
    for (const each of bytes) this.#code.byte(each)
  }

  i32(value: number): void {
    this.#code.byte(0x41)
    this.#code.signed(value | 0)
  }

  i64(value: bigint): void {
    this.#code.byte(0x42)
    this.#code.signed64(value)
  }

  /** Pushes a constant of f32, given by its bits. */
  f32(bits: number): void {
    scratch.setUint32(0, bits, true)
    this.#code.byte(0x43)
    for (let index = 0; index < 4; index++) this.#code.byte(scratch.getUint8(index))
  }

  /** Pushes a constant of f64, given by its bits. */
  f64(bits: bigint): void {
    scratch.setBigUint64(0, BigInt.asUintN(64, bits), true)
    this.#code.byte(0x44)
    for (let index = 0; index < 8; index++) this.#code.byte(scratch.getUint8(index))
  }

  /** The number of reads of a local in the code so far. */
  readsOf(local: number): number {
    return this.#reads[local] ?? 0
  }

  get(local: number): void {
    this.#reads[local] = this.readsOf(local) + 1
    this.#code.byte(0x20)
    this.#code.unsigned(local)
  }

  set(local: number): void {
    this.#code.byte(0x21)
    this.#code.unsigned(local)
  }

  tee(local: number): void {
    this.#code.byte(0x22)
    this.#code.unsigned(local)
  }

  memory(name: string, offset = 0): void {
    const found = MEMORY_OPCODES.get(name)
    if (found === undefined) throw new Error(`WebAssembly has no instruction ${name}`)
    this.#code.byte(found[0])
    // The alignment is only a hint; bytes of pinned memory may lie anywhere.
    this.#code.byte(0)
    this.#code.unsigned(offset)
  }

  memory128(name: string, offset = 0, lane?: number): void {
    const number = SIMD_MEMORY.get(name)
    if (number === undefined) throw new Error(`WebAssembly has no instruction ${name}`)
    for (const each of simd(number)) this.#code.byte(each)
    this.#code.byte(0)
    this.#code.unsigned(offset)
    if (lane !== undefined) this.#code.byte(lane)
  }

  /** Pushes a constant of 128 bits, given as two words. */
  v128(low: bigint, high: bigint): void {
    for (const each of [0xfd, 0x0c]) this.#code.byte(each)
    for (const word of [low, high]) {
      scratch.setBigUint64(0, BigInt.asUintN(64, word), true)
      for (let index = 0; index < 8; index++) this.#code.byte(scratch.getUint8(index))
    }
  }

  /** Picks bytes of the two values on the stack: 0 to 15 are those of the first. */
  shuffle(bytes: readonly number[]): void {
    for (const each of [0xfd, 0x0d, ...bytes]) this.#code.byte(each)
  }

  call(index: number): void {
    this.#code.byte(0x10)
    this.#code.unsigned(index)
  }

  callIndirect(type: number): void {
    this.#code.byte(0x11)
    this.#code.unsigned(type)
    this.#code.byte(0)
  }

  block(): void {
    this.#code.byte(0x02)
    this.#code.byte(0x40)
  }

  loop(): void {
    this.#code.byte(0x03)
    this.#code.byte(0x40)
  }

  if(result?: LocalType): void {
    this.#code.byte(0x04)
    this.#code.byte(result === undefined ? 0x40 : VALUE_TYPES[result])
  }

  else(): void {
    this.#code.byte(0x05)
  }

  end(): void {
    this.#code.byte(0x0b)
  }

  br(depth: number): void {
    this.#code.byte(0x0c)
    this.#code.unsigned(depth)
  }

  brIf(depth: number): void {
    this.#code.byte(0x0d)
    this.#code.unsigned(depth)
  }

  brTable(depths: readonly number[], otherwise: number): void {
    this.#code.byte(0x0e)
    this.#code.unsigned(depths.length)
    for (const depth of depths) this.#code.unsigned(depth)
    this.#code.unsigned(otherwise)
  }

  /** The encoded body, with its locals and the closing `end`. */
  encode(): Uint8Array {
    const whole = new ByteWriter()
    const runs: [count: number, type: LocalType][] = []
    for (const type of this.#locals) {
      const last = runs.at(-1)
      if (last !== undefined && last[1] === type) last[0]++
      else runs.push([1, type])
    }
    whole.unsigned(runs.length)
    for (const [count, type] of runs) {
      whole.unsigned(count)
      whole.byte(VALUE_TYPES[type])
    }
    for (const piece of [this.start, ...this.#pieces]) {
      this.#begins.set(piece, whole.length)
      whole.append(piece.bytes())
    }
    whole.byte(0x0b)
    return whole.bytes()
  }
}

export interface Signature<T extends LocalType = LocalType> {
  readonly parameters: readonly T[]
  readonly results: readonly T[]
}

/** A module that imports functions as members of `i`, and its memory as `i.m` if it has one, of at most `pages` pages. */
export class ModuleBuilder {
  readonly #types: string[] = []
  readonly #encodedTypes: Signature[] = []
  readonly #imports: { readonly name: string; readonly type: number }[] = []
  readonly #functions: { readonly type: number; body: Uint8Array; readonly exported: string | undefined }[] = []
  #table: (number | undefined)[] = []
  #closed = false
  readonly #descriptions = new Map<number, FunctionDescription>()

  constructor(private readonly maximumPages?: number) {}

  type(signature: Signature): number {
    const key = `${signature.parameters.join()}>${signature.results.join()}`
    const known = this.#types.indexOf(key)
    if (known >= 0) return known
    this.#encodedTypes.push(signature)
    return this.#types.push(key) - 1
  }

  /** Adds an imported function; all imports come before the first function. */
  import(name: string, signature: Signature): number {
    if (this.#closed) throw new Error('Imports come before functions')
    return this.#imports.push({ name, type: this.type(signature) }) - 1
  }

  /** Reserves the index of a function, whose body is given later. */
  declare(signature: Signature, exported?: string): number {
    this.#closed = true
    const index = this.#functions.push({ type: this.type(signature), body: new Uint8Array(0), exported }) - 1
    return this.#imports.length + index
  }

  define(index: number, body: Uint8Array): void {
    const known = this.#functions[index - this.#imports.length]
    if (known === undefined) throw new Error('This function was not declared')
    known.body = body
  }

  /** Adds what an inspector shows of a function. */
  describe(index: number, description: FunctionDescription): void {
    this.#descriptions.set(index, description)
  }

  /** Adds the table of functions that `call_indirect` reaches by number; a gap in it traps. */
  table(functions: (number | undefined)[]): void {
    this.#table = functions
  }

  /** @param mapOf Returns the URL of the source map for the marks of all described functions, by their offsets in the module */
  encode(mapOf?: (marks: readonly CodeMark[]) => string): Uint8Array {
    const out = new ByteWriter()
    out.append([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0])
    const section = (id: number, write: (into: ByteWriter) => void): void => {
      const content = new ByteWriter()
      write(content)
      out.byte(id)
      out.unsigned(content.length)
      out.append(content.bytes())
    }
    section(1, (into) => {
      into.unsigned(this.#encodedTypes.length)
      for (const { parameters, results } of this.#encodedTypes) {
        into.byte(0x60)
        for (const list of [parameters, results]) {
          into.unsigned(list.length)
          for (const type of list) into.byte(VALUE_TYPES[type])
        }
      }
    })
    section(2, (into) => {
      into.unsigned(this.#imports.length + (this.maximumPages === undefined ? 0 : 1))
      if (this.maximumPages !== undefined) {
        into.text('i')
        into.text('m')
        into.append([2, 1, 1])
        into.unsigned(this.maximumPages)
      }
      for (const { name, type } of this.#imports) {
        into.text('i')
        into.text(name)
        into.byte(0)
        into.unsigned(type)
      }
    })
    section(3, (into) => {
      into.unsigned(this.#functions.length)
      for (const { type } of this.#functions) into.unsigned(type)
    })
    const listed = this.#table
    if (listed.length > 0) {
      section(4, (into) => {
        into.append([1, 0x70, 0])
        into.unsigned(listed.length)
      })
    }
    const exported = this.#functions.flatMap(({ exported: name }, index) =>
      name === undefined ? [] : [{ name, index: index + this.#imports.length }],
    )
    section(7, (into) => {
      into.unsigned(exported.length)
      for (const { name, index } of exported) {
        into.text(name)
        into.byte(0)
        into.unsigned(index)
      }
    })
    const elements = listed.flatMap((target, index) => (target === undefined ? [] : [[index, target] as const]))
    if (elements.length > 0) {
      section(9, (into) => {
        into.unsigned(elements.length)
        for (const [index, target] of elements) {
          into.append([0, 0x41])
          into.signed(index)
          into.append([0x0b, 1])
          into.unsigned(target)
        }
      })
    }
    const begins: number[] = []
    let codeLength = 0
    section(10, (into) => {
      into.unsigned(this.#functions.length)
      for (const { body } of this.#functions) {
        into.unsigned(body.length)
        begins.push(into.length)
        into.append(body)
      }
      codeLength = into.length
    })
    if (this.#descriptions.size === 0 || mapOf === undefined) return out.bytes()
    const codeAt = out.length - codeLength
    const described = [...this.#descriptions].sort(([a], [b]) => a - b)
    section(0, (into) => {
      into.text('name')
      writeNames(into, described)
    })
    const marks = described.flatMap(([index, { marks: own }]) => {
      const begin = codeAt + (begins[index - this.#imports.length] ?? 0)
      return own.map(({ at, place }) => ({ at: begin + at, place }))
    })
    section(0, (into) => {
      into.text('sourceMappingURL')
      into.text(mapOf(marks))
    })
    return out.bytes()
  }
}

/** Writes the names of functions and of their locals, in the order of their indices, as the section of names has them. */
function writeNames(into: ByteWriter, described: readonly (readonly [number, FunctionDescription])[]): void {
  const part = (id: number, write: (content: ByteWriter) => void): void => {
    const content = new ByteWriter()
    write(content)
    into.byte(id)
    into.unsigned(content.length)
    into.append(content.bytes())
  }
  part(1, (content) => {
    content.unsigned(described.length)
    for (const [index, { name }] of described) {
      content.unsigned(index)
      content.text(name)
    }
  })
  part(2, (content) => {
    content.unsigned(described.length)
    for (const [index, { locals }] of described) {
      content.unsigned(index)
      content.unsigned(locals.size)
      for (const [local, name] of [...locals].sort(([a], [b]) => a - b)) {
        content.unsigned(local)
        content.text(name)
      }
    }
  })
}
