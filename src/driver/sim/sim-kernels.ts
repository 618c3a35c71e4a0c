/** Modules and kernels of the simulated GPU: it runs no GPU code, but host implementations in JavaScript. */
import { LONGEST_ARRAY } from '#platform'
import { invalidValue, stateError } from '../../base/errors.js'
import { surfacing } from '../../base/uncaught.js'
import { CUresult, cudaError } from '../cuda-results.js'
import { LOADING } from '../deadlocks.js'
import { DEVICE_ATTRIBUTES as A } from '../device-attributes.js'
import {
  type ContextHandle,
  type HostKernel,
  type HostModule,
  type KernelDriver,
  type KernelHandle,
  type KernelSource,
  type KernelWork,
  type LaunchShape,
  type LibraryCall,
  type ModuleHandle,
  type ModuleImage,
  type Pointer,
  type QueuedKernel,
  type TouchedMemory,
  touching,
} from '../driver.js'
import type { CaptureRules } from './capture-rules.js'
import type { HostWaits } from './machine/host-waits.js'
import type { SimPartition } from './machine/machine-state.js'
import { SimOperationKind, type Touch, type Work } from './machine/work.js'
import { MemoryBlock } from './memory-blocks.js'
import { MULTIPROCESSORS, simulatedAttribute } from './properties.js'
import type { Registry } from './registry.js'
import type { Queued, SimMemory, WorkQueue } from './sim-memory.js'
import { type Change, watchWrites } from './written-memory.js'

const CALL = 'cuLaunchKernelEx'

interface LoadedModule {
  readonly image: HostModule
  /** By name. */
  readonly kernels: Map<string, KernelHandle>
}

export class SimKernels implements KernelDriver {
  readonly #modules = new Map<ModuleHandle, LoadedModule>()
  /** By handle: a number that no other kernel has ever had. Undefined where the module is unloaded. */
  readonly #kernels: (HostKernel | undefined)[] = []

  constructor(
    private readonly memory: SimMemory,
    private readonly queue: WorkQueue,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
  ) {}

  /** The code is loaded next, for which a GPU waits. A compilation that is awaited takes its time: by then that may be over. */
  compileNow({ host }: KernelSource): ModuleImage {
    this.waits.refuseExclusive(LOADING)
    return host ?? refuse()
  }

  async compile({ host }: KernelSource): Promise<ModuleImage> {
    return host ?? refuse()
  }

  load(image: ModuleImage, _context: ContextHandle): ModuleHandle {
    if (ArrayBuffer.isView(image)) return refuse()
    const module = this.registry.handles.take('module') as ModuleHandle
    this.#modules.set(module, { image, kernels: new Map() })
    return module
  }

  unload(module: ModuleHandle): void {
    for (const kernel of this.#modules.get(module)?.kernels.values() ?? []) this.#kernels[kernel] = undefined
    if (this.#modules.delete(module)) this.registry.handles.giveBack('module', module)
  }

  kernel(module: ModuleHandle, name: string): KernelHandle {
    const call = 'cuModuleGetFunction'
    const loaded = this.#modules.get(module)
    if (loaded === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    const known = loaded.kernels.get(name)
    if (known !== undefined) return known
    const host = loaded.image.get(name)
    if (host === undefined) throw cudaError(call, CUresult.NOT_FOUND)
    const kernel = this.#kernels.length as KernelHandle
    this.#kernels.push(host)
    loaded.kernels.set(name, kernel)
    return kernel
  }

  activeBlocks(_kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    return blocksPerMultiprocessor([blockSize, 1, 1], sharedMemory)
  }

  launch(work: QueuedKernel): void {
    const { stream, shape } = work
    // This is set before the launch, and a capture takes no notice of it.
    checkSharedMemory(shape)
    const { capture, partition } = this.registry.peekStream(stream) ?? {}
    // In a capture CUDA counts the multiprocessors of the whole device.
    const refusal = refusalOf(shape, capture === undefined ? partition : undefined)
    if (refusal !== 0) {
      const target = this.registry.liveStream(stream, CALL)
      this.captures.refuseQueuing(target, CALL)
      throw this.captures.refuseIn(target, CALL, refusal)
    }
    const { amount, work: effect } = this.#hostWork(work, CALL)
    this.queue.enqueue(stream, SimOperationKind.KERNEL, amount, CALL, effect)
  }

  /** What a node of a graph does that is to launch the kernel. */
  nodeWork(work: KernelWork, call: string, partition: SimPartition | undefined): Queued {
    checkSharedMemory(work.shape)
    const refusal = refusalOf(work.shape, partition)
    if (refusal !== 0) throw cudaError(call, refusal)
    return this.#hostWork(work, call)
  }

  /** Queues the host implementation of a library's call. */
  queueCall({ name, stream, memory, host }: LibraryCall, comparesAll: boolean): void {
    if (host === undefined) throw refusedLibrary(name)
    const names = memory.map((_, index) => `memory[${index}]`)
    // It is not known which nodes another library's work becomes. What only writes one piece of memory is taken for a fill.
    const shape = memory.length === 1 && memory[0]?.access === 'out' ? 'fill' : 'work of another library'
    const effect = new HostWork(name, shape, memory, names, comparesAll, host.run, this.memory)
    this.queue.enqueue(stream, SimOperationKind.KERNEL, host.nanoseconds, CALL, effect)
  }

  /** The pieces of memory are what the effect keeps of the arguments, and not the buffers: a graph keeps the effect. */
  #hostWork(launch: KernelWork, call: string): Queued {
    const { kernel, shape, args } = launch
    const { handle, name, uses } = kernel
    const host = this.#kernels[handle]
    if (host === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    const memory: TouchedMemory[] = []
    const names: string[] = []
    const scalars = args.map((given, index) => {
      const { access } = uses[index] ?? { access: undefined }
      if (typeof given !== 'object' && access === undefined) return given
      const { pointer, byteLength } = typeof given === 'object' ? given : this.#memoryFrom(Number(given) as Pointer)
      memory.push(touching(pointer, byteLength, access ?? 'inout'))
      names.push(host.argumentNames[index] ?? `argument ${index}`)
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
      )
    }
    const work = new HostWork(name, undefined, memory, names, comparesAllOf(launch), run, this.memory)
    return { amount: host.nanoseconds, work }
  }

  /** All memory from a bare address on. None is behind 0, which is what a kernel gets for a pointer that it does not use. */
  #memoryFrom(pointer: Pointer): Pick<TouchedMemory, 'pointer' | 'byteLength'> {
    return { pointer, byteLength: pointer === 0 ? 0 : this.memory.bytesFrom(pointer, CALL) }
  }
}

class HostWork implements Work {
  readonly engine = undefined
  readonly byteLength = undefined
  /** Kept reachable until it is done. */
  readonly held: readonly unknown[]

  constructor(
    readonly name: string,
    readonly shape: string | undefined,
    private readonly pieces: readonly TouchedMemory[],
    /** What errors call the pieces. */
    private readonly pieceNames: readonly string[],
    /** All that it may not write is compared with what it was before, and not just the ends of long stretches. */
    private readonly comparesAll: boolean,
    private readonly run: (bytes: readonly Uint8Array[]) => void,
    private readonly memory: SimMemory,
  ) {
    this.held = pieces.map(({ pointer, byteLength }) => {
      if (byteLength > LONGEST_ARRAY) throw tooLong(name, byteLength)
      return byteLength === 0 ? undefined : memory.prepareAt(pointer, byteLength, CALL)
    })
  }

  get what(): string {
    return `kernel ${this.name}`
  }

  get touches(): readonly Touch[] {
    return this.pieces.map(({ pointer, byteLength, access }) => ({ pointer, byteLength, writes: access !== 'in' }))
  }

  effect(): void {
    const { pieces } = this
    const all = pieces.map(({ pointer, byteLength }) =>
      byteLength === 0 ? new Uint8Array() : this.memory.bytesAt(pointer, byteLength, CALL),
    )
    const changed = watchWrites(
      all.map((bytes, index) => ({ bytes, access: pieces[index]?.access ?? 'inout' })),
      this.comparesAll,
    )
    const uses = MemoryBlock.uses
    surfacing(() => this.run(all))
    const lost = all.findIndex((piece, index) => piece.byteLength !== pieces[index]?.byteLength)
    if (lost < 0) {
      // Work that a host implementation queues or waits for may have written there.
      if (MemoryBlock.uses === uses) this.#refuse(changed())
      return
    }
    const what = `The JavaScript of ${this.what} transferred its view of memory (no. ${lost}) away, which took the memory away`
    throw invalidValue(`${what}: what it held is lost. Transfer a copy, made by slice()`)
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
    const name = this.pieceNames[piece]
    const wayOut = `Say 'inout' or 'out' there if the GPU code writes it, or leave it as it is`
    throw invalidValue(
      `${who} byte ${at} of the ${this.pieces[piece]?.byteLength} of ${name}, which it may only read. ${wayOut}`,
    )
  }
}

function checkSharedMemory({ sharedMemory }: LaunchShape): void {
  if (within(sharedMemory, A.maxSharedMemoryPerBlockOptin)) return
  throw cudaError('cuFuncSetAttribute', CUresult.INVALID_VALUE)
}

/** Do a launch's blocks and threads keep to the limits of the device? A GPU refuses one that does not. */
function fits({ grid, block }: LaunchShape): boolean {
  const [x, y, z] = block
  const limits = [A.maxGridDimX, A.maxGridDimY, A.maxGridDimZ, A.maxBlockDimX, A.maxBlockDimY, A.maxBlockDimZ]
  const isWithin = [...grid, x, y, z].every((value, index) => within(value, limits[index] ?? 0))
  return isWithin && within(x * y * z, A.maxThreadsPerBlock)
}

/** The result with which a GPU refuses a launch, or 0. */
function refusalOf(shape: LaunchShape, partition: SimPartition | undefined): number {
  if (!fits(shape)) return CUresult.INVALID_VALUE
  if (!shape.cooperative) return 0
  const [x, y, z] = shape.grid
  const room =
    blocksPerMultiprocessor(shape.block, shape.sharedMemory) * (partition?.multiprocessors ?? MULTIPROCESSORS)
  return x * y * z > room ? CUresult.COOPERATIVE_LAUNCH_TOO_LARGE : 0
}

/** At most. The registers and the static shared memory of the GPU code are not known here: they may leave room for fewer. */
function blocksPerMultiprocessor([x, y, z]: LaunchShape['block'], sharedMemory: number): number {
  const limit = (attribute: number): number => simulatedAttribute(attribute) ?? 0
  const warpSize = limit(A.warpSize)
  const threads = Math.ceil((x * y * z) / warpSize) * warpSize
  return Math.min(
    limit(A.maxBlocksPerMultiprocessor),
    Math.floor(limit(A.maxThreadsPerMultiprocessor) / threads),
    Math.floor(limit(A.maxSharedMemoryPerMultiprocessor) / (sharedMemory + limit(A.reservedSharedMemoryPerBlock))),
  )
}

const within = (value: number, limit: number): boolean => value <= (simulatedAttribute(limit) ?? 0)

function tooLong(name: string, byteLength: number): Error {
  const what = `${name} cannot be simulated on a buffer of ${byteLength} bytes`
  return stateError(
    'ERR_UNSUPPORTED',
    `${what}: JavaScript can access at most ${LONGEST_ARRAY} of them at once. Pass a slice`,
  )
}

function refuse(): never {
  throw stateError(
    'ERR_UNSUPPORTED',
    'The simulator runs no GPU code: use defineKernel(), which has a host implementation in JavaScript, or the cuda driver',
  )
}

export function refusedLibrary(what: string): Error {
  return stateError('ERR_UNSUPPORTED', `${what} needs a real GPU: the simulator runs no code of CUDA's libraries`)
}

/** Is the work compared in full? Programs may have added to Object.prototype. */
export const comparesAllOf = (work: object): boolean => Object.hasOwn(work, 'comparesAll')
