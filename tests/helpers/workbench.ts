/**
 * What a conformance test needs of a GPU, the same on both backends: devices, work that takes a while, latches that
 * hold a stream ("not done yet", without a clock), faults, and streams that another library owns.
 */
import { type Device, type DeviceBuffer, type PinnedBuffer, Stream, type StreamOptions } from 'cuda-streams'
import { busy, destroyForeignStream, fault, foreignStream, latch, type Simulation, simulate } from 'cuda-streams/sim'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import { openCudaWorkbench } from './cuda-workbench.js'
import { byEffort } from './effort.js'
import { type Latch, latchOf } from './latch.js'

export interface Workbench {
  readonly name: 'sim' | 'cuda'
  /** Goes into test titles: the backend, and the seed of the simulator. */
  readonly title: string
  readonly devices: readonly Device[]
  /** Device 0. */
  readonly device: Device
  /** A new stream on device 0, unless the options say otherwise. */
  stream(options?: StreamOptions): Stream
  /** Queues work that takes about so long. */
  busy(stream: Stream, nanoseconds: number): void
  /** Holds the stream until it is opened, or its scope ends. */
  latch(stream: Stream): Latch
  /** Queues work that faults the device: a process that did this on the cuda backend can use the device no more. */
  fault(stream: Stream): void
  /** A stream that some other library made. */
  foreignStream(device: Device, options?: StreamOptions): bigint
  destroyForeignStream(handle: bigint): void
  /** What `stream.external()` calls: another library fills memory. Returns the CUresult. */
  foreignFill(handle: bigint, buffer: DeviceBuffer, value: number): number
  /** Memory that kernels and JavaScript both see. */
  mapped(byteLength: number): Mapped
}

export interface Mapped {
  readonly pointer: bigint
  readonly bytes: ArrayBuffer
}

const mapped: PinnedBuffer[] = []

export function simWorkbench(options: { readonly devices?: number; readonly seed?: number } = {}): Workbench {
  return workbenchOf(simulate({ devices: options.devices ?? 2, seed: options.seed ?? 0 }))
}

export function workbenchOf(simulation: Simulation): Workbench {
  const [device] = simulation.devices
  if (device === undefined) throw new Error('a simulation has a device')
  return {
    name: 'sim',
    title: `sim, seed ${simulation.seed}`,
    devices: simulation.devices,
    device,
    stream: (more) => new Stream({ device, ...more }),
    busy,
    latch: (stream) => latchOf(latch(stream).open),
    fault,
    foreignStream,
    destroyForeignStream,
    foreignFill: () => 0,
    mapped(byteLength) {
      const buffer = device.allocPinned(byteLength)
      // Nobody closes it, and the view does not keep it.
      mapped.push(buffer)
      return { pointer: BigInt(buffer.pointer), bytes: buffer.view(Uint8Array).buffer as ArrayBuffer }
    },
  }
}

/** On the fake driver, and on a machine with a GPU that has little time: the simulator has been tested already. */
export const isOnCudaAlone = (): boolean => isFakeDriver() || process.env['CUDA_STREAMS_TEST_BACKENDS'] === 'cuda'

/** The workbenches that this machine has, and why it lacks the other. */
export function workbenches(): { readonly benches: readonly Workbench[]; readonly withoutCuda: string | undefined } {
  const cuda = openCudaWorkbench()
  const seeds = isOnCudaAlone() ? [] : byEffort({ quick: [0], normal: [0], nightly: [0, 7] })
  const sims = seeds.map((seed) => simWorkbench({ seed }))
  return typeof cuda === 'string'
    ? { benches: sims, withoutCuda: cuda }
    : { benches: [...sims, cuda], withoutCuda: undefined }
}
