/** Programs of which each can be changed as a prediction says, so that what is predicted can be compared with what is measured. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Device, type DeviceBuffer, type Event, Stream } from 'cuda-streams'
import type { Proposal } from '../src/tools/recording/what-if.js'
import { type Busy, busy } from './busy-kernel.js'

export interface TruthProgram {
  readonly title: string
  readonly proposal: Proposal
  /** The change is that of a variable of the environment, with which a process begins. */
  readonly variable?: readonly [name: string, value: string]
  /** Allocates what it needs. The result runs it once, as it is or changed, until all of its work is done. */
  readonly prepare: (device: Device) => Promise<(changed: boolean) => Promise<void> | void>
}

const ROUNDS = 24
/** Bytes of a copy, which takes a GPU some hundred microseconds. */
const BYTES = 8 * 2 ** 20
/** Bytes of a copy within a device, which takes about as long. */
const MANY = 256 * 2 ** 20

const ONE = { grid: 1, block: 1 }

/** Marks a line by a name, which stands in the same line of the file that runs. */
const at = <R>(_mark: string, call: () => R): R => call()

const lines = readFileSync(fileURLToPath(import.meta.url), 'utf8').split('\n')

/** The line with a mark, as options of the command name it. */
function lineOf(mark: string): string {
  const row = lines.findIndex((line) => line.includes(`at('${mark}'`))
  if (row < 0) throw new Error(`no line has the mark ${mark}`)
  return `${fileURLToPath(import.meta.url)}:${row + 1}`
}

/** Time of JavaScript. The simulator's clock does not count it. */
function compute(microseconds: number): void {
  const until = performance.now() + microseconds / 1000
  while (performance.now() < until);
}

async function prepared(device: Device, ...kernels: readonly Busy[]): Promise<void> {
  await Promise.all(kernels.map((kernel) => kernel.prepare(device)))
}

const pairOf = <T>(make: () => T): readonly [T, T] => [make(), make()]
const turn = <T>(pair: readonly [T, T], round: number): T => pair[round % 2 === 0 ? 0 : 1]

const decode = busy('decode', 300)
const encode = busy('encode', 250)
const small = busy('small', 180)
const long = busy('long', 1000)
const other = busy('other', 140)
const slow = busy('slow', 300)
const faster = busy('slow', 210)
const beside = busy('beside', 250)
const chained = busy('chained', 400)
const quicker = busy('chained', 320)

/** Uploads and kernels of two buffers, in one stream or with a stream for the uploads. */
const copyApart: TruthProgram = {
  title: 'uploads on a stream of their own',
  proposal: { kind: 'own-stream', line: lineOf('upload') },
  async prepare(device) {
    await prepared(device, decode)
    const [stream, copies] = pairOf(() => new Stream({ device }))
    const buffers = pairOf(() => device.alloc(BYTES, { stream }))
    const pinned = device.allocPinned(BYTES)
    const [ready, free] = [pairOf(() => device.createEvent()), pairOf(() => device.createEvent())]
    return (changed) => {
      const uploads = changed ? copies : stream
      for (let round = 0; round < ROUNDS; round += 1) {
        const buffer = turn(buffers, round)
        if (changed && round > 1) uploads.wait(turn(free, round))
        at('upload', () => uploads.copy(buffer, pinned))
        if (changed) {
          uploads.record(turn(ready, round))
          stream.wait(turn(ready, round))
        }
        stream.launch(decode, ONE, buffer)
        if (changed) stream.record(turn(free, round))
      }
      device.synchronize()
    }
  },
}

const downloadApart: TruthProgram = {
  title: 'downloads on a stream of their own',
  proposal: { kind: 'own-stream', line: lineOf('download') },
  async prepare(device) {
    await prepared(device, encode)
    const [stream, copies] = pairOf(() => new Stream({ device }))
    const buffers = pairOf(() => device.alloc(BYTES, { stream }))
    const pinned = device.allocPinned(BYTES)
    const [ready, free] = [pairOf(() => device.createEvent()), pairOf(() => device.createEvent())]
    return (changed) => {
      const downloads = changed ? copies : stream
      for (let round = 0; round < ROUNDS; round += 1) {
        const buffer = turn(buffers, round)
        if (changed && round > 1) stream.wait(turn(free, round))
        stream.launch(encode, ONE, buffer)
        if (changed) {
          stream.record(turn(ready, round))
          downloads.wait(turn(ready, round))
        }
        at('download', () => downloads.copy(pinned, buffer))
        if (changed) downloads.record(turn(free, round))
      }
      device.synchronize()
    }
  },
}

const kernelApart: TruthProgram = {
  title: 'small kernels on a stream of their own',
  proposal: { kind: 'own-stream', line: lineOf('other') },
  async prepare(device) {
    await prepared(device, small, other)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(1024, { stream }))
    device.synchronize()
    return (changed) => {
      const apart = changed ? second : stream
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(small, ONE, one)
        at('other', () => apart.launch(other, ONE, two))
      }
      device.synchronize()
    }
  },
}

/** Half of the kernels fill the device, so that they have to wait for each other wherever they are; a copy need not. */
const copyBesideFull: TruthProgram = {
  title: 'uploads beside kernels that fill the device',
  proposal: { kind: 'own-stream', line: lineOf('beside full') },
  async prepare(device) {
    await prepared(device, small, other)
    const [stream, copies] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(BYTES, { stream }))
    const pinned = device.allocPinned(BYTES)
    device.synchronize()
    const full = device.driver === 'sim' ? ONE : { grid: 2 * stream.context.multiprocessors, block: 1024 }
    return (changed) => {
      const uploads = changed ? copies : stream
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(small, full, one)
        at('beside full', () => uploads.copy(two, pinned))
        stream.launch(other, full, one)
      }
      device.synchronize()
    }
  },
}

const needlessWait: TruthProgram = {
  title: 'without a wait that orders nothing',
  proposal: { kind: 'without-wait', line: lineOf('needless') },
  async prepare(device) {
    await prepared(device, small, other)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(1024, { stream }))
    device.synchronize()
    return (changed) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(small, ONE, one)
        if (!changed) at('needless', () => second.wait(stream))
        second.launch(other, ONE, two)
        if (round % 2 === 1) stream.wait(second)
      }
      device.synchronize()
    }
  },
}

const needlessSynchronize: TruthProgram = {
  title: 'without a wait of the host',
  proposal: { kind: 'without-wait', line: lineOf('synchronize') },
  async prepare(device) {
    await prepared(device, small, other)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(1024, { stream }))
    device.synchronize()
    return (changed) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(small, ONE, one)
        if (!changed) at('synchronize', () => stream.synchronize())
        compute(60)
        second.launch(other, ONE, two)
        second.synchronize()
      }
      device.synchronize()
    }
  },
}

/** Two streams meet in each round: beyond some speed of one kernel the other is what takes the time. */
const fasterKernel: TruthProgram = {
  title: 'a kernel 30 % faster, beside another',
  proposal: { kind: 'faster', name: 'slow', percent: 30 },
  async prepare(device) {
    await prepared(device, slow, faster, beside)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(1024, { stream }))
    device.synchronize()
    return (changed) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(changed ? faster : slow, ONE, one)
        second.launch(beside, ONE, two)
        stream.wait(second)
        second.wait(stream)
      }
      device.synchronize()
    }
  },
}

const fasterInChain: TruthProgram = {
  title: 'a kernel 20 % faster, in a chain',
  proposal: { kind: 'faster', name: 'chained', percent: 20 },
  async prepare(device) {
    await prepared(device, chained, quicker, other)
    const stream = new Stream({ device })
    const buffer = device.alloc(1024, { stream })
    device.synchronize()
    return (changed) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(changed ? quicker : chained, ONE, buffer)
        stream.launch(other, ONE, buffer)
      }
      device.synchronize()
    }
  },
}

/** A ring of one buffer, or of two: an upload waits for the kernel that used its buffer last. */
const moreBuffers: TruthProgram = {
  title: 'one more buffer in the ring',
  proposal: { kind: 'more-buffers', line: lineOf('ring') },
  async prepare(device) {
    await prepared(device, decode)
    const [stream, copies] = pairOf(() => new Stream({ device }))
    const buffers = pairOf(() => device.alloc(BYTES, { stream }))
    const pinned = device.allocPinned(BYTES)
    const [ready, free] = [pairOf(() => device.createEvent()), pairOf(() => device.createEvent())]
    device.synchronize()
    return (changed) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const place = changed ? round : 0
        const buffer: DeviceBuffer = turn(buffers, place)
        const used: Event = turn(free, place)
        if (round > (changed ? 1 : 0)) at('ring', () => copies.wait(used))
        copies.copy(buffer, pinned)
        copies.record(turn(ready, round))
        stream.wait(turn(ready, round))
        stream.launch(decode, ONE, buffer)
        stream.record(used)
      }
      device.synchronize()
    }
  },
}

/** JavaScript awaits each round before it prepares the next, or the round before. */
const awaitLater: TruthProgram = {
  title: 'awaiting one round later',
  proposal: { kind: 'more-buffers', line: lineOf('await') },
  async prepare(device) {
    await prepared(device, small, other)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(1024, { stream }))
    const done = pairOf(() => device.createEvent())
    device.synchronize()
    return async (changed) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const [on, kernel, buffer] = round % 2 === 0 ? [stream, small, one] : [second, other, two]
        on.launch(kernel, ONE, buffer)
        on.record(turn(done, round))
        const awaited = changed ? round - 1 : round
        if (awaited >= 0) await at('await', () => turn(done, awaited).finished())
        compute(60)
      }
      device.synchronize()
    }
  },
}

/** Copies within the device all need its memory, wherever they are queued. */
const withinDevice: TruthProgram = {
  title: 'copies within the device on a stream of their own',
  proposal: { kind: 'own-stream', line: lineOf('within') },
  async prepare(device) {
    await prepared(device, small)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => pairOf(() => device.alloc(MANY, { stream })))
    const buffer = device.alloc(1024, { stream })
    device.synchronize()
    return (changed) => {
      const apart = changed ? second : stream
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.copy(one[0], one[1])
        at('within', () => apart.copy(two[0], two[1]))
        stream.launch(small, ONE, buffer)
      }
      device.synchronize()
    }
  },
}

/** Two kernels that each fill three fifths of the device: what is left of one runs beside the other. */
const largeKernels: TruthProgram = {
  title: 'kernels of three fifths of the device',
  proposal: { kind: 'own-stream', line: lineOf('three fifths') },
  async prepare(device) {
    await prepared(device, small, other)
    const [stream, second] = pairOf(() => new Stream({ device }))
    const [one, two] = pairOf(() => device.alloc(1024, { stream }))
    device.synchronize()
    const blocks = Math.floor(1.2 * stream.context.multiprocessors)
    const large = device.driver === 'sim' ? ONE : { grid: blocks, block: 1024 }
    return (changed) => {
      const apart = changed ? second : stream
      for (let round = 0; round < ROUNDS; round += 1) {
        stream.launch(small, large, one)
        at('three fifths', () => apart.launch(other, large, two))
      }
      device.synchronize()
    }
  },
}

/** Sixteen streams, of which the driver puts two into each of eight hardware queues. */
const fewQueues: TruthProgram = {
  title: 'eight hardware queues for thirty-two',
  proposal: { kind: 'queues', count: 8 },
  variable: ['CUDA_DEVICE_MAX_CONNECTIONS', '8'],
  async prepare(device) {
    await prepared(device, long)
    const streams = Array.from({ length: 16 }, () => new Stream({ device }))
    const buffers = streams.map((stream) => device.alloc(1024, { stream }))
    device.synchronize()
    return () => {
      for (const [index, stream] of streams.entries()) {
        const buffer = buffers[index]
        for (let round = 0; round < 4 && buffer !== undefined; round += 1) stream.launch(long, ONE, buffer)
      }
      device.synchronize()
    }
  },
}

/** What a prediction knows less of. */
export const harder: readonly TruthProgram[] = [withinDevice, largeKernels, fewQueues]

export const programs: readonly TruthProgram[] = [
  copyApart,
  downloadApart,
  kernelApart,
  copyBesideFull,
  needlessWait,
  needlessSynchronize,
  fasterKernel,
  fasterInChain,
  moreBuffers,
  awaitLater,
]
