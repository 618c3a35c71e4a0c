/**
 * How operations are timed on a GPU, by events: here the simulator plays the GPU, so that what the events say is known,
 * and its virtual time is the host's too.
 */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, it, mock } from 'node:test'
import { type Device, type DeviceBuffer, type GraphExec, type PinnedBuffer, Stream } from 'cuda-streams'
import { busy, fault, latch } from 'cuda-streams/sim'
import { type OperationMessage, type Publisher, publish, Timeline, type TimelineOperation } from 'cuda-streams/timeline'
import { deviceOf } from '../../../src/core/device.js'
import { clock } from '../../../src/foundation/base/event-loop.js'
import type { Driver } from '../../../src/foundation/driver/driver.js'
import { wrappableOf } from '../../../src/foundation/driver/wrappable-driver.js'
import { SimDriver } from '../../../src/simulator/sim-driver.js'
import { refused, rejected } from '../../conformance/expect.js'

/** Bytes that take a microsecond each way between host and device. */
const MICROSECOND = 50_000

/** Virtual times are whole, and an event tells them in single precision. */
const near = (actual: number | undefined, expected: number): void => {
  const off = Math.abs((actual ?? Number.NaN) - expected)
  assert.ok(off <= Math.max(2, expected * 2e-7), `${actual} instead of ${expected}`)
}
const lengthOf = ({ start, end }: TimelineOperation): number => (end ?? Number.NaN) - (start ?? Number.NaN)

interface Machine {
  readonly sim: SimDriver
  readonly device: Device
  readonly a: Stream
  readonly b: Stream
  readonly buffer: DeviceBuffer
  readonly pinned: PinnedBuffer
  /** Calls of the driver by name, since it was made. */
  readonly calls: Map<string, number>
}

/** A simulator that says it is a GPU. */
function machine(bytes = 100 * MICROSECOND): Machine {
  const sim = new SimDriver({ devices: 2, seed: 0 })
  const calls = new Map<string, number>()
  mock.method(clock, 'now', () => sim.machine.scheduler.now / 1e6)
  const counting = (part: 'events' | 'streams'): object =>
    new Proxy(sim[part], {
      get(target, key): unknown {
        const value: unknown = Reflect.get(target, key, target)
        if (typeof value !== 'function') return value
        const call = `${part}.${String(key)}`
        return (...args: unknown[]): unknown => {
          calls.set(call, (calls.get(call) ?? 0) + 1)
          return Reflect.apply(value, target, args)
        }
      },
    })
  const parts: Readonly<Record<string, object>> = { events: counting('events'), streams: counting('streams') }
  const driver = new Proxy(sim, {
    get: (target, key): unknown => (key === 'name' ? 'cuda' : (parts[String(key)] ?? Reflect.get(target, key, target))),
  })
  const device = deviceOf(wrappableOf(driver as unknown as Driver), 0)
  assert.equal(device.driver, 'cuda')
  const [a, b] = [new Stream({ device }), new Stream({ device })]
  const [buffer, pinned] = [device.alloc(bytes), device.allocPinned(bytes)]
  device.synchronize()
  return { sim, device, a, b, buffer, pinned, calls }
}

/** How long each operation took that is published while the function runs, in milliseconds. */
function published(device: Device, fn: (publisher: Publisher) => void): number[] {
  const took: number[] = []
  const listener = (message: unknown): void => {
    const { start, end } = message as OperationMessage
    took.push(end - start)
  }
  subscribe('cuda-streams:operation', listener)
  try {
    using publisher = publish({ device, interval: 1e6 })
    fn(publisher)
    device.synchronize()
  } finally {
    unsubscribe('cuda-streams:operation', listener)
  }
  return took
}

const copies = ({ operations }: Timeline): TimelineOperation[] => operations.filter(({ kind }) => kind === 'copy')

describe('times by events', () => {
  afterEach(() => mock.restoreAll())

  it('are those of the operations', async () => {
    const { device, a, buffer, pinned } = machine()
    const timeline = await Timeline.record(
      () => {
        busy(a, 10_000)
        a.copy(buffer, pinned)
        a.copy(buffer.subarray(0, 5 * MICROSECOND), pinned.subarray(0, 5 * MICROSECOND))
      },
      { device },
    )
    assert.equal(timeline.clock, 'host')
    const [first, second] = copies(timeline)
    assert.ok(first && second)
    near(lengthOf(first), 100_000)
    near(lengthOf(second), 5000)
    near((second.start ?? 0) - (first.end ?? 0), 0)
  })

  it('are there behind thousands of calls that wait, which have no events', async () => {
    const { device, a, buffer, pinned } = machine()
    const timeline = await Timeline.record(
      () => {
        busy(a, 10_000)
        const waits = Array.from({ length: 5000 }, () => a.finished())
        a.copy(buffer, pinned).copy(buffer, pinned)
        return Promise.all(waits)
      },
      { device },
    )
    const [, second] = copies(timeline)
    assert.ok(second)
    near(lengthOf(second), 100_000)
  })

  it('need one event for each operation where a stream is all ours', async () => {
    const { device, a, b, pinned, calls } = machine()
    const [mine, other] = [
      device.alloc(pinned.byteLength, { stream: a }),
      device.alloc(pinned.byteLength, { stream: b }),
    ]
    const host = device.allocPinned(pinned.byteLength)
    a.copy(mine, pinned)
    b.wait(a).copy(other, pinned).copy(host, other)
    a.wait(b)
    device.synchronize()
    const counted = (): number => calls.get('events.record') ?? 0
    const part = 5 * MICROSECOND
    const records: number[] = []
    const timeline = await Timeline.record(
      () => {
        b.fill(other, 0)
        a.copy(mine, pinned)
        for (let index = 0; index < 2; index += 1) {
          const before = counted()
          a.copy(mine.subarray(0, part), pinned.subarray(0, part))
          records.push(counted() - before)
        }
        b.wait(a)
        b.copy(host, other)
      },
      { device },
    )
    const [first, second, third, fourth] = copies(timeline)
    assert.ok(first && second && third && fourth)
    near(lengthOf(second), 5000)
    near(lengthOf(third), 5000)
    near(second.start ?? 0, first.end ?? 0)
    near(fourth.start ?? 0, third.end ?? 0)
    near(lengthOf(fourth), 100_000)
    assert.deepEqual(records, [1, 1])
  })

  it('are not taken in a stream that captures, be it that a wait has brought it there', async () => {
    const { device, a, b, buffer, pinned } = machine()
    const timeline = await Timeline.record(
      () => {
        const graph = a.capture(() => {
          b.copy(buffer, pinned)
          b.wait(a)
          b.copy(buffer, pinned)
          b.copy(buffer, pinned)
          a.wait(b)
        })
        assert.equal(graph.nodeCount, 2)
        b.copy(buffer, pinned)
        b.capture(() => void b.copy(buffer, pinned))
      },
      { device },
    )
    assert.equal(copies(timeline).length, 2)
  })

  it('are not taken there either where there was no room for the wait', () => {
    const { device, a, b, buffer, pinned } = machine()
    b.copy(buffer, pinned)
    const full = Timeline.start({ device, limit: 1 })
    a.capture(() => {
      b.copy(buffer, pinned)
      b.wait(a)
      const recording = Timeline.start({ device })
      b.copy(buffer, pinned)
      assert.deepEqual(copies(recording.stopNow()), [])
      a.wait(b)
    })
    assert.equal(copies(full.stopNow()).length, 1)
  })

  it('leave the places of what is captured, or refused, to others, and count none of it as missing', async () => {
    const { device, a, b, buffer, pinned } = machine()
    for (const stream of [a, b]) stream.copy(buffer, pinned)
    device.synchronize()
    const timeline = await Timeline.record(
      () => {
        const capture = (): unknown =>
          a.capture(() => {
            for (let i = 0; i < 5; i += 1) a.copy(buffer, pinned)
            b.wait(a).copy(buffer, pinned)
            a.wait(b)
          })
        capture()
        refused(() => device.alloc(2 ** 46, { stream: a }), 'CUDA_ERROR_OUT_OF_MEMORY')
        a.copy(buffer, pinned)
        b.wait(a)
        capture()
        b.copy(buffer, pinned)
      },
      { device, limit: 3 },
    )
    const [copy, record, wait, ...none] = timeline.operations
    assert.deepEqual([copy?.kind, record?.kind, wait?.kind, none.length], ['copy', 'record', 'wait', 0])
    assert.equal(wait?.record, record?.id)
    near(wait?.end, copy?.end ?? 0)
    assert.equal(timeline.dropped, 1)
  })

  it('of an operation on an idle stream begin a little after the call', async () => {
    const { device, a, buffer, pinned } = machine()
    a.copy(buffer, pinned).synchronize()
    const timeline = await Timeline.record(
      async () => {
        for (let i = 0; i < 3; i += 1) {
          a.copy(buffer, pinned)
          await a.finished()
        }
      },
      { device },
    )
    for (const copy of copies(timeline)) {
      assert.ok((copy.start ?? 0) >= copy.called)
      const off = Math.abs(lengthOf(copy) - 100_000)
      assert.ok(off <= 5000, `${lengthOf(copy)} ns`)
    }
  })

  it('are exact behind a wait for what was recorded before, and behind work that others queue', async () => {
    const { device, a, b, buffer, pinned } = machine()
    const other = device.alloc(buffer.byteLength)
    a.copy(buffer, pinned)
    const early = a.record()
    const timeline = await Timeline.record(
      () => {
        b.fill(other, 0)
        b.wait(early)
        b.copy(other, pinned)
        b.copy(other, pinned)
        busy(b, 500_000) // somebody has the stream's handle
        b.copy(other, pinned)
      },
      { device },
    )
    const [first, second, third] = copies(timeline)
    for (const copy of [first, second, third]) near(copy === undefined ? 0 : lengthOf(copy), 100_000)
    near((third?.start ?? 0) - (second?.end ?? 0), 500_000)
  })

  it('stay exact a long way from the beginning', async () => {
    const { device, a, buffer, pinned } = machine()
    const timeline = await Timeline.record(
      () => {
        busy(a, 10_000)
        for (let i = 0; i < 20; i += 1) {
          a.copy(buffer, pinned)
          busy(a, 40_000_000)
        }
      },
      { device },
    )
    const [first, ...later] = copies(timeline)
    for (const [index, copy] of later.entries()) {
      near(lengthOf(copy), 100_000)
      near((copy.start ?? 0) - (first?.start ?? 0), (index + 1) * 40_100_000)
    }
  })

  it('say what records and waits must have been', async () => {
    const { device, a, b, buffer, pinned } = machine()
    const other = device.alloc(buffer.byteLength)
    const timeline = await Timeline.record(
      () => {
        busy(a, 10_000)
        a.copy(buffer, pinned)
        b.wait(a)
        b.fill(other, 0)
        b.copy(other, pinned)
      },
      { device },
    )
    const [first, second] = copies(timeline)
    const waits = timeline.operations.filter(({ kind }) => kind === 'wait')
    const arrow = waits.find(({ record }) => record !== undefined)
    const record = timeline.operations.find(({ id }) => id === arrow?.record)
    near(record?.start, first?.end ?? 0)
    near(arrow?.end, first?.end ?? 0)
    assert.ok((second?.start ?? 0) >= (first?.end ?? Number.NaN) - 2)
    assert.equal(timeline.criticalPath.at(-1)?.id, second?.id)
  })

  it('tie no wait to what an event stood for that is gone', async () => {
    const { device, a, b, buffer } = machine()
    const pinned = device.allocPinned(64)
    const timeline = await Timeline.record(
      () => {
        a.copy(buffer.subarray(0, 64), pinned)
        // With it goes the event of its use, and the next one has that event's handle.
        pinned.close()
        b.wait(device.createEvent())
      },
      { device },
    )
    const wait = timeline.operations.find(({ kind, stream }) => kind === 'wait' && stream.id === b.id)
    assert.ok(wait)
    assert.equal(wait.record, undefined)
  })

  it('are taken of a graph as a whole, and put nothing into it', async () => {
    const { device, a, pinned } = machine()
    // Of its own, so that the launch waits for no allocation.
    const buffer = device.alloc(pinned.byteLength, { stream: a })
    const timeline = await Timeline.record(
      async () => {
        const graph = a.capture(() => {
          a.copy(buffer, pinned)
          a.launchHostFunc(() => {})
          a.copy(buffer, pinned)
        })
        assert.equal(graph.nodeCount, 3)
        busy(a, 10_000)
        a.launch(graph.instantiate())
        await a.finished()
      },
      { device },
    )
    const [only, ...none] = timeline.operations
    assert.deepEqual(none, [])
    assert.equal(only?.kind, 'graph')
    near(only === undefined ? 0 : lengthOf(only), 200_000)
  })

  it('of a graph have no waiting for the launch before of its instance in them', async () => {
    const { device, a, b } = machine()
    const exec = a.capture(() => void busy(a, 20_000)).instantiate()
    const launches = (): void => {
      exec.launch(a)
      exec.launch(b)
      exec.launch(a)
    }
    const { operations, gaps } = await Timeline.record(launches, { device })
    const [first, ...others] = operations.filter(({ kind }) => kind === 'graph')
    for (const launch of others) near(lengthOf(launch), 20_000)
    near(others[0]?.start, first?.end ?? Number.NaN)
    assert.deepEqual(
      gaps.map(({ reason, cause }) => [reason, cause?.id]),
      [['instance', others[0]?.id]],
    )
    const took = published(device, launches).slice(1)
    assert.deepEqual(
      took.map((milliseconds) => Math.round(1000 * milliseconds)),
      [20, 20],
    )
  })

  it('of host functions are the host’s own', async () => {
    const { device, a, buffer, pinned } = machine()
    let at = 0
    const began = clock.now()
    const timeline = await Timeline.record(
      async () => {
        a.copy(buffer, pinned)
        a.launchHostFunc(() => {
          at = (clock.now() - began) * 1e6
        })
        await a.finished()
      },
      { device },
    )
    const host = timeline.operations.find(({ kind }) => kind === 'hostFunction')
    assert.ok((host?.start ?? Number.NaN) <= at && at <= (host?.end ?? 0) + 5e6)
    assert.ok(lengthOf(host as TimelineOperation) >= 0)
  })

  it('waits for host functions that no later work tells of', async () => {
    const { device, a } = machine()
    const held = latch(a)
    let ran = false
    const timeline = await Timeline.record(
      () => {
        a.launchHostFunc(() => {
          ran = true
        })
        setImmediate(() => held.open())
      },
      { device },
    )
    assert.equal(ran, true)
    assert.notEqual(timeline.operations[0]?.end, undefined)
  })

  it('leave the driver with as many events and streams as before', async () => {
    const { device, a, b, buffer, pinned, calls } = machine()
    b.close()
    const balance = (): number[] => [
      (calls.get('events.create') ?? 0) - (calls.get('events.destroy') ?? 0) - (calls.get('events.recycle') ?? 0),
      (calls.get('streams.create') ?? 0) - (calls.get('streams.destroy') ?? 0),
    ]
    a.copy(buffer, pinned)
    a.synchronize()
    const before = balance()
    await Timeline.record(
      async () => {
        for (let i = 0; i < 6000; i += 1) {
          a.fill(buffer, 0)
          if (i % 1000 === 0) await a.finished()
        }
      },
      { device },
    )
    assert.deepEqual(balance(), before)
    assert.equal(calls.get('events.destroy'), undefined, 'a later recording may use them again')
    const held = latch(a)
    const recording = Timeline.start({ device })
    a.fill(buffer, 0)
    recording.stopNow()
    held.open()
    a.synchronize()
    assert.deepEqual(balance(), before, 'also where work was under way at the end')
  })

  it('are there for a recording that waits, where another one ends meanwhile', async () => {
    const { device, a, buffer, calls } = machine()
    a.fill(buffer, 0)
    const inUse = (): number => (calls.get('events.create') ?? 0) - (calls.get('events.recycle') ?? 0)
    const before = inUse()
    const [first, second] = [Timeline.start({ device }), Timeline.start({ device })]
    const held = latch(a)
    a.fill(buffer, 0)
    a.launchHostFunc(() => {})
    const stopped = first.stop()
    const unfinished = second.stopNow()
    held.open()
    const ends = ({ operations }: Timeline): boolean[] => operations.map(({ end }) => end !== undefined)
    assert.deepEqual(ends(unfinished), [false, false])
    assert.deepEqual(ends(await stopped), [true, true])
    assert.equal(inUse(), before)
  })

  it('are waited for as far as they were recorded, however many host functions others go on to queue', async () => {
    const { device, a, b } = machine()
    const other = Timeline.start({ device })
    const recording = Timeline.start({ device })
    a.launchHostFunc(() => {})
    let left = 20_000
    const again = (): void => {
      left -= 1
      if (left > 0) b.launchHostFunc(again)
    }
    again()
    const timeline = await recording.stop()
    assert.ok(left > 0)
    left = 0
    other.stopNow()
    assert.notEqual(timeline.operations[0]?.end, undefined)
  })

  it('of operations that take longer than a clock tells exactly are right, and leave each event to one', async () => {
    const { device, a, b, calls } = machine()
    const [graph, other] = [1, 2].map(() => b.capture(() => busy(b, 60_000_000)).instantiate())
    assert.ok(graph && other)
    device.synchronize()
    const inUse = (): number => (calls.get('events.create') ?? 0) - (calls.get('events.recycle') ?? 0)
    const before = inUse()
    const timeline = await Timeline.record(
      () => {
        // Others may queue work there, so that each has an event in front of it.
        busy(device.defaultStream, 10_000)
        for (let i = 0; i < 4; i += 1) device.defaultStream.launch(graph)
        busy(a, 10_000)
        for (let i = 0; i < 4; i += 1) a.launch(other)
      },
      { device },
    )
    const graphs = timeline.operations.filter(({ kind }) => kind === 'graph')
    assert.equal(graphs.length, 8)
    for (const one of graphs) near(lengthOf(one), 60_000_000)
    assert.equal(inUse(), before)
    const unread = Timeline.start({ device })
    device.defaultStream.launch(graph)
    device.synchronize()
    const held = latch(a)
    a.launch(other)
    unread.stopNow()
    held.open()
    assert.equal(inUse(), before, 'also where work was under way at the end')
  })

  it('are right where one is read after the other', async () => {
    const { device, b } = machine()
    const [long, short] = [60_000_000, 10_000_000].map((length) => b.capture(() => busy(b, length)).instantiate())
    assert.ok(long && short)
    device.synchronize()
    const took = published(device, (publisher) => {
      for (const graph of [long, short, short]) {
        device.defaultStream.launch(graph).synchronize()
        publisher.flush()
      }
    })
    assert.deepEqual(took.map(Math.round), [60, 10, 10])
  })

  it('have no waiting in them while they are published, be it for a record, for memory or for the host', () => {
    const { device, a, b, pinned } = machine()
    const [c, d] = [new Stream({ device }), new Stream({ device })]
    const of = (length: number): GraphExec => d.capture(() => busy(d, length)).instantiate()
    const [one, another, three, five, twenty] = [1, 1, 3, 5, 20].map((length) => of(length * 1e6))
    assert.ok(one && another && three && five && twenty)
    const memory = device.alloc(pinned.byteLength, { stream: a })
    b.wait(a)
    device.synchronize()
    const took = published(device, (publisher) => {
      a.launch(one).launch(twenty)
      b.launch(three).wait(a).launch(another)
      c.launch(five).wait(b).launch(one)
      publisher.flush()
      c.synchronize()
      publisher.flush()
      b.copy(memory, pinned).launch(twenty).copy(memory, pinned)
      a.launch(one)
      memory.close()
      a.launch(one)
      device.synchronize()
      publisher.flush()
      a.launch(one).launchHostFunc(() => void d.launch(five).synchronize())
      a.launch(one)
    })
    const milliseconds = took.map((length) => Math.round(length * 10) / 10)
    assert.deepEqual(milliseconds, [1, 20, 3, 1, 5, 1, 0.1, 20, 0.1, 1, 1, 1, 5, 1, 5])
  })

  it('are not there for what was not done at the end', () => {
    const { device, a, buffer } = machine()
    const recording = Timeline.start({ device })
    a.fill(buffer, 0)
    a.synchronize()
    const held = latch(a)
    a.fill(buffer, 1)
    const timeline = recording.stopNow()
    held.open()
    const fills = timeline.operations.filter(({ kind }) => kind === 'fill')
    assert.deepEqual(
      fills.map(({ end }) => end === undefined),
      [false, true],
    )
  })

  it('change no refusal, and no error of a lost device', async () => {
    const { device, a, b, buffer } = machine()
    const timeline = await Timeline.record(
      async () => {
        a.beginCapture()
        a.fill(buffer, 0)
        refused(() => a.addCallback(() => {}, undefined), 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
        a.endCapture().close()
        fault(b)
        await rejected(() => b.finished(), 'CUDA_ERROR_ILLEGAL_ADDRESS')
        const error = refused(() => a.fill(buffer, 0), 'CUDA_ERROR_ILLEGAL_ADDRESS')
        assert.doesNotMatch(error.message, /cuEventRecord|cuEventCreate/)
      },
      { device },
    )
    assert.deepEqual(
      timeline.operations.filter(({ kind }) => kind === 'fill'),
      [],
    )
  })
})
