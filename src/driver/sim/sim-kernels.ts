/** Kernels of the simulated GPU: it runs no GPU code, but their twins in JavaScript. */
import { constants } from 'node:buffer'
import { invalidValue, stateError } from '../../base/errors.js'
import { surfacing } from '../../base/uncaught.js'
import { CUresult, cudaError } from '../cuda-results.js'
import { DEVICE_ATTRIBUTES as A } from '../device-attributes.js'
import type { KernelDriver, KernelHandle, LaunchShape, ModuleHandle, StreamHandle, Twin } from '../driver.js'
import { type SimOperation, SimOperationKind, type Touch, type Work } from './objects.js'
import { SIMULATED_ATTRIBUTES } from './properties.js'
import type { SimMemory } from './sim-memory.js'

type Enqueue = (handle: StreamHandle, kind: SimOperationKind, amount: number, call: string, work: Work) => SimOperation
/** The error of a call about a stream that is refused, which invalidates the capture that the stream is in. */
type Refuse = (handle: StreamHandle, call: string, result: number) => Error

const CALL = 'cuLaunchKernelEx'
/** Bytes that this Node lets a typed array have. */
const LONGEST_VIEW = constants.MAX_LENGTH

export class SimKernels implements KernelDriver {
  readonly #memory: SimMemory
  readonly #enqueue: Enqueue
  readonly #refuse: Refuse

  constructor(memory: SimMemory, enqueue: Enqueue, refuse: Refuse) {
    this.#memory = memory
    this.#enqueue = enqueue
    this.#refuse = refuse
  }

  launchTwin(stream: StreamHandle, twin: Twin): void {
    if (twin.shape !== undefined) {
      // So much is asked for before the launch, and a capture hears nothing of it.
      const { sharedMemory } = twin.shape
      if (!within(sharedMemory, A.maxSharedMemoryPerBlockOptin)) {
        throw cudaError('cuFuncSetAttribute', CUresult.INVALID_VALUE)
      }
      if (!fits(twin.shape)) throw this.#refuse(stream, CALL, CUresult.INVALID_VALUE)
    }
    this.#enqueue(stream, SimOperationKind.KERNEL, twin.nanoseconds, CALL, new TwinWork(twin, this.#memory))
  }

  async compile(): Promise<Uint8Array> {
    throw refused()
  }

  compileNow(): Uint8Array {
    throw refused()
  }

  load(): ModuleHandle {
    throw refused()
  }

  unload(): void {}

  kernel(): KernelHandle {
    throw refused()
  }

  nameOf(): string {
    throw refused()
  }

  launch(): void {
    throw refused()
  }

  activeBlocks(): number {
    throw refused()
  }
}

class TwinWork implements Work {
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape = undefined
  /** Kept reachable until it is done. */
  readonly held: readonly unknown[]
  readonly #twin: Twin
  readonly #memory: SimMemory

  constructor(twin: Twin, memory: SimMemory) {
    this.held = twin.memory.map(({ pointer, byteLength }) => {
      if (byteLength > LONGEST_VIEW) throw tooLong(twin.name, byteLength)
      return memory.prepareAt(pointer, byteLength, CALL)
    })
    this.#twin = twin
    this.#memory = memory
  }

  get name(): string {
    return this.#twin.name
  }

  get what(): string {
    return `kernel ${this.#twin.name}`
  }

  get touches(): readonly Touch[] {
    return this.#twin.memory.map(({ pointer, byteLength, access }) => ({
      pointer,
      byteLength,
      writes: access !== 'in',
    }))
  }

  effect(): void {
    const { memory, run } = this.#twin
    const pieces = memory.map(({ pointer, byteLength }) => this.#memory.bytesAt(pointer, byteLength, CALL))
    surfacing(() => run(pieces))
    const lost = pieces.findIndex((piece, index) => piece.byteLength !== memory[index]?.byteLength)
    if (lost < 0) return
    const what = `The JavaScript of ${this.what} transferred its view of memory (no. ${lost}) away, and the memory with it`
    throw invalidValue(`${what}: what it held is lost. Transfer a copy, made by slice()`)
  }
}

/** Do a launch's blocks and threads keep to what the device says of itself? A GPU refuses one that does not. */
function fits({ grid, block }: LaunchShape): boolean {
  const [gridX, gridY, gridZ] = grid
  const [blockX, blockY, blockZ] = block
  return (
    within(gridX, A.maxGridDimX) &&
    within(gridY, A.maxGridDimY) &&
    within(gridZ, A.maxGridDimZ) &&
    within(blockX, A.maxBlockDimX) &&
    within(blockY, A.maxBlockDimY) &&
    within(blockZ, A.maxBlockDimZ) &&
    within(blockX * blockY * blockZ, A.maxThreadsPerBlock)
  )
}

const within = (value: number, limit: number): boolean => value <= (SIMULATED_ATTRIBUTES[limit] ?? 0)

function tooLong(name: string, byteLength: number): Error {
  const what = `${name} cannot be simulated on a buffer of ${byteLength} bytes`
  return stateError('ERR_UNSUPPORTED', `${what}: JavaScript sees at most ${LONGEST_VIEW} of them at once. Pass a slice`)
}

function refused(): Error {
  return stateError(
    'ERR_UNSUPPORTED',
    'The simulator runs no GPU code: use defineKernel(), which has a twin in JavaScript, or the cuda driver',
  )
}
