/** How fast the simulator is: its rows, each with the work of running what it queues. */

import type { Device, Stream } from 'cuda-streams'
import type { SimulatedKey } from './catalogue.js'
import type { Rows } from './rows.js'

type Simulator = typeof import('cuda-streams/sim')

interface Bench {
  readonly sim: Simulator
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
  readonly third: Stream
}

const BATCH = 500
const nothing = (): void => {}

/** Queues so many operations, at most a batch, and waits for them. */
type Workload = (bench: Bench, operations: number) => void

const each =
  (queue: (bench: Bench) => unknown): Workload =>
  (bench, operations) => {
    for (let i = 0; i < operations; i++) queue(bench)
    bench.stream.synchronize()
  }

const OPERATIONS_OF_ITEM = 7
const MOST_ITEMS = 60

const workloads: Readonly<Record<Exclude<SimulatedKey, `sim-${'million' | 'random' | 'mixed'}-${string}`>, Workload>> =
  {
    'sim-record'({ stream, device }, operations) {
      using event = device.createEvent()
      for (let i = 0; i < operations; i++) stream.record(event)
      stream.synchronize()
    },
    'sim-wait-event'({ stream, other }, operations) {
      using event = other.record()
      for (let i = 0; i < operations; i++) stream.wait(event)
      stream.synchronize()
    },
    'sim-wait-stream': each(({ stream, other }) => stream.wait(other)),
    'sim-query': each(({ stream }) => stream.query()),
    'sim-synchronize': each(({ stream }) => stream.synchronize()),
    'sim-host-function': each(({ stream }) => {
      stream.launchHostFunc(nothing)
      stream.synchronize()
    }),
    'sim-busy': each(({ sim, stream }) => sim.busy(stream, 1000)),
    'sim-pipeline'({ sim, device, stream: upload, other: compute, third: download }, operations) {
      using uploaded = device.createEvent()
      using computed = device.createEvent()
      const items = Math.min(MOST_ITEMS, Math.ceil(operations / OPERATIONS_OF_ITEM))
      for (let item = 0; item < items; item++) {
        sim.busy(upload, 500)
        upload.record(uploaded)
        compute.wait(uploaded)
        sim.busy(compute, 1000)
        compute.record(computed)
        download.wait(computed)
        sim.busy(download, 500)
      }
      download.synchronize()
    },
  }

/** How many streams share a program of a million operations, and the seed of their order. */
const scales: Readonly<
  Record<Exclude<SimulatedKey, keyof typeof workloads>, readonly [streams: number, seed: number, program: Program]>
> = {
  'sim-million-1': [1, 0, relay],
  'sim-million-100': [100, 0, relay],
  'sim-million-10000': [10_000, 0, relay],
  'sim-random-100': [100, 7, relay],
  'sim-random-10000': [10_000, 7, relay],
  'sim-mixed-0': [8, 0, mixed],
  'sim-mixed-7': [8, 7, mixed],
}

/** Queues so many operations on these streams. */
type Program = (sim: Simulator, device: Device, streams: readonly Stream[], operations: number) => void

/** Work, a record of it, and a wait for it by the next stream. */
function relay(sim: Simulator, device: Device, streams: readonly Stream[], operations: number): void {
  using event = device.createEvent()
  for (let nth = 0; nth < operations / 4; nth += 1) {
    const stream = at(streams, nth)
    sim.busy(stream, 500)
    stream.record(event)
    const next = at(streams, nth + 1)
    next.wait(event)
    sim.busy(next, 100)
  }
}

/** Of everything something, on streams, events and buffers that are picked at random: it races for its memory all the time. */
function mixed(sim: Simulator, device: Device, streams: readonly Stream[], operations: number): void {
  const events = Array.from({ length: 16 }, () => device.createEvent())
  const buffers = streams.map(() => device.alloc(64))
  let state = 12_345
  // xorshift32: the same numbers in each run.
  const pick = (): number => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
  for (let nth = 0; nth < operations; nth += 1) {
    const stream = at(streams, pick())
    const kind = pick() % 8
    const which = pick()
    if (kind <= 1) stream.record(at(events, which))
    else if (kind <= 3) stream.wait(at(events, which))
    else if (kind === 4) stream.copy(at(buffers, which), at(buffers, which + 1))
    else if (kind === 5) stream.fill(at(buffers, which), 1)
    else if (kind === 6) sim.busy(stream, 500)
    else stream.launchHostFunc(nothing)
  }
}

function at<T>(items: readonly T[], nth: number): T {
  const item = items[nth % items.length]
  if (item === undefined) throw new RangeError('there are none')
  return item
}

function runScale(
  sim: Simulator,
  [count, seed, program]: readonly [number, number, Program],
  operations: number,
): number {
  const simulation = sim.simulate({ seed })
  try {
    const [device] = simulation.devices
    if (device === undefined) throw new Error('a simulation has a device')
    const streams = Array.from({ length: count }, () => device.createStream())
    const start = process.hrtime.bigint()
    program(sim, device, streams, operations)
    device.synchronize()
    return Number(process.hrtime.bigint() - start) / operations
  } finally {
    simulation[Symbol.dispose]()
  }
}

export function openSimulatedRows(sim: Simulator): Rows {
  const [device] = sim.simulate().devices
  if (device === undefined) throw new Error('a simulation has a device')
  const bench: Bench = {
    sim,
    device,
    stream: device.createStream(),
    other: device.createStream(),
    third: device.createStream(),
  }
  return {
    keys: [...Object.keys(workloads), ...Object.keys(scales)],
    async time(key, calls) {
      const scale = scales[key as keyof typeof scales]
      if (scale !== undefined) return runScale(sim, scale, calls)
      const workload = workloads[key as keyof typeof workloads]
      if (workload === undefined) throw new Error(`no row ${key}`)
      const batch = key === 'sim-pipeline' ? OPERATIONS_OF_ITEM * MOST_ITEMS : BATCH
      const batches = Math.ceil(calls / batch)
      const start = process.hrtime.bigint()
      for (let nth = 0; nth < batches; nth++) workload(bench, batch)
      return Number(process.hrtime.bigint() - start) / (batches * batch)
    },
  }
}
