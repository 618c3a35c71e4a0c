/** Kernels: what they read and write is what their signatures say. */
import {
  type ArgumentUse,
  type KernelHandle,
  type KernelMemory,
  type LaunchArgument,
  type LaunchShape,
  memoryAmong,
  type StreamHandle,
  type Twin,
} from '../driver/driver.js'
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
    args: readonly LaunchArgument[],
    uses: readonly ArgumentUse[],
  ): void {
    this.#launch(stream, `kernel '${this.nameOf(kernel)}'`, memoryAmong(args, uses), () =>
      super.launch(kernel, stream, shape, args, uses),
    )
  }

  #launch(stream: StreamHandle, what: string, memory: readonly KernelMemory[], queue: () => void): void {
    this.detector.probe(stream, what, memory)
    queue()
    this.detector.work(stream, what, memory)
  }
}
