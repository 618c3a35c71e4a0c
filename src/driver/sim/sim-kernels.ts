/** Kernels of the simulated GPU: it runs no GPU code, but their twins in JavaScript. */
import { LONGEST_ARRAY } from '#platform'
import { invalidValue, stateError } from '../../base/errors.js'
import { surfacing } from '../../base/uncaught.js'
import { CUresult, cudaError } from '../cuda-results.js'
import { LOADING } from '../deadlocks.js'
import { DEVICE_ATTRIBUTES as A } from '../device-attributes.js'
import type { KernelDriver, LaunchShape, Pointer, StreamHandle, Twin } from '../driver.js'
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

export class SimKernels implements KernelDriver {
  readonly compileNow = refuse
  readonly load = refuse
  readonly kernel = refuse
  readonly nameOf = refuse
  readonly launch = refuse
  readonly activeBlocks = refuse

  constructor(
    private readonly memory: SimMemory,
    private readonly queue: WorkQueue,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
  ) {}

  loadTwin(): void {
    this.waits.refuseExclusive(LOADING)
  }

  /** No memory is behind 0, which is what a kernel gets for a pointer that it does not use. */
  bytesFrom(pointer: Pointer): number {
    return pointer === 0 ? 0 : this.memory.bytesFrom(pointer, CALL)
  }

  launchTwin(stream: StreamHandle, twin: Twin): void {
    if (twin.shape !== undefined) {
      // This is set before the launch, and a capture takes no notice of it.
      checkSharedMemory(twin.shape)
      const { capture, partition } = this.registry.peekStream(stream) ?? {}
      // In a capture CUDA counts the multiprocessors of the whole device.
      const refusal = refusalOf(twin.shape, capture === undefined ? partition : undefined)
      if (refusal !== 0) {
        const target = this.registry.liveStream(stream, CALL)
        this.captures.refuseQueuing(target, CALL)
        throw this.captures.refuseIn(target, CALL, refusal)
      }
    }
    this.queue.enqueue(stream, SimOperationKind.KERNEL, twin.nanoseconds, CALL, new TwinWork(twin, this.memory))
  }

  /** What a node of a graph does that is to run the twin. */
  work(twin: Twin, call: string, partition: SimPartition | undefined): Queued {
    if (twin.shape !== undefined) {
      checkSharedMemory(twin.shape)
      const refusal = refusalOf(twin.shape, partition)
      if (refusal !== 0) throw cudaError(call, refusal)
    }
    return { amount: twin.nanoseconds, work: new TwinWork(twin, this.memory) }
  }

  async compile(): Promise<never> {
    return refuse()
  }

  unload(): void {}
}

class TwinWork implements Work {
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape: string | undefined
  /** Kept reachable until it is done. */
  readonly held: readonly unknown[]

  constructor(
    private readonly twin: Twin,
    private readonly memory: SimMemory,
  ) {
    this.shape = twin.shape === undefined ? shapeOfLibraryWork(twin) : undefined
    this.held = twin.memory.map(({ pointer, byteLength }) => {
      if (byteLength > LONGEST_ARRAY) throw tooLong(twin.name, byteLength)
      return byteLength === 0 ? undefined : memory.prepareAt(pointer, byteLength, CALL)
    })
  }

  get name(): string {
    return this.twin.name
  }

  get what(): string {
    return `kernel ${this.twin.name}`
  }

  get touches(): readonly Touch[] {
    const { memory } = this.twin
    return memory.map(({ pointer, byteLength, access }) => ({ pointer, byteLength, writes: access !== 'in' }))
  }

  effect(): void {
    const { memory, run } = this.twin
    const comparesAll = 'comparesAll' in this.twin && this.twin.comparesAll === true
    const pieces = memory.map(({ pointer, byteLength }) =>
      byteLength === 0 ? new Uint8Array() : this.memory.bytesAt(pointer, byteLength, CALL),
    )
    const changed = watchWrites(
      pieces.map((bytes, index) => ({ bytes, access: memory[index]?.access ?? 'inout' })),
      comparesAll,
    )
    const uses = MemoryBlock.uses
    surfacing(() => run(pieces))
    const lost = pieces.findIndex((piece, index) => piece.byteLength !== memory[index]?.byteLength)
    if (lost < 0) {
      // Work that a twin queues or waits for may have written there.
      if (MemoryBlock.uses === uses) this.#refuse(changed())
      return
    }
    const what = `The JavaScript of ${this.what} transferred its view of memory (no. ${lost}) away, and the memory with it`
    throw invalidValue(`${what}: what it held is lost. Transfer a copy, made by slice()`)
  }

  #refuse(change: Change | undefined): void {
    if (change === undefined) return
    const { memory, memoryNames } = this.twin
    const { piece, at } = change
    const who = `The JavaScript of ${this.what} writes`
    if (piece === undefined) {
      const wayOut =
        'The .buffer of a view is the whole allocation: a view of it needs the byteOffset and the length, too'
      throw invalidValue(`${who} outside of the memory that it was given, at byte ${at} of the allocation. ${wayOut}`)
    }
    const name = memoryNames?.[piece] ?? `memory[${piece}]`
    const wayOut = `Say 'inout' or 'out' there if the GPU code writes it, or leave it as it is`
    throw invalidValue(
      `${who} byte ${at} of the ${memory[piece]?.byteLength} of ${name}, which it may only read. ${wayOut}`,
    )
  }
}

/** It is not known which nodes another library's work becomes. What only writes one piece of memory is taken for a fill. */
function shapeOfLibraryWork({ memory }: Twin): string {
  const [piece, ...more] = memory
  return piece?.access === 'out' && more.length === 0 ? 'fill' : 'work of another library'
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
  const room = blocksPerMultiprocessor(shape) * (partition?.multiprocessors ?? MULTIPROCESSORS)
  return x * y * z > room ? CUresult.COOPERATIVE_LAUNCH_TOO_LARGE : 0
}

/** At most. The registers and the static shared memory of the GPU code are not known here: they may leave room for fewer. */
function blocksPerMultiprocessor({ block: [x, y, z], sharedMemory }: LaunchShape): number {
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
    `${what}: JavaScript sees at most ${LONGEST_ARRAY} of them at once. Pass a slice`,
  )
}

export function refuse(): never {
  throw stateError(
    'ERR_UNSUPPORTED',
    'The simulator runs no GPU code: use defineKernel(), which has a twin in JavaScript, or the cuda driver',
  )
}
