/** Kernels in JavaScript, which work on the bytes of the memory that they are given. */
import { checkInteger } from '../foundation/base/arguments.js'
import { LONGEST_ARRAY, sameBytes } from '../foundation/base/bytes.js'
import { type ElementLayout, type Leaf, scalarLayout } from '../foundation/base/element-layout.js'
import { dataViewOf, SCALAR_ACCESS, type ScalarType } from '../foundation/base/element-types.js'
import { invalidType, invalidValue, stateError } from '../foundation/base/errors.js'
import { surfacing } from '../foundation/base/uncaught.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import type { Pointer } from '../foundation/driver/handle-types.js'
import {
  type DescribeParameter,
  type HostKernel,
  type HostModule,
  isMemoryArgument,
  type LaunchShape,
  type PassedType,
  type SetConditional,
} from '../foundation/driver/kernel-driver.js'
import type { KernelWork } from '../foundation/driver/queued-work.js'
import { type TouchedMemory, touching } from '../foundation/driver/touched-memory.js'
import { type Computation, InParts, type Slice } from './machine/slice.js'
import { LaunchFault, type Touch, type Work } from './machine/work.js'
import { MemoryBlock } from './memory-blocks.js'
import type { Queued, SimMemory } from './sim-memory.js'
import { type Change, watchWrites } from './written-memory.js'

export const CALL = 'cuLaunchKernelEx'
const BYTE = scalarLayout('u8')
const NOTHING = { begin: 0, end: 0 }

/** A launch with its arguments. They are kept as pieces of memory and not as buffers, since a graph keeps the launch. */
interface HostCall {
  readonly pieces: readonly TouchedMemory[]
  /** The names of the pieces in errors. */
  readonly names: readonly string[]
  /** The layouts of the pieces' elements. */
  readonly elements: readonly ElementLayout[]
  /** Runs the host implementation on the bytes of the pieces. */
  readonly run: (bytes: readonly Uint8Array[]) => void
  /** The same part by part; undefined if it is one part. */
  readonly parts?: ((bytes: readonly Uint8Array[]) => Iterable<unknown>) | undefined
}

function hostCallOf(
  host: HostKernel,
  { kernel, shape, args }: KernelWork,
  memory: SimMemory,
  setConditional: SetConditional,
): HostCall {
  const pieces: TouchedMemory[] = []
  const names: string[] = []
  const elements: ElementLayout[] = []
  const scalars = args.map((given, index) => {
    const { access, element = BYTE } = kernel.uses[index] ?? {}
    if (ArrayBuffer.isView(given) || (!isMemoryArgument(given) && access === undefined)) return given
    if (isMemoryArgument(given) && given.object !== undefined) return BigInt(given.object.handle)
    const { pointer, byteLength } = isMemoryArgument(given) ? given : memoryFrom(Number(given) as Pointer, memory)
    pieces.push(touching(pointer, byteLength, access ?? 'inout'))
    names.push(host.argumentNames[index] ?? `argument ${index}`)
    elements.push(element)
    return undefined
  })
  const run = (bytes: readonly Uint8Array[]): void => {
    let next = 0
    host.run(
      shape,
      scalars.map((value) => {
        if (value !== undefined) return value
        next += 1
        return bytes[next - 1] ?? new Uint8Array()
      }),
      (handle, value) => {
        if (typeof handle !== 'bigint') throw invalidType('handle', 'the bigint that the kernel was given', handle)
        setConditional(handle, checkInteger(value, 'value', 0, 2 ** 32 - 1))
      },
    )
  }
  return { pieces, names, elements, run }
}

/** The blocks in which the pieces lie when the work is queued: by the time that it runs, an address may belong to another block. */
const blocksOf = (pieces: readonly TouchedMemory[], memory: SimMemory): readonly (MemoryBlock | undefined)[] =>
  pieces.map(({ pointer, byteLength }) => (byteLength === 0 ? undefined : memory.blockAt(pointer, byteLength)))

/** The number of the first piece whose address belongs to another block or to none by now; -1 if there is none. */
const replacedAmong = (
  pieces: readonly TouchedMemory[],
  blocks: readonly (MemoryBlock | undefined)[],
  memory: SimMemory,
): number =>
  pieces.findIndex(({ pointer, byteLength }, index) => {
    const block = blocks[index]
    return block !== undefined && block !== memory.blockAt(pointer, byteLength)
  })

/** The bytes of the pieces: the memory itself, not copies. */
const bytesOf = (pieces: readonly TouchedMemory[], memory: SimMemory): readonly Uint8Array[] =>
  pieces.map(({ pointer, byteLength }) =>
    byteLength === 0 ? new Uint8Array() : memory.bytesAt(pointer, byteLength, CALL),
  )

/** The code of a module, of PTX or in JavaScript. */
export interface ModuleCode {
  readonly names: readonly string[]
  /** Looks up a kernel. Throws the error of `cuModuleGetFunction` if there is none. */
  kernel(name: string): KernelCode
  /** Looks up a variable. Throws the error of `cuModuleGetGlobal` if there is none. */
  variable(name: string): { readonly pointer: Pointer; readonly byteLength: number }
  /** Called when the module is unloaded; launches of its kernels may be queued. */
  unload(): void
}

/** The code of a kernel, of PTX or in JavaScript. */
export interface KernelCode {
  /** The facts that a launch is checked against. */
  readonly facts: {
    readonly staticSharedBytes: number
    readonly maxThreads: number | undefined
    readonly requiredThreads: readonly number[] | undefined
    readonly requiredCluster: LaunchShape['cluster']
    readonly needsCluster: boolean
    readonly maxClusterBlocks: number | undefined
  }
  /** Throws ERR_INVALID_ARG_VALUE if these are not the types of the kernel's parameters. */
  checkParameters(types: readonly PassedType[], describe?: DescribeParameter): void
  /** The work of a launch, and the virtual nanoseconds that it takes. */
  queued(work: KernelWork, types: readonly PassedType[], multiprocessors: number | undefined): Queued
}

/** The facts of a kernel in JavaScript, and of one that is unloaded: nothing limits its launches. */
export const NO_FACTS: KernelCode['facts'] = {
  staticSharedBytes: 0,
  maxThreads: undefined,
  requiredThreads: undefined,
  requiredCluster: undefined,
  needsCluster: false,
  maxClusterBlocks: undefined,
}

/** A module whose kernels are in JavaScript. */
export class HostModuleCode implements ModuleCode {
  constructor(
    private readonly kernels: HostModule,
    private readonly memory: SimMemory,
    private readonly setConditional: SetConditional,
  ) {}

  get names(): readonly string[] {
    return [...this.kernels.keys()]
  }

  kernel(name: string): KernelCode {
    const host = this.kernels.get(name)
    if (host === undefined) throw cudaError('cuModuleGetFunction', CUresult.NOT_FOUND)
    return {
      facts: NO_FACTS,
      checkParameters: () => {},
      queued: (work) => hostWorkOf(host, work, this.memory, this.setConditional),
    }
  }

  variable(): never {
    throw cudaError('cuModuleGetGlobal', CUresult.NOT_FOUND)
  }

  unload(): void {}
}

/** The work of a launch that runs JavaScript. */
function hostWorkOf(host: HostKernel, work: KernelWork, memory: SimMemory, setConditional: SetConditional): Queued {
  const { pieces, names, run } = hostCallOf(host, work, memory, setConditional)
  const effect = new HostWork(work.kernel.name, { pieces, names, run }, work.comparesAll === true, memory, undefined)
  return { nanoseconds: work.kernel.nanoseconds ?? host.nanoseconds, work: effect }
}

/** The relative differences that arithmetic in another order makes. */
const TOLERANCES: { readonly [T in ScalarType]?: number } = { bf16: 1e-2, f16: 1e-3, f32: 1e-5, f64: 1e-12 }

/**
 * Prepares to compare a launch of code with its host implementation. It is called before the code runs, and reads the memory as it is then. The
 * function that it returns is called after the code, and throws ERR_INVALID_ARG_VALUE if the two differ.
 */
export function compareWithHost(host: HostKernel, work: KernelWork, memory: SimMemory): () => () => void {
  // The conditions of the graph are set by the code alone.
  const { pieces, names, elements, run } = hostCallOf(host, work, memory, () => {})
  const blocks = blocksOf(pieces, memory)
  return () => {
    // Freed memory cannot be compared: code that accesses it is a fault.
    if (blocks.some((block) => block?.freed) || replacedAmong(pieces, blocks, memory) >= 0) return () => {}
    const copies = bytesOf(pieces, memory).map((bytes) => bytes.slice())
    run(copies)
    return () => {
      for (const [index, theirs] of bytesOf(pieces, memory).entries()) {
        const difference = firstDifference(copies[index] ?? theirs, theirs, elements[index] ?? BYTE)
        if (difference === undefined) continue
        const { element, path, ours: inJavaScript, theirs: inCode } = difference
        throw invalidValue(
          `The source and the JavaScript of kernel ${work.kernel.name} differ: in element ${element}${path} of ${names[index]} the source has ${inCode}, and the JavaScript ${inJavaScript}`,
        )
      }
    }
  }
}

interface Difference {
  readonly element: number
  readonly path: string
  readonly ours: number | bigint
  readonly theirs: number | bigint
}

/** The first difference between the results, not counting padding. */
function firstDifference(ours: Uint8Array, theirs: Uint8Array, layout: ElementLayout): Difference | undefined {
  if (sameBytes(ours, theirs)) return undefined
  const { leaves, byteLength } = comparedParts(layout)
  const [a, b] = [dataViewOf(ours), dataViewOf(theirs)]
  for (let at = 0; at + byteLength <= ours.byteLength; at += byteLength) {
    for (const { offset, type, path } of leaves) {
      const { get } = SCALAR_ACCESS[type]
      const [one, other] = [get(a, at + offset), get(b, at + offset)]
      if (isFar(one, other, TOLERANCES[type] ?? 0)) return { element: at / byteLength, path, ours: one, theirs: other }
    }
  }
  return undefined
}

/** The numbers that are compared: vectors are compared number by number, as they are in JavaScript. */
function comparedParts({ scalar, leaves, byteLength }: ElementLayout): {
  readonly leaves: readonly Leaf[]
  readonly byteLength: number
} {
  if (scalar === undefined) return { leaves, byteLength }
  const own = scalarLayout(scalar)
  return { leaves: own.leaves, byteLength: own.byteLength }
}

function isFar(one: number | bigint, other: number | bigint, tolerance: number): boolean {
  if (Object.is(one, other) || one === other) return false
  if (typeof one === 'bigint' || typeof other === 'bigint') return true
  return !(Math.abs(one - other) <= tolerance * Math.max(Math.abs(one), Math.abs(other)))
}

/** The memory from a bare address on. At 0 it is empty, since a kernel gets that for a pointer that it does not use. */
function memoryFrom(pointer: Pointer, memory: SimMemory): Pick<TouchedMemory, 'pointer' | 'byteLength'> {
  return { pointer, byteLength: pointer === 0 ? 0 : memory.bytesFrom(pointer, CALL) }
}

/** A host implementation that is run part by part. No other effect may come between: what it must not write is compared at its end. */
class HostComputation implements Computation {
  readonly excludesOthers = true

  constructor(
    private readonly parts: InParts,
    private readonly end: () => void,
  ) {}

  run(slice?: Slice): boolean {
    // An error of the implementation ends it, too.
    let isOver = true
    surfacing(() => {
      isOver = this.parts.run(slice)
    })
    if (isOver) this.end()
    return isOver
  }

  drop(): void {
    this.parts.drop()
  }
}

/** The work of a host implementation: of a kernel, or of a library's call. */
export class HostWork implements Work {
  readonly engine = undefined
  readonly byteLength = undefined
  /** Objects that stay reachable until the work is done. */
  readonly held: readonly unknown[]
  readonly #blocks: readonly (MemoryBlock | undefined)[]

  constructor(
    readonly name: string,
    private readonly call: Pick<HostCall, 'pieces' | 'names' | 'run' | 'parts'>,
    /** Whether all memory that the work may not write is compared with what it was before, and not just the ends of long stretches. */
    private readonly comparesAll: boolean,
    private readonly memory: SimMemory,
    readonly shape: string | undefined,
  ) {
    const { pieces } = call
    this.held = pieces.map(({ pointer, byteLength }) => {
      if (byteLength > LONGEST_ARRAY) throw tooLong(name, byteLength)
      return byteLength === 0 ? undefined : memory.prepareAt(pointer, byteLength, CALL)
    })
    this.#blocks = blocksOf(pieces, memory)
  }

  get what(): string {
    return `kernel ${this.name}`
  }

  get touches(): readonly Touch[] {
    return this.call.pieces.map(({ pointer, byteLength, access }) => ({ pointer, byteLength, writes: access !== 'in' }))
  }

  effect(): void {
    const { bytes, end } = this.#begin()
    surfacing(() => this.call.run(bytes))
    end()
  }

  compute(): Computation | undefined {
    const { parts } = this.call
    if (parts === undefined) return undefined
    const { bytes, end } = this.#begin()
    return new HostComputation(new InParts(parts(bytes)[Symbol.iterator]()), end)
  }

  /** The bytes of all pieces, and the function that is to be called once the work is done: it refuses what must not have been written. */
  #begin(): { readonly bytes: readonly Uint8Array[]; readonly end: () => void } {
    const { pieces } = this.call
    this.#refuseReplaced()
    const all = bytesOf(pieces, this.memory)
    const watched = all.map((bytes, index) => {
      const { pointer = 0, access = 'inout' } = pieces[index] ?? {}
      // Freed memory, and what lies around it, cannot be compared.
      const isGone = bytes.byteLength === 0 || this.#blocks[index]?.freed === true
      return { bytes, access, within: isGone ? NOTHING : this.memory.spanAt(pointer as Pointer, CALL) }
    })
    const changed = watchWrites(watched, this.comparesAll)
    const uses = MemoryBlock.uses
    return { bytes: all, end: () => this.#end(all, changed, uses) }
  }

  #end(all: readonly Uint8Array[], changed: () => Change | undefined, uses: number): void {
    const { pieces } = this.call
    for (const { pointer, byteLength, access } of pieces) {
      if (access !== 'in' && byteLength > 0) this.memory.writtenAt(pointer, byteLength)
    }
    const lost = all.findIndex((piece, index) => piece.byteLength !== pieces[index]?.byteLength)
    if (lost < 0) {
      // The comparison counts only if no other block was used meanwhile: work that a host implementation queues or waits for may have written there.
      if (MemoryBlock.uses === uses) this.#refuse(changed())
      return
    }
    const what = `The JavaScript of ${this.what} transferred its view of memory (no. ${lost}) away, which took the memory away`
    throw invalidValue(`${what}: what it held is lost. Transfer a copy, made by slice()`)
  }

  /** Refuses work on an address that belongs to another block by now, which the work must not touch. Freed memory alone is poison, as for a copy. */
  #refuseReplaced(): void {
    const { pieces, names } = this.call
    const at = replacedAmong(pieces, this.#blocks, this.memory)
    const piece = pieces[at]
    if (piece === undefined) return
    const what = `The ${piece.byteLength} bytes of ${names[at]} of ${this.what} were freed before the launch ran`
    throw new LaunchFault(
      CUresult.ILLEGAL_ADDRESS,
      `${what}, and other memory has their address`,
      this.what.replace(/^./, (first) => first.toUpperCase()),
    )
  }

  #refuse(change: Change | undefined): void {
    if (change === undefined) return
    const { piece, at } = change
    const who = `The JavaScript of ${this.what} writes`
    if (piece === undefined) {
      const wayOut =
        'The .buffer of a view is the whole allocation: a view of it needs the byteOffset and the length, too'
      throw invalidValue(`${who} outside of the memory that it was given, at byte ${at} of the allocation. ${wayOut}`)
    }
    const { pieces, names } = this.call
    const wayOut = `Say 'inout' or 'out' there if the GPU code writes it, or leave it as it is`
    throw invalidValue(
      `${who} byte ${at} of the ${pieces[piece]?.byteLength} of ${names[piece]}, which it may only read. ${wayOut}`,
    )
  }
}

function tooLong(name: string, byteLength: number): Error {
  const what = `${name} cannot be simulated on a buffer of ${byteLength} bytes`
  return stateError(
    'ERR_UNSUPPORTED',
    `${what}: JavaScript can access at most ${LONGEST_ARRAY} of them at once. Pass a slice`,
  )
}
