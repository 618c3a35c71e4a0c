/** A worker of a month (month.ts): it serves requests, and ends. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import {
  Device,
  type DeviceBuffer,
  defineKernel,
  Event,
  MemoryPool,
  type SharedEvent,
  type SharedStream,
  Stream,
} from 'cuda-streams'

export const MONTH_ENDINGS = ['by itself', 'process.exit()', 'terminate()', 'an error'] as const
export type MonthEnding = (typeof MONTH_ENDINGS)[number]

export interface MonthWork {
  readonly requests: number
  readonly ending: MonthEnding
  /** A stream and an event of the main thread. */
  readonly stream: SharedStream | undefined
  readonly event: SharedEvent | undefined
}

/** What is thrown by a worker that is to end with an error. */
export const MONTH_ERROR = 'a worker of a month ends'

const BYTES = 4096
/** Known to the fake driver by its name. */
const spin = defineKernel({
  name: 'spin',
  ptx: '.version 7.0\n.target sm_70\n.address_size 64\n.visible .entry spin(.param .u64 p)\n{\n  ret;\n}\n',
  signature: ['i64'],
})
/** What lives as long as the worker, and is left to whom it leaves it to. */
const left: unknown[] = []

interface Parts {
  readonly device: Device
  readonly stream: Stream
  readonly shared: Stream
  readonly event: Event
  readonly buffer: DeviceBuffer
  readonly number: number
}

/** What requests do beside the transfers of each: one after the other. */
const MORE: readonly ((parts: Parts) => unknown)[] = [
  ({ stream, shared, event }) => stream.wait(shared.record()).wait(event),
  ({ stream, buffer, device }) => {
    using pinned = device.allocPinned(BYTES)
    stream.copy(pinned, buffer)
  },
  // These are left to the garbage collector.
  ({ stream, device }) => stream.fill(device.alloc(BYTES, { stream }), 1),
  ({ device }) => new Stream({ device }).record(),
  ({ stream, buffer }) => {
    using graph = stream.capture(() => stream.fill(buffer, 1).fill(buffer, 2))
    using instance = graph.instantiate()
    stream.launch(instance).launch(instance)
  },
  ({ stream }) => new Promise<void>((resolve) => void stream.launchHostFunc(() => resolve())),
  async ({ stream, shared }) => {
    shared.wait(stream)
    await shared.finished()
  },
  ({ stream, device }) => {
    using pool = new MemoryPool({ device })
    using buffer = device.alloc(BYTES, { pool, stream })
    stream.fill(buffer, 1)
  },
  ({ stream }) => stream.launch(spin, { grid: 1, block: 1 }, 1n),
  ({ stream, device, number }) => {
    if (number > 20) return
    left.push(stream.fill(device.alloc(BYTES, { stream }), 1).record(), device.allocPinned(BYTES))
  },
]

async function serve(number: number, device: Device, shared: Stream, event: Event): Promise<void> {
  const sent = new Uint8Array(BYTES).fill(number)
  using stream = new Stream({ device })
  using buffer = device.alloc(BYTES, { stream })
  await stream.upload(buffer, sent)
  await MORE[number % MORE.length]?.({ device, stream, shared, event, buffer, number })
  stream.fill(buffer, number % 256)
  const received = await stream.download(buffer)
  if (received.some((byte) => byte !== number % 256)) throw new Error(`request ${number} received other bytes`)
}

if (parentPort !== null) {
  const { requests, ending, stream, event } = workerData as MonthWork
  if (stream !== undefined && event !== undefined) {
    const device = Device.get()
    const shared = Stream.from(stream)
    const theirs = Event.from(event)
    await spin.prepare(device)
    for (let number = 0; number < requests; number += 1) {
      await serve(number, device, shared, theirs)
      if (number % 10 === 0) await nextTurn()
    }
  }
  parentPort.postMessage('served')
  if (ending === 'process.exit()') process.exit()
  if (ending === 'an error') throw new Error(MONTH_ERROR)
  if (ending === 'terminate()') setInterval(() => {}, 1000)
}
