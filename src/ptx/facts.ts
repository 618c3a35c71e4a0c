/** The properties of a kernel that its text shows without running it: its parameters, what it does to memory through them, its size. */
import { accessesOf, callParts, type Decoded } from './decoding.js'
import type { Triple } from './faults.js'
import { HOST_FUNCTIONS, type KernelProgram } from './program.js'
import { bitsOf, type Operand, type Register, type Variable } from './syntax.js'

/** The accesses of a kernel to the memory that a parameter points to. */
export type PointerUse = 'none' | 'read' | 'write' | 'read-write' | 'unknown'

export interface ParameterFacts {
  readonly name: string
  /** The type in the text, such as 'u64'; 'b8' for a structure. */
  readonly type: string
  readonly offset: number
  readonly byteLength: number
  readonly alignment: number
  /** Whether the parameter is, or contains, an address: the text says `.ptr`, or memory is accessed through it. */
  readonly pointer: boolean
  /**
   * The accesses through the parameter. 'unknown' if its address is stored, passed to another function, or computed with in ways that are not
   * followed.
   */
  readonly use: PointerUse
  /** Whether atomics change the memory. */
  readonly atomic: boolean
  /** Whether nothing but atomics accesses the memory. */
  readonly onlyAtomic: boolean
  /** Whether the parameter is a tensor map, by which the kernel copies tiles: then `use` is that of the memory behind the map. */
  readonly tensorMap: boolean
}

/** The bytes of shared memory that a kernel may declare on any GPU. A kernel that needs more uses dynamic shared memory, given at the launch. */
export const MOST_STATIC_SHARED = 48 * 1024

export interface KernelFacts {
  readonly name: string
  readonly parameters: readonly ParameterFacts[]
  readonly parameterBytes: number
  /** The bytes of shared memory with a declared size; dynamic shared memory lies behind them. */
  readonly staticSharedBytes: number
  readonly usesDynamicShared: boolean
  /** The bytes of local memory of a thread: variables of the kernel and of the functions that it calls. */
  readonly localBytes: number
  /** The most words that live at the same time, about as many as a GPU needs registers. */
  readonly registers: number
  /** The most threads of a block, from `.maxntid`. CUDA's function attribute does not report `.reqntid`, which requires exactly so many. */
  readonly maxThreads: number | undefined
  readonly requiredThreads: readonly number[] | undefined
  /** The number that `.minnctapersm` gives. */
  readonly minBlocks: number | undefined
  /** The number of instructions of the kernel and of all functions that it calls. */
  readonly instructions: number
  /** Whether the kernel reads or writes variables of the module. */
  readonly variables: boolean
  /** Whether the kernel accesses memory through addresses that come from no parameter and no variable of the module. */
  readonly otherMemory: boolean
  /** The reason why launches of the kernel are refused, though it is loaded; undefined if it runs. */
  readonly whyNotRun: string | undefined
  /** The blocks of a cluster in each direction that `.reqnctapercluster` requires. */
  readonly requiredCluster: Triple | undefined
  /** Whether a launch has to give the cluster (`.explicitcluster`). */
  readonly needsCluster: boolean
  /** The most blocks of a cluster, from `.maxclusterrank`. */
  readonly maxClusterBlocks: number | undefined
  /** Whether threads meet: barriers, shuffles, votes, operations on matrices. */
  readonly hasMeetings: boolean
}

/** The origin, in place of a parameter's index, of the address of a global variable; ELSEWHERE is that of an address read from memory. */
const MODULE = -1
const ELSEWHERE = -2

export function factsOf(program: KernelProgram): KernelFacts {
  const { kernel, functions, parameters, shared } = program
  const flow = new PointerFlow(program)
  flow.follow()
  const { directives } = kernel.fn
  const product = (name: string): number | undefined => directives.get(name)?.reduce((a, b) => a * b, 1)
  let instructions = 0
  for (const fn of functions.values()) instructions += fn.instructions
  return {
    name: kernel.fn.name,
    parameters: kernel.fn.parameters.map((variable, index) => flow.parameter(variable, index)),
    parameterBytes: parameters.byteLength,
    staticSharedBytes: shared.staticBytes,
    usesDynamicShared: [...shared.offsets].some(([name]) => dynamicShared(program, name)),
    localBytes: program.localBytes,
    registers: pressureOf(program),
    maxThreads: product('maxntid'),
    requiredThreads: directives.get('reqntid'),
    minBlocks: directives.get('minnctapersm')?.[0],
    instructions,
    variables: flow.variables,
    otherMemory: flow.otherMemory,
    whyNotRun: program.whyNotRun,
    requiredCluster: clusterOf(directives.get('reqnctapercluster')),
    needsCluster: directives.has('explicitcluster'),
    maxClusterBlocks: directives.get('maxclusterrank')?.[0],
    hasMeetings: program.hasMeetings,
  }
}

function clusterOf(given: readonly number[] | undefined): Triple | undefined {
  if (given === undefined) return undefined
  const [x = 1, y = 1, z = 1] = given
  return [x, y, z]
}

function dynamicShared({ text, functions }: KernelProgram, name: string): boolean {
  const known = text.variables.get(name)
  if (known !== undefined) return known.space === 'shared' && (known.external || known.byteLength === 0)
  return [...functions.values()].some(({ fn }) =>
    fn.variables.some((each) => each.name === name && each.space === 'shared' && each.byteLength === 0),
  )
}

/** The most words of registers that live at the start of a block of code. */
function pressureOf({ kernel }: KernelProgram): number {
  let most = 0
  for (let block = 0; block < kernel.needed.blocks; block++) {
    let words = 0
    kernel.needed.forEach(block, (id) => {
      const bits = bitsOf(kernel.fn.registers[id]?.type ?? 'b32')
      words += bits === 1 ? 0 : Math.max(1, bits / 32)
    })
    most = Math.max(most, words)
  }
  // The assembler needs a few more registers within blocks of code than live at their starts.
  return Math.min(255, 16 + most)
}

/** Follows addresses from parameters through registers to accesses, without regard to the order of instructions. */
class PointerFlow {
  readonly #origins = new Map<Register, Set<number>>()
  readonly #reads = new Set<number>()
  readonly #writes = new Set<number>()
  readonly #atomics = new Set<number>()
  /** The origins of addresses that instructions other than atomics access. */
  readonly #plain = new Set<number>()
  readonly #escaped = new Set<number>()
  /** The origins of addresses at which copies of tiles find their tensor map. */
  readonly #maps = new Set<number>()
  readonly #parameters: readonly Variable[]
  readonly #all: readonly Decoded[]
  #changed = true

  constructor(private readonly program: KernelProgram) {
    this.#parameters = program.kernel.fn.parameters
    this.#all = program.kernel.flow.blocks.flatMap(({ instructions, terminator }) =>
      'at' in terminator ? [...instructions, terminator.at] : instructions,
    )
  }

  get variables(): boolean {
    return this.#reads.has(MODULE) || this.#writes.has(MODULE)
  }

  get otherMemory(): boolean {
    return this.#reads.has(ELSEWHERE) || this.#writes.has(ELSEWHERE)
  }

  follow(): void {
    while (this.#changed) {
      this.#changed = false
      for (const decoded of this.#all) this.#step(decoded)
    }
  }

  parameter(variable: Variable, index: number): ParameterFacts {
    const [reads, writes] = [this.#reads.has(index), this.#writes.has(index)]
    const escaped = this.#escaped.has(index)
    const use: PointerUse = escaped
      ? 'unknown'
      : reads && writes
        ? 'read-write'
        : writes
          ? 'write'
          : reads
            ? 'read'
            : 'none'
    return {
      name: variable.name,
      type: variable.type,
      offset: this.program.parameters.offsets.get(variable) ?? 0,
      byteLength: variable.byteLength,
      alignment: variable.alignment,
      pointer: variable.pointer !== undefined || reads || writes,
      use,
      atomic: this.#atomics.has(index),
      tensorMap: this.#maps.has(index),
      onlyAtomic: this.#atomics.has(index) && !this.#plain.has(index) && !escaped,
    }
  }

  #originsOf(operand: Operand | undefined): ReadonlySet<number> {
    const origins = new Set<number>()
    const add = (each: Operand | undefined): void => {
      if (each?.kind === 'register') for (const origin of this.#origins.get(each.register) ?? []) origins.add(origin)
      else if (each?.kind === 'address') add(each.base)
      else if (each?.kind === 'vector' || each?.kind === 'list') each.items.forEach(add)
      else if (each?.kind === 'symbol') {
        const variable = each.variable ?? this.program.text.variables.get(each.name)
        const parameter = variable === undefined ? -1 : this.#parameters.indexOf(variable)
        if (parameter >= 0) origins.add(parameter)
        else if (variable?.space === 'global' || variable?.space === 'const') origins.add(MODULE)
      }
    }
    add(operand)
    return origins
  }

  #give(registers: readonly Register[], origins: ReadonlySet<number>): void {
    for (const register of registers) {
      const known = this.#origins.get(register) ?? new Set<number>()
      this.#origins.set(register, known)
      for (const origin of origins) {
        if (known.has(origin)) continue
        known.add(origin)
        this.#changed = true
      }
    }
  }

  #escape(operand: Operand | undefined): void {
    for (const origin of this.#originsOf(operand)) {
      if (origin < 0 || this.#escaped.has(origin)) continue
      this.#escaped.add(origin)
      this.#changed = true
    }
  }

  /** Notes an access through an address. */
  #access(operand: Operand | undefined, into: readonly Set<number>[]): void {
    const origins = this.#originsOf(operand)
    const known = origins.size === 0 ? new Set([ELSEWHERE]) : origins
    const all = into.includes(this.#atomics) ? into : [...into, this.#plain]
    for (const origin of known) for (const set of all) set.add(origin)
  }

  /** Notes what a bulk copy, or a copy of a tile, does to global memory. */
  #copy(decoded: Decoded): void {
    const { operands, modifiers } = decoded
    const reads = modifiers['op'] !== undefined
    const into = reads ? [this.#reads, this.#writes, this.#atomics] : [this.#writes]
    if (operands['t'] !== undefined) {
      for (const origin of this.#originsOf(operands['t'])) if (origin >= 0) this.#maps.add(origin)
      this.#access(operands['t'], modifiers['dst'] === 'global' ? into : [this.#reads])
      return
    }
    if (modifiers['src'] === 'global') this.#access(operands['b'], [this.#reads])
    if (modifiers['dst'] === 'global') this.#access(operands['a'], into)
    // A map in memory may get another address.
    if (modifiers['field'] === 'global_address') this.#escape(operands['b'])
  }

  #step(decoded: Decoded): void {
    const { form, operands, modifiers, instruction } = decoded
    const { writes } = accessesOf(decoded)
    const code = form.meaning.kind === 'code' ? form.meaning.code : form.meaning.kind
    const space = modifiers['space'] ?? ''
    const local = /^(shared|local)/.test(space)
    switch (code) {
      case 'load':
        if (space.startsWith('param')) {
          const address = operands['a']
          this.#give(writes, this.#originsOf(address))
        } else if (!local) {
          this.#access(operands['a'], [this.#reads])
          // An address that is read from memory may point anywhere.
          if (writes.some(({ type }) => bitsOf(type) === 64)) this.#give(writes, new Set([ELSEWHERE]))
        }
        return
      case 'store':
        if (space.startsWith('param')) this.#escape(operands['b'])
        else {
          if (!local) this.#access(operands['a'], [this.#writes])
          this.#escape(operands['b'])
        }
        return
      case 'atomic':
        if (!local) this.#access(operands['a'], [this.#reads, this.#writes, this.#atomics])
        this.#escape(operands['b'])
        this.#escape(operands['c'])
        return
      case 'copy':
        this.#access(operands['b'], [this.#reads])
        return
      case 'asynchronous':
        this.#copy(decoded)
        return
      case 'call': {
        const { results, target, parameters } = callParts(instruction)
        for (const each of [...parameters, target]) this.#escape(each)
        this.#give(writes, new Set([ELSEWHERE]))
        if (results.length > 0 && target.kind === 'symbol' && !HOST_FUNCTIONS.has(target.name))
          this.#give(writes, new Set([ELSEWHERE]))
        return
      }
      case 'meeting':
        if (/^wmma\.load/.test(form.pattern) && !local) this.#access(operands['a'], [this.#reads])
        else if (/^wmma\.store/.test(form.pattern) && !local) this.#access(operands['a'], [this.#writes])
        else for (const { name, written } of form.operands) if (!written) this.#escape(operands[name])
        return
      case 'texture':
        // The memory of a texture that is an argument is known. A handle from elsewhere may stand for any memory.
        if (this.#originsOf(operands['a']).has(ELSEWHERE)) this.#access(operands['a'], [this.#reads, this.#writes])
        return
      case 'setp':
      case 'isspacep':
        return
      default: {
        const origins = new Set<number>()
        for (const { name, written } of form.operands) {
          if (!written) for (const origin of this.#originsOf(operands[name])) origins.add(origin)
        }
        // The half of an address, or the result of comparing one, is not followed as an address.
        this.#give(writes, origins)
      }
    }
  }
}
