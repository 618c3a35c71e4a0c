/** Launches, on their way to the driver. */
import type {
  ContextHandle,
  Driver,
  KernelDriver,
  KernelHandle,
  KernelMemory,
  LaunchShape,
  ModuleHandle,
  ScalarType,
  StreamHandle,
  Twin,
} from '../driver/driver.js'
import { Kind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineKernels implements KernelDriver {
  readonly #inner: () => Driver
  readonly #recorder: RowWriter
  readonly #names = new Map<KernelHandle, number>()

  constructor(inner: () => Driver, recorder: RowWriter) {
    this.#inner = inner
    this.#recorder = recorder
  }

  launchTwin(stream: StreamHandle, twin: Twin): void {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.KERNEL, stream, recorder.names.of(twin.name))
    recorder.during(row, stream, () => this.#inner().kernels.launchTwin(stream, twin))
  }

  launch(
    kernel: KernelHandle,
    stream: StreamHandle,
    shape: LaunchShape,
    values: readonly (number | bigint)[],
    memory: readonly KernelMemory[],
  ): void {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.KERNEL, stream, this.#names.get(kernel) ?? this.#learn(kernel))
    recorder.during(row, stream, () => this.#inner().kernels.launch(kernel, stream, shape, values, memory))
  }

  compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    return this.#inner().kernels.compileNow(source, name, options)
  }

  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
    return this.#inner().kernels.compile(source, name, options)
  }

  load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    return this.#inner().kernels.load(image, context)
  }

  unload(module: ModuleHandle, context: ContextHandle): void {
    this.#inner().kernels.unload(module, context)
    this.#names.clear()
  }

  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle {
    const kernel = this.#inner().kernels.kernel(module, name, parameters)
    this.#names.set(kernel, this.#recorder.names.of(name))
    return kernel
  }

  nameOf(kernel: KernelHandle): string {
    return this.#inner().kernels.nameOf(kernel)
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    return this.#inner().kernels.activeBlocks(kernel, blockSize, sharedMemory)
  }

  #learn(kernel: KernelHandle): number {
    const name = this.#recorder.names.of(this.#inner().kernels.nameOf(kernel))
    this.#names.set(kernel, name)
    return name
  }
}
