/** Kernels of the simulated GPU: it runs no GPU code, but their twins in JavaScript. */
import { stateError } from '../../errors.js'
import type { StreamHandle } from '../driver.js'
import type { KernelHandle, ModuleHandle } from '../handles.js'
import type { KernelDriver, Twin } from '../kernel-driver.js'
import { type Operation, OperationKind, type Work } from './objects.js'
import type { SimMemory } from './sim-memory.js'

type Enqueue = (handle: StreamHandle, kind: OperationKind, amount: number, call: string, work: Work) => Operation

const CALL = 'cuLaunchKernelEx'

export class SimKernels implements KernelDriver {
  readonly #memory: SimMemory
  readonly #enqueue: Enqueue

  constructor(memory: SimMemory, enqueue: Enqueue) {
    this.#memory = memory
    this.#enqueue = enqueue
  }

  launchTwin(stream: StreamHandle, { name, memory, nanoseconds, run }: Twin): void {
    const held = memory.map(({ pointer, byteLength }) => this.#memory.prepareAt(pointer, byteLength, CALL))
    const effect = (): void =>
      run(memory.map(({ pointer, byteLength }) => this.#memory.bytesAt(pointer, byteLength, CALL)))
    this.#enqueue(stream, OperationKind.KERNEL, nanoseconds, CALL, { effect, held, name })
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

function refused(): Error {
  return stateError(
    'ERR_UNSUPPORTED',
    'The simulator runs no GPU code: use defineKernel(), which has a twin in JavaScript, or the cuda driver',
  )
}
