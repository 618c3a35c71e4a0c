/** Calls of cuda-streams/cublas, cuda-streams/nccl and cuda-streams/sim: rows of the matrix. */
import assert from 'node:assert/strict'
import { type DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { fromCudaArrayInterface, fromDLPack, toCudaArrayInterface, toDLPack } from 'cuda-streams/dlpack'
import { Communicator, group, ncclVersion, uniqueId } from 'cuda-streams/nccl'
import { busy, destroyForeignStream, foreignStream, latch } from 'cuda-streams/sim'
import type { Call } from './call.js'
import { BYTES } from './lab.js'
import type { Scene } from './scene.js'

/** 1 and 16 as f32: a product of two matrices of 16 x 16 ones. */
const ONE = 0x3f800000
const SIXTEEN = 0x41800000
const SHAPE = { type: 'f32', m: 16, n: 16, k: 16 } as const

/** What cuBLAS and NCCL queue is their own affair; on the simulator a product is one host implementation, and a rank reads, then writes. */
const nodes = ({ bench }: Scene): number | undefined => (bench.name === 'sim' ? 1 : undefined)
const nodesOfRank = ({ bench }: Scene): number | undefined => (bench.name === 'sim' ? 2 : undefined)

/** What a library needs is found out by the first use of it. */
async function lackOf(use: () => unknown): Promise<string | undefined> {
  try {
    await use()
    return undefined
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'ERR_UNSUPPORTED') throw error
    return String((error as Error).message)
  }
}

/** The libraries of a machine with a GPU do nothing on a fake one. */
const needsCublas: NonNullable<Call['lacks']> = ({ lab }) =>
  isFakeDriver()
    ? 'a fake GPU has no cuBLAS'
    : lab.once('cuBLAS', () => lackOf(() => new Cublas(lab.allocationStream).close()))
const needsNccl: NonNullable<Call['lacks']> = ({ lab }) =>
  isFakeDriver() ? 'a fake GPU has no NCCL' : lab.once('NCCL', () => lackOf(() => lab.device.run(() => ncclVersion())))

const matrix = (name: string) => ({ name, word: ONE, takes: 'of the device' as const })
const product = { name: 'product', word: 0, becomes: () => SIXTEEN, takes: 'of the device' as const }

function matrices(scene: Scene): readonly [DeviceBuffer, DeviceBuffer, DeviceBuffer] {
  return [scene.buffer(0), scene.buffer(1), scene.buffer(2)] as [DeviceBuffer, DeviceBuffer, DeviceBuffer]
}

/** cuBLAS on the stream, which has computed such a product before: the first of its kind may load code. */
function warmCublas(
  scene: Scene,
  kind: string,
  warm: (cublas: Cublas, buffers: readonly [DeviceBuffer, DeviceBuffer]) => void,
): Cublas {
  const cublas = scene.keep(new Cublas(scene.stream))
  scene.closers.set('the Cublas', () => cublas.close())
  const { lab, device, stream } = scene
  lab.once(kind, () => {
    const buffers = [0, 1].map(() => device.alloc(BYTES, { stream })) as [DeviceBuffer, DeviceBuffer]
    warm(cublas, buffers)
    for (const buffer of buffers) buffer.close()
  })
  return cublas
}

/** So many products of a kind of their own. */
let newKinds = 0

const cublasCalls: readonly Call[] = [
  {
    name: 'cublas.gemm() of a kind that was not computed before',
    members: [],
    act: 'queues by a library',
    slow: true,
    waits: 'loading',
    nodes,
    lacks: needsCublas,
    prepare: (scene) => {
      const { device, stream, lab } = scene
      const cublas = scene.keep(new Cublas(stream))
      newKinds += 1
      const size = 8 + newKinds
      const [a, b, c] = [0, 0, 0].map(() => scene.keep(device.alloc(4 * size, { stream: lab.allocationStream })))
      assert.ok(a !== undefined && b !== undefined && c !== undefined)
      return () => cublas.gemm(a, b, c, { type: 'f32', m: 1, n: size, k: 1 })
    },
  },
  {
    name: 'new Cublas(), cublas.version and cublas.close()',
    members: ['new Cublas', 'Cublas#version', 'Cublas#close', 'Cublas#[Symbol.dispose]'],
    act: 'makes',
    waits: ({ bench }) => (bench.name === 'sim' ? undefined : 'perhaps'),
    lacks: needsCublas,
    prepare: (scene) => () => {
      using cublas = new Cublas(scene.stream)
      const { version } = cublas
      cublas.close()
      return version
    },
  },
  {
    name: 'cublas.gemm()',
    members: ['Cublas#gemm'],
    act: 'queues by a library',
    waits: ({ bench }) => (bench.name === 'sim' ? undefined : 'perhaps'),
    memory: [matrix('matrix A'), matrix('matrix B'), product],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Cublas'],
    lacks: needsCublas,
    prepare: (scene) => {
      const cublas = warmCublas(scene, 'a product', (one, [a, c]) => one.gemm(a, a, c, SHAPE))
      const [a, b, c] = matrices(scene)
      return () => cublas.gemm(a, b, c, SHAPE)
    },
  },
  {
    name: 'cublas.gemmStridedBatched()',
    members: ['Cublas#gemmStridedBatched'],
    act: 'queues by a library',
    waits: ({ bench }) => (bench.name === 'sim' ? undefined : 'perhaps'),
    memory: [matrix('matrix A'), matrix('matrix B'), product],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Cublas'],
    lacks: needsCublas,
    slow: true,
    prepare: (scene) => {
      const cublas = warmCublas(scene, 'a batch', (one, [a, c]) =>
        one.gemmStridedBatched(a, a, c, { ...SHAPE, batchCount: 1 }),
      )
      const [a, b, c] = matrices(scene)
      return () => cublas.gemmStridedBatched(a, b, c, { ...SHAPE, batchCount: 1 })
    },
  },
]

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
    waits: ({ bench }) => (bench.name === 'sim' ? undefined : 'perhaps'),
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
    act: 'allocates',
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

export const libraryCalls: readonly Call[] = [...cublasCalls, ...dlpackCalls, ...ncclCalls, ...simCalls]

import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
