/**
 * A program as users write them, with much of the public surface. scripts/types-matrix.mjs compiles it against the packed
 * package under many compilers, with `skipLibCheck: false`; so it uses no syntax that TypeScript 5.4 lacks.
 */
import {
  type Bytes,
  Device,
  DeviceBuffer,
  defineKernel,
  type Event,
  ExternalStream,
  type Graph,
  type GraphExec,
  type Kernel,
  type LaunchConfig,
  Module,
  type PinnedBuffer,
  Program,
  Stream,
  type Struct,
  struct,
} from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Fft, type FftType } from 'cuda-streams/cufft'
import { RandomGenerator } from 'cuda-streams/curand'
import { Communicator, group, uniqueId } from 'cuda-streams/nccl'
import { JpegCodec, type JpegImage, readJpegInfo } from 'cuda-streams/nvjpeg'
import { Session } from 'cuda-streams/onnx'
import { traceOperations } from 'cuda-streams/opentelemetry'
import { Python, type PythonArray, PythonError, type PythonObject, type PythonValue } from 'cuda-streams/python'
import { Recorder } from 'cuda-streams/recording'
import { nameStream, Sanitizer, sanitize } from 'cuda-streams/sanitizer'
import { busy, explore, latch, type Simulation, simulate } from 'cuda-streams/sim'
import { publish, Timeline } from 'cuda-streams/timeline'

const axpy = defineKernel({
  name: 'axpy',
  source: '',
  signature: ['f32', 'in f32*', 'inout f32*', 'i32'],
  simulate: ({ globalX: i }, a, x, y, n) => {
    if (i < n) y[i] = a * (x[i] ?? 0) + (y[i] ?? 0)
  },
})
interface Particle {
  readonly position: readonly [x: number, y: number, z: number]
  readonly id: bigint
  readonly weights: readonly number[]
}
const Particle: Struct<Particle> = struct({ position: 'f32x3', id: 'u64', weights: ['f16', 4] })
const move = defineKernel({
  name: 'move',
  source: '',
  signature: [{ inout: Particle }, Particle, 'f32x4', 'bf16', 'in f16*'],
  parameterNames: ['particles', 'by', 'colour', 'scale', 'halves'],
  simulate: ({ globalX: i }, particles, by, [red], scale, halves) => {
    const { position, ...rest } = particles.get(i)
    particles.set(i, { ...rest, position: [position[0] + by.position[0] * scale, red, halves.get(0)] })
  },
})
const config: LaunchConfig = { grid: [4, 1], block: 256 }

export async function streams(device: Device): Promise<void> {
  const stream: Stream = nameStream(new Stream({ device, priority: -1, nonBlocking: true }), 'copies')
  const theirs: Stream = new ExternalStream({ __cuda_stream__: () => [0, 1n] as const }, { device: -1, owner: {} })
  const event: Event = stream.wait(theirs).record({ timing: true })
  const scopes: Disposable[] = [stream, event, stream.enter()]
  const waits: AsyncDisposable = stream
  theirs.wait(event, { external: true }).launchHostFunc((text) => text.length, 'text')
  await stream.finished({ signal: new AbortController().signal })
  for (const scope of scopes) scope[Symbol.dispose]()
  await waits[Symbol.asyncDispose]()
  // @ts-expect-error no option
  new Stream({ nonblocking: true })
  // @ts-expect-error made by Device.get()
  new Device()
  // @ts-expect-error made by device.alloc()
  new DeviceBuffer()
}

export async function memory(stream: Stream, file: ReadableStream<Uint8Array>): Promise<void> {
  const buffer: DeviceBuffer = stream.device.alloc(16, { stream })
  const pinned: PinnedBuffer = stream.device.allocPinned(16)
  stream.copy(pinned, buffer).fill(buffer, 0, { width: 4 })
  const sources: Bytes[] = [new Float32Array(4), new DataView(new ArrayBuffer(16)), new SharedArrayBuffer(16)]
  for (const source of sources) await stream.upload(buffer, source)
  const bytes = await stream.download(buffer)
  const floats = await stream.download(buffer, Float32Array)
  const longs: BigInt64Array = await stream.download(buffer, BigInt64Array)
  const filled: Uint16Array = await stream.download(buffer, new Uint16Array(8))
  const first: number | undefined = floats[0]
  const own: ArrayBuffer = bytes.buffer.slice(0)
  new Blob([bytes, floats, pinned.bytes, pinned.view(Float64Array)])
  await crypto.subtle.digest('SHA-256', bytes)
  const response = await fetch('http://localhost/weights')
  await response.body?.pipeTo(stream.uploader(buffer))
  await file.pipeTo(stream.uploader(buffer))
  await stream.downloader(buffer, { chunkBytes: 4 }).pipeTo(stream.uploader(buffer))
  new Response(stream.downloader(buffer))
  void [first, own, longs, filled]
}

export async function work(stream: Stream, x: DeviceBuffer, y: DeviceBuffer): Promise<void> {
  stream.launch(axpy, config, 2, x, y, 1024)
  const particles: Uint8Array = Particle.pack([{ position: [1, 2, 3], id: 1n, weights: [1, 2, 3, 4] }])
  for (const particle of Particle.unpack(particles)) stream.launch(move, config, x, particle, [1, 2, 3, 4], 0.5, y)
  // @ts-expect-error a member is missing
  stream.launch(move, config, x, { position: [1, 2, 3] }, [1, 2, 3, 4], 0.5, y)
  // @ts-expect-error an argument is missing
  stream.launch(axpy, config, 2, x, y)
  // @ts-expect-error the configuration is missing
  stream.launch(axpy, 2, x, y, 1024)
  const module: Module = await Program.compile('', { arch: 'sm_90' })
  const kernel = module.kernel('scale', ['f64', 'inout f64*'])
  stream.launch(kernel, { grid: 1, block: [8, 8] }, 2, x)
  // @ts-expect-error memory where a number belongs
  stream.launch(kernel, { grid: 1, block: 1 }, x, x)
  const some: Kernel = kernel
  // @ts-expect-error a kernel of other parameters
  const other: Kernel<readonly ['i32']> = kernel
  const graph: Graph = stream.capture(() => void stream.launch(axpy, config, 2, x, y, 1024), { mode: 'relaxed' })
  const exec: GraphExec = graph.instantiate().upload(stream).launch(stream)
  stream.launch(exec)
  const outer: Graph = stream.capture(() => void stream.launch(graph), { into: graph, after: graph.nodes })
  const [node] = outer.nodesOf(axpy)
  if (node !== undefined) {
    exec.update(node, config, 2, x, y, 1024).setEnabled(node, false)
    // @ts-expect-error one argument is missing
    exec.update(node, config, 2, x, y)
    // @ts-expect-error a text is no number
    exec.update(node, config, 'two', x, y, 1024)
  }
  for (const each of outer.nodes) {
    if (each.kind === 'copy') exec.update(each, x, y)
    if (each.kind === 'fill') exec.update(each, x, 0, { width: 4 })
    if (each.kind === 'kernel') void [each.name, each.config?.grid, each.after.length]
    // @ts-expect-error only kernels, copies and fills can be switched off
    if (each.kind === 'hostFunction') exec.setEnabled(each, false)
  }
  void [some, other, Module.load('', { device: stream.device })]
}

export function python(stream: Stream, buffer: DeviceBuffer): PythonValue {
  const numpy: PythonObject = Python.start().import('numpy')
  const zeros = numpy.invoke('zeros', [[2, 3], undefined, stream, new Float32Array(4)], { dtype: 'f4', axis: [1n] })
  const seen: PythonArray<Float32Array> = zeros.arrayView(Float32Array)
  const theirs: Stream = new ExternalStream(zeros)
  const shared = Python.start().share(buffer, { dtype: 'f32', shape: seen.shape })
  // @ts-expect-error Python has nothing like it
  numpy.invoke('zeros', [new Map<string, string>()])
  // @ts-expect-error an object of Python is no number
  const wrong: number = zeros.item(0)
  if (new PythonError('ValueError', '', '').type === shared.type) stream.wait(theirs).wait(zeros)
  return zeros.get('T').item(0, wrong).value()
}

export async function libraries(stream: Stream, a: DeviceBuffer): Promise<void> {
  new Cublas({ device: stream.device }).gemm(stream, a, a, a, { type: 'f32', m: 1, n: 1, k: 1 })
  const type: FftType = new Fft({ type: 'r2c', shape: [4, 8], device: stream.device }).forward(stream, a, a).type
  new RandomGenerator({ seed: 1, device: stream.device })
    .uniform(stream, a, { type: 'f64' })
    .normal(stream, a, { mean: type.length })
    .bits(stream, a)
  // @ts-expect-error cuFFT has no such type
  new Fft({ type: 'c2d', shape: [4] })
  const codec = new JpegCodec({ device: stream.device })
  const image: JpegImage = codec.decode(stream, new Uint8Array(8), { format: 'bgr', layout: 'planar', into: a })
  const jpeg: Uint8Array = await codec.encode(stream, image, { quality: 90, subsampling: '420' })
  const { width, coding }: { width: number; coding: string } = readJpegInfo(jpeg)
  codec.decodeBatch(stream, [jpeg], { into: [a] }).map(({ shape }) => [...shape, width, coding])
  // @ts-expect-error an image needs its size
  await codec.encode(stream, { buffer: a })
  const session: Session = await Session.load(new Uint8Array(8), { stream, tensorrt: false, graphs: true })
  const dims: readonly (number | string)[] | undefined = session.inputs[0]?.dims
  session.run(stream, { x: { buffer: a, shape: [1, 2] } }, { y: a }).close()
  // @ts-expect-error a shape without a buffer
  session.run(stream, { x: { shape: dims } }, { y: a })
  const ranks: Communicator = await Communicator.create({ id: uniqueId(), rank: 0, size: 1 })
  group(() => ranks.allReduce(Stream.current(ranks.device), a, a, { type: 'f32', op: 'sum' }))
}

export async function tools(stream: Stream): Promise<void> {
  const simulation: Simulation = simulate({ devices: 2, seed: 7, faults: [{ operation: 'copy' }] })
  busy(stream, 1000)
  latch(stream).open()
  const { verdict } = await explore(({ devices: [device] }) => device?.createStream().finished())
  const timeline = await Timeline.record(() => sanitize(() => stream.finished()))
  timeline.toSvg({ width: 800 })
  const recorder = Recorder.start('run.rec', { device: stream.device, stacks: 'all' })
  await recorder.stop()
  for (const each of [publish(), traceOperations(), Sanitizer.start(), simulation]) each[Symbol.dispose]()
  void [verdict, timeline.gaps]
}
