/** Kernels: what they read and write is what their signatures say. */
import type { KernelHandle, KernelMemory, LaunchShape, StreamHandle, Twin } from '../driver/driver.js'
import { type DriverWrapper, KernelWrapper } from '../driver/driver-wrapper.js'
import type { Detector } from './detector.js'

export class SanitizerKernels extends KernelWrapper {
  constructor(
    wrapper: DriverWrapper,
    private readonly detector: Detector,
  ) {
    super(wrapper)
  }

  override launchTwin(stream: StreamHandle, twin: Twin): void {
    this.#launch(stream, `kernel '${twin.name}'`, twin.memory, () =>
      super.launchTwin(stream, { ...twin, comparesAll: true }),
    )
  }

  override launch(
    kernel: KernelHandle,
    stream: StreamHandle,
    shape: LaunchShape,
    values: readonly (number | bigint)[],
    memory: readonly KernelMemory[],
  ): void {
    this.#launch(stream, `kernel '${this.nameOf(kernel)}'`, memory, () =>
      super.launch(kernel, stream, shape, values, memory),
    )
  }

  #launch(stream: StreamHandle, what: string, memory: readonly KernelMemory[], queue: () => void): void {
    this.detector.probe(stream, what, memory)
    queue()
    this.detector.work(stream, what, memory)
  }
}
