/** The rows of cuda-streams itself, timed in this process through its public interface. */

import {
  type Device,
  type DeviceBuffer,
  type Event,
  ExternalStream,
  type GraphExec,
  type Kernel,
  Module,
  type PinnedBuffer,
  type Stream,
} from 'cuda-streams'
import { COPY_BYTES, type Contestant, type RowKey } from './catalogue.js'
import { type Kernels, ptx } from './empty-kernel.js'

const FOUR = ['in f32*', 'inout f32*', 'f32', 'u32'] as const
const ONE = { grid: 1, block: 1 }
const WARM_UP_MS = 60

interface Bench {
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
  /** Recorded on `stream`. */
  readonly event: Event
  /** Recorded on `other`. */
  readonly elsewhere: Event
  /** For rows that hold it. */
  readonly held: Stream
  /** Holds that stream, and records the event behind; the result lets it go. */
  hold(): { readonly event: Event; readonly release: () => void }
  /** A stream handle of another library. */
  readonly foreign: bigint
  readonly empty: Kernel<readonly []>
  readonly four: Kernel<typeof FOUR>
  readonly graph: GraphExec
  readonly largeGraph: GraphExec
  /** What `four` is given. */
  readonly small: DeviceBuffer
  readonly large: DeviceBuffer
  readonly pinned: PinnedBuffer
  readonly ordinary: Uint8Array
}

/** Every row is a function of its own, so that V8 optimises each for itself. */
type Loop = (bench: Bench, calls: number) => Promise<void> | undefined

/** Where results go that nothing else looks at, so that no loop can be optimised away. */
let sink = 0
let hostFunctionsRun = 0

const record: Loop = ({ stream, event }, calls) => {
  for (let i = 0; i < calls; i++) stream.record(event)
  return undefined
}

const recordNew: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) stream.record().close()
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
function whileHeld({ hold }: Bench, loop: (event: Event) => number): undefined {
  const { event, release } = hold()
  try {
    if (loop(event) > 0) throw new Error('the stream was not held')
  } finally {
    release()
  }
}

const streamQueryBusy: Loop = (bench, calls) =>
  whileHeld(bench, () => {
    const { held } = bench
    let done = 0
    for (let i = 0; i < calls; i++) done += Number(held.query())
    return done
  })

const eventQueryBusy: Loop = (bench, calls) =>
  whileHeld(bench, (event) => {
    let done = 0
    for (let i = 0; i < calls; i++) done += Number(event.query())
    return done
  })

const synchronizeIdle: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) stream.synchronize()
  return undefined
}

const priority: Loop = ({ stream }, calls) => {
  for (let i = 0; i < calls; i++) sink += stream.priority
  return undefined
}

const wrap: Loop = ({ foreign }, calls) => {
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

const launchFour: Loop = ({ stream, four, small }, calls) => {
  for (let i = 0; i < calls; i++) stream.launch(four, ONE, small, small, 1, i)
  return undefined
}

/** One function for both: a hundred calls of the large graph are too few for V8 to compile a loop of its own. */
const launchGraph = (stream: Stream, exec: GraphExec, calls: number): undefined => {
  for (let i = 0; i < calls; i++) stream.launch(exec)
  return undefined
}

const graphLaunch: Loop = ({ stream, graph }, calls) => launchGraph(stream, graph, calls)

const largeGraphLaunch: Loop = ({ stream, largeGraph }, calls) => launchGraph(stream, largeGraph, calls)

const copyIn: Loop = ({ stream, large, pinned }, calls) => {
  for (let i = 0; i < calls; i++) {
    stream.copy(large, pinned)
    stream.synchronize()
  }
  return undefined
}

const copyOut: Loop = ({ stream, large, pinned }, calls) => {
  for (let i = 0; i < calls; i++) {
    stream.copy(pinned, large)
    stream.synchronize()
  }
  return undefined
}

const upload: Loop = async ({ stream, large, ordinary }, calls) => {
  for (let i = 0; i < calls; i++) {
    await stream.upload(large, ordinary)
    stream.synchronize()
  }
}

const download: Loop = async ({ stream, large }, calls) => {
  for (let i = 0; i < calls; i++) sink += (await stream.download(large)).length
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

const loops: Readonly<Record<RowKey, Loop>> = {
  record,
  'record-new': recordNew,
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
}

export function openNode(device: Device, kernels: Kernels, version: string): Contestant {
  const stream = device.createStream()
  const other = device.createStream()
  const held = device.createStream()
  const heldEvent = device.createEvent()
  const foreign = kernels.createForeignStream()
  const module = Module.load(ptx, { device })
  const empty = module.kernel('empty', [])
  const graphOf = (nodes: number): GraphExec =>
    stream
      .capture(() => {
        for (let node = 0; node < nodes; node++) stream.launch(empty, ONE)
      })
      .instantiate()
  const bench: Bench = {
    device,
    stream,
    other,
    event: stream.record(),
    elsewhere: other.record(),
    held,
    hold() {
      const release = kernels.hold(held.handle)
      return { event: held.record(heldEvent), release }
    },
    foreign,
    empty,
    four: module.kernel('four', FOUR),
    graph: graphOf(100),
    largeGraph: graphOf(1000),
    small: device.alloc(1024, { stream }),
    large: device.alloc(COPY_BYTES, { stream }),
    pinned: device.allocPinned(COPY_BYTES),
    ordinary: new Uint8Array(COPY_BYTES).fill(1),
  }
  // Every contestant ends a row this way, untimed: a context with anything unacknowledged answers queries slowly.
  const drain = (): void => device.synchronize()
  const time = async (loop: Loop, calls: number): Promise<number> => {
    const start = process.hrtime.bigint()
    const pending = loop(bench, calls)
    if (pending !== undefined) await pending
    const elapsed = process.hrtime.bigint() - start
    drain()
    return Number(elapsed) / calls
  }
  return {
    name: 'cuda-streams',
    version,
    keys: new Set(Object.keys(loops)),
    async run(key, calls) {
      // V8 compiles a row only after many calls; a server has made them long ago.
      const end = performance.now() + WARM_UP_MS
      do await time(loops[key], calls)
      while (performance.now() < end)
      return time(loops[key], calls)
    },
    async close() {
      for (const each of [bench.event, bench.elsewhere, heldEvent, stream, other, held]) each.close()
      if (!Number.isFinite(sink)) throw new Error('a result was not a number')
    },
  }
}
