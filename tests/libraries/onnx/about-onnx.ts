/** What tests of all of the package know of cuda-streams/onnx. */
import type { DeviceBuffer, Stream } from 'cuda-streams'
import * as module from 'cuda-streams/onnx'
import { type RunBuffers, Session, type SessionOptions } from 'cuda-streams/onnx'
import { checkTensors } from '../../../src/libraries/onnx/tensors.js'
import { type Call, onlySimulated, withOptions } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import type { Stage } from '../../tools/sanitizer/pairs/pairs.js'
import { type AboutLibrary, lackOf, mayWait, nodes } from '../about-library.js'
import { identity } from './models.js'
import { copyBy, IDENTITY, lacksOnnxRuntime, preferCachedOnnxRuntime, sessionNow } from './runtime.js'

preferCachedOnnxRuntime()

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('ONNX Runtime', () => lackOf(async () => (await Session.load(IDENTITY, { device: lab.device })).close()))

/** Without it there are no objects to be tried. */
const isHere = lacksOnnxRuntime() === false

const refuses = ({ situation: { capture } }: Pick<Scene, 'situation'>): readonly string[] =>
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

const COPIED: NonNullable<Call['memory']> = [
  { name: 'destination', takes: 'of the device', becomes: (scene) => scene.wordRead(1) },
  { name: 'source', takes: 'of the device' },
]

const calls: readonly Call[] = [
  {
    name: 'session.run()',
    members: ['Session#run'],
    act: 'queues by a library',
    waits: mayWait,
    memory: COPIED,
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
  withOptions({
    name: 'session.run() of a tensor with a shape',
    members: ['Session#run'],
    act: 'queues by a library',
    apart: 'its row is that of session.run()',
    memory: COPIED,
    uses: ['the session'],
    lacks,
    options: {
      values: { buffer: (scene) => scene.buffer(1) as DeviceBuffer, shape: () => [BYTES] },
      isNested: true,
      lacks: (scene) => onlySimulated(scene) ?? lacks(scene),
    },
    prepare: async (scene) => {
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      // What a run does first, which needs no session.
      if (!isHere)
        return (tensor: RunBuffers[string] = from) => checkTensors(identity, { from: tensor }, { to }, scene.stream)
      const session = await sessionOf(scene)
      return (tensor: RunBuffers[string] = from) => session.run(scene.stream, { from: tensor }, { to })
    },
  }),
  withOptions({
    name: 'Session.load() and session.close()',
    members: ['Session.load', 'Session#close', 'Session#[Symbol.dispose]'],
    act: 'makes',
    slow: true,
    hasThreads: true,
    lacks,
    options: {
      values: {
        ...{ stream: ({ stream }: Scene) => stream, device: ({ device }: Scene) => device },
        ...{ tensorrt: () => false, graphs: () => false },
      },
      lacks: (scene) => onlySimulated(scene) ?? lacks(scene),
    },
    prepare:
      ({ device }) =>
      (options: SessionOptions = { device }) =>
        Session.load(IDENTITY, options).then((session) => session.close()),
  }),
]

/** The session of one side of a program. */
function sessionOn({ keep }: Stage, side: string, stream: Stream): Session {
  const key = `session of ${side}`
  const session = (keep.get(key) as Session | undefined) ?? sessionNow(stream)
  keep.set(key, session)
  return session
}

export const about: AboutLibrary = {
  module,
  objects: (stream) => (isHere ? [sessionNow(stream)] : []),
  absent: isHere ? [] : [Session as unknown as { readonly name: string; readonly prototype: object }],
  calls,
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
