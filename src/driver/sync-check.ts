/**
 * CUDA_STREAMS_SYNC: a wait that blocks the event loop is warned of, or refused. A server that blocks in a request handler holds up
 * all other requests, and the same line of a script does no harm: so what runs before the event loop has turned may block.
 */
import { atNextTurn, process } from '#platform'
import { invalidValue, stateError } from '../base/errors.js'
import { programLines, takeStack } from '../base/stack.js'
import { warnOnce } from '../base/warnings.js'
import type { ContextHandle, Driver, EventHandle, KernelDriver, ModuleHandle, StreamHandle } from './driver.js'
import { DriverWrapper, KernelWrapper } from './driver-wrapper.js'
import type { WrappableDriver } from './wrappable-driver.js'

const VARIABLE = 'CUDA_STREAMS_SYNC'
const FRAMES = 40

let isIn = false

/** Puts the check in, where the variable asks for it. */
export function checkSyncAsEnvironmentSays(driver: WrappableDriver): void {
  const wanted = process.env[VARIABLE] || '0'
  if (wanted === '0') return
  if (wanted !== 'warn' && wanted !== 'throw') {
    throw invalidValue(`${VARIABLE} must be 'warn', 'throw' or 0, not '${wanted}'`)
  }
  if (isIn) return
  isIn = true
  const check = new SyncCheck(wanted === 'throw')
  driver.wrap((inner) => new SyncCheckDriver(inner, check))
}

class SyncCheck {
  #hasTurned = false

  constructor(private readonly throws: boolean) {
    atNextTurn(() => {
      this.#hasTurned = true
    }).unref()
  }

  /** A call of the program is about to block. */
  blocks(call: string, instead: string): void {
    if (!this.#hasTurned) return
    const what = `${call} blocks the event loop: nothing else of this thread runs until it returns. ${instead}`
    if (this.throws) throw stateError('ERR_BLOCKS_EVENT_LOOP', `${what} (${VARIABLE}=throw)`)
    warnOnce('CUDA_STREAMS_SYNC', [what, ...programLines(takeStack(FRAMES))].join('\n    '))
  }
}

class SyncCheckDriver extends DriverWrapper {
  readonly #kernels: KernelDriver

  constructor(
    inner: Driver,
    private readonly check: SyncCheck,
  ) {
    super(inner)
    this.#kernels = new SyncCheckKernels(this, check)
  }

  override get kernels(): KernelDriver {
    return this.#kernels
  }

  override deviceSynchronize(device: number): void {
    this.check.blocks('device.synchronize()', 'Await device.finished() instead')
    super.deviceSynchronize(device)
  }

  override streamSynchronize(stream: StreamHandle): void {
    this.check.blocks('stream.synchronize()', 'Await stream.finished() instead')
    super.streamSynchronize(stream)
  }

  override eventSynchronize(event: EventHandle): void {
    this.check.blocks('event.synchronize()', 'Await event.finished() instead')
    super.eventSynchronize(event)
  }

  override drainHostFunctions(): void {
    this.check.blocks('device.drainHostFunctions()', 'Await the finished() of the streams instead')
    super.drainHostFunctions()
  }

  override streamMakeRoom(stream: StreamHandle, entries: number): void {
    if (!this.inner.streamHasRoom(stream, entries)) {
      this.check.blocks('queuing more work', 'Its hardware queue is full: await stream.finished() now and then')
    }
    super.streamMakeRoom(stream, entries)
  }
}

class SyncCheckKernels extends KernelWrapper {
  constructor(
    wrapper: DriverWrapper,
    private readonly check: SyncCheck,
  ) {
    super(wrapper)
  }

  override compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    this.check.blocks('compiling a kernel at its first launch', 'Await kernel.prepare(device) before')
    return super.compileNow(source, name, options)
  }

  override load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    this.check.blocks('loading code, which waits for the whole device,', 'Load it when the program starts')
    return super.load(image, context)
  }
}
