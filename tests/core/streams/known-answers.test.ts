/** Where a query may be answered without the driver: which calls the driver is told of as "idle, and nothing queued since". */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type DeviceBuffer,
  defineKernel,
  type Event,
  ExternalStream,
  type GraphExec,
  type PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Communicator } from 'cuda-streams/nccl'
import { busy, latch } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import type { Driver } from '../../../src/foundation/driver/driver.js'
import type { EventDriver } from '../../../src/foundation/driver/event-driver.js'
import type { StreamDriver } from '../../../src/foundation/driver/stream-driver.js'
import type { Interceptor } from '../../../src/foundation/driver/wrappable-driver.js'
import { simWorkbench } from '../../helpers/workbench.js'

/** Notes what the driver is told with each query. */
class Told implements Interceptor {
  constructor(readonly next: Driver) {}

  ofStreams: (boolean | undefined)[] = []
  ofEvents: (boolean | undefined)[] = []

  readonly streams: Partial<StreamDriver> = {
    query: (stream, isIdle) => {
      this.ofStreams.push(isIdle)
      return this.next.streams.query(stream, isIdle)
    },
  }

  readonly events: Partial<EventDriver> = {
    query: (event, isDone) => {
      this.ofEvents.push(isDone)
      return this.next.events.query(event, isDone)
    },
  }
}

interface Stage {
  readonly stream: Stream
  readonly other: Stream
  readonly event: Event
  readonly exec: GraphExec
  /** Its allocation stream is the stream. */
  readonly buffer: DeviceBuffer
  readonly pinned: PinnedBuffer
  readonly cublas: Cublas
  readonly communicator: Communicator
}

type Act = (stage: Stage) => unknown

const kernel = defineKernel({ name: 'nothing', source: '', signature: [], simulateGrid() {} })
const shape = { grid: 1, block: 1 }
const bytes = new Uint8Array(64)
const GEMM = { type: 'f32', m: 2, n: 2, k: 2 } as const

/** Each member of Stream that may queue work on it. */
const QUEUES: Readonly<Record<string, Act>> = {
  record: ({ stream, event }) => stream.record(event),
  wait: ({ stream, event }) => stream.wait(event),
  copy: ({ stream, buffer, pinned }) => stream.copy(buffer, pinned),
  fill: ({ stream, buffer }) => stream.fill(buffer, 1),
  waitValue: ({ stream, pinned }) => stream.waitValue(pinned, 0),
  writeValue: ({ stream, pinned }) => stream.writeValue(pinned, 1),
  upload: ({ stream, buffer }) => stream.upload(buffer, bytes),
  bufferFrom: ({ stream }) => stream.bufferFrom(bytes),
  download: ({ stream, buffer }) => stream.download(buffer),
  uploader: async ({ stream, buffer }) => {
    const writer = stream.uploader(buffer).getWriter()
    await writer.write(bytes)
  },
  downloader: ({ stream, buffer }) => stream.downloader(buffer).getReader().read(),
  launch: ({ stream }) => stream.launch(kernel, shape),
  external: ({ stream }) => stream.external({ name: 'theirs', simulate() {} }, () => {}),
  beginCapture: ({ stream }) => stream.beginCapture(),
  endCapture: ({ stream }) => stream.beginCapture().endCapture(),
  capture: ({ stream }) => stream.capture(() => {}),
  launchHostFunc: ({ stream }) => stream.launchHostFunc(() => {}),
  addCallback: ({ stream }) => stream.addCallback(() => {}, 1),
}
/** Those that queue it once a chunk is written or read. */
const LATER = ['uploader', 'downloader']
/** Calls elsewhere that queue work on it. */
const ELSEWHERE: Readonly<Record<string, Act>> = {
  'stream.record() of a new event': ({ stream }) => stream.record(),
  'stream.wait(stream)': ({ stream, other }) => stream.wait(other),
  'stream.wait(device)': ({ stream }) => stream.wait(stream.device),
  'stream.wait(promise)': ({ stream }) => stream.wait(Promise.resolve()),
  'stream.launch(exec)': ({ stream, exec }) => stream.launch(exec),
  'exec.launch()': ({ stream, exec }) => exec.launch(stream),
  'exec.upload()': ({ stream, exec }) => exec.upload(stream),
  'device.alloc()': ({ stream }) => stream.device.alloc(8, { stream }),
  'buffer.close(), which frees there': ({ buffer }) => buffer.close(),
  'cublas.gemm()': ({ stream, buffer, cublas }) =>
    cublas.gemm(stream, buffer.subarray(0, 16), buffer.subarray(16, 32), buffer.subarray(32, 48), GEMM),
  'communicator.allReduce()': ({ stream, buffer, communicator }) =>
    communicator.allReduce(stream, buffer, buffer, { type: 'f32' }),
  'busy()': ({ stream }) => busy(stream, 1),
  'latch()': ({ stream }) => latch(stream).open(),
}
/** Members that queue nothing. */
const QUIET = [
  ...['constructor', 'query', 'synchronize', 'finished', 'device', 'serial', 'handle', 'id', 'context', 'priority'],
  ...[
    'name',
    'nonBlocking',
    'isCapturing',
    'captureStatus',
    'copyAttributes',
    'cachedEvent',
    'closed',
    'use',
    'enter',
    'run',
    'share',
    'equals',
    'valueOf',
  ],
  ...['close', 'toString'],
  // Refused but in a capture, where they queue nothing either.
  ...['createCondition', 'if', 'while', 'switch'],
]

async function onStage(act: (stage: Stage, told: Told) => unknown): Promise<void> {
  const { device } = simWorkbench()
  const stream = new Stream({ device })
  const [communicator] = await Communicator.createAll([device])
  assert.ok(communicator !== undefined)
  const stage: Stage = {
    stream,
    other: new Stream({ device }),
    event: device.createEvent(),
    exec: stream.capture(() => stream.launch(kernel, shape)).instantiate(),
    buffer: device.alloc(64, { stream }),
    pinned: device.allocPinned(64),
    cublas: new Cublas({ device: stream.device }),
    communicator,
  }
  await device.finished()
  const driver = driverOf(device)
  const { wrapper, unwrap } = driver.wrap((inner: Driver) => new Told(inner))
  await act(stage, wrapper)
  unwrap()
}

/** What the driver is told with a query, which it may refuse. */
function toldBy(told: Told, stream: Stream): unknown {
  told.ofStreams = []
  try {
    stream.query()
  } catch {
    // It captures.
  }
  return told.ofStreams[0]
}

describe('a stream that was seen idle is not asked again until something is queued', () => {
  test('each member of Stream queues or does not', () => {
    const names = Object.getOwnPropertyNames(Stream.prototype)
    assert.deepEqual(names.filter((name) => !QUIET.includes(name) && !(name in QUEUES)).sort(), [])
  })

  for (const [name, act] of Object.entries({ ...QUEUES, ...ELSEWHERE })) {
    test(`the driver is asked after ${name}`, () =>
      onStage(async (stage, told) => {
        const { stream } = stage
        assert.equal(stream.query(), true)
        assert.equal(toldBy(told, stream), true, 'known')
        const done = act(stage)
        if (LATER.includes(name)) await done
        assert.equal(toldBy(told, stream), false)
        await done
      }))
  }

  test('the driver is not asked after what queues nothing', () =>
    onStage(({ stream, other }, told) => {
      stream.synchronize()
      stream.use()
      stream.run(() => stream.enter()[Symbol.dispose]())
      void [
        stream.name,
        stream.priority,
        stream.nonBlocking,
        stream.isCapturing,
        stream.closed,
        stream.context,
        stream.cachedEvent,
      ]
      void [stream.equals(other), stream.valueOf(), stream.toString()]
      assert.equal(toldBy(told, stream), true)
    }))

  test('an answer of no tells nothing, nor does what a host function of the same wait queues', () =>
    onStage(({ stream }, told) => {
      const held = latch(stream)
      assert.deepEqual([stream.query(), toldBy(told, stream)], [false, false])
      held.open()
      stream.launchHostFunc(() => stream.launchHostFunc(() => {}))
      stream.synchronize()
      assert.equal(toldBy(told, stream), false)
    }))

  test('a host function that runs while a call makes room learns nothing: the work of that call comes later', () =>
    onStage(({ stream, other }, told) => {
      other.launchHostFunc(() => assert.equal(stream.query(), true))
      other.synchronize()
      assert.equal(toldBy(told, stream), false)
    }))

  test('wrapped streams and default streams are always asked', () =>
    onStage(({ stream }, told) => {
      for (const each of [new ExternalStream(stream), stream.device.defaultStream]) {
        each.synchronize()
        assert.deepEqual([each.query(), toldBy(told, each)], [true, false], `${each}`)
      }
    }))
})

describe('an event that was seen done is not asked again until it is recorded', () => {
  const toldOf = (told: Told, event: Event): unknown => {
    told.ofEvents = []
    event.query()
    return told.ofEvents[0]
  }

  for (const [name, settings] of Object.entries({
    plain: {},
    timing: { timing: true },
    sleeps: { blockingSync: true },
  })) {
    test(`${name}: after a query, and after synchronize()`, () =>
      onStage(({ stream }, told) => {
        const event = stream.record(settings)
        event.synchronize()
        assert.equal(toldOf(told, event), true)
        stream.record(event)
        assert.equal(toldOf(told, event), false)
      }))
  }

  test('a shared event, and one whose handle was read are always asked', () =>
    onStage(({ stream }, told) => {
      const [read, shared] = [stream.record(), stream.record()]
      for (const event of [read, shared]) event.synchronize()
      void [read.handle, shared.share()]
      for (const event of [read, shared]) assert.deepEqual([toldOf(told, event), toldOf(told, event)], [false, false])
    }))

  test('so is one that a graph records', () =>
    onStage(({ stream, event }, told) => {
      event.synchronize()
      const graph = stream.capture(() => stream.record(event, { external: true }))
      assert.equal(graph.nodeCount, 1)
      assert.deepEqual([toldOf(told, event), toldOf(told, event)], [false, false])
    }))
})
