/** What tests of all of the package know of cuda-streams/onnx. */
import assert from 'node:assert/strict'
import type { DeviceBuffer, Stream } from 'cuda-streams'
import * as module from 'cuda-streams/onnx'
import { Session } from 'cuda-streams/onnx'
import { checkTensors } from '../../../src/libraries/onnx/tensors.js'
import type { Call } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import type { Stage } from '../../sanitizer/pairs/pairs.js'
import { type AboutLibrary, lackOf, mayWait, nodes, onlySimulated } from '../about-library.js'
import { identity } from './models.js'
import { copyBy, IDENTITY, lacksOnnxRuntime, preferCachedOnnxRuntime, sessionNow } from './runtime.js'

preferCachedOnnxRuntime()

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('ONNX Runtime', () => lackOf(async () => (await Session.load(IDENTITY, { device: lab.device })).close()))

/** Without it there are no objects to be tried. */
const isHere = lacksOnnxRuntime() === false

const refuses = ({ situation: { capture } }: Scene): readonly string[] =>
  capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : []

/** A session that has run with these shapes before, the same for all cells. */
async function sessionOf(scene: Scene): Promise<Session> {
  const { device, lab } = scene
  const make = async (): Promise<Session> => {
    const made = await Session.load(IDENTITY, { device })
    using from = device.alloc(BYTES, { stream: lab.allocationStream })
    using to = device.alloc(BYTES, { stream: lab.allocationStream })
    return copyBy(made, lab.allocationStream, to, from)
  }
  let session = await lab.once('a session', make)
  if (session.closed) {
    lab.forget('a session')
    session = await lab.once('a session', make)
  }
  scene.closers.set('the session', () => session.close())
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

/** The session of one side of a program. */
function sessionOn({ keep }: Stage, side: string, stream: Stream): Session {
  const key = `session of ${side}`
  const session = (keep.get(key) as Session | undefined) ?? sessionNow(stream)
  keep.set(key, session)
  return session
}

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
      also: ['ERR_INVALID_ARG_TYPE'],
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
  quietOptions: { 'is no constructor for programs': ['new Session'] },
  options: ({ stream, buffer }, isSimulated) => [
    ['libraries/onnx/onnx-session', 'Session.load()', OPTIONS.join(', '), (o) => Session.load(IDENTITY, o)],
    // What a run does first, which needs no session.
    ...(isSimulated
      ? ([
          [
            'libraries/onnx/tensors',
            'session.run()',
            'buffer, shape',
            (o) => checkTensors(identity, { from: o }, { to: buffer }, stream),
          ],
        ] as const satisfies ReturnType<AboutLibrary['options']>)
      : []),
  ],
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
  // Each access is paired with all others. What a model reads too early is tried in onnx.test.ts.
  accesses: ({ dataOf, memoryOf }) =>
    isHere
      ? [
          {
            name: 'model output',
            writes: true,
            on: 'device',
            prepare: (stage, side, stream) =>
              void stream.fill(memoryOf(stage, `word of ${side}`), side === 'first' ? 5 : 7),
            run: (stage, side, stream) => {
              const session = sessionOn(stage, side, stream)
              copyBy(session, stream, dataOf(stage) as DeviceBuffer, memoryOf(stage, `word of ${side}`))
            },
          },
        ]
      : [],
}
