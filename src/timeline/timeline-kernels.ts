/** Launches, on their way to the driver. */
import type {
  ArgumentUse,
  ContextHandle,
  KernelHandle,
  LaunchArgument,
  LaunchShape,
  ModuleHandle,
  StreamHandle,
  Twin,
} from '../driver/driver.js'
import { type DriverWrapper, KernelWrapper } from '../driver/driver-wrapper.js'
import { RowKind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineKernels extends KernelWrapper {
  readonly #names = new Map<KernelHandle, number>()

  constructor(
    wrapper: DriverWrapper,
    private readonly writer: RowWriter,
  ) {
    super(wrapper)
  }

  override launchTwin(stream: StreamHandle, twin: Twin): void {
    const { writer } = this
    const row = writer.begin(RowKind.KERNEL, stream, writer.names.of(twin.name))
    writer.during(row, stream, () => super.launchTwin(stream, twin))
  }

  override launch(
    kernel: KernelHandle,
    stream: StreamHandle,
    shape: LaunchShape,
    args: readonly LaunchArgument[],
    uses: readonly ArgumentUse[],
  ): void {
    const { writer } = this
    const row = writer.begin(RowKind.KERNEL, stream, this.#names.get(kernel) ?? this.#learn(kernel))
    writer.during(row, stream, () => super.launch(kernel, stream, shape, args, uses))
  }

  override unload(module: ModuleHandle, context: ContextHandle): void {
    super.unload(module, context)
    this.#names.clear()
  }

  #learn(kernel: KernelHandle): number {
    const name = this.writer.names.of(super.nameOf(kernel))
    this.#names.set(kernel, name)
    return name
  }
}
