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

/** How many streams share a program of a million operations, and the seed of the order. */
const MILLION = 1_000_000
const SCALES = [
  { streams: 1, seed: 0 },
  { streams: 100, seed: 0 },
  { streams: 10_000, seed: 0 },
  { streams: 100, seed: 7 },
  { streams: 10_000, seed: 7 },
] as const

export interface ScaleRow {
  readonly streams: number
  readonly seed: number
  readonly operationsPerSecond: number
  /** More memory in use afterwards than before. */
  readonly heapMebibytes: number
}

/** A program of a million operations: work, a record of it, and a wait for it by the next stream. */
export function benchScale(): ScaleRow[] {
  const rows = SCALES.map(({ streams: count, seed }, index) => {
    line.show(() => `a million operations, ${index + 1} of ${SCALES.length}`)
    using simulation = simulate({ seed })
    const [device] = simulation.devices
    if (device === undefined) throw new Error('a simulation has a device')
    const streams = Array.from({ length: count }, () => device.createStream())
    using event = device.createEvent()
    const before = process.memoryUsage().heapUsed
    const start = process.hrtime.bigint()
    for (let nth = 0; nth < MILLION / 4; nth += 1) {
      const stream = streams[nth % count] as Stream
      busy(stream, 500)
      stream.record(event)
      const next = streams[(nth + 1) % count] as Stream
      next.wait(event)
      busy(next, 100)
    }
    device.synchronize()
    const operationsPerSecond = (MILLION * 1e9) / Number(process.hrtime.bigint() - start)
    return {
      streams: count,
      seed,
      operationsPerSecond,
      heapMebibytes: (process.memoryUsage().heapUsed - before) / 2 ** 20,
    }
  })
  line.erase()
  return rows
}

export function printScale(rows: readonly ScaleRow[]): void {
  const lines = rows.map(({ streams, seed, operationsPerSecond, heapMebibytes }) => [
    `${streams} stream(s), seed ${seed}`,
    Math.round(operationsPerSecond).toLocaleString('en'),
    heapMebibytes.toFixed(0),
  ])
  console.log(table(['simulator, a million operations', 'operations per second', 'MiB more'], lines))
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
