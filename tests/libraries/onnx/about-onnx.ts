/** What tests of all of the package know of cuda-streams/onnx. */
import assert from 'node:assert/strict'
import type { DeviceBuffer } from 'cuda-streams'
import * as module from 'cuda-streams/onnx'
import { Session } from 'cuda-streams/onnx'
import type { Call } from '../../conformance/matrix/call.js'
import type { Scene } from '../../conformance/matrix/scene.js'
import { type AboutLibrary, lackOf, mayWait, nodes, onlySimulated } from '../about-library.js'
import { copyBy, IDENTITY, lacksOnnxRuntime, preferCachedOnnxRuntime, sessionNow } from './runtime.js'

preferCachedOnnxRuntime()

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('ONNX Runtime', () => lackOf(async () => (await Session.load(IDENTITY, { device: lab.device })).close()))

/** Without it there are no objects to be tried. */
const isHere = lacksOnnxRuntime() === false

const refuses = ({ situation: { capture } }: Scene): readonly string[] =>
  capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : []

/** A session that has run with these shapes before. */
async function sessionOf(scene: Scene): Promise<Session> {
  const { device, lab } = scene
  const session = scene.keep(await Session.load(IDENTITY, { device }))
  scene.closers.set('the session', () => session.close())
  using from = device.alloc(scene.buffer(1).byteLength, { stream: lab.allocationStream })
  using to = device.alloc(from.byteLength, { stream: lab.allocationStream })
  copyBy(session, lab.allocationStream, to, from)
  return session
}

const calls: readonly Call[] = [
  {
    name: 'session.run()',
    members: ['Session#run'],
    act: 'queues by a library',
    waits: mayWait,
    memory: [
      { name: 'destination', takes: 'of the device', becomes: (scene) => scene.wordRead(1) },
      { name: 'source', takes: 'of the device' },
    ],
    nodes,
    hasThreads: true,
    uses: ['the session'],
    lacks,
    refuses,
    prepare: async (scene) => {
      const session = await sessionOf(scene)
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      return () => copyBy(session, scene.stream, to, from)
    },
  },
  {
    name: 'Session.load() and session.close()',
    members: ['Session.load', 'Session#close', 'Session#[Symbol.dispose]'],
    act: 'makes',
    slow: true,
    hasThreads: true,
    lacks,
    prepare:
      ({ device }) =>
      () =>
        Session.load(IDENTITY, { device }).then((session) => session.close()),
  },
]

const OPTIONS = ['stream', 'device', 'tensorrt', 'graphs'] as const

export const about: AboutLibrary = {
  module,
  objects: (stream) => (isHere ? [sessionNow(stream)] : []),
  absent: isHere ? [] : [Session as unknown as { readonly name: string; readonly prototype: object }],
  calls,
  userCode: (forEachOption) => [
    ...forEachOption(
      'Session.load',
      'Session.load(model, options)',
      ({ device, stream }) => ({ stream, device, tensorrt: false, graphs: false }),
      OPTIONS,
      { lacks: (scene) => onlySimulated(scene) ?? lacks(scene) },
      (scene, hooked) => () => Session.load(IDENTITY, hooked()).then((session) => scene.keep(session)),
    ),
    ...(['buffer', 'shape'] as const).map((name) => ({
      name: `session.run(): the getter of ${name}`,
      memory: [
        { name: 'destination', takes: 'of the device' as const, becomes: (scene: Scene) => scene.wordRead(1) },
        { name: 'source', takes: 'of the device' as const },
      ],
      uses: ['the session'],
      lacks: (scene: Parameters<typeof onlySimulated>[0]) => onlySimulated(scene) ?? lacks(scene),
      prepare: async (scene: Scene, act: () => void) => {
        const session = await sessionOf(scene)
        const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
        const tensor = { buffer: from, shape: [from.byteLength] }
        const value = tensor[name]
        const get = (): unknown => {
          act()
          return value
        }
        const hooked = Object.defineProperty({ ...tensor }, name, { enumerable: true, get })
        return () => session.run(scene.stream, { from: hooked }, { to })
      },
    })),
  ],
  quietOptions: {},
  options({ stream, buffer, use }, isSimulated) {
    const load: ReturnType<AboutLibrary['options']> = [
      ['libraries/onnx/session', 'Session.load()', OPTIONS.join(', '), (o) => Session.load(IDENTITY, o)],
    ]
    if (!isSimulated || !isHere) return load
    const session = use(sessionNow(stream))
    return [
      ...load,
      [
        'libraries/onnx/tensors',
        'session.run()',
        'buffer, shape',
        (o) => session.run(stream, { from: o }, { to: buffer }),
      ],
    ]
  },
  publicCalls: isHere
    ? {
        'session.run()': ({ stream, own, theirs, other }) => {
          const session = sessionNow(other)
          return {
            act: () => copyBy(session, stream, own, theirs),
            check: async () => assert.deepEqual([...new Set(await stream.download(own))], [2]),
            end: () => session.close(),
          }
        },
      }
    : {},
  accesses: ({ dataOf, memoryOf }) =>
    isHere
      ? [
          {
            name: 'model input',
            writes: false,
            on: 'device',
            run: (stage, side, stream) => {
              using session = sessionNow(stream)
              copyBy(session, stream, memoryOf(stage, `seen by ${side}`), dataOf(stage) as DeviceBuffer)
            },
          },
          {
            name: 'model output',
            writes: true,
            on: 'device',
            prepare: (stage, side, stream) =>
              void stream.fill(memoryOf(stage, `word of ${side}`), side === 'first' ? 5 : 7),
            run: (stage, side, stream) => {
              using session = sessionNow(stream)
              copyBy(session, stream, dataOf(stage) as DeviceBuffer, memoryOf(stage, `word of ${side}`))
            },
          },
        ]
      : [],
}
