/**
 * One kernel with all functions that it reaches, prepared to be compiled: which calls stop a thread, where everything lies in frames and in shared
 * memory, and the places at which threads stop and go on.
 */
import {
  type Block,
  type ControlFlow,
  calleeOf,
  controlFlowOf,
  functionCalledBy,
  type LiveRegisters,
  liveAtStart,
  regionFrom,
} from './control-flow.js'
import { accessesOf, callParts, type Decoded, registersOf, whyNotRun } from './decoding.js'
import { type InStep, isStep, StepPlacer } from './in-step.js'
import {
  align,
  type CallLayout,
  callLayout,
  FRAME,
  type FrameLayout,
  frameLayout,
  type ParameterLayout,
  parameterLayout,
} from './layout.js'
import { type RegisterFacts, registerFacts } from './register-types.js'
import {
  bitsOf,
  type Operand,
  type PtxFunction,
  type PtxText,
  ptxError,
  type Register,
  type Variable,
} from './syntax.js'
import { NO_UNIFORM_REGISTERS, type UniformRegisters, uniformRegisters } from './uniform-registers.js'

/** Functions of the GPU's run time that the host carries out. */
export const HOST_FUNCTIONS = new Set(['vprintf', '__assertfail', 'cudaGraphSetConditional', 'malloc', 'free'])

/** A value that a meeting takes from a thread, or leaves there. */
export interface Cell {
  readonly operand: Operand
  readonly name: string
  /** The offset of the value within the frame; undefined for a constant. */
  readonly offset: number | undefined
  readonly constant: bigint | undefined
  readonly bytes: 4 | 8
}

export interface MeetingCells {
  readonly sources: readonly Cell[]
  readonly results: readonly Cell[]
  readonly end: number
}

/** A place at which a thread may stop. It goes on at the start of a block of code. */
export interface Stop {
  readonly id: number
  readonly kind: 'start' | 'meeting' | 'turn' | 'enter' | 'return'
  readonly fn: PreparedFunction
  readonly block: number
  /** The instruction at which the thread stopped. */
  readonly at: Decoded | undefined
  readonly cells: MeetingCells | undefined
}

export interface PreparedFunction {
  readonly fn: PtxFunction
  readonly index: number
  readonly flow: ControlFlow
  /** The registers that are needed at the start of each block of code. */
  readonly needed: LiveRegisters
  /** The registers of `needed` without those that all threads share. */
  readonly live: LiveRegisters
  readonly uniform: UniformRegisters
  readonly facts: RegisterFacts
  readonly call: CallLayout
  readonly frame: FrameLayout
  /** Whether threads may stop inside the function. */
  readonly stops: boolean
  /** The stop that goes on at a block of code; keys are the blocks' indices. */
  readonly stopAt: ReadonlyMap<number, Stop>
  /** The number of instructions of the function. */
  readonly instructions: number
}

const SPINNING =
  /^(?:nanosleep|mbarrier\.(?:test|try)_wait|atom\.(?:.*\.)?(?:cas|exch)\b|atom\.(?:.*\.)?(?:add|or|max|min|inc|dec|and)\b|ld\.(?:volatile|acquire|relaxed|mmio)|ldu|ld\.(?:global\.)?cv)/

/** Whether an instruction may wait for another thread. */
export function mayWait({ instruction }: Decoded): boolean {
  return SPINNING.test(instruction.opcode)
}

export interface KernelProgram {
  readonly text: PtxText
  readonly kernel: PreparedFunction
  readonly functions: ReadonlyMap<string, PreparedFunction>
  /** The functions whose address is taken; keys are the numbers in their addresses. */
  readonly addressed: ReadonlyMap<number, PreparedFunction>
  readonly stops: readonly Stop[]
  readonly parameters: ParameterLayout
  readonly shared: {
    readonly offsets: ReadonlyMap<string, number>
    readonly staticBytes: number
    /** Whether the kernel asks for the location of the shared memory that is reserved for CUDA's own headers. */
    readonly usesReserved: boolean
  }
  /** The bytes of a thread's frame, without the stack of functions that are called. */
  readonly kernelFrameEnd: number
  /** The bytes that a thread has: its frame and its stack. */
  readonly threadBytes: number
  /** Variables in local memory of the kernel, and of the functions that it calls one within the other, where they take most. */
  readonly localBytes: number
  /** The reason why launches of the kernel are refused, though it is loaded; undefined if it runs. */
  readonly whyNotRun: string | undefined
  readonly hasMeetings: boolean
  /** Whether lanes stop to come together where they rely on going in step. */
  readonly goesInStep: boolean
  /** Whether a thread may stop before it ends. */
  readonly stopsThreads: boolean
  /** Whether the kernel reads %clock or %globaltimer. */
  readonly readsClock: boolean
  /**
   * Whether the kernel changes global memory by atomics or orders its accesses to it, as blocks do that pass something to each other, or uses textures,
   * whose memory other cores do not have.
   */
  readonly communicates: boolean
  /** Whether the kernel has copies in bulk, or others that an mbarrier counts. */
  readonly copiesAsynchronously: boolean
  /** Whether the kernel has those, or `cp.async`, or `wgmma`: the checks then follow what it has waited for, and what it has fenced. */
  readonly needsWaits: boolean
  /** Whether the kernel allocates memory by malloc, which later launches may use. */
  readonly allocates: boolean
  /** The functions in which a thread may wait for another one in a loop, in their own code or in what they call. */
  readonly waiting: ReadonlySet<string>
  readonly needsStack: boolean
  /** Whether a thread's frame has more than saved registers: the next block would see what a block left there. */
  readonly hasLocalMemory: boolean
}

export interface ProgramOptions {
  /** The bytes of stack that a thread has, if functions call each other in a circle or through pointers. */
  readonly stackBytes: number
  /** The accesses before which lanes of a warp come together. */
  readonly inStep: InStep
  /** Whether each thread computes all of its registers by itself, so that the program can be stepped through. */
  readonly isStepped: boolean
}

export function prepareProgram(text: PtxText, name: string, options: ProgramOptions): KernelProgram {
  return new Preparation(text, name, options).prepare()
}

/**
 * Checks a kernel and what it reaches, as `prepareProgram` does, which takes three times as long; returns the bytes of shared memory of a given size.
 * @throws as `prepareProgram` does
 */
export function checkProgram(text: PtxText, name: string, options: ProgramOptions): number {
  return new Preparation(text, name, options).check()
}

/** The number of a function in addresses: its position in the text. */
export function functionNumber(text: PtxText, name: string): number {
  let number = 1
  for (const known of text.functions.keys()) {
    if (known === name) return number
    number++
  }
  return 0
}

function codeOf({ form }: Decoded): string {
  return form.meaning.kind === 'code' ? form.meaning.code : form.meaning.kind
}

function communicates({ body = [] }: PtxFunction): boolean {
  return body.some(({ opcode }) =>
    /^(?:tex|tld4|txq|suld|sust|sured|suq)\.|^(?:atom|red)\.(?!.*shared)|^membar\.(?:gl|sys)|^fence\..*\.(?:gpu|sys)/.test(
      opcode,
    ),
  )
}

/** Copies that the run time carries out by itself, as code for the threads of a block cannot. */
const ASYNCHRONOUS = /^(?:cp\.(?:reduce\.)?async\.bulk|(?:st|red)\.async|tensormap)\./

function copiesAsynchronously({ body = [] }: PtxFunction): boolean {
  return body.some(({ opcode }) => ASYNCHRONOUS.test(opcode))
}

/** Instructions whose effects reach a thread, or memory, only once the program has waited for them or has fenced them. */
const UNFINISHED = /^(?:cp\.async\.c[ag]|wgmma\.mma_async)\./

function needsWaits(fn: PtxFunction): boolean {
  return copiesAsynchronously(fn) || (fn.body ?? []).some(({ opcode }) => UNFINISHED.test(opcode))
}

function allocates({ body = [] }: PtxFunction): boolean {
  return body.some(({ operands }) => operands.some((each) => each.kind === 'symbol' && each.name === 'malloc'))
}

function hasLocalMemory({ variables, body = [] }: PtxFunction): boolean {
  const isLocal = variables.some(({ space }) => space === 'local' || space === 'param')
  return isLocal || body.some(({ opcode }) => opcode.startsWith('alloca'))
}

/** What a call takes of the stack. */
function stackBytesOf(called: PreparedFunction | undefined): number {
  if (called === undefined) return 256
  return called.fn.entry ? 0 : called.frame.byteLength
}

function localBytesOf(called: PreparedFunction | undefined): number {
  const variables = called?.fn.variables ?? []
  return variables.reduce((sum, { space, byteLength }) => sum + (space === 'local' ? align(byteLength, 8) : 0), 0)
}

function readsClock({ body = [] }: PtxFunction): boolean {
  return body.some(({ operands }) =>
    operands.some((each) => each.kind === 'special' && /^(?:clock|globaltimer)/.test(each.name)),
  )
}

class Preparation {
  readonly #reached = new Map<string, { fn: PtxFunction; flow: ControlFlow; taken: boolean }>()
  readonly #stops: Stop[] = []
  readonly #steps: StepPlacer

  constructor(
    private readonly text: PtxText,
    private readonly name: string,
    private readonly options: ProgramOptions,
  ) {
    this.#steps = new StepPlacer(text, options.inStep)
  }

  check(): number {
    this.#reach(this.#kernel(), (fn) => controlFlowOf(fn, () => false))
    return this.#shared().staticBytes
  }

  #kernel(): PtxFunction {
    const kernel = this.text.functions.get(this.name)
    if (kernel?.isDefined !== true || !kernel.entry)
      throw ptxError('ERR_COMPILATION', `'${this.name}' is no kernel of this module`, { line: kernel?.line ?? 1 })
    return kernel
  }

  prepare(): KernelProgram {
    const kernel = this.#kernel()
    this.#reach(kernel, (fn) => this.#flowOf(fn, () => false))
    const waiting = this.#waitingFunctions()
    const stopping = this.#stoppingFunctions(waiting)
    const shared = this.#shared()
    const cellsEnd = align(this.#cellsEnd(), 16)
    const prepared = new Map<string, PreparedFunction>()
    let hasMeetings = false
    for (const [name, { fn }] of this.#reached) {
      const stops = fn.entry || stopping.has(name)
      const flow = this.#flowOf(fn, (call) => this.#callsOneOf(call, stopping))
      const needed = liveAtStart(flow)
      const uniform = this.options.isStepped ? NO_UNIFORM_REGISTERS : uniformRegisters(flow, needed.at(0))
      const live = needed.without(uniform.uniform)
      const own = this.#stopsOf(fn, flow, stops)
      hasMeetings ||= own.some(({ kind }) => kind === 'meeting' || kind === 'return')
      const saved = new Set<number>()
      for (const { block } of own) {
        live.forEach(block, (id) => saved.add(id))
      }
      const call = callLayout(fn)
      const frame = frameLayout(fn, fn.entry ? cellsEnd : call.end, saved)
      const stopAt = new Map<number, Stop>()
      const result: PreparedFunction = {
        fn,
        index: functionNumber(this.text, name),
        flow,
        needed,
        live,
        uniform,
        facts: registerFacts(flow),
        call,
        frame,
        stops,
        stopAt,
        instructions: fn.body?.length ?? 0,
      }
      for (const stop of own) {
        const whole: Stop = { ...stop, id: this.#stops.length, fn: result }
        this.#stops.push(whole)
        stopAt.set(stop.block, whole)
      }
      prepared.set(name, result)
    }
    const main = prepared.get(this.name)
    if (main === undefined) throw new Error('The kernel is reached from itself')
    const addressed = new Map<number, PreparedFunction>()
    for (const [name, { taken }] of this.#reached) {
      const fn = prepared.get(name)
      if (taken && fn !== undefined) addressed.set(fn.index, fn)
    }
    const kernelFrameEnd = main.frame.byteLength
    const { deepest, isEndless } = this.#deepestCalls(prepared, stackBytesOf)
    const stack = isEndless ? Math.max(deepest, this.options.stackBytes) : deepest
    // The padding keeps frames from all beginning at the same line of the processor's cache.
    const threadBytes = align(kernelFrameEnd + stack, 16) + (kernelFrameEnd + stack > 512 ? 80 : 0)
    return {
      text: this.text,
      kernel: main,
      functions: prepared,
      addressed,
      stops: this.#stops,
      parameters: parameterLayout(kernel.parameters),
      shared,
      kernelFrameEnd,
      threadBytes,
      localBytes: this.#deepestCalls(prepared, localBytesOf).deepest,
      whyNotRun: this.#whyNotRun(),
      hasMeetings,
      goesInStep: this.#stops.some(({ at }) => at !== undefined && isStep(at)),
      stopsThreads: this.#stops.length > 1,
      readsClock: [...this.#reached.values()].some(({ fn }) => readsClock(fn)),
      communicates: [...this.#reached.values()].some(({ fn }) => communicates(fn)),
      copiesAsynchronously: [...this.#reached.values()].some(({ fn }) => copiesAsynchronously(fn)),
      needsWaits: [...this.#reached.values()].some(({ fn }) => needsWaits(fn)),
      allocates: [...this.#reached.values()].some(({ fn }) => allocates(fn)),
      waiting,
      needsStack: stack > 0,
      hasLocalMemory: stack > 0 || [...prepared.values()].some(({ fn }) => hasLocalMemory(fn)),
    }
  }

  #flowOf(fn: PtxFunction, stops: (call: Decoded) => boolean): ControlFlow {
    const flow = controlFlowOf(fn, stops)
    this.#steps.place(flow)
    return flow
  }

  #whyNotRun(): string | undefined {
    for (const { flow } of this.#reached.values()) {
      for (const { instructions } of flow.blocks) {
        for (const decoded of instructions) {
          const why = whyNotRun(decoded)
          if (why !== undefined) return why
        }
      }
    }
    return undefined
  }

  /** Collects the functions that can be called, and those whose address is taken. */
  #reach(kernel: PtxFunction, flowOf: (fn: PtxFunction) => ControlFlow): void {
    const queue: PtxFunction[] = [kernel]
    const add = (name: string, taken: boolean, at: Decoded | undefined): void => {
      const real = this.text.aliases.get(name) ?? name
      const known = this.#reached.get(real)
      if (known !== undefined) {
        known.taken ||= taken
        return
      }
      const fn = this.text.functions.get(real)
      if (fn === undefined || (!fn.isDefined && HOST_FUNCTIONS.has(real))) return
      if (!fn.isDefined) {
        const place = at?.instruction ?? { line: fn.line }
        throw ptxError(
          'ERR_COMPILATION',
          `The function '${real}' is declared, but not in this module: link it in`,
          place,
        )
      }
      if (!fn.entry || fn === kernel) {
        const flow = flowOf(fn)
        this.#reached.set(real, { fn, flow, taken })
        queue.push(fn)
      }
    }
    add(kernel.name, false, undefined)
    queue.length = 1
    let indirect = false
    for (let fn = queue.pop(); fn !== undefined; fn = queue.pop()) {
      for (const block of this.#reached.get(fn.name)?.flow.blocks ?? []) {
        for (const decoded of block.instructions) {
          const isCall = codeOf(decoded) === 'call'
          const callee = isCall ? calleeOf(decoded) : undefined
          if (callee !== undefined) {
            add(callee, false, decoded)
            continue
          }
          if (isCall) indirect = true
          for (const operand of decoded.instruction.operands) {
            if (operand.kind === 'symbol' && this.text.functions.get(operand.name)?.entry === false)
              add(operand.name, true, decoded)
          }
        }
      }
      if (queue.length === 0 && indirect) {
        // Pointers to functions may also come from tables in memory.
        for (const { initial } of this.text.variables.values()) {
          for (const { symbol } of initial) {
            if (symbol !== undefined && this.text.functions.get(symbol)?.entry === false) add(symbol, true, undefined)
          }
        }
        for (const [name, other] of this.text.functions) {
          if (other.entry || !other.isDefined || this.#reached.has(name)) continue
          // A kernel that ran before may have written the address of any function that is taken anywhere.
          if (this.#takenAnywhere().has(name)) add(name, true, undefined)
        }
        indirect = false
      }
    }
  }

  #taken: Set<string> | undefined

  #takenAnywhere(): ReadonlySet<string> {
    if (this.#taken !== undefined) return this.#taken
    const taken = new Set<string>()
    for (const fn of this.text.functions.values()) {
      for (const { opcode, operands } of fn.body ?? []) {
        if (opcode.startsWith('call')) continue
        for (const operand of operands) {
          if (operand.kind === 'symbol' && this.text.functions.get(operand.name)?.entry === false)
            taken.add(operand.name)
        }
      }
    }
    this.#taken = taken
    return taken
  }

  #waitingFunctions(): Set<string> {
    const waiting = new Set<string>()
    for (let size = -1; size !== waiting.size; ) {
      size = waiting.size
      for (const [name, { flow }] of this.#reached) {
        const waits = (decoded: Decoded): boolean => mayWait(decoded) || this.#callsOneOf(decoded, waiting)
        if (flow.blocks.some(({ instructions }) => instructions.some(waits))) waiting.add(name)
      }
    }
    return waiting
  }

  /** Functions in which threads may stop: they meet, wait for others in a loop, or call such a function. */
  #stoppingFunctions(waiting: ReadonlySet<string>): Set<string> {
    const stopping = new Set<string>()
    for (const [name, { fn, flow }] of this.#reached) {
      if (fn.entry) continue
      const meets = flow.blocks.some(({ terminator }) => terminator.kind === 'meeting')
      if (meets || (waiting.has(name) && regionFrom(flow, 0).loops.size > 0)) stopping.add(name)
    }
    for (let changed = true; changed; ) {
      changed = false
      const anyAddressed = [...this.#reached].some(([name, { taken }]) => taken && stopping.has(name))
      for (const [name, { fn, flow, taken }] of this.#reached) {
        if (fn.entry || stopping.has(name)) continue
        const calls = flow.blocks.some(({ instructions }) => instructions.some((at) => this.#callsOneOf(at, stopping)))
        const stops = calls || (taken && anyAddressed)
        if (!stops) continue
        stopping.add(name)
        changed = true
      }
    }
    return stopping
  }

  /** Whether an instruction calls one of these functions, or calls through a pointer that may be the address of one. */
  #callsOneOf(decoded: Decoded, names: ReadonlySet<string>): boolean {
    if (codeOf(decoded) !== 'call') return false
    const callee = functionCalledBy(decoded, this.text)
    if (callee !== undefined) return names.has(callee)
    return [...this.#reached].some(([name, { taken }]) => taken && names.has(name))
  }

  #stopsOf(fn: PtxFunction, flow: ControlFlow, stops: boolean): Omit<Stop, 'id' | 'fn'>[] {
    const all: Omit<Stop, 'id' | 'fn'>[] = []
    if (!stops) return all
    all.push({ kind: fn.entry ? 'start' : 'enter', block: 0, at: undefined, cells: undefined })
    const loops = new Set<number>()
    const entries = [0]
    const read = new Set<Register>()
    /** Registers that are only ever given one constant, as compilers do for the operands of a shuffle. */
    const constants = new Map<Register, bigint | undefined>()
    for (const { instructions, terminator } of flow.blocks) {
      for (const decoded of 'at' in terminator ? [...instructions, terminator.at] : instructions) {
        const { reads, writes } = accessesOf(decoded)
        for (const each of reads) read.add(each)
        const source = decoded.form.opcode === 'mov' ? decoded.operands['a'] : undefined
        for (const each of writes) {
          constants.set(each, source?.kind === 'integer' && !constants.has(each) ? source.value : undefined)
        }
      }
      if (terminator.kind === 'branch') read.add(terminator.register)
      if (terminator.kind === 'switch' && terminator.index.kind === 'register') read.add(terminator.index.register)
    }
    for (const { terminator } of flow.blocks) {
      if (terminator.kind === 'meeting') {
        entries.push(terminator.next)
        const cells = meetingCells(
          terminator.at,
          (register) => read.has(register),
          (register) => constants.get(register),
        )
        all.push({ kind: 'meeting', block: terminator.next, at: terminator.at, cells })
      } else if (terminator.kind === 'call') {
        entries.push(terminator.next)
        all.push({ kind: 'return', block: terminator.next, at: terminator.at, cells: undefined })
      }
    }
    for (const entry of entries) for (const block of regionFrom(flow, entry).loops) loops.add(block)
    for (const block of loops) {
      all.push({ kind: 'turn', block, at: firstInstruction(flow.blocks[block]), cells: undefined })
    }
    return all
  }

  #cellsEnd(): number {
    let end: number = FRAME.cells
    for (const { flow } of this.#reached.values()) {
      for (const { terminator } of flow.blocks) {
        if (terminator.kind === 'meeting') end = Math.max(end, meetingCells(terminator.at).end)
      }
    }
    return end
  }

  #shared(): KernelProgram['shared'] {
    const offsets = new Map<string, number>()
    const dynamic: Variable[] = []
    let usesReserved = false
    let end = 0
    const place = (variable: Variable): void => {
      if (variable.space !== 'shared' || offsets.has(variable.name)) return
      if (variable.external || variable.byteLength === 0) {
        dynamic.push(variable)
        return
      }
      const offset = align(end, variable.alignment)
      offsets.set(variable.name, offset)
      end = offset + variable.byteLength
    }
    const use = (operand: Operand): void => {
      if (operand.kind === 'address') use(operand.base)
      else if (operand.kind === 'vector' || operand.kind === 'list') operand.items.forEach(use)
      else if (operand.kind === 'special') usesReserved ||= operand.name.startsWith('reserved_smem')
      else if (operand.kind === 'symbol') {
        const variable = operand.variable ?? this.text.variables.get(operand.name)
        if (variable !== undefined) place(variable)
      }
    }
    for (const { fn } of this.#reached.values()) {
      for (const each of fn.variables) place(each)
      for (const { operands } of fn.body ?? []) operands.forEach(use)
    }
    // Dynamic shared memory begins behind the variables of a given size.
    const begin = dynamic.reduce((at, { alignment }) => align(at, Math.max(alignment, 1)), end)
    for (const { name } of dynamic) offsets.set(name, begin)
    return { offsets, staticBytes: dynamic.length > 0 ? begin : end, usesReserved }
  }

  /**
   * The most bytes that the kernel and functions take which it calls one within the other. `bytesOf(undefined)` is what a function outside of
   * the module takes. The depth of calls in a circle and through pointers is not known.
   */
  #deepestCalls(
    prepared: ReadonlyMap<string, PreparedFunction>,
    bytesOf: (fn: PreparedFunction | undefined) => number,
  ): { readonly deepest: number; readonly isEndless: boolean } {
    const depth = new Map<string, number>()
    const active = new Set<string>()
    let isEndless = false
    const measure = (name: string): number => {
      const known = depth.get(name)
      if (known !== undefined) return known
      const fn = prepared.get(name)
      if (fn === undefined) return bytesOf(fn)
      if (active.has(name)) {
        isEndless = true
        return 0
      }
      active.add(name)
      let deepest = 0
      for (const { instructions, terminator } of fn.flow.blocks) {
        for (const decoded of 'at' in terminator ? [...instructions, terminator.at] : instructions) {
          const code = codeOf(decoded)
          if (code === 'alloca') isEndless = true
          if (code !== 'call') continue
          const callee = calleeOf(decoded)
          if (callee === undefined) isEndless = true
          else deepest = Math.max(deepest, measure(this.text.aliases.get(callee) ?? callee))
        }
      }
      active.delete(name)
      const total = deepest + bytesOf(fn)
      depth.set(name, total)
      return total
    }
    return { deepest: measure(this.name), isEndless }
  }
}

function firstInstruction(block: Block | undefined): Decoded | undefined {
  if (block === undefined) return undefined
  return block.instructions[0] ?? ('at' in block.terminator ? block.terminator.at : block.at)
}

/** The values that a meeting instruction takes and leaves, with their offsets in a thread's frame. */
function meetingCells(
  decoded: Decoded,
  isRead: (register: Register) => boolean = () => true,
  constantOf: (register: Register) => bigint | undefined = () => undefined,
): MeetingCells {
  const [sources, results]: [Cell[], Cell[]] = [[], []]
  let end: number = FRAME.cells
  const add = (operand: Operand, name: string, into: Cell[]): void => {
    switch (operand.kind) {
      case 'vector':
      case 'list':
        for (const each of operand.items) add(each, name, into)
        return
      case 'pair':
        add(operand.first, name, into)
        add(operand.second, name, into)
        return
      case 'integer':
        into.push({ operand, name, offset: undefined, constant: operand.value, bytes: 4 })
        return
      case 'float':
        into.push({ operand, name, offset: undefined, constant: operand.bits, bytes: 4 })
        return
      default: {
        const found: Register[] = []
        registersOf(operand, found)
        const constant = operand.kind === 'register' ? constantOf(operand.register) : undefined
        if (into === sources && constant !== undefined) {
          into.push({ operand, name, offset: undefined, constant, bytes: 4 })
          return
        }
        // A result that no instruction reads is not stored; most shuffles have such a predicate.
        if (into === results && (operand.kind === 'sink' || found.every((each) => !isRead(each)))) {
          into.push({ operand: { kind: 'sink' }, name, offset: undefined, constant: undefined, bytes: 4 })
          return
        }
        const isWide = operand.kind !== 'register' && operand.kind !== 'not' && operand.kind !== 'sink'
        const bytes = isWide || bitsOf(found[0]?.type ?? 'b32') === 64 ? 8 : 4
        end = align(end, bytes)
        into.push({ operand, name, offset: end, constant: undefined, bytes })
        end += bytes
      }
    }
  }
  for (const { name, written, read } of decoded.form.operands) {
    const operand = decoded.operands[name]
    if (operand === undefined) continue
    if (read) add(operand, name, sources)
    if (written) add(operand, name, results)
  }
  return { sources, results, end }
}

/** The layout of the arguments of a call through a pointer, from its prototype. */
export function prototypeOf(decoded: Decoded, text: PtxText): CallLayout | undefined {
  const { list } = callParts(decoded.instruction)
  if (list === undefined) return undefined
  for (
    let scope = decoded.instruction.scope as typeof decoded.instruction.scope | undefined;
    scope;
    scope = scope.outer
  ) {
    const prototype = scope.prototypes.get(list)
    if (prototype !== undefined) return callLayout(prototype)
    const targets = scope.targets.get(list)
    const first = text.functions.get(targets?.[0] ?? '')
    if (first !== undefined) return callLayout(first)
  }
  return undefined
}
