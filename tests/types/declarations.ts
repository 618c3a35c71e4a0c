/**
 * The declarations that programs are written against. Compiling this file is the test, with the strict settings of the
 * package: each assignment and call fails to compile where a name, a parameter or a type of the surface has changed.
 */
import {
  type Condition,
  type Context,
  CudaError,
  type CudaStreamLike,
  cudaStream,
  type DefinedKernel,
  Device,
  DeviceBuffer,
  defineKernel,
  type Elements,
  type ElementView,
  Event,
  type EventOptions,
  ExternalStream,
  type ExternalStreamOptions,
  elements,
  type Graph,
  type GraphExec,
  type GraphNode,
  GreenContext,
  type Kernel,
  type LaunchConfig,
  type LaunchConfigOptions,
  MemoryPool,
  Module,
  type PinnedBuffer,
  Program,
  type PythonStreamLike,
  type RecordOptions,
  Stream,
  StreamLane,
  type StreamOptions,
  StreamPool,
  type StreamSource,
  type Struct,
  type StructPointer,
  type StructValue,
  struct,
  type WaitEventOptions,
  type WaitOptions,
  type WaitPromiseOptions,
  type WaitStreamOptions,
} from 'cuda-streams'
import {
  busy,
  destroyForeignStream,
  type FailingCall,
  fault,
  foreignStream,
  type KernelProfile,
  type LineProfile,
  latch,
  type Simulation,
  simulate,
  simulationOf,
} from 'cuda-streams/sim'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
/** Compiles only where the two types are the same, `readonly` included. */
function same<A, B>(_holds: Same<A, B>): void {}
type Only<T, K extends keyof T> = { [P in K]: T[P] }

class Ours implements CudaStreamLike {
  [cudaStream](): readonly [version: number, handle: bigint | number] {
    return [0, 1n]
  }
}
class Pythons implements PythonStreamLike {
  __cuda_stream__(): readonly [version: number, handle: bigint | number] {
    return [0, 1]
  }
}

export function symbols(): void {
  const sources: StreamSource[] = [0n, 0, new Ours(), new Pythons(), new Stream(), { __cuda_stream__: () => [0, 1] }]
  same<StreamSource, bigint | number | CudaStreamLike | PythonStreamLike>(true)
  void sources
}

export function devices(signal: AbortSignal): void {
  const device: Device = Device.get()
  same<ReturnType<typeof Device.get>, Device>(true)
  Device.get(0)
  Device.get(undefined)
  const count: number = Device.count()
  const current: Device = Device.current()
  same<
    Only<
      Device,
      | 'ordinal'
      | 'name'
      | 'uuid'
      | 'pciBusId'
      | 'computeCapability'
      | 'driver'
      | 'context'
      | 'priorityRange'
      | 'defaultStream'
    >,
    {
      readonly ordinal: number
      readonly name: string
      readonly uuid: string
      readonly pciBusId: string
      readonly computeCapability: { readonly major: number; readonly minor: number }
      readonly driver: 'cuda' | 'sim'
      readonly context: Context
      readonly priorityRange: { readonly least: number; readonly greatest: number }
      readonly defaultStream: Stream
    }
  >(true)
  same<
    Only<Context, keyof Context>,
    { readonly handle: bigint; readonly device: Device; readonly multiprocessors: number }
  >(true)
  const [small, rest] = device.split({ multiprocessors: [16] })
  const three: [GreenContext, GreenContext, GreenContext] = device.split({ multiprocessors: [8, 16] })
  const counts: readonly number[] = [8, 16]
  const several: GreenContext[] = device.split({ multiprocessors: counts })
  const parts: [Context, Disposable, number, boolean] = [small, rest, small.multiprocessors, small.closed]
  const there: Stream[] = [new Stream({ context: small, priority: -1 }), device.createStream({ context: rest })]
  // @ts-expect-error a context that is no part of a device
  new Stream({ context: device.context })
  // @ts-expect-error green contexts are had from device.split()
  new GreenContext()
  // @ts-expect-error an option that it has not
  device.split({ sms: [16] })
  const made: Stream = device.createStream()
  const withOptions: Stream = device.createStream({ priority: -1, nonBlocking: false, device })
  const external: ExternalStream[] = [device.createStream(new Ours()), device.createStream(new Pythons())]
  const events: Event[] = [device.createEvent(), device.createEvent({ timing: true })]
  same<ReturnType<Device['synchronize']>, void>(true)
  const waits: Promise<void>[] = [device.finished(), device.finished({}), device.finished({ signal })]
  const itself: Device = device.use().use()
  const scope: Disposable = device.enter()
  const result: number = device.run(() => 1)
  const later: Promise<string> = device.run(async () => 'later')
  const attribute: number = device.attribute('multiprocessorCount')
  // @ts-expect-error a name that CUDA has not
  device.attribute('multiProcessorCount')
  // @ts-expect-error devices are had from Device.get()
  new Device()
  // @ts-expect-error readonly
  device.ordinal = 1
  void [count, current, made, withOptions, external, events, waits, itself, scope, result, later, attribute]
  void [three, several, parts, there]
}

export function options(device: Device, signal: AbortSignal, event: Event): void {
  const stream: StreamOptions[] = [{}, { device }, { device: 0 }, { priority: 0 }, { nonBlocking: true }, { name: 'a' }]
  const external: ExternalStreamOptions[] = [{}, { device }, { device: -1 }, { owner: {} }, { name: 'a' }]
  const made: EventOptions[] = [{}, { timing: true }, { blockingSync: true }, { interprocess: true }]
  const recorded: RecordOptions[] = [{}, { external: true, timing: true, blockingSync: false, interprocess: false }]
  const waited: WaitEventOptions[] = [{}, { external: false }]
  const waitedStream: WaitStreamOptions[] = [{}, { external: true, event }]
  const waitedPromise: WaitPromiseOptions[] = [{}, { signal }]
  const wait: WaitOptions[] = [{}, { signal }]
  // @ts-expect-error an unknown option
  const unknown: StreamOptions = { nonblocking: true }
  void [stream, external, made, recorded, waited, waitedStream, waitedPromise, wait, unknown]
}

export async function streams(signal: AbortSignal, event: Event, device: Device): Promise<void> {
  const stream = new Stream()
  new Stream({ device, priority: 0, nonBlocking: true })
  const roles: [CudaStreamLike, Disposable, AsyncDisposable] = [stream, stream, stream]
  const from: Stream[] = [Stream.from(stream), Stream.from(1n), Stream.from(1), Stream.from(new Ours(), { device })]
  const current: Stream[] = [Stream.current(), Stream.current(device), Stream.current(0)]
  const order: -1 | 0 | 1 = Stream.compare(stream, stream)
  same<ReturnType<typeof Stream.compare>, -1 | 0 | 1>(true)
  const kept: Stream[] = [Stream.null, Stream.perThread]
  same<
    Only<
      Stream,
      | ('handle' | 'id' | 'serial' | 'device' | 'context')
      | ('name' | 'priority' | 'nonBlocking' | 'isCapturing' | 'cachedEvent' | 'closed')
    >,
    {
      readonly handle: bigint
      readonly id: bigint
      readonly serial: number
      readonly device: Device
      readonly context: Context
      readonly name: string
      priority: number
      readonly nonBlocking: boolean
      readonly isCapturing: boolean
      readonly cachedEvent: Event
      readonly closed: boolean
    }
  >(true)
  const records: Event[] = [
    stream.record(),
    stream.record(event),
    stream.record(event, { external: true }),
    stream.record(undefined, { timing: true }),
    stream.record({ timing: true, external: false }),
  ]
  const chain: Stream = stream
    .wait(event)
    .wait(event, { external: true })
    .wait(stream)
    .wait(stream, { event, external: true })
    .wait(new Ours())
    .wait(new Pythons(), { event })
    .wait(Promise.resolve(1), { signal })
    .wait(stream.device)
    .waitValue(stream.device.allocPinned(8), 1, { compare: 'and', byteOffset: 4 })
    .writeValue(stream.device.allocPinned(8), 1n)
  // @ts-expect-error a bare handle is wrapped first
  stream.wait(1n)
  const done: boolean = stream.query()
  same<ReturnType<Stream['synchronize' | 'close']>, void>(true)
  const waits: Promise<void>[] = [stream.finished(), stream.finished({ signal })]
  const queued: Stream = stream
    .launchHostFunc(() => {})
    .launchHostFunc((text) => text.length, 'argument')
    .addCallback((on, status, text) => [on.handle, status + 1, text.length], 'argument')
    .addCallback<string | undefined>((_on, status) => void status, undefined)
    .use()
  const scope: Disposable = stream.enter()
  const result: number = stream.run(() => 1)
  const later: Promise<number> = stream.run(async () => 1)
  const equal: boolean = stream.equals('x')
  const key: bigint = stream.valueOf()
  const less: boolean = stream < Stream.null
  const protocol: readonly [version: 0, handle: bigint] = stream[cudaStream]()
  same<ReturnType<Stream[typeof Symbol.asyncDispose]>, Promise<void>>(true)
  void [roles, from, current, order, kept, records, chain, done, waits, queued, scope, result, later, equal]
  void [key, less, protocol]
  {
    using closed = new Stream()
    await using closedLater = new Stream()
    void [closed, closedLater]
  }
}

export function externalStreams(device: Device): void {
  const stream = new ExternalStream(1n)
  const more = [new ExternalStream(1, { device }), new ExternalStream(new Ours(), { owner: {} })]
  const wrapped: ExternalStream = new ExternalStream(new Stream(), { device: -1 })
  const base: Stream = stream
  same<Only<ExternalStream, 'owner'>, { readonly owner: object | undefined }>(true)
  const itself: ExternalStream = stream.addCallback((on: ExternalStream) => void on.owner, 1).wait(base)
  // @ts-expect-error a source is needed
  new ExternalStream()
  void [more, wrapped, base, itself]
}

export function events(stream: Stream, device: Device, signal: AbortSignal): void {
  const event = new Event()
  const made: Event[] = [
    new Event({ timing: true, device }),
    new Event({ blockingSync: true, interprocess: true, device: 0 }),
    Event.from(1n),
    Event.from(1, { device, owner: {} }),
    Event.fromIpcHandle(new Uint8Array(64)),
    Event.fromIpcHandle(Buffer.alloc(64), { device: 0 }),
  ]
  same<
    Only<Event, 'handle' | 'device' | 'timing' | 'blockingSync' | 'interprocess' | 'closed'>,
    {
      readonly handle: bigint
      readonly device: Device
      readonly timing: boolean
      readonly blockingSync: boolean
      readonly interprocess: boolean
      readonly closed: boolean
    }
  >(true)
  const role: Disposable = event
  const chain: Event = event.record().record(stream).record(stream, { external: true }).wait().wait(stream, {})
  const done: boolean = event.query()
  same<ReturnType<Event['synchronize' | 'close']>, void>(true)
  const waits: Promise<void>[] = [event.finished(), event.finished({ signal })]
  const milliseconds: number = event.elapsedSince(event)
  const bytes: Uint8Array = event.ipcHandle()
  const equal: boolean = event.equals(undefined)
  void [made, role, chain, done, waits, milliseconds, bytes, equal]
}

export function errors(error: unknown): void {
  if (!(error instanceof CudaError)) return
  const base: Error = error
  same<
    Only<CudaError, 'code' | 'number' | 'call'>,
    { readonly code: string; readonly number: number; readonly call: string }
  >(true)
  void base
}

export async function pools(device: Device, signal: AbortSignal): Promise<void> {
  await using pool = new StreamPool({ device, size: 8, priority: -1, nonBlocking: true })
  const lane: StreamLane = await pool.take({ signal })
  const stream: Stream = lane.stream
  const other: StreamLane | undefined = pool.tryTake()
  const bytes: number = await pool.run(async (each) => (each.equals(stream) ? 1 : 2), { signal })
  const text: string = await pool.run(String)
  await pool.drain({ signal })
  // @ts-expect-error size is required
  new StreamPool({ device })
  // @ts-expect-error only pools make lanes
  new StreamLane()
  void [other, bytes, text]
}

export async function memory(device: Device, stream: Stream): Promise<void> {
  const buffer: DeviceBuffer = device.alloc(16)
  device.alloc(16, {})
  device.alloc(16, { stream })
  const pool: MemoryPool = new MemoryPool({ device, maxBytes: 1, releaseThreshold: Number.POSITIVE_INFINITY })
  new MemoryPool().trim(1).resetPeaks().close()
  device.alloc(16, { stream, pool })
  pool.releaseThreshold = 0
  const figures: number[] = [pool.used, pool.peakUsed, pool.reserved, pool.peakReserved, device.memory.free]
  void [figures, device.memoryPool.handle, pool.maxBytes]
  const pinned: PinnedBuffer = device.allocPinned(16)
  const bytes: Uint8Array = pinned.bytes
  const floats: Float32Array = pinned.view(Float32Array)
  const longs: BigInt64Array = pinned.view(BigInt64Array)
  const foreign: DeviceBuffer[] = [
    DeviceBuffer.from(1n, 16),
    DeviceBuffer.from(1, 16, { device, owner: {} }),
    DeviceBuffer.fromIpcHandle(buffer.ipcHandle(), { device: 0 }),
  ]
  const slices: [DeviceBuffer, PinnedBuffer] = [buffer.subarray(0, 8), pinned.subarray(8, 16)]
  const chain: Stream = stream
    .copy(buffer, pinned)
    .copy(pinned, buffer)
    .copy(buffer, buffer)
    .fill(buffer, 0)
    .fill(pinned, -1, { width: 4 })
    .fill(buffer, 1, { shape: [2, 4], strides: [8] })
  // @ts-expect-error CUDA fills no planes
  stream.fill(buffer, 0, { shape: [2, 2, 4] })
  // @ts-expect-error no width of CUDA's
  stream.fill(buffer, 0, { width: 8 })
  // @ts-expect-error ordinary arrays are uploaded
  stream.copy(buffer, new Uint8Array(16))
  stream.upload(buffer, new Float64Array(2))
  const made: DeviceBuffer = stream.bufferFrom(new Float64Array(2))
  stream.fill(made, 1.5, { type: 'f32' }).fill(made, -1, { width: 4 })
  // @ts-expect-error CUDA has no fill of 8 bytes
  stream.fill(made, 1.5, { type: 'f64' })
  // @ts-expect-error an array of numbers has no type of elements
  stream.bufferFrom([1, 2])
  stream.upload(buffer, new DataView(new ArrayBuffer(16)))
  stream.upload(buffer, new SharedArrayBuffer(16))
  stream.upload(buffer, Buffer.alloc(16))
  stream.upload(pinned, new BigUint64Array(2))
  same<ReturnType<typeof stream.downloader>, ReadableStream<Uint8Array<ArrayBuffer>>>(true)
  const downloaded = await stream.download(buffer)
  const [asFloats, asLongs] = [
    await stream.download(buffer, Float32Array),
    await stream.download(buffer, BigInt64Array),
  ]
  const filled = await stream.download(buffer, new Float64Array(new SharedArrayBuffer(16)))
  const view = await stream.download(buffer, new DataView(new ArrayBuffer(16)))
  const shared = await stream.download(buffer, new SharedArrayBuffer(16))
  same<typeof downloaded, Uint8Array<ArrayBuffer>>(true)
  same<typeof asFloats, Float32Array<ArrayBuffer>>(true)
  same<typeof asLongs, BigInt64Array<ArrayBuffer>>(true)
  same<typeof filled, Float64Array<SharedArrayBuffer>>(true)
  same<typeof view, DataView<ArrayBuffer>>(true)
  same<typeof shared, SharedArrayBuffer>(true)
  same<typeof pinned.bytes | ReturnType<typeof buffer.ipcHandle>, Uint8Array<ArrayBuffer>>(true)
  const views = [pinned.view(Float32Array)] as const
  same<typeof views, readonly [Float32Array<ArrayBuffer>]>(true)
  new Blob([downloaded, asFloats, pinned.bytes])
  await crypto.subtle.digest('SHA-256', downloaded)
  await new Response(stream.downloader(buffer)).body?.pipeTo(stream.uploader(buffer))
  // @ts-expect-error no constructor of typed arrays
  await stream.download(buffer, Array)
  // @ts-expect-error no array
  await stream.download(buffer, 16)
  {
    using one = device.alloc(1)
    using other = device.allocPinned(1)
    void [one, other]
  }
  void [bytes, floats, longs, foreign, slices, chain, downloaded]
}

export async function kernels(device: Device, stream: Stream, buffer: DeviceBuffer): Promise<void> {
  const modules: Module[] = [
    Module.load(new Uint8Array(1)),
    Module.load(Buffer.alloc(1), { device }),
    await Program.compile(''),
    await Program.compile('', { arch: 'sm_90', options: ['--use_fast_math'], device: 0 }),
  ]
  const [module] = modules
  if (module === undefined) return
  const axpy = module.kernel('axpy', ['f32', 'in f32*', 'inout f32*', 'i32'])
  same<typeof axpy, Kernel<readonly ['f32', 'in f32*', 'inout f32*', 'i32']>>(true)
  const chain: Stream = stream
    .launch(axpy, { grid: 1, block: 1 }, 2, buffer, buffer, 4)
    .launch(axpy, { grid: [1, 2, 3], block: [1], sharedMemory: 0 }, 2, buffer.pointer, 1, 4)
    .launch(axpy, { threads: 4 }, 2, buffer, buffer, 4)
    .launch(axpy, { threads: [4, 1], block: [4] }, 2, buffer, buffer, 4)
    .launch(axpy, { grid: 4 }, 2, buffer, buffer, 4)
  const config: LaunchConfig = { threads: 4, sharedMemory: 16 }
  const options: LaunchConfigOptions = { block: 64 }
  stream.launch(axpy, config, 2, buffer, buffer, 4).launch(axpy, { grid: 1, ...options }, 2, buffer, buffer, 4)
  // @ts-expect-error blocks and threads
  stream.launch(axpy, { grid: 1, threads: 1 }, 2, buffer, buffer, 4)
  // @ts-expect-error neither blocks nor threads
  stream.launch(axpy, { block: 1 }, 2, buffer, buffer, 4)
  // @ts-expect-error too few arguments
  stream.launch(axpy, { grid: 1, block: 1 }, 2, buffer, buffer)
  // @ts-expect-error memory in the place of a number
  stream.launch(axpy, { grid: 1, block: 1 }, buffer, buffer, buffer, 4)
  // @ts-expect-error no such type
  module.kernel('axpy', ['float'])
  const Point = struct({ at: 'f32x3', id: 'u64', on: 'bool', weights: [['f32', 3], 2] })
  interface Point {
    readonly at: readonly [number, number, number]
    readonly id: bigint
    readonly on: boolean
    readonly weights: readonly (readonly number[])[]
  }
  const point: Point = { at: [1, 2, 3], id: 1n, on: true, weights: [[1], [2]] }
  const points: readonly Point[] = Point.unpack(Point.pack([point]))
  const Line = struct({ ends: [Point, 2], width: 'f16' }, { alignment: 16 })
  void Line.pack([{ ends: [point, point], width: 1 }])
  // @ts-expect-error a vector of three numbers
  void Point.pack([{ ...point, at: [1, 2] }])
  // @ts-expect-error a member is missing
  void Point.pack([{ at: [1, 2, 3] }])
  // @ts-expect-error no such type of a member
  struct({ at: 'float3' })
  same<ReturnType<typeof elements<'i8x2'>>, Elements<readonly [number, number]>>(true)
  const numbers: readonly number[] = elements('bf16').unpack(elements('bf16').pack(new Float32Array(2)))
  const draw = module.kernel('draw', [{ inout: Point }, Line, 'f32x4', 'f16', 'in bf16*', 'out i8x4*', 'i64x2'])
  const line = { ends: [point, point], width: 1 }
  const colour = [1, 2, 3, 4] as const
  stream.launch(draw, { threads: 1 }, buffer, line, colour, 0.5, buffer, buffer, [1n, 2n])
  stream.launch(draw, { threads: 1 }, buffer, line, new Float32Array(4), 0.5, buffer, buffer, new BigInt64Array(2))
  // @ts-expect-error a vector of four numbers
  stream.launch(draw, { threads: 1 }, buffer, line, [1, 2, 3], 0.5, buffer, buffer, [1n, 2n])
  // @ts-expect-error a member of another type
  stream.launch(draw, { threads: 1 }, buffer, { ...line, width: '1' }, colour, 0.5, buffer, buffer, [1n, 2n])
  // @ts-expect-error memory of structs is memory
  stream.launch(draw, { threads: 1 }, [point], line, colour, 0.5, buffer, buffer, [1n, 2n])
  // @ts-expect-error a pointer to no struct
  const pointer: StructPointer = { in: 'f32' }
  // What a file of CUDA C++ declares.
  const declared = {} as unknown as DefinedKernel<readonly [p: Struct<Point>, to: { readonly out: Struct<Point> }]>
  stream.launch(declared, { threads: 1 }, point, buffer)
  // @ts-expect-error an object and then memory
  stream.launch(declared, { threads: 1 }, buffer, point)
  const hosted = defineKernel({
    name: 'hosted',
    source: '',
    signature: [{ inout: Point }, Line, 'f32x4', 'f16', 'in bf16*', 'out i8x4*', 'i64x2', 'inout f16x2*'],
    parameterNames: ['points', 'line', 'colour', 'gain', 'weights', 'quads', 'longs', 'pairs'],
    simulate: (_thread, all, line, colour, gain, weights, quads, longs, pairs) => {
      const first: Point = all.get(0)
      all.set(0, { ...first, on: false })
      same<typeof all, ElementView<StructValue<{ at: 'f32x3'; id: 'u64'; on: 'bool'; weights: [['f32', 3], 2] }>>>(true)
      same<typeof colour, readonly [number, number, number, number]>(true)
      same<typeof gain, number>(true)
      same<typeof weights, ElementView<number>>(true)
      same<typeof quads, Int8Array>(true)
      same<typeof longs, readonly [bigint, bigint]>(true)
      same<typeof pairs, ElementView<number>>(true)
      const ends: readonly Point[] = line.ends
      void ends
    },
  })
  void [points, numbers, pointer, hosted]
  const kernel = defineKernel({
    name: 'all',
    source: '',
    signature: ['bool', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f32', 'f64', 'in f64*', 'out i64*'],
    simulate: (thread, bool, ...rest) => {
      const last = rest[11]
      same<typeof last, BigInt64Array>(true)
      same<typeof bool, number>(true)
      void thread.shared.byteLength
    },
  })
  chain.launch(kernel, { grid: 1, block: 1 }, true, 1, 1, 1, 1, 1, 1, 1n, 1, 1, 1, buffer, buffer)
}

export function graphs(stream: Stream): void {
  const itself: Stream = stream
    .beginCapture()
    .beginCapture('global')
    .beginCapture('threadLocal')
    .beginCapture('relaxed')
  const graph: Graph = stream.endCapture()
  const given: () => unknown = () => stream
  stream.capture(given)
  stream.capture(() => stream)
  stream.capture(() => {
    throw new Error('no work')
  })
  // @ts-expect-error the capture ends before the promise settles
  stream.capture(async () => {})
  // @ts-expect-error the same for any function that returns a promise
  stream.capture(() => stream.finished())
  const captured: Graph[] = [stream.capture(() => {}), stream.capture(() => {}, { mode: 'relaxed' })]
  const facts: [number, string] = [graph.nodeCount, graph.toDot()]
  const condition: Condition = stream.createCondition()
  stream.createCondition(1).handle satisfies bigint
  const body = (on: Stream): void => void on.launchHostFunc(() => {})
  stream.if(condition, body).if(condition, body, body).while(condition, body).switch(condition, [body, body])
  // @ts-expect-error a number is no condition
  stream.if(1, body)
  for (const node of graph.nodes) {
    if (node.kind !== 'conditional') continue
    node.type satisfies 'if' | 'while' | 'switch' | undefined
    node.bodies satisfies readonly (readonly GraphNode[])[]
  }
  const exec: GraphExec = graph.instantiate()
  exec.upload()
  exec.upload(stream)
  exec.launch()
  exec.launch(stream)
  const launched: Stream = stream.launch(exec)
  exec.update(graph)
  graph.close()
  exec.close()
  // @ts-expect-error no mode of CUDA's
  stream.beginCapture('thread')
  void [itself, captured, facts, launched]
}

export function simulator(): void {
  const simulations: Simulation[] = [simulate(), simulate({ devices: 2, seed: 1 })]
  const [device] = simulate().devices
  if (device === undefined) return
  same<
    Only<Simulation, 'devices' | 'now' | 'seed'>,
    { readonly devices: readonly Device[]; readonly now: number; readonly seed: number }
  >(true)
  const stream = device.createStream()
  simulationOf(device).close()
  busy(stream, 1)
  fault(stream)
  fault(stream, 700)
  const held: { open(): void } = latch(stream)
  const handle: bigint = foreignStream(device, { nonBlocking: false })
  destroyForeignStream(handle)
  void [simulations, held]
}

export async function profiles(simulation: Simulation, stream: Stream): Promise<void> {
  const [profile] = await simulation.profile(() => busy(stream, 1))
  const lines: readonly LineProfile[] | undefined = profile?.lines
  same<KernelProfile | undefined, typeof profile>(true)
  // @ts-expect-error a function is needed
  await simulation.profile(busy(stream, 1))
  void lines
}

export function faults(simulation: Simulation): void {
  const call: FailingCall = 'cuMemAllocAsync'
  using _injected = simulation.inject({ call, result: 2 })
  // @ts-expect-error a call that cannot be made to fail
  simulation.inject({ call: 'cuMemAlloc', result: 2 })
  // @ts-expect-error a call needs the result that it gives
  simulation.inject({ call })
}
