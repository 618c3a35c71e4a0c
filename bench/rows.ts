/** The rows of cuda-streams on a GPU, through the public interface of the version that is given. */

import type { Device, DeviceBuffer, Event, GraphExec, Kernel, PinnedBuffer, Stream } from 'cuda-streams'
import { type BareDriver, ptx } from './bare-driver.js'
import { COPY_BYTES, FILLING_NS, type GpuKey } from './catalogue.js'

const FOUR = ['in f32*', 'inout f32*', 'f32', 'u32'] as const
const ONE = { grid: 1, block: 1 }
/** For one host function of each of the streams beside. */
const KERNELS_A_FRAME = 40
const CALLS_TO_COMPILE = 5_000
/** Short kernels, for a GPU that also drives a display stops a long one. */
const KERNEL_TO_AWAIT_NS = 100e6

interface Bench {
  readonly cuda: CudaStreams
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
  /** Recorded on `stream`. */
  readonly event: Event
  /** Recorded on `other`. */
  readonly elsewhere: Event
  /** Held while those rows are played that are in `whileHeld`. */
  readonly held: Stream
  /** Recorded behind what holds it. */
  readonly heldEvent: Event
  /** A stream handle of another library. */
  readonly foreign: bigint
  readonly empty: Kernel<readonly []>
  readonly four: Kernel<typeof FOUR>
  readonly graph: GraphExec
  readonly largeGraph: GraphExec
  readonly spin: Kernel<readonly ['u64']>
  /** The stream of the memory below. Where a stream has allocated memory once, CUDA takes longer for each record there. */
  readonly allocating: Stream
  /** What `four` is given. */
  readonly small: DeviceBuffer
  /** Made at the first use. */
  readonly sixteen: () => readonly Stream[]
  /** Made at the first use. */
  readonly moved: () => { readonly large: DeviceBuffer; readonly pinned: PinnedBuffer; readonly ordinary: Uint8Array }
}

export type CudaStreams = typeof import('cuda-streams')

/** Every row is a function of its own, so that V8 optimises each for itself. A number is the result, in place of the time. */
type Loop = (bench: Bench, calls: number) => Promise<number | undefined> | Promise<void> | undefined

/** Where results go that nothing else looks at, so that no loop can be optimised away. */
let sink = 0
let hostFunctionsRun = 0

const record: Loop = ({ stream, event }, calls) => {
  for (let i = 0; i < calls; i++) stream.record(event)
  return undefined
}

const recordAllocated: Loop = ({ allocating, event }, calls) => {
  for (let i = 0; i < calls; i++) allocating.record(event)
  return undefined
}

const recordNew: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) stream.record().close()
  return undefined
}

const recordDropped: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) stream.record()
  return undefined
}

const waitEvent: Loop = ({ stream, elsewhere }, calls) => {
  for (let i = 0; i < calls; i++) stream.wait(elsewhere)
  return undefined
}

const waitStream: Loop = ({ stream, other }, calls) => {
  for (let i = 0; i < calls; i++) stream.wait(other)
  return undefined
}

const streamQuery: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) sink += Number(stream.query())
  return undefined
}

const eventQuery: Loop = ({ event }, calls) => {
  for (let i = 0; i < calls; i++) sink += Number(event.query())
  return undefined
}

/** What is not done must be asked for each time. */
const streamQueryBusy: Loop = ({ held }, calls) => {
  let done = 0
  for (let i = 0; i < calls; i++) done += Number(held.query())
  if (done > 0) throw new Error('the stream was not held')
  return undefined
}

const eventQueryBusy: Loop = ({ heldEvent }, calls) => {
  let done = 0
  for (let i = 0; i < calls; i++) done += Number(heldEvent.query())
  if (done > 0) throw new Error('the stream was not held')
  return undefined
}

const whileHeld: ReadonlySet<string> = new Set<GpuKey>(['stream-query-busy', 'event-query-busy'])

const synchronizeIdle: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) stream.synchronize()
  return undefined
}

const priority: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) sink += stream.priority
  return undefined
}

const wrap: Loop = ({ cuda, foreign }, calls) => {
  const { ExternalStream } = cuda
  for (let i = 0; i < calls; i++) new ExternalStream(foreign).close()
  return undefined
}

const eventCreate: Loop = ({ device }, calls) => {
  for (let i = 0; i < calls; i++) device.createEvent().close()
  return undefined
}

const streamCreate: Loop = ({ device }, calls) => {
  for (let i = 0; i < calls; i++) device.createStream().close()
  return undefined
}

const countHostFunction = (): void => {
  hostFunctionsRun++
}

const hostFunction: Loop = ({ stream }, calls) => {
  const before = hostFunctionsRun
  for (let i = 0; i < calls; i++) {
    stream.launchHostFunc(countHostFunction)
    stream.synchronize()
  }
  if (hostFunctionsRun !== before + calls) throw new Error(`${hostFunctionsRun - before} of ${calls} functions ran`)
  return undefined
}

/** CUDA asks all streams that have freed memory whether they are done. */
const allocate: Loop = ({ device, sixteen }, calls) => {
  const streams = sixteen()
  for (let i = 0; i < calls; i++) device.alloc(16 * 1024, { stream: streams[i % streams.length] }).close()
  return undefined
}

const launchFour: Loop = ({ allocating, four, small }, calls) => {
  for (let i = 0; i < calls; i++) allocating.launch(four, ONE, small, small, 1, i)
  return undefined
}

/** One function for all: the calls of a large graph are too few for V8 to compile a loop of its own. */
const launchGraph = (stream: Stream, exec: GraphExec, calls: number): undefined => {
  for (let i = 0; i < calls; i++) stream.launch(exec)
  return undefined
}

const graphLaunch: Loop = ({ stream, graph }, calls) => launchGraph(stream, graph, calls)

const largeGraphLaunch: Loop = ({ stream, largeGraph }, calls) => launchGraph(stream, largeGraph, calls)

const copyIn: Loop = ({ allocating: stream, moved }, calls) => {
  const { large, pinned } = moved()
  for (let i = 0; i < calls; i++) {
    stream.copy(large, pinned)
    stream.synchronize()
  }
  return undefined
}

const copyOut: Loop = ({ allocating: stream, moved }, calls) => {
  const { large, pinned } = moved()
  for (let i = 0; i < calls; i++) {
    stream.copy(pinned, large)
    stream.synchronize()
  }
  return undefined
}

const upload: Loop = async ({ allocating: stream, moved }, calls) => {
  const { large, ordinary } = moved()
  for (let i = 0; i < calls; i++) {
    await stream.upload(large, ordinary)
    stream.synchronize()
  }
}

const download: Loop = async ({ allocating: stream, moved }, calls) => {
  const { large } = moved()
  for (let i = 0; i < calls; i++) sink += (await stream.download(large)).length
}

const downloadInto: Loop = async ({ allocating: stream, moved }, calls) => {
  const { large, ordinary } = moved()
  for (let i = 0; i < calls; i++) await stream.download(large, ordinary)
}

const launchSynchronize: Loop = ({ stream, empty }, calls) => {
  for (let i = 0; i < calls; i++) {
    stream.launch(empty, ONE)
    stream.synchronize()
  }
  return undefined
}

const launchFinished: Loop = async ({ stream, empty }, calls) => {
  for (let i = 0; i < calls; i++) {
    stream.launch(empty, ONE)
    await stream.finished()
  }
}

/** Nanoseconds that a wait takes longer than the kernel. */
const late = (kernelNs: number): Loop => {
  const duration = BigInt(kernelNs)
  return async ({ stream, spin }, calls) => {
    const start = process.hrtime.bigint()
    for (let i = 0; i < calls; i++) {
      stream.launch(spin, ONE, duration)
      await stream.finished()
    }
    return Number(process.hrtime.bigint() - start) / calls - kernelNs
  }
}

/** Of one core, all threads of this process together. */
const cpuAwait: Loop = async ({ stream, spin }, calls) => {
  for (let i = 0; i < calls; i++) stream.launch(spin, ONE, BigInt(KERNEL_TO_AWAIT_NS))
  const start = process.hrtime.bigint()
  const before = process.cpuUsage()
  await stream.finished()
  const { user, system } = process.cpuUsage(before)
  return (100 * 1000 * (user + system)) / Number(process.hrtime.bigint() - start)
}

/** A stream of kernels that each fill the GPU, beside streams with small kernels and a host function behind each of them. */
const beside =
  (streams: number): Loop =>
  async ({ cuda, device, stream, spin, empty }, calls) => {
    const others = Array.from({ length: streams }, () => new cuda.Stream({ device }))
    const frames = Math.ceil(calls / KERNELS_A_FRAME)
    const all = { grid: 2 * device.attribute('multiprocessorCount'), block: 1024 }
    const before = hostFunctionsRun
    device.synchronize()
    const start = process.hrtime.bigint()
    for (let i = 0; i < calls; i++) stream.launch(spin, all, BigInt(FILLING_NS))
    const filled = stream.finished()
    for (let frame = 0; frame < frames; frame++) {
      for (const other of others) {
        other.launch(empty, ONE)
        other.launchHostFunc(countHostFunction)
      }
    }
    await filled
    const elapsed = Number(process.hrtime.bigint() - start)
    await Promise.all(others.map((other) => other.finished()))
    for (const other of others) other.close()
    const ran = hostFunctionsRun - before
    if (ran !== frames * streams) throw new Error(`${ran} of ${frames * streams} functions ran`)
    return elapsed / calls
  }

const loops: Readonly<Record<GpuKey, Loop>> = {
  record,
  'record-allocated': recordAllocated,
  'record-new': recordNew,
  'record-dropped': recordDropped,
  'wait-event': waitEvent,
  'wait-stream': waitStream,
  'stream-query': streamQuery,
  'event-query': eventQuery,
  'stream-query-busy': streamQueryBusy,
  'event-query-busy': eventQueryBusy,
  'synchronize-idle': synchronizeIdle,
  priority,
  wrap,
  'event-create': eventCreate,
  'stream-create': streamCreate,
  allocate,
  'host-function': hostFunction,
  'launch-four': launchFour,
  'graph-launch': graphLaunch,
  'graph-launch-1000': largeGraphLaunch,
  'launch-synchronize': launchSynchronize,
  'launch-finished': launchFinished,
  'copy-in': copyIn,
  'copy-out': copyOut,
  upload,
  download,
  'download-into': downloadInto,
  'late-100us': late(1e5),
  'late-1ms': late(1e6),
  'late-10ms': late(1e7),
  'late-100ms': late(1e8),
  'cpu-await': cpuAwait,
  'beside-0': beside(0),
  'beside-31': beside(31),
  'beside-200': beside(200),
}

export interface Rows {
  readonly keys: readonly string[]
  /** Makes as many such calls as V8 needs, where the GPU holds up those that are timed. */
  warmUp?(key: string): void
  /** Nanoseconds a call, or what the row counts instead. */
  time(key: string, calls: number): Promise<number>
}

export function openRows(cuda: CudaStreams, device: Device, bare: BareDriver): Rows {
  const stream = device.createStream()
  const other = device.createStream()
  const held = device.createStream()
  const allocating = device.createStream()
  const foreign = bare.createForeignStream()
  const module = cuda.Module.load(ptx, { device })
  const empty = module.kernel('empty', [])
  const graphOf = (nodes: number): GraphExec =>
    stream
      .capture(() => {
        for (let node = 0; node < nodes; node++) stream.launch(empty, ONE)
      })
      .instantiate()
  let sixteen: Stream[] | undefined
  let moved: ReturnType<Bench['moved']> | undefined
  const bench: Bench = {
    cuda,
    device,
    stream,
    other,
    event: stream.record(),
    elsewhere: other.record(),
    held,
    heldEvent: device.createEvent(),
    foreign,
    empty,
    four: module.kernel('four', FOUR),
    spin: module.kernel('spin', ['u64']),
    graph: graphOf(100),
    largeGraph: graphOf(1000),
    allocating,
    small: device.alloc(1024, { stream: allocating }),
    sixteen() {
      sixteen ??= Array.from({ length: 16 }, () => device.createStream())
      return sixteen
    },
    moved() {
      moved ??= {
        large: device.alloc(COPY_BYTES, { stream: allocating }),
        pinned: device.allocPinned(COPY_BYTES),
        ordinary: new Uint8Array(COPY_BYTES).fill(1),
      }
      return moved
    },
  }
  // Records are slower on a stream that has had no work since streams were made.
  for (const each of [stream, other, allocating]) each.launch(empty, ONE)
  device.synchronize()
  const smallGraph = graphOf(1)
  return {
    keys: Object.keys(loops),
    warmUp(key) {
      if (!key.startsWith('graph-launch')) return
      launchGraph(stream, smallGraph, CALLS_TO_COMPILE)
      device.synchronize()
    },
    async time(key, calls) {
      if (!isKey(key)) throw new Error(`no row ${key}`)
      const release = whileHeld.has(key) ? bare.hold(held.handle) : undefined
      if (release !== undefined) held.record(bench.heldEvent)
      let perCall: number
      try {
        perCall = await timed(loops[key], bench, calls)
      } finally {
        release?.()
      }
      // Every contestant ends a row this way, untimed: a context with anything unacknowledged answers queries slowly.
      device.synchronize()
      if (!Number.isFinite(sink)) throw new Error('a result was not a number')
      return perCall
    },
  }
}

async function timed(loop: Loop, bench: Bench, calls: number): Promise<number> {
  const start = performance.now()
  const pending = loop(bench, calls)
  const counted = pending === undefined ? undefined : await pending
  const elapsed = 1e6 * (performance.now() - start)
  return typeof counted === 'number' ? counted : elapsed / calls
}

const isKey = (key: string): key is GpuKey => Object.hasOwn(loops, key)
