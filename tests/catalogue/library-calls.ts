/** Calls of the entry points for other libraries, and of cuda-streams/sim: rows of the matrix. */
import assert from 'node:assert/strict'
import { type DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import { fromCudaArrayInterface, fromDLPack, toCudaArrayInterface, toDLPack } from 'cuda-streams/dlpack'
import { Communicator, group, ncclVersion, uniqueId } from 'cuda-streams/nccl'
import { busy, destroyForeignStream, foreignStream, latch } from 'cuda-streams/sim'
import { aboutLibraries } from '../libraries/about-libraries.js'
import { lackOf, mayWait } from '../libraries/about-library.js'
import type { Call } from './call.js'
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

/** The first send between two ranks connects them, which no strict capture allows: docs/nccl.md. */
async function connect(communicator: Communicator, { device }: Scene): Promise<void> {
  using stream = device.createStream()
  using from = device.alloc(4, { stream })
  using to = device.alloc(4, { stream })
  const plain = { type: 'u32', stream, peer: 0 } as const
  group(() => communicator.send(from, plain).recv(to, plain))
  await stream.finished()
}

const sent = { name: 'source', takes: 'of the device' as const }
const received = { name: 'destination', takes: 'of the device' as const, becomes: (scene: Scene) => scene.wordRead(1) }
const onPerThread = ({ situation }: Scene): readonly string[] =>
  situation.stream === 'per-thread' ? ['ERR_UNSUPPORTED'] : []

/** One rank alone: what it sends it receives. */
function collective(
  member: string,
  make: (communicator: Communicator, scene: Scene, to: DeviceBuffer, from: DeviceBuffer) => unknown,
): Call {
  return {
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
    prepare: async (scene) => {
      const communicator = await communicatorFor(scene)
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      return () => make(communicator, scene, to, from)
    },
  }
}

const options = ({ stream }: Scene) => ({ type: 'u32', stream }) as const

const ncclCalls: readonly Call[] = [
  collective('allReduce', (one, scene, to, from) => one.allReduce(from, to, options(scene))),
  ...[
    collective('broadcast', (one, scene, to, from) => one.broadcast(from, to, options(scene))),
    collective('reduce', (one, scene, to, from) => one.reduce(from, to, options(scene))),
    collective('allGather', (one, scene, to, from) => one.allGather(from, to, options(scene))),
    collective('reduceScatter', (one, scene, to, from) => one.reduceScatter(from, to, options(scene))),
  ].map((call) => ({ ...call, slow: true })),
  {
    ...collective('send', (one, scene, to, from) =>
      group(() => one.send(from, { ...options(scene), peer: 0 }).recv(to, { ...options(scene), peer: 0 })),
    ),
    name: 'group() of communicator.send() and recv()',
    members: ['Communicator#send', 'Communicator#recv', 'group'],
  },
  {
    name: 'communicator.finished()',
    members: ['Communicator#finished'],
    act: 'makes',
    lacks: needsNccl,
    prepare: async (scene) => {
      const communicator = await communicatorFor(scene)
      return () => communicator.finished()
    },
  },
  {
    name: 'Communicator.create() and close()',
    members: [
      'Communicator.create',
      'Communicator#close',
      'Communicator#[Symbol.asyncDispose]',
      'uniqueId',
      'ncclVersion',
    ],
    act: 'makes',
    slow: true,
    lacks: needsNccl,
    prepare:
      ({ device }) =>
      () => {
        const id = device.run(() => uniqueId())
        return Communicator.create({ id, rank: 0, size: 1, device }).then((made) => made.close())
      },
  },
  {
    name: 'Communicator.createAll() and abort()',
    members: ['Communicator.createAll', 'Communicator#abort'],
    act: 'makes',
    slow: true,
    lacks: needsNccl,
    prepare:
      ({ device }) =>
      () =>
        Communicator.createAll([device]).then(([made]) => made?.abort()),
  },
]

const lent = { name: 'buffer', takes: 'of the device' as const }
const WORD_ELEMENTS = { dtype: 'u32', shape: [1] } as const

/** Export and import of memory on the stream: neither can be captured. */
function dlpack(name: string, members: readonly string[], act: (buffer: DeviceBuffer, scene: Scene) => unknown): Call {
  return {
    name,
    members,
    act: 'is not captured',
    memory: [lent],
    prepare: (scene) => () => {
      const buffer = scene.buffer(0)
      // Handed out as memory of the host, without a stream: tests/libraries/dlpack.
      if (buffer instanceof PinnedBuffer) return toCudaArrayInterface(buffer as never, WORD_ELEMENTS)
      return act(buffer, scene)
    },
  }
}

const dlpackCalls: readonly Call[] = [
  dlpack(
    'toDLPack() and release()',
    ['toDLPack', 'DLPackTensor#release', 'DLPackTensor#released'],
    (buffer, { stream }) => {
      const tensor = toDLPack(buffer, { ...WORD_ELEMENTS, stream })
      tensor.release()
      return tensor.released
    },
  ),
  dlpack('fromDLPack()', ['fromDLPack'], (buffer, { stream }) => {
    const tensor = toDLPack(buffer, { ...WORD_ELEMENTS, stream: null })
    try {
      fromDLPack(tensor, { stream }).buffer.close()
    } finally {
      tensor.release()
    }
  }),
  dlpack('toCudaArrayInterface()', ['toCudaArrayInterface'], (buffer, { stream }) => {
    return toCudaArrayInterface(buffer, { ...WORD_ELEMENTS, stream })
  }),
  dlpack('fromCudaArrayInterface()', ['fromCudaArrayInterface'], (buffer, { stream }) => {
    const dict = toCudaArrayInterface(buffer, { ...WORD_ELEMENTS, stream: null })
    fromCudaArrayInterface(dict, { stream, owner: buffer }).buffer.close()
  }),
]

const onlySimulated: NonNullable<Call['lacks']> = ({ bench }) =>
  bench.name === 'sim' ? undefined : 'only the simulator offers it'

const simCalls: readonly Call[] = [
  {
    name: 'busy(stream)',
    members: ['busy'],
    act: 'queues',
    takesRoom: 'on both drivers',
    lacks: onlySimulated,
    prepare: (scene) => () => busy(scene.stream, 1000),
  },
  {
    name: 'latch(stream)',
    members: ['latch'],
    act: 'queues',
    takesRoom: 'on both drivers',
    lacks: onlySimulated,
    // It stands until it is opened, and a graph is launched many times.
    refuses: ({ situation: { capture } }) =>
      capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : [],
    prepare: (scene) => () => latch(scene.stream).open(),
  },
  {
    name: 'foreignStream() and destroyForeignStream()',
    members: ['foreignStream', 'destroyForeignStream'],
    act: 'makes',
    lacks: onlySimulated,
    prepare: (scene) => () => destroyForeignStream(foreignStream(scene.device)),
  },
]

export const libraryCalls: readonly Call[] = [
  ...aboutLibraries.flatMap(({ calls }) => calls),
  ...dlpackCalls,
  ...ncclCalls,
  ...simCalls,
]
