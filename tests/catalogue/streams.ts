/** Streams: how they are made, what they say, and captures. */
import assert from 'node:assert/strict'
import {
  type CaptureOptions,
  ExternalStream,
  Graph,
  Stream,
  type StreamOptions,
  StreamPool,
  type StreamPoolOptions,
} from 'cuda-streams'
import { hasWorkBehind } from './axes.js'
import { type Call, closing, withOptions } from './call.js'
import type { Scene } from './scene.js'
import { GivenUp, graphOf, NAMED_STREAM_OPTIONS, WRAPPED_STREAM } from './values.js'

/** A default stream is everybody's, and CUDA changes no stream of a capture that is invalidated. */
function refusesAttributes({ situation: { stream, capture } }: Pick<Scene, 'situation'>): readonly string[] {
  if (stream === 'null' || stream === 'per-thread') return ['ERR_UNSUPPORTED']
  return capture?.of === 'the stream' && capture.invalidated ? ['901'] : []
}

const making: readonly Call[] = [
  withOptions({
    name: 'new Stream()',
    members: ['new Stream'],
    act: 'makes',
    options: { values: { device: ({ device }) => device, ...NAMED_STREAM_OPTIONS } },
    prepare:
      (scene) =>
      (options: StreamOptions = { device: scene.device }) =>
        scene.keep(new Stream(options)).handle,
  }),
  {
    name: 'new Stream({ context })',
    members: [],
    act: 'makes',
    prepare: (scene) => {
      const [, context] = scene.device.split({ multiprocessors: [8] })
      scene.keep(context)
      return () => scene.keep(new Stream({ context })).handle
    },
  },
  withOptions({
    name: 'device.createStream()',
    members: ['Device#createStream'],
    act: 'makes',
    options: { values: { device: ({ device }) => device, ...NAMED_STREAM_OPTIONS } },
    prepare:
      (scene) =>
      (options: StreamOptions = { nonBlocking: false }) =>
        scene.keep(scene.device.createStream(options)).handle,
  }),
  {
    name: 'device.createStream(stream)',
    members: [],
    act: 'makes',
    prepare: (scene) => () => scene.keep(scene.device.createStream(scene.stream)).handle,
  },
  {
    name: 'new ExternalStream(handle)',
    members: ['new ExternalStream'],
    act: 'makes',
    prepare: (scene) => () => scene.keep(new ExternalStream(scene.stream.handle, { device: scene.device })),
    answers: (scene, value) => assert.ok((value as Stream).equals(scene.stream)),
  },
  withOptions({
    name: 'new ExternalStream(stream)',
    members: ['new ExternalStream'],
    act: 'makes',
    options: { values: WRAPPED_STREAM },
    prepare: (scene) => (options) => scene.keep(new ExternalStream(scene.stream, options)),
    answers: (scene, value) => assert.ok((value as Stream).equals(scene.stream)),
  }),
  withOptions({
    name: 'Stream.from(stream)',
    members: ['Stream.from'],
    act: 'makes',
    options: { values: WRAPPED_STREAM },
    prepare: (scene) => (options) => Stream.from(scene.stream, options),
    answers: (scene, value) => assert.ok(value === scene.stream),
  }),
  {
    name: 'Stream.from(an object with __cuda_stream__)',
    members: [],
    act: 'makes',
    prepare: (scene) => {
      const { stream, device } = scene
      const like = { __cuda_stream__: () => [0, stream.handle] as const }
      return () => scene.keep(Stream.from(like, { device }))
    },
    answers: (scene, value) => assert.ok((value as Stream).equals(scene.stream)),
  },
  {
    name: 'Stream.from(token)',
    members: [],
    act: 'makes',
    // There is no token of a per-thread stream.
    prepare: (scene) => {
      const token = scene.situation.stream === 'per-thread' ? undefined : scene.stream.share()
      return () => Stream.from(token ?? scene.stream)
    },
    answers: (scene, value) => assert.ok(value === scene.stream),
  },
  {
    name: 'stream.share()',
    members: ['Stream#share'],
    act: 'makes',
    refuses: ({ situation }) => (situation.stream === 'per-thread' ? ['ERR_UNSUPPORTED'] : []),
    prepare: (scene) => () => scene.stream.share(),
    answers: (scene, value) => assert.equal((value as { readonly id: bigint }).id, scene.stream.id),
  },
  {
    name: 'stream.cachedEvent',
    members: ['Stream#cachedEvent'],
    act: 'makes',
    prepare: (scene) => () => scene.stream.cachedEvent,
    answers: (scene, value) => assert.ok(value === scene.stream.cachedEvent),
  },
  ...closing('stream', 'Stream', ({ stream }) => stream, {
    answers: ({ stream, situation }) => {
      assert.equal(stream.closed, situation.stream !== 'null' && situation.stream !== 'per-thread')
    },
  }),
  {
    name: 'stream[Symbol.asyncDispose]()',
    members: ['Stream#[Symbol.asyncDispose]'],
    act: 'promises',
    prepare: (scene) => () => scene.stream[Symbol.asyncDispose](),
  },
]

const poolOf = (scene: Scene): StreamPool => scene.keep(new StreamPool({ device: scene.device, size: 1 }))

const pooling: readonly Call[] = [
  withOptions({
    name: 'new StreamPool()',
    members: ['new StreamPool'],
    act: 'makes',
    options: { values: { size: () => 2, device: ({ device }) => device, ...NAMED_STREAM_OPTIONS } },
    prepare:
      (scene) =>
      (options: StreamPoolOptions = { device: scene.device, size: 1 }) =>
        scene.keep(new StreamPool(options)).idle,
  }),
  withOptions({
    name: 'pool.take()',
    members: ['StreamPool#take'],
    act: 'makes',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => {
      const pool = poolOf(scene)
      return async (options) => (await pool.take(options)).close()
    },
  }),
  withOptions({
    name: 'pool.run()',
    members: ['StreamPool#run'],
    act: 'makes',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => {
      const pool = poolOf(scene)
      return (options) => pool.run((given) => given === Stream.current(scene.device), options)
    },
    answers: (_scene, value) => assert.equal(value, true),
  }),
  withOptions({
    name: 'pool.drain()',
    members: ['StreamPool#drain'],
    act: 'makes',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => {
      const pool = poolOf(scene)
      pool.tryTake()?.close()
      return (options) => pool.drain(options)
    },
  }),
  {
    name: 'lane.close(), pool.close(), and their ends by using',
    members: [
      ...['tryTake', 'pending', 'idle', 'close', '[Symbol.dispose]', '[Symbol.asyncDispose]'].map(
        (name) => `StreamPool#${name}`,
      ),
      ...['stream', 'close', '[Symbol.dispose]', '[Symbol.asyncDispose]'].map((name) => `StreamLane#${name}`),
    ],
    act: 'makes',
    prepare: (scene) => {
      const pool = scene.keep(new StreamPool({ device: scene.device, size: 3 }))
      return async () => {
        const lanes = [1, 2, 3].map(() => pool.tryTake())
        assert.deepEqual([pool.tryTake(), pool.idle, pool.pending], [undefined, 0, 0])
        assert.equal(new Set(lanes.map((lane) => lane?.stream)).size, 3)
        lanes[0]?.close()
        lanes[1]?.[Symbol.dispose]()
        await lanes[2]?.[Symbol.asyncDispose]()
        await pool.drain()
        const { idle } = pool
        pool.close()
        pool[Symbol.dispose]()
        await pool[Symbol.asyncDispose]()
        return idle
      }
    },
    answers: (_scene, value) => assert.equal(value, 3),
  },
]

const asking: readonly Call[] = [
  ...(['id', 'name', 'nonBlocking', 'priority'] as const).map(
    (what): Call => ({
      name: `stream.${what}`,
      members: [`Stream#${what}`],
      act: 'makes',
      prepare: ({ stream }) => {
        const known = stream[what]
        return () => assert.equal(stream[what], known)
      },
    }),
  ),
  {
    name: 'stream.isCapturing',
    members: ['Stream#isCapturing'],
    act: 'is told',
    prepare: (scene) => () => scene.stream.isCapturing,
    answers: ({ situation }, value) => assert.equal(value, situation.capture?.of === 'the stream'),
  },
  {
    name: 'stream.priority, set',
    members: ['Stream#priority'],
    act: 'makes',
    refuses: (scene) => refusesAttributes(scene),
    prepare: (scene) => () => {
      scene.stream.priority = 0
    },
  },
  {
    name: 'stream.copyAttributes()',
    members: ['Stream#copyAttributes'],
    act: 'makes',
    refuses: (scene) => (scene.situation.stream === 'green' ? ['ERR_INVALID_ARG_VALUE'] : refusesAttributes(scene)),
    prepare: (scene) => {
      const other = scene.keep(new Stream({ device: scene.device, priority: -1 }))
      return () => scene.stream.copyAttributes(other)
    },
  },
  {
    name: 'stream.captureStatus',
    members: ['Stream#captureStatus'],
    act: 'is told',
    prepare: (scene) => () => scene.stream.captureStatus,
    answers: ({ situation }, value) =>
      assert.equal(
        value,
        situation.capture?.of !== 'the stream' ? 'none' : situation.capture.invalidated ? 'invalidated' : 'active',
      ),
  },
  {
    name: 'stream.query()',
    members: ['Stream#query'],
    act: 'asks',
    prepare: (scene) => () => scene.stream.query(),
    answers: (scene, value) => assert.equal(value, !hasWorkBehind(scene.hold, scene.situation.stream)),
  },
  {
    name: 'stream.synchronize()',
    members: ['Stream#synchronize'],
    act: 'synchronizes',
    waits: 'stream',
    prepare: (scene) => () => scene.stream.synchronize(),
  },
  {
    name: 'stream.synchronize() of one that was quiet',
    members: [],
    act: 'synchronizes',
    waits: 'stream',
    prepare: (scene) => {
      scene.stream.synchronize()
      return () => scene.stream.synchronize()
    },
  },
  withOptions({
    name: 'stream.finished()',
    members: ['Stream#finished'],
    act: 'promises',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => (options) => scene.stream.finished(options),
  }),
  {
    name: 'stream.finished({ signal }) that is aborted',
    members: ['Stream#finished'],
    act: 'promises',
    prepare: (scene) => () => {
      const controller = new AbortController()
      const finished = scene.stream.finished({ signal: controller.signal })
      controller.abort(new GivenUp())
      return finished.catch((error: unknown) => {
        if (!(error instanceof GivenUp)) throw error
      })
    },
  },
]

const capturing: readonly Call[] = [
  {
    name: 'stream.beginCapture()',
    members: ['Stream#beginCapture'],
    act: 'begins a capture',
    prepare: (scene) => () => {
      const { stream } = scene
      stream.beginCapture('relaxed')
      stream.endCapture().close()
    },
  },
  withOptions({
    name: 'stream.capture()',
    members: ['Stream#capture'],
    act: 'begins a capture',
    options: { values: { mode: () => 'relaxed' as const }, others: ['into', 'after'] },
    prepare: (scene) => (options) => {
      const { stream } = scene
      scene.keep(stream.capture(() => void stream.launchHostFunc(() => {}), options)).close()
    },
  }),
  withOptions({
    name: 'stream.capture(fn, { into, after })',
    members: ['Stream#capture'],
    act: 'begins a capture',
    options: { values: { into: graphOf, after: (scene) => graphOf(scene).nodes }, others: ['mode'] },
    uses: ['the graph'],
    prepare: (scene) => {
      const graph = graphOf(scene)
      const { nodes } = graph
      return (options: CaptureOptions = { into: graph, after: nodes }) => {
        const { stream } = scene
        stream.capture(() => void stream.launchHostFunc(() => scene.log.push('added')), options)
        return graph
      }
    },
    answers: async (scene, value) => {
      const { allocationStream } = scene.lab
      const graph = value as Graph
      assert.equal(graph.nodeCount, 2)
      await allocationStream.launch(scene.keep(graph.instantiate())).finished()
      assert.deepEqual(
        scene.log.filter((each) => each !== 'hold'),
        ['before', 'added'],
      )
    },
  }),
  {
    name: 'stream.endCapture()',
    members: ['Stream#endCapture'],
    act: 'ends a capture',
    prepare: (scene) => () => scene.stream.endCapture(),
    answers: (_scene, value) => assert.ok(value instanceof Graph),
  },
]

export const streamCalls: readonly Call[] = [...making, ...pooling, ...asking, ...capturing]
