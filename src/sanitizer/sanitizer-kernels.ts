/** Kernels: what they read and write is what their signatures say. */
import type {
  ContextHandle,
  KernelDriver,
  KernelHandle,
  KernelMemory,
  LaunchShape,
  ModuleHandle,
  ScalarType,
  StreamHandle,
  Twin,
} from '../driver/driver.js'
import type { SanitizerParts } from './parts.js'

export class SanitizerKernels implements KernelDriver {
  readonly #parts: SanitizerParts

  constructor(parts: SanitizerParts) {
    this.#parts = parts
  }

  launchTwin(stream: StreamHandle, twin: Twin): void {
    this.#launch(stream, `kernel '${twin.name}'`, twin.memory, () => this.#inner.launchTwin(stream, twin))
  }

  compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    return this.#inner.compileNow(source, name, options)
  }

  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
    return this.#inner.compile(source, name, options)
  }

  load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    return this.#inner.load(image, context)
  }

  nameOf(kernel: KernelHandle): string {
    return this.#inner.nameOf(kernel)
  }

  unload(module: ModuleHandle, context: ContextHandle): void {
    this.#inner.unload(module, context)
  }

  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle {
    return this.#inner.kernel(module, name, parameters)
  }

  launch(
    kernel: KernelHandle,
    stream: StreamHandle,
    shape: LaunchShape,
    values: readonly (number | bigint)[],
    memory: readonly KernelMemory[],
  ): void {
    this.#launch(stream, `kernel '${this.nameOf(kernel)}'`, memory, () =>
      this.#inner.launch(kernel, stream, shape, values, memory),
    )
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    return this.#inner.activeBlocks(kernel, blockSize, sharedMemory)
  }

  get #inner(): KernelDriver {
    return this.#parts.inner().kernels
  }

  #launch(stream: StreamHandle, what: string, memory: readonly KernelMemory[], queue: () => void): void {
    const { detector, probes } = this.#parts
    if (probes) detector.probe(stream, what, memory)
    queue()
    detector.work(stream, what, memory)
  }
}
