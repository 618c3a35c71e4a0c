/** A worker that makes something, gives it work, and ends in one of several ways without closing anything. */
import { once } from 'node:events'
import { parentPort, workerData } from 'node:worker_threads'
import {
  Device,
  type DeviceBuffer,
  defineKernel,
  Event,
  MemoryPool,
  PinnedBuffer,
  type SharedEvent,
  Stream,
} from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Fft } from 'cuda-streams/cufft'
import { RandomGenerator } from 'cuda-streams/curand'
import { Communicator, uniqueId } from 'cuda-streams/nccl'
import { JpegCodec } from 'cuda-streams/nvjpeg'
import { Session } from 'cuda-streams/onnx'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { perceptron } from '../../libraries/onnx/models.js'
import { writeModel } from '../../libraries/onnx/onnx-model.js'

export const KINDS = [
  'nothing more',
  'stream',
  'event',
  'buffer',
  'buffer of the null stream',
  'buffer of the per-thread stream',
  'buffer that another stream uses',
  'memory for other processes',
  'pinned',
  'closed pinned',
  'registered',
  'pool',
  'graph',
  'instance',
  'instance with a host function',
  'capture',
  'module',
  'green context',
  'host function',
  'host function on the null stream',
  'promise',
  'upload',
  'shared',
  'cuBLAS handle',
  'cuFFT plan',
  'cuRAND generator',
  'nvJPEG codec',
  'ONNX Runtime session',
  'NCCL communicator',
] as const
export type Kind = (typeof KINDS)[number]
export const ENDINGS = ['by itself', 'process.exit()', 'terminate()', 'an error'] as const
export type Ending = (typeof ENDINGS)[number]

/** What the worker is to do. */
export interface Leaving {
  readonly kind: Kind
  readonly ending: Ending
}

const BYTES = 65_536
/** Known to the fake driver by its name. */
const spin = defineKernel({
  name: 'spin',
  ptx: '.version 7.0\n.target sm_70\n.address_size 64\n.visible .entry spin(.param .u64 p)\n{\n  ret;\n}\n',
  signature: ['i64'],
})
/** What the worker has made is not collected before it ends, which would close it. */
const kept: unknown[] = []
if (parentPort !== null) process.on('exit', () => kept.splice(0))

interface Closable {
  close(): unknown
}

/** What has a handle of a library, which is made before anything holds the device. */
export const OF_LIBRARIES: Readonly<Partial<Record<Kind, (stream: Stream) => Closable | Promise<Closable>>>> = {
  'cuBLAS handle': (stream) => new Cublas({ device: stream.device }),
  'cuFFT plan': (stream) => new Fft({ type: 'c2c', shape: [64], device: stream.device }),
  'cuRAND generator': (stream) => new RandomGenerator({ device: stream.device }),
  'nvJPEG codec': (stream) => new JpegCodec({ device: stream.device }),
  'ONNX Runtime session': (stream) => Session.load(writeModel(perceptron.model), { stream }),
  'NCCL communicator': ({ device }) => ranksOf(device),
}

/** All ranks of a communicator: two where the device is no real one, with a half each. */
async function ranksOf(device: Device): Promise<Closable> {
  const [id, size] = [device.run(uniqueId), isFakeDriver() ? 2 : 1]
  const made = Array.from({ length: size }, (_, rank) => Communicator.create({ id, rank, size, device }))
  const communicators = await Promise.all(made)
  return { close: () => Promise.all(communicators.map((each) => each.close())) }
}
const greens: Stream[] = []

function captured(stream: Stream, buffer: DeviceBuffer, withHostFunction: boolean) {
  return stream.capture(() => {
    for (let node = 0; node < 20; node += 1) stream.fill(buffer, node)
    if (withHostFunction) stream.launchHostFunc(() => {})
  })
}

const MAKERS: Readonly<Record<Kind, (stream: Stream, device: Device) => unknown>> = {
  'nothing more': () => undefined,
  stream: (_, device) => Array.from({ length: 5 }, () => new Stream({ device }).record()),
  event: (stream, device) => Array.from({ length: 20 }, () => new Event({ device, timing: true }).record(stream)),
  buffer: (stream, device) => [1, 2, 3].map(() => filled(stream, device.alloc(BYTES, { stream }))),
  'buffer of the null stream': (_, device) => filled(device.defaultStream, device.alloc(BYTES)),
  'buffer of the per-thread stream': (_, device) =>
    filled(Stream.perThread, device.alloc(BYTES, { stream: Stream.perThread })),
  'buffer that another stream uses': (stream, device) =>
    filled(stream, device.alloc(BYTES, { stream: new Stream({ device }) })),
  'memory for other processes': (stream, device) => filled(stream, device.alloc(BYTES, { interprocess: true })),
  pinned: (stream, device) => stream.fill(device.allocPinned(BYTES), 1),
  'closed pinned': (stream, device) => {
    const pinned = device.allocPinned(BYTES)
    stream.fill(pinned, 1)
    pinned.close()
  },
  registered: (stream, device) => {
    const bytes = new Uint8Array(BYTES)
    stream.fill(PinnedBuffer.from(bytes, { device }), 1)
    return bytes
  },
  pool: (stream, device) => {
    const pool = new MemoryPool({ device })
    return [pool, filled(stream, device.alloc(BYTES, { pool, stream }))]
  },
  graph: (stream, device) => captured(stream, device.alloc(BYTES, { stream }), false),
  instance: (stream, device) => launched(stream, captured(stream, device.alloc(BYTES, { stream }), false)),
  'instance with a host function': (stream, device) =>
    launched(stream, captured(stream, device.alloc(BYTES, { stream }), true)),
  capture: (stream, device) => {
    const buffer = device.alloc(BYTES, { stream })
    const capturing = new Stream({ device })
    return capturing.wait(stream.fill(buffer, 1)).beginCapture().fill(buffer, 2)
  },
  module: (stream) => stream.launch(spin, { grid: 1, block: 1 }, 1n),
  'green context': (stream) => greens.map((green) => green.wait(stream).record()),
  'host function': (stream) => stream.launchHostFunc(() => {}),
  'host function on the null stream': (_, device) => device.defaultStream.launchHostFunc(() => {}),
  promise: (stream) => stream.wait(new Promise(() => {})),
  upload: (stream, device) => stream.upload(device.alloc(8 << 20, { stream }), new Uint8Array(8 << 20)),
  shared: (stream, device) => [stream.share(), stream.record().share(), device.alloc(BYTES, { stream }).share()],
  'cuBLAS handle': () => undefined,
  'cuFFT plan': () => undefined,
  'cuRAND generator': () => undefined,
  'nvJPEG codec': () => undefined,
  'ONNX Runtime session': () => undefined,
  'NCCL communicator': () => undefined,
}

function filled(stream: Stream, buffer: DeviceBuffer): DeviceBuffer {
  stream.fill(buffer, 1)
  return buffer
}

function launched(stream: Stream, graph: ReturnType<Stream['capture']>): unknown {
  const instance = graph.instantiate()
  for (let launch = 0; launch < 3; launch += 1) stream.launch(instance)
  return [graph, instance]
}

if (parentPort !== null) {
  const { kind, ending } = workerData as Leaving
  const device = Device.get()
  const stream = new Stream({ device })
  // What waits for the device is made before anything holds it.
  if (kind === 'module') await spin.prepare(device)
  if (kind === 'green context')
    greens.push(...device.split({ multiprocessors: [8] }).map((context) => new Stream({ context })))
  kept.push(await OF_LIBRARIES[kind]?.(stream))
  const asked = once(parentPort, 'message')
  parentPort.postMessage('ready')
  const [after] = (await asked) as [SharedEvent | undefined]
  if (after !== undefined) stream.wait(Event.from(after))
  kept.push(stream, MAKERS[kind](stream, device))
  parentPort.postMessage('made')
  if (ending === 'process.exit()') process.exit()
  if (ending === 'an error') throw new Error('on purpose')
  if (ending === 'terminate()') setInterval(() => {}, 1000)
}
