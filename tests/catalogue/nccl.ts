/** cuda-streams/nccl. */
import assert from 'node:assert/strict'
import { type DeviceBuffer, Stream } from 'cuda-streams'
import { Communicator, type CommunicatorOptions, group, ncclVersion, uniqueId } from 'cuda-streams/nccl'
import { lackOf, mayWait } from '../libraries/about-library.js'
import { type Call, type Options, onlySimulated, withOptions } from './call.js'
import type { Scene } from './scene.js'

/** What NCCL queues is its own affair; on the simulator a rank reads, then writes. */
const nodesOfRank = ({ bench }: Scene): number | undefined => (bench.name === 'sim' ? 2 : undefined)

const needsNccl: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('NCCL', () => lackOf(() => lab.device.run(() => ncclVersion())))

async function communicatorFor(scene: Scene): Promise<Communicator> {
  const { lab, device } = scene
  const make = async (): Promise<Communicator> => {
    const [made] = await Communicator.createAll([device])
    assert.ok(made !== undefined)
    await connect(made, scene)
    return made
  }
  let communicator = await lab.once('a communicator', make)
  if (communicator.closed) {
    lab.forget('a communicator')
    communicator = await lab.once('a communicator', make)
  }
  // abort() ends it at once; the promise is for those who make another.
  scene.closers.set('the communicator', () => void communicator.abort())
  return communicator
}

/** The first send between two ranks connects them, which no strict capture allows: docs/guides/nccl.md. */
async function connect(communicator: Communicator, { device }: Scene): Promise<void> {
  using stream = new Stream({ device })
  using from = device.alloc(4, { stream })
  using to = device.alloc(4, { stream })
  const plain = { type: 'u32', peer: 0 } as const
  group(() => communicator.send(stream, from, plain).recv(stream, to, plain))
  await stream.finished()
}

const sent = { name: 'source', takes: 'of the device' as const }

const received = { name: 'destination', takes: 'of the device' as const, becomes: (scene: Scene) => scene.wordRead(1) }

const onPerThread = ({ situation }: Pick<Scene, 'situation'>): readonly string[] =>
  situation.stream === 'per-thread' ? ['ERR_UNSUPPORTED'] : []

/** One rank alone: what it sends it receives. */
function collective<T extends Options['values']>(
  member: string,
  values: T,
  make: (
    communicator: Communicator,
    stream: Stream,
    options: { readonly [Name in keyof T]: ReturnType<T[Name]> },
    to: DeviceBuffer,
    from: DeviceBuffer,
  ) => unknown,
): Call {
  return withOptions({
    name: `communicator.${member}()`,
    members: [`Communicator#${member}`],
    act: 'queues by a library',
    waits: mayWait,
    memory: [received, sent],
    nodes: nodesOfRank,
    hasThreads: true,
    takesRoom: 'on both drivers',
    uses: ['the communicator'],
    lacks: needsNccl,
    refuses: onPerThread,
    options: { values, lacks: onlySimulated },
    prepare: async (scene) => {
      const communicator = await communicatorFor(scene)
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      const own = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value(scene)]))
      return (options = own as never) => make(communicator, scene.stream, options, to, from)
    },
  })
}

const PLAIN = { type: () => 'u32' as const }

const REDUCED = { ...PLAIN, op: () => 'sum' as const }

const ROOTED = { root: () => 0 }

const SENT = { ...PLAIN, peer: () => 0 }

const OF_RANKS = 'it is about ranks, of which each has a process: tests/libraries and tests/processes'

const signal = () => new AbortController().signal

export const ncclCalls: readonly Call[] = [
  collective('allReduce', REDUCED, (one, on, options, to, from) => one.allReduce(on, from, to, options)),
  ...[
    collective('broadcast', { ...PLAIN, ...ROOTED }, (one, on, options, to, from) =>
      one.broadcast(on, from, to, options),
    ),
    collective('reduce', { ...REDUCED, ...ROOTED }, (one, on, options, to, from) => one.reduce(on, from, to, options)),
    collective('allGather', PLAIN, (one, on, options, to, from) => one.allGather(on, from, to, options)),
    collective('reduceScatter', REDUCED, (one, on, options, to, from) => one.reduceScatter(on, from, to, options)),
  ].map((call) => ({ ...call, slow: true })),
  ...(['send', 'recv'] as const).map(
    (member): Call => ({
      ...collective(member, SENT, (one, on, options, to, from) =>
        group(() => {
          // First the one whose options they are: it may be refused.
          if (member === 'send') one.send(on, from, options).recv(on, to, { ...options })
          else one.recv(on, to, options).send(on, from, { ...options })
        }),
      ),
      name: `group() of communicator.send() and recv(), ${member} first`,
      members: [`Communicator#${member}`, 'group'],
    }),
  ),
  withOptions({
    name: 'communicator.finished()',
    members: ['Communicator#finished'],
    act: 'makes',
    lacks: needsNccl,
    options: { values: { signal }, apart: OF_RANKS },
    prepare: async (scene) => {
      const communicator = await communicatorFor(scene)
      return (options) => communicator.finished(options)
    },
  }),
  withOptions({
    name: 'communicator.close()',
    members: ['Communicator#close', 'Communicator#[Symbol.asyncDispose]'],
    act: 'makes',
    slow: true,
    lacks: needsNccl,
    options: { values: { signal }, apart: OF_RANKS },
    prepare: async (scene) => {
      const [communicator] = await Communicator.createAll([scene.device])
      return (options) => communicator?.close(options)
    },
  }),
  withOptions({
    name: 'Communicator.create() and close()',
    members: ['Communicator.create', 'uniqueId', 'ncclVersion'],
    act: 'makes',
    slow: true,
    lacks: needsNccl,
    options: {
      values: {
        id: ({ device }) => device.run(() => uniqueId()),
        rank: () => 0,
        size: () => 1,
        device: ({ device }) => device,
        timeout: () => 1000,
        signal,
      },
      apart: OF_RANKS,
    },
    prepare:
      ({ device }) =>
      (options) => {
        const given: CommunicatorOptions = options ?? { id: device.run(() => uniqueId()), rank: 0, size: 1, device }
        return Communicator.create(given).then((made) => made.close())
      },
  }),
  withOptions({
    name: 'Communicator.createAll() and abort()',
    members: ['Communicator.createAll', 'Communicator#abort'],
    act: 'makes',
    slow: true,
    lacks: needsNccl,
    options: { values: { timeout: () => 1000, signal }, apart: OF_RANKS },
    prepare:
      ({ device }) =>
      (options) =>
        Communicator.createAll([device], options).then(([made]) => made?.abort()),
  }),
]
