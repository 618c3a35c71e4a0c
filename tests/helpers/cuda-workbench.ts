/** The workbench on a real GPU, through driver functions that the library itself does not use. */
import { createRequire } from 'node:module'
import { Device, Stream, type StreamOptions } from 'cuda-streams'
import type * as Koffi from 'koffi'
import { contextOf, driverOf } from '../../src/core/device.js'
import type { Driver } from '../../src/foundation/driver/driver.js'
import type { StreamHandle } from '../../src/foundation/driver/handle-types.js'
import type { LaunchShape } from '../../src/foundation/driver/kernel-driver.js'
import { backendOf } from '../../src/foundation/driver/wrappable-driver.js'
import { DRIVER_FILE } from './driver-file.js'
import { latchOf } from './latch.js'
import type { Workbench } from './workbench.js'

const P = 'uintptr_t'
const LATCHES = 65_536

const PTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds) {
  .reg .u64 %start, %now, %limit, %passed;
  .reg .pred %more;
  ld.param.u64 %limit, [nanoseconds];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %passed, %now, %start;
  setp.lt.u64 %more, %passed, %limit;
  @%more bra again;
  ret;
}
.visible .entry wild() {
  .reg .u64 %where;
  .reg .u32 %what;
  mov.u64 %where, 8;
  mov.u32 %what, 1;
  st.global.u32 [%where], %what;
  ret;
}
`

const ONE_THREAD: LaunchShape = {
  grid: [1, 1, 1],
  block: [1, 1, 1],
  sharedMemory: 0,
  cooperative: false,
  cluster: undefined,
  attributes: undefined,
}

let opened: Workbench | string | undefined

/** The workbench, or why there is none. */
export function openCudaWorkbench(): Workbench | string {
  opened ??= open()
  return opened
}

function open(): Workbench | string {
  if (process.env['CUDA_STREAMS_DRIVER'] === 'sim') return 'CUDA_STREAMS_DRIVER=sim'
  try {
    if (Device.get(0).driver !== 'cuda') {
      // The default may be the simulator for lack of a driver: this says which.
      return 'the default driver is the simulator'
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  return make(new Raw())
}

/** Driver functions by name, throwing what is not success. */
class Raw {
  readonly koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  readonly #library = this.koffi.load(DRIVER_FILE)
  readonly out: number = Number(this.koffi.alloc('uint64', 8))
  readonly outView: BigUint64Array = new BigUint64Array(this.koffi.view(BigInt(this.out), 64))

  function(name: string, args: readonly string[]): (...values: number[]) => void {
    const call = this.calling(name, args)
    return (...values) => {
      const result = call(...values)
      if (result !== 0) throw new Error(`${name} returned ${result}`)
    }
  }

  /** Its CUresult is for the caller. */
  calling(name: string, args: readonly string[]): (...values: number[]) => number {
    return this.#library.func(name, 'int', [...args])
  }

  result(): number {
    return Number(this.outView[0])
  }
}

function make(raw: Raw): Workbench {
  const devices = Array.from({ length: Device.count() }, (_, ordinal) => Device.get(ordinal))
  const device = Device.get(0)
  const driver: Driver = driverOf(device)
  const setContext = raw.function('cuCtxSetCurrent', [P])
  const enter = (on: Device): void => setContext(Number(on.context.handle))
  enter(device)

  const waitValue = raw.function('cuStreamWaitValue32_v2', [P, P, 'uint', 'uint'])
  const createStream = raw.function('cuStreamCreateWithPriority', [P, 'uint', 'int'])
  const memset = raw.calling('cuMemsetD8Async', [P, 'uint8', 'size_t', P])
  const destroyStream = raw.function('cuStreamDestroy_v2', [P])
  const allocate = raw.function('cuMemHostAlloc', [P, P, 'uint'])
  allocate(raw.out, LATCHES * 4, 3)
  const latches = raw.result()
  const words = new Int32Array(raw.koffi.view(BigInt(latches), LATCHES * 4)).fill(0)
  let nextLatch = 0

  const backend = backendOf(driver)
  // By the driver, so that it counts what is queued, and beneath its wrappers, which know nothing of it.
  const kernels = devices.map((on) => {
    const module = backend.kernels.load(Buffer.from(`${PTX}\0`), contextOf(on))
    return { spin: backend.kernels.kernel(module, 'spin', ['u64']), wild: backend.kernels.kernel(module, 'wild', []) }
  })
  enter(device)

  const run = (name: 'spin' | 'wild', stream: Stream, values: readonly bigint[]): void => {
    const found = kernels[stream.device.ordinal]
    if (found === undefined) throw new Error(`no kernels for ${stream.device}`)
    const token = roomOn(stream)
    const kernel = { handle: found[name], name, uses: [] }
    backend.work.queue({ kind: 'kernel', stream: token, kernel, shape: ONE_THREAD, args: values })
  }
  const roomOn = (stream: Stream): StreamHandle => {
    const { handle } = stream
    const token = (handle > 2n ? Number(handle) : stream.device.ordinal * 4 + Number(handle)) as StreamHandle
    backend.work.reserve(token, 1)
    return token
  }

  return {
    name: 'cuda',
    title: `cuda, ${device.name}`,
    devices,
    device,
    stream: (options) => new Stream({ device, ...options }),
    busy(stream, nanoseconds) {
      run('spin', stream, [BigInt(Math.round(nanoseconds))])
    },
    latch(stream) {
      roomOn(stream)
      enter(stream.device)
      const index = nextLatch
      nextLatch = (nextLatch + 1) % LATCHES
      words[index] = 0
      waitValue(Number(stream.handle), latches + 4 * index, 1, 0)
      return latchOf(() => void Atomics.store(words, index, 1))
    },
    fault(stream) {
      run('wild', stream, [])
    },
    foreignStream(on: Device, options: StreamOptions = {}) {
      // Where a green context is current, a stream is made in that.
      setContext(Number((options.context ?? on.context).handle))
      createStream(raw.out, options.nonBlocking === false ? 0 : 1, options.priority ?? 0)
      const handle = raw.result()
      enter(device)
      return BigInt(handle)
    },
    foreignFill: (handle, { pointer, byteLength }, value) => memset(Number(pointer), value, byteLength, Number(handle)),
    mapped(byteLength) {
      allocate(raw.out, byteLength, 3)
      const pointer = BigInt(raw.result())
      return { pointer, bytes: raw.koffi.view(pointer, byteLength) }
    },
    destroyForeignStream: (handle) => destroyStream(Number(handle)),
  }
}
