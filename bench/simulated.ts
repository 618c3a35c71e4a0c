/** How fast the simulator is: operations per second, each with the work of running it. */

import type { Device, Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { ProgressLine } from '../src/base/progress-line.js'
import { median, table } from './table.js'

export interface SimulatedRow {
  readonly title: string
  readonly operationsPerSecond: number
}

interface Bench {
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
  readonly third: Stream
}

/** Does `operations` operations and waits for them; the wait is in the time. */
interface Workload {
  readonly title: string
  readonly operations: number
  readonly go: (bench: Bench) => void
}

const line = new ProgressLine()
const MEASURE_MS = 800
const WARM_UP_MS = 200

const workloads: readonly Workload[] = [
  {
    title: 'record(event), synchronized every 500',
    operations: 500,
    go({ stream, device }) {
      using event = device.createEvent()
      for (let i = 0; i < 500; i++) stream.record(event)
      stream.synchronize()
    },
  },
  {
    title: 'wait(event), synchronized every 500',
    operations: 500,
    go({ stream, other }) {
      using event = other.record()
      for (let i = 0; i < 500; i++) stream.wait(event)
      stream.synchronize()
    },
  },
  {
    title: 'stream.query()',
    operations: 500,
    go({ stream }) {
      for (let i = 0; i < 500; i++) stream.query()
    },
  },
  {
    title: 'wait(stream), synchronized every 500',
    operations: 500,
    go({ stream, other }) {
      for (let i = 0; i < 500; i++) stream.wait(other)
      stream.synchronize()
    },
  },
  {
    title: 'synchronize(), idle',
    operations: 500,
    go({ stream }) {
      for (let i = 0; i < 500; i++) stream.synchronize()
    },
  },
  {
    title: 'host function + synchronize()',
    operations: 100,
    go({ stream }) {
      for (let i = 0; i < 100; i++) {
        stream.launchHostFunc(nothing)
        stream.synchronize()
      }
    },
  },
  {
    title: 'busy(stream, 1000), synchronized every 500',
    operations: 500,
    go({ stream }) {
      for (let i = 0; i < 500; i++) busy(stream, 1000)
      stream.synchronize()
    },
  },
  {
    title: 'pipeline of three streams (7 operations an item), synchronized every 60 items',
    operations: 7 * 60,
    go({ device, stream: upload, other: compute, third: download }) {
      using uploaded = device.createEvent()
      using computed = device.createEvent()
      for (let item = 0; item < 60; item++) {
        busy(upload, 500)
        upload.record(uploaded)
        compute.wait(uploaded)
        busy(compute, 1000)
        compute.record(computed)
        download.wait(computed)
        busy(download, 500)
      }
      download.synchronize()
    },
  },
]

const MILLION = 1_000_000

interface Scale {
  readonly title: string
  readonly streams: number
  readonly seed: number
  /** Queues so many operations; what is made before is not timed. */
  readonly prepare: (device: Device, streams: readonly Stream[]) => (operations: number) => void
}

/** Work, a record of it, and a wait for it by the next stream. */
function relay(device: Device, streams: readonly Stream[]): (operations: number) => void {
  const event = device.createEvent()
  return (operations) => {
    for (let nth = 0; nth < operations / 4; nth += 1) {
      const stream = at(streams, nth)
      const next = at(streams, nth + 1)
      busy(stream, 500)
      stream.record(event)
      next.wait(event)
      busy(next, 100)
    }
  }
}

/** Records, waits for events and streams, and kernels, on streams and events that are picked at random. */
function ordering(device: Device, streams: readonly Stream[]): (operations: number) => void {
  const events = Array.from({ length: 16 }, () => device.createEvent())
  const pick = picker()
  return (operations) => {
    for (let nth = 0; nth < operations; nth += 1) {
      const stream = at(streams, pick())
      const kind = pick() % 4
      if (kind === 0) stream.record(at(events, pick()))
      else if (kind === 1) stream.wait(at(events, pick()))
      else if (kind === 2) stream.wait(at(streams, pick()))
      else busy(stream, 500)
    }
  }
}

/** The same with copies, fills and host functions too: it races for its memory all the time. */
function everything(device: Device, streams: readonly Stream[]): (operations: number) => void {
  const events = Array.from({ length: 16 }, () => device.createEvent())
  const buffers = streams.map(() => device.alloc(64))
  const pick = picker()
  return (operations) => {
    for (let nth = 0; nth < operations; nth += 1) {
      const stream = at(streams, pick())
      const kind = pick() % 8
      const from = pick()
      if (kind <= 1) stream.record(at(events, from))
      else if (kind <= 3) stream.wait(at(events, from))
      else if (kind === 4) stream.copy(at(buffers, from), at(buffers, from + 1))
      else if (kind === 5) stream.fill(at(buffers, from), 1)
      else if (kind === 6) busy(stream, 500)
      else stream.launchHostFunc(nothing)
    }
  }
}

const SCALES: readonly Scale[] = [
  { title: 'relay', streams: 1, seed: 0, prepare: relay },
  { title: 'relay', streams: 100, seed: 0, prepare: relay },
  { title: 'relay', streams: 10_000, seed: 0, prepare: relay },
  { title: 'relay', streams: 100, seed: 7, prepare: relay },
  { title: 'relay', streams: 10_000, seed: 7, prepare: relay },
  { title: 'random order', streams: 8, seed: 0, prepare: ordering },
  { title: 'random order', streams: 8, seed: 7, prepare: ordering },
  { title: 'random order, with memory and host functions', streams: 8, seed: 0, prepare: everything },
  { title: 'random order, with memory and host functions', streams: 8, seed: 7, prepare: everything },
  { title: 'random order, with memory and host functions', streams: 100, seed: 7, prepare: everything },
]

export interface ScaleRow {
  readonly title: string
  readonly streams: number
  readonly seed: number
  readonly operationsPerSecond: number
  /** CPU time of all threads: it tells more than the clock where others use the machine. */
  readonly cpuSeconds: number
  /** More memory in use afterwards than before. */
  readonly heapMebibytes: number
}

/** Programs of a million operations. */
export function benchScale(): ScaleRow[] {
  const rows = SCALES.map(({ title, streams: count, seed, prepare }, index) => {
    line.show(() => `a million operations, ${index + 1} of ${SCALES.length}`)
    using simulation = simulate({ seed })
    const [device] = simulation.devices
    if (device === undefined) throw new Error('a simulation has a device')
    const streams = Array.from({ length: count }, () => device.createStream())
    const queue = prepare(device, streams)
    const before = process.memoryUsage().heapUsed
    const cpu = process.cpuUsage()
    const start = process.hrtime.bigint()
    queue(MILLION)
    device.synchronize()
    const operationsPerSecond = (MILLION * 1e9) / Number(process.hrtime.bigint() - start)
    const { user, system } = process.cpuUsage(cpu)
    return {
      title,
      streams: count,
      seed,
      operationsPerSecond,
      cpuSeconds: (user + system) / 1e6,
      heapMebibytes: (process.memoryUsage().heapUsed - before) / 2 ** 20,
    }
  })
  line.erase()
  return rows
}

export function printScale(rows: readonly ScaleRow[]): void {
  const lines = rows.map(({ title, streams, seed, operationsPerSecond, cpuSeconds, heapMebibytes }) => [
    `${title}: ${streams} stream(s), seed ${seed}`,
    Math.round(operationsPerSecond).toLocaleString('en'),
    cpuSeconds.toFixed(2),
    heapMebibytes.toFixed(0),
  ])
  console.log(table(['simulator, a million operations', 'operations per second', 'CPU seconds', 'MiB more'], lines))
}

/** One of them, by a number of any size. */
function at<T>(items: readonly T[], nth: number): T {
  const item = items[nth % items.length]
  if (item === undefined) throw new RangeError('there are none')
  return item
}

/** Numbers that are the same in each run (xorshift32). */
function picker(): () => number {
  let state = 12_345
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}

/** Every workload for most of a second, after a warm-up. */
export function benchSimulated(device: Device): SimulatedRow[] {
  const bench: Bench = {
    device,
    stream: device.createStream(),
    other: device.createStream(),
    third: device.createStream(),
  }
  const rows = workloads.map((workload, index) => {
    line.show(() => `${index + 1} of ${workloads.length}: ${workload.title}`)
    repeat(workload, bench, WARM_UP_MS)
    return { title: workload.title, operationsPerSecond: repeat(workload, bench, MEASURE_MS) }
  })
  line.erase()
  for (const stream of [bench.stream, bench.other, bench.third]) stream.close()
  return rows
}

export function printSimulated(rows: readonly SimulatedRow[]): void {
  const lines = rows.map(({ title, operationsPerSecond }) => [
    title,
    Math.round(operationsPerSecond).toLocaleString('en'),
  ])
  console.log(table(['simulator', 'operations per second'], lines))
}

/** The median of the batches that fit into the time. */
function repeat({ go, operations }: Workload, bench: Bench, milliseconds: number): number {
  const rates: number[] = []
  const end = performance.now() + milliseconds
  do {
    const start = process.hrtime.bigint()
    go(bench)
    rates.push((operations * 1e9) / Number(process.hrtime.bigint() - start))
  } while (performance.now() < end)
  return median(rates) ?? 0
}

function nothing(): void {}
