/** Writes the values of operands: registers, constants, special registers and names of variables. */
import { accessesOf, type Decoded } from './decoding.js'
import { type Formula, FormulaWriter, parseFormula } from './expression.js'
import { HELPERS, signatureOf } from './helpers.js'
import { LaneFormulaWriter } from './lane-formula.js'
import type { LaneUse } from './lane-shapes.js'
import { BLOCK, FUNCTION_WINDOW, LAUNCH, RESERVED_SHARED_BYTES } from './layout.js'
import { floatBits } from './parser.js'
import type { KernelProgram, PreparedFunction } from './program.js'
import { slotType, wasmTypeOf } from './register-types.js'
import { bitsOf, type Operand, ptxError, type Register, type Variable } from './syntax.js'
import { commonReach, type Reach, reachOf } from './uniform-registers.js'
import {
  type ByteWriter,
  call,
  FunctionBody,
  f32,
  i32,
  i64,
  type LocalType,
  memory,
  type Signature,
  set,
  tee,
  type ValueType,
} from './wasm-encoder.js'

/** The parts that the functions of one module share. */
export interface ModuleContext {
  readonly program: KernelProgram
  readonly hardwareFma: boolean
  /** The locations of marks that rows of threads have not set yet: those that wait, for each row, and the latest that were set. */
  pendingMarks(bits: number): { readonly waiting: number; readonly latest: number }
  /** Whether bytes that are read and written are recorded. */
  readonly recorded: boolean
  /** Whether accesses to shared memory are reported one by one. */
  readonly checked: boolean
  helper(name: string): { readonly index: number; readonly signature: Signature<ValueType> }
  /** The function that computes a helper for lanes, whose values all have the same width; undefined for any other helper. */
  laneHelper(name: string): number | undefined
  readonly lanes: LaneUse
  /** Whether the code is made for stepping: each instruction stands once in an entry, at its place, and is marked with its line. */
  readonly isStepped: boolean
  /** Whether the code tells which blocks of code and which memory each thread comes to. */
  readonly isCounted: boolean
  /** The number of a part of a block of code, of those that calls divide it into. */
  segment(fn: PreparedFunction, block: number, part: number): number
  /** Tells that threads run as lanes in the code. */
  readonly tellLanes: () => void
  /** The function with the code from a block on of an entry, for one thread whose registers it takes as parameters. */
  continuation(
    fn: PreparedFunction,
    block: number,
    entry: { readonly block: number; readonly isStart: boolean },
  ): number
  formula(text: string): Formula
  /** The index of a function of the run time, imported or written once in each module. */
  runtime(name: string): number
  /** The index of a function in the module, for a direct call. */
  direct(fn: PreparedFunction): number
  /** Returns the index of the type that all functions called directly have. */
  readonly directType: () => number
  /** The address of a global or constant variable. */
  addressOf(name: string, decoded: Decoded): bigint
  /** The location of such a variable in WebAssembly's memory, valid as long as the module is loaded; undefined if the memory is full. */
  residentAt(name: string, decoded: Decoded): number | undefined
  /**
   * Registers a place at which memory is accessed; returns its number, and the locations of its windows: for the thread that runs, for the accesses of
   * a whole row of threads, for lanes together, and for lanes one by one.
   */
  site(decoded: Decoded): AccessSite
}

/** The number of an instruction that accesses memory, and the locations of its windows. */
export interface AccessSite {
  readonly number: number
  readonly window: number
  readonly range: number
  readonly lanes: number
  readonly alone: number
}

export const DIRECT_SIGNATURE: Signature = { parameters: ['i32', 'i32', 'i32', 'i32'], results: [] }
export const ENTRY_SIGNATURE: Signature = { parameters: ['i32', 'i32', 'i32'], results: ['i32'] }

/** The kinds of failure; `fail` passes the index of one to the run time. */
export const FAILURES: readonly string[] = ['trap', 'overflow', 'endless', 'exit', 'pointer', 'bytes']

const NO_OPERAND: Operand = { kind: 'sink' }

function normalize(value: bigint, type: string): bigint {
  const bits = bitsOf(type)
  if (bits >= 32 || bits === 0) return value
  if (type === 'pred') return value === 0n ? 0n : 1n
  return type.startsWith('s') ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)
}

export class ValueWriter {
  readonly body: FunctionBody
  readonly #locals = new Map<number, number>()
  /** The locals with the upper halves of 128-bit registers; keys are the registers' ids. */
  readonly #upper = new Map<number, number>()
  readonly #uniforms = new Map<string, number>()
  /** The index of the parameter that says which block of threads runs. */
  readonly block = 0
  readonly thread: number
  /** The local with the location of the thread's frame. */
  readonly frame: number
  /** The local with the location of the frame of this function. */
  readonly stack: number
  /** The locals of tid.x, tid.y and tid.z, if the code reads them. */
  #tids: readonly number[] | undefined
  #carry: number | undefined
  /** The instruction that is being written. */
  current: Decoded | undefined
  /** The function that writes one instruction. */
  define: ((decoded: Decoded) => void) | undefined
  /** The place in the code for what is computed once for a row of threads: %tid.x is that of its first thread there. */
  row: ByteWriter | undefined
  /** The locals with the values that registers have in the first thread of a row; keys are the registers' ids. */
  readonly #firsts = new Map<number, number>()
  #isFirst = false

  constructor(
    readonly context: ModuleContext,
    readonly fn: PreparedFunction,
    /** An entry, which runs one thread after the other; a function that is called; or the rest of an entry, for one thread. */
    private readonly role: 'entry' | 'direct' | 'continuation',
    parameters: readonly LocalType[] = (role === 'entry' ? ENTRY_SIGNATURE : DIRECT_SIGNATURE).parameters,
  ) {
    this.body = new FunctionBody(parameters)
    this.frame = role === 'entry' ? this.body.local('i32') : 1
    this.thread = role === 'entry' ? this.body.local('i32') : 2
    this.stack = role === 'direct' ? 3 : fn.fn.entry ? this.frame : this.body.local('i32')
  }

  get usesAlloca(): boolean {
    return (this.fn.fn.body ?? []).some(({ opcode }) => /^(alloca|stackrestore|stacksave)/.test(opcode))
  }

  /** Ends the launch with a fault. */
  fail(kind: string, decoded: Decoded | undefined): void {
    this.body.i32(decoded === undefined ? -1 : this.context.site(decoded).number)
    this.body.i32(FAILURES.indexOf(kind))
    this.body.get(this.thread)
    this.body.call(this.context.runtime('fail'))
    this.body.op('unreachable')
  }

  /** The names of the locals that people know: registers of PTX, and what the thread is. */
  names(): ReadonlyMap<number, string> {
    const names = new Map<number, string>()
    for (const [id, local] of this.#locals) {
      const name = this.fn.fn.registers[id]?.name
      if (name !== undefined) names.set(local, name)
    }
    names.set(this.thread, 'thread')
    for (const [axis, local] of (this.#tids ?? []).entries()) names.set(local, `%tid.${'xyz'[axis]}`)
    return names
  }

  // Values --------------------------------------------------------------------------------------------------------------

  typeOfId(id: number): ValueType {
    return this.fn.facts.types[id] ?? 'i32'
  }

  typeOf(register: Register): ValueType {
    return this.typeOfId(register.id)
  }

  localOfId(id: number): number {
    const { uniform, strided } = this.fn.uniform
    const atFirst = this.#isFirst ? strided.get(id) : undefined
    const locals = atFirst === undefined ? this.#locals : this.#firsts
    const known = locals.get(id)
    if (known !== undefined) return known
    const local = this.body.local(this.typeOfId(id))
    locals.set(id, local)
    const shared = uniform.get(id)
    if (shared !== undefined) this.#define(shared.definition, shared.reach, false)
    else if (atFirst !== undefined) this.#define(atFirst.definition, 'row', true)
    return local
  }

  /** Whether an instruction is computed once for all threads of a block or row, before they start. */
  isShared(decoded: Decoded): boolean {
    const [register] = accessesOf(decoded).writes
    return register !== undefined && this.fn.uniform.uniform.get(register.id)?.definition === decoded
  }

  /** Writes an instruction at the place where it runs once, for all threads of a block or row, or for the first thread of a row. */
  #define(definition: Decoded, reach: Reach, isFirst: boolean): void {
    const { current } = this
    const outer = this.#isFirst
    this.#isFirst = isFirst
    this.body.at(this.#placeOf(reach), () => this.define?.(definition))
    this.#isFirst = outer
    this.current = current
  }

  #placeOf(reach: Reach): ByteWriter {
    if (reach === 'block') return this.body.start
    if (this.row === undefined) throw new Error('This function has no rows of threads')
    return this.row
  }

  /** Runs `write`, with registers that stand for their values in the first thread of the row. */
  atFirst(write: () => void): void {
    const outer = this.#isFirst
    this.#isFirst = true
    write()
    this.#isFirst = outer
  }

  /** The local with the upper half of a register of 128 bits. */
  upperOf(register: Register): number {
    const known = this.#upper.get(register.id)
    if (known !== undefined) return known
    const local = this.body.local('i64')
    this.#upper.set(register.id, local)
    return local
  }

  localOf(register: Register): number {
    return this.localOfId(register.id)
  }

  get carry(): number {
    this.#carry ??= this.body.local('i32')
    return this.#carry
  }

  pushRegister(register: Register): void {
    this.body.get(this.localOfId(register.id))
  }

  variableOf(operand: Operand): Variable | undefined {
    if (operand.kind !== 'symbol') return undefined
    return operand.variable ?? this.context.program.text.variables.get(operand.name)
  }

  /** Pushes the value of an operand that is read as a type of PTX. */
  push(operand: Operand, type: string): void {
    const { body } = this
    const wanted = wasmTypeOf(type)
    switch (operand.kind) {
      case 'register': {
        body.get(this.localOfId(operand.register.id))
        const own = this.typeOfId(operand.register.id)
        this.#convert(own, bitsOf(operand.register.type), type)
        return
      }
      case 'integer':
        if (wanted === 'i32') body.i32(Number(BigInt.asIntN(32, normalize(operand.value, type))))
        else if (wanted === 'i64') body.i64(operand.value)
        else if (wanted === 'f32') body.f32(Number(floatBits({ value: Number(operand.value), bits: 0n, width: 0 }, 4)))
        else body.f64(floatBits({ value: Number(operand.value), bits: 0n, width: 0 }, 8))
        return
      case 'float':
        if (wanted === 'f32') body.f32(Number(floatBits(operand, 4)))
        else if (wanted === 'f64') body.f64(floatBits(operand, 8))
        else if (wanted === 'i32') body.i32(Number(BigInt.asIntN(32, floatBits(operand, 4))))
        else body.i64(floatBits(operand, 8))
        return
      case 'not':
        this.push(operand.operand, type)
        body.op('i32.eqz')
        return
      case 'special':
        this.#special(operand.name, type)
        return
      case 'symbol':
        this.#symbol(operand)
        if (wanted === 'i32') body.op('i32.wrap_i64')
        return
      case 'address':
        this.push(operand.base, 'u64')
        if (operand.offset !== 0n) {
          body.write(i64(operand.offset), 'i64.add')
        }
        return
      default:
        throw ptxError('ERR_COMPILATION', `This operand cannot be read as ${type}`, this.place)
    }
  }

  /** The place in the text of the instruction that is being written, for messages. */
  get place(): { readonly line: number } {
    return this.current?.instruction ?? { line: this.fn.fn.line }
  }

  /** Converts the value on the stack from its register's WebAssembly type to that of a PTX type. */
  #convert(own: ValueType, ownBits: number, type: string): void {
    const { body } = this
    const wanted = wasmTypeOf(type)
    const bits = bitsOf(type)
    let now = own
    if (now === 'f32' && wanted !== 'f32') {
      body.op('i32.reinterpret_f32')
      now = 'i32'
    } else if (now === 'f64' && wanted !== 'f64') {
      body.op('i64.reinterpret_f64')
      now = 'i64'
    }
    if (wanted === 'i64' || wanted === 'f64') {
      if (now === 'i32') body.op(type.startsWith('s') ? 'i64.extend_i32_s' : 'i64.extend_i32_u')
      if (now !== 'f64' && wanted === 'f64') body.op('f64.reinterpret_i64')
      return
    }
    if (now === 'i64') body.op('i32.wrap_i64')
    if (wanted === 'f32') {
      if (now !== 'f32') body.op('f32.reinterpret_i32')
      return
    }
    if (type === 'pred') return
    if (type === 's16') body.op('i32.extend16_s')
    else if (type === 's8') body.op('i32.extend8_s')
    else if (bits === 8 && ownBits > 8) {
      body.write(i32(255), 'i32.and')
    } else if (bits === 16 && ownBits > 16) {
      body.write(i32(65535), 'i32.and')
    }
  }

  /** Pops a value of a PTX type into the operand that is written. */
  pop(operand: Operand, type: string, arithmetic = false): void {
    if (operand.kind === 'register') this.popTo(operand.register, type, arithmetic)
    else if (operand.kind === 'sink') this.body.op('drop')
    else throw ptxError('ERR_COMPILATION', 'A result needs a register', this.place)
  }

  popTo(register: Register, type: string, arithmetic = false): void {
    const { body } = this
    const own = this.typeOfId(register.id)
    const ownBits = bitsOf(register.type)
    const bits = bitsOf(type)
    let now = wasmTypeOf(type)
    if (now === 'f32' && arithmetic && (own !== 'f32' || this.fn.facts.observed.has(register.id))) this.#canonical()
    if (now === own && (bits >= 32 || type === 'pred') && bits === ownBits) {
      body.set(this.localOfId(register.id))
      return
    }
    if (now === 'f32' && own !== 'f32') {
      body.op('i32.reinterpret_f32')
      now = 'i32'
    } else if (now === 'f64' && own !== 'f64') {
      body.op('i64.reinterpret_f64')
      now = 'i64'
    }
    if (now === 'i32' && type !== 'pred') {
      // A result of 8 or 16 bits in a larger register is extended by its sign.
      if (bits < 32) {
        const wider = ownBits > bits
        if (type.startsWith('s') && wider) body.op(bits === 8 ? 'i32.extend8_s' : 'i32.extend16_s')
        else if (bits === 8) this.#mask(255)
        else if (!wider || !type.startsWith('s')) this.#mask(65535)
      }
      if (ownBits === 16 && (bits > 16 || type === 's8')) this.#mask(65535)
      if (ownBits === 8 && bits > 8) this.#mask(255)
      if (own === 'i64') body.op(type.startsWith('s') ? 'i64.extend_i32_s' : 'i64.extend_i32_u')
      else if (own === 'f32') body.op('f32.reinterpret_i32')
      else if (own === 'f64') {
        body.write('i64.extend_i32_u', 'f64.reinterpret_i64')
      }
    } else if (now === 'i64') {
      if (own === 'f64') body.op('f64.reinterpret_i64')
      else if (own !== 'i64') {
        body.op('i32.wrap_i64')
        if (ownBits === 16) this.#mask(65535)
        if (own === 'f32') body.op('f32.reinterpret_i32')
      }
    }
    body.set(this.localOfId(register.id))
  }

  #mask(mask: number): void {
    this.body.i32(mask)
    this.body.op('i32.and')
  }

  /** Gives a NaN of f32 the bits that the GPU gives it. */
  #canonical(): void {
    const { body } = this
    const value = body.temporary('f32')
    body.write(tee(value), f32(0x7fffffff), value, value, 'f32.eq', 'select')
    body.release('f32', value)
  }

  #symbol(operand: Extract<Operand, { kind: 'symbol' }>): void {
    const { body } = this
    const { program } = this.context
    const variable = this.variableOf(operand)
    const { current } = this
    if (variable === undefined) {
      const name = program.text.aliases.get(operand.name) ?? operand.name
      const fn = program.functions.get(name)
      if (fn === undefined) throw ptxError('ERR_COMPILATION', `'${operand.name}' is declared nowhere`, this.place)
      body.i64(FUNCTION_WINDOW + BigInt(16 * fn.index))
      return
    }
    switch (variable.space) {
      case 'shared':
        body.i64(BigInt(program.shared.offsets.get(variable.name) ?? 0) + operand.offset)
        return
      case 'local':
      case 'param': {
        const offset = this.frameOffset(variable)
        if (offset === undefined) {
          body.i64(BigInt(program.parameters.offsets.get(variable) ?? 0) + operand.offset)
          return
        }
        // The addresses of local memory count from the start of the thread's frame.
        body.write(
          this.stack,
          this.frame,
          'i32.sub',
          i32(offset + Number(operand.offset)),
          'i32.add',
          'i64.extend_i32_u',
        )
        return
      }
      default:
        if (current === undefined) throw new Error('No instruction is being written')
        body.i64(this.context.addressOf(variable.name, current) + operand.offset)
    }
  }

  /** The offset of a variable in the frame; undefined for a parameter of the kernel. */
  frameOffset(variable: Variable): number | undefined {
    const own = this.fn.frame.variables.get(variable)
    if (own !== undefined) return own
    return this.fn.fn.entry ? undefined : this.fn.call.offsets.get(variable.name)
  }

  /** The local with a value that is the same for all threads of the call, loaded once at the start. */
  uniform(name: string, type: LocalType, load: () => void): number {
    const known = this.#uniforms.get(name)
    if (known !== undefined) return known
    const local = this.body.local(type)
    this.#uniforms.set(name, local)
    this.body.at(this.body.start, () => {
      load()
      this.body.set(local)
    })
    return local
  }

  /** The local with a constant of 128 bits. */
  constant128(low: bigint, high: bigint): number {
    return this.uniform(`v128 ${low} ${high}`, 'v128', () => this.body.v128(low, high))
  }

  /** The local with the location of the cells of the launch that the block belongs to. */
  get launch(): number {
    return this.uniform('launch', 'i32', () => {
      this.body.get(this.block)
      this.body.memory('i32.load', BLOCK.launch)
    })
  }

  blockCell(name: 'shared' | 'sharedBytes' | 'smid'): number {
    return this.uniform(name, 'i32', () => {
      this.body.get(this.block)
      this.body.memory('i32.load', BLOCK[name])
    })
  }

  #launchCell(offset: number): number {
    const { launch } = this
    return this.uniform(`launch+${offset}`, 'i32', () => {
      this.body.get(launch)
      this.body.memory('i32.load', offset)
    })
  }

  #special(name: string, type: string): void {
    const { body } = this
    const wide = /^(?:clock64|globaltimer|gridid|current_graph_exec|pm\d_64)$/.test(name)
    if (wide) {
      this.#wideSpecial(name)
      if (wasmTypeOf(type) === 'i32') body.op('i32.wrap_i64')
      return
    }
    this.#narrowSpecial(name)
    if (wasmTypeOf(type) === 'i64') body.op('i64.extend_i32_u')
    else if (bitsOf(type) === 16) this.#mask(65535)
  }

  #wideSpecial(name: string): void {
    const { body } = this
    if (name === 'gridid') {
      body.write(this.launch, memory('i64.load', LAUNCH.gridId))
    } else if (name === 'clock64' || name === 'globaltimer') {
      body.write(i32(name === 'clock64' ? 0 : 1), call(this.context.runtime('clock')), 'i64.trunc_sat_f64_u')
    } else body.i64(0n)
  }

  #narrowSpecial(name: string): void {
    const { body } = this
    const [base = '', axis = ''] = name.split('.')
    const at = 4 * Math.max(0, ['x', 'y', 'z'].indexOf(axis))
    if (axis === 'w') body.i32(0)
    else if (base === 'tid') this.#tid(at / 4)
    else if (base === 'ntid') body.get(this.blockDimension(at / 4))
    else if (base === 'nctaid') body.get(this.#launchCell(LAUNCH.nctaid + at))
    else if (base === 'ctaid') {
      const cell = this.uniform(name, 'i32', () => {
        body.write(this.block, memory('i32.load', BLOCK.ctaid + at))
      })
      body.get(cell)
    } else if (base === 'laneid') {
      body.get(this.thread)
      this.#mask(31)
    } else if (base === 'warpid') {
      body.write(this.thread, i32(5), 'i32.shr_u')
    } else if (base === 'nwarpid') {
      body.write(this.#launchCell(LAUNCH.threads), i32(31), 'i32.add', i32(5), 'i32.shr_u')
    } else if (base === 'smid') body.get(this.blockCell('smid'))
    else if (base === 'nsmid') body.i32(132)
    else if (base.startsWith('lanemask_')) this.#laneMask(base.slice(9))
    else if (base === 'dynamic_smem_size') body.get(this.#launchCell(LAUNCH.dynamicShared))
    else if (base === 'total_smem_size' || base === 'aggr_smem_size') body.get(this.#launchCell(LAUNCH.totalShared))
    else if (base.startsWith('reserved_smem_offset_')) this.#reservedShared(base.slice('reserved_smem_offset_'.length))
    else if (base === 'envreg1') body.get(this.#launchCell(LAUNCH.envreg1))
    else if (base === 'envreg2') body.get(this.#launchCell(LAUNCH.envreg2))
    else if (/^(clock|clock_hi|globaltimer_lo|globaltimer_hi)$/.test(base)) {
      this.#wideSpecial(base.startsWith('clock') ? 'clock64' : 'globaltimer')
      if (base.endsWith('_hi')) {
        body.write(i64(32n), 'i64.shr_u')
      }
      body.op('i32.wrap_i64')
    } else if (base === 'cluster_nctarank') body.get(this.#launchCell(LAUNCH.clusterBlocks))
    else if (base === 'cluster_nctaid') body.get(this.#launchCell(LAUNCH.clusterSize + at))
    else if (base === 'nclusterid') body.get(this.#launchCell(LAUNCH.clusters + at))
    else if (base === 'clusterid' || base === 'cluster_ctaid') this.#inCluster(axis || 'x', base)
    else if (base === 'cluster_ctarank') this.pushClusterRank()
    else if (base === 'is_explicit_cluster') body.get(this.#launchCell(LAUNCH.hasClusters))
    else body.i32(0)
  }

  /** Pushes the number of the block's cluster, or of the block in its cluster, along one axis. */
  #inCluster(axis: string, base: 'clusterid' | 'cluster_ctaid'): void {
    const size = this.#launchCell(LAUNCH.clusterSize + 4 * ['x', 'y', 'z'].indexOf(axis))
    this.#narrowSpecial(`ctaid.${axis}`)
    this.body.write(size, base === 'clusterid' ? 'i32.div_u' : 'i32.rem_u')
  }

  /** Pushes the rank of the block in its cluster. */
  pushClusterRank(): void {
    const { body } = this
    this.#inCluster('z', 'cluster_ctaid')
    for (const axis of ['y', 'x']) {
      const size = this.#launchCell(LAUNCH.clusterSize + 4 * ['x', 'y', 'z'].indexOf(axis))
      body.write(size, 'i32.mul')
      this.#inCluster(axis, 'cluster_ctaid')
      body.op('i32.add')
    }
  }

  /** Pushes a location in the reserved shared memory; the memory of cooperative groups (1) lies in its upper half. */
  #reservedShared(which: string): void {
    if (which === 'cap') {
      this.body.i32(RESERVED_SHARED_BYTES)
      return
    }
    const distance = which === 'end' ? RESERVED_SHARED_BYTES : which === '1' ? RESERVED_SHARED_BYTES / 2 : 0
    this.body.write(this.#launchCell(LAUNCH.reservedShared), i32(distance), 'i32.add')
  }

  #laneMask(relation: string): void {
    const { body } = this
    const bit = (): void => {
      body.write(i32(1), this.thread, 'i32.shl')
    }
    // The thread's number needs no masking: WebAssembly shifts by its five lowest bits, which are the lane.
    bit()
    if (relation === 'eq') return
    if (relation === 'lt' || relation === 'ge') {
      body.write(i32(1), 'i32.sub')
    } else {
      body.write(i32(1), 'i32.shl', i32(1), 'i32.sub')
    }
    if (relation === 'ge' || relation === 'gt') {
      body.write(i32(-1), 'i32.xor')
    }
  }

  #tid(axis: number): void {
    this.body.get(this.tids()[axis] ?? 0)
  }

  /** The locals with tid.x, tid.y and tid.z. */
  tids(): readonly number[] {
    if (this.#tids !== undefined) return this.#tids
    const { body } = this
    const [x, y, z] = [body.local('i32'), body.local('i32'), body.local('i32')]
    const [nx, ny] = [this.blockDimension(0), this.blockDimension(1)]
    const thread = this.role === 'entry' ? 1 : this.thread
    body.at(body.start, () => {
      // Most entries begin with thread 0, and divisions are slow.
      body.get(thread)
      body.if()
      body.write(thread, nx, 'i32.rem_u', set(x))
      body.write(thread, nx, 'i32.div_u', tee(y), ny, 'i32.div_u', set(z), y, ny, 'i32.rem_u', set(y))
      body.end()
    })
    this.#tids = [x, y, z]
    return this.#tids
  }

  /** The local with %ntid.x, %ntid.y or %ntid.z. */
  blockDimension(axis: number): number {
    return this.#launchCell(LAUNCH.ntid + 4 * axis)
  }

  // Formulas ------------------------------------------------------------------------------------------------------------

  /** Pushes the value of a formula over the operands of an instruction. */
  formula(text: string, decoded: Decoded): void {
    const type = wasmTypeOf(decoded.modifiers['T'] ?? decoded.modifiers['D'] ?? 'b32')
    const slots = new Map(decoded.form.operands.map((slot) => [slot.name, slotType(slot.type, decoded)]))
    const named = (name: string): readonly [operand: Operand, type: string] | undefined => {
      const plain = name.endsWith('~') ? name.slice(0, -1) : name
      const [operand, slot] = [decoded.operands[plain], slots.get(plain)]
      return operand === undefined || slot === undefined ? undefined : [operand, slot]
    }
    const writer = new FormulaWriter({
      body: this.body,
      type,
      typeOf: (name) => {
        const found = named(name)
        return found === undefined ? undefined : wasmTypeOf(found[1])
      },
      push: (name) => {
        const found = named(name)
        if (found === undefined) return
        this.push(...found)
        if (name.endsWith('~') && !this.isFlushed(found[0])) this.flush()
      },
      constant: (name) => {
        const operand = decoded.operands[name]
        return operand?.kind === 'integer' ? operand.value : undefined
      },
      helper: (name) => this.context.helper(name),
      shared: (names, type, write) => {
        const operands = names.map((name) => decoded.operands[name] ?? NO_OPERAND)
        const reach = commonReach(operands.map((each) => reachOf(each, this.fn.uniform.uniform)))
        if (reach === undefined || !this.fn.fn.entry) return undefined
        const local = this.body.local(type)
        this.body.at(this.#placeOf(reach), () => {
          write()
          this.body.set(local)
        })
        return local
      },
    })
    writer.write(this.context.formula(text))
  }

  /** Whether an operand of f32 is never a denormal number. */
  isFlushed(operand: Operand): boolean {
    if (operand.kind === 'register') return this.fn.facts.flushed.has(operand.register.id)
    return operand.kind === 'float' && (operand.value === 0 || Math.abs(operand.value) >= 2 ** -126)
  }

  /** Replaces a denormal number by a zero of the same sign. */
  flush(): void {
    const { body } = this
    const value = body.temporary('f32')
    body.write(set(value), f32(0), value, 'f32.copysign', value, value, 'f32.abs', f32(0x00800000), 'f32.lt', 'select')
    body.release('f32', value)
  }
}

/** Writes a function of helpers.ts. */
export function writeHelper(name: string, context: Pick<ModuleContext, 'helper' | 'formula'>): Uint8Array {
  const helper = HELPERS[name]
  if (helper?.formula === undefined) throw new Error(`There is no formula '${name}'`)
  const body = new FunctionBody(signatureOf(helper).parameters)
  const indices = new Map(helper.parameters.map((each, index) => [each.name, index]))
  const writer = new FormulaWriter({
    body,
    type: helper.result,
    typeOf: (parameter) => helper.parameters[indices.get(parameter) ?? -1]?.type,
    push: (parameter) => body.get(indices.get(parameter) ?? 0),
    constant: () => undefined,
    helper: (other) => context.helper(other),
  })
  writer.write(parseFormula(helper.formula))
  return body.encode()
}

/** Writes a function of helpers.ts for lanes: for four threads with values of 32 bits, for two with values of 64. */
export function writeLaneHelper(name: string, context: Pick<ModuleContext, 'helper' | 'laneHelper'>): Uint8Array {
  const helper = HELPERS[name]
  if (helper?.formula === undefined) throw new Error(`There is no formula '${name}'`)
  const body = new FunctionBody(helper.parameters.map(() => 'v128'))
  const isWide = helper.result === 'i64' || helper.result === 'f64'
  const writer = new LaneFormulaWriter({
    body,
    type: helper.result,
    halves: isWide ? 1 : 2,
    typeOf: () => undefined,
    isUniform: () => false,
    isMask: () => false,
    pushUniform: () => undefined,
    push: () => undefined,
    pushHalf: () => undefined,
    constant: () => undefined,
    helper: (other) => context.helper(other),
    laneHelper: (other) => context.laneHelper(other),
    pushConstant: (low, high) => body.v128(low, high),
  })
  for (const [index, parameter] of helper.parameters.entries()) writer.bind(parameter.name, parameter.type, [index])
  const formula = parseFormula(helper.formula)
  if (isWide) for (const each of writer.pair(formula)) body.get(each)
  else writer.write(formula)
  return body.encode()
}
