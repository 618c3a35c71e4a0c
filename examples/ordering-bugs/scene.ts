/** What the programs of this folder are made of: a bug with its fixed version, two kernels, and four words of memory. */
import {
  type DefinedKernel,
  type Device,
  type DeviceBuffer,
  defineKernel,
  Stream,
  type StreamOptions,
} from 'cuda-streams'
import type { Simulation } from 'cuda-streams/sim'

/** A program that observes something. All that can change what it observes is the simulator's order. */
export type Program = (simulation: Simulation) => unknown | Promise<unknown>

export interface OrderingBug {
  readonly name: string
  /** One sentence. */
  readonly story: string
  /** Which wait is missing, in words. */
  readonly missing: string
  /** Observes different things under different orders. */
  readonly broken: Program
  /** The same with the wait in place: observes one thing under every order. */
  readonly fixed: Program
}

/** Buffers have four words. */
export const WORDS = 4
export const BYTES = 4 * WORDS
const ONE_BLOCK = { grid: 1, block: WORDS }

const scaleKernel = defineKernel({
  name: 'scale',
  source: `extern "C" __global__ void scale(unsigned* to, const unsigned* from, unsigned factor) {
    to[threadIdx.x] = factor * from[threadIdx.x];
  }`,
  signature: ['out u32*', 'in u32*', 'u32'],
  simulate({ threadIdx: { x } }, to, from, factor) {
    to[x] = factor * (from[x] ?? 0)
  },
})

const addKernel: DefinedKernel<readonly ['inout u32*', 'in u32*']> = defineKernel({
  name: 'add',
  source: `extern "C" __global__ void add(unsigned* to, const unsigned* from) {
    to[threadIdx.x] += from[threadIdx.x];
  }`,
  signature: ['inout u32*', 'in u32*'],
  simulate({ threadIdx: { x } }, to, from) {
    to[x] = (to[x] ?? 0) + (from[x] ?? 0)
  },
})

/** Queues `to = factor * from`, a kernel. */
export function scale(stream: Stream, to: DeviceBuffer, from: DeviceBuffer, factor: number): void {
  stream.launch(scaleKernel, ONE_BLOCK, to, from, factor)
}

/** Queues `to += from`, a kernel. */
export function add(stream: Stream, to: DeviceBuffer, from: DeviceBuffer): void {
  stream.launch(addKernel, ONE_BLOCK, to, from)
}

/** Queues setting every word of the buffer. */
export function set(stream: Stream, buffer: DeviceBuffer, word: number): void {
  stream.fill(buffer, word, { width: 4 })
}

/** The words that a buffer has when the stream gets there. */
export async function read(stream: Stream, buffer: DeviceBuffer): Promise<number[]> {
  return wordsOf(await stream.download(buffer))
}

export function wordsOf(bytes: Uint8Array): number[] {
  return [...new Uint32Array(bytes.slice().buffer)]
}

export interface Scene {
  readonly device: Device
  /** Device 1. */
  readonly otherDevice: Device
  stream(options?: StreamOptions): Stream
  /** Memory of device 0, with all its words 0 before anything else happens. */
  zeros(): DeviceBuffer
}

/** Sets the scene on a simulation of two devices. */
export function sceneOf(simulation: Simulation): Scene {
  const [device, otherDevice] = simulation.devices
  if (device === undefined || otherDevice === undefined) throw new RangeError('The programs need two devices')
  return {
    device,
    otherDevice,
    stream: (options) => new Stream({ device, ...options }),
    zeros: () => {
      const buffer = device.alloc(BYTES)
      set(device.defaultStream, buffer, 0)
      device.defaultStream.synchronize()
      return buffer
    },
  }
}

/** A bug and its fixed version are one program, which is told whether the wait is there. */
export function bug(
  about: Pick<OrderingBug, 'name' | 'story' | 'missing'>,
  program: (scene: Scene, fixed: boolean) => unknown | Promise<unknown>,
): OrderingBug {
  return {
    ...about,
    broken: (simulation) => program(sceneOf(simulation), false),
    fixed: (simulation) => program(sceneOf(simulation), true),
  }
}
