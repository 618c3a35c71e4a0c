/** Memory: buffers and pools, and work that moves bytes. */
import assert from 'node:assert/strict'
import {
  type AllocOptions,
  DeviceBuffer,
  type ExternalMemory,
  type ExternalWork,
  type FillOptions,
  type ForeignPoolOptions,
  MemoryPool,
  type MemoryPoolOptions,
  PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { type Call, closing, onlySimulated, withOptions } from './call.js'
import { BYTES, WORDS } from './lab.js'
import type { Scene } from './scene.js'
import { ANOTHER_PROCESS, destination, OWNED, source } from './values.js'

const UPLOADED = 0x55555555

const FILLED = 0x44444444

const FILLED_BYTE = 0x44

/** What is uploaded; the array is written over as soon as the call is back, since it may be reused at once. */
const array = (): Uint32Array => new Uint32Array(WORDS).fill(UPLOADED)

const checkArray = (bytes: Uint8Array, word: number): void => {
  assert.equal(bytes.byteLength, BYTES)
  assert.ok(
    new Uint32Array(bytes.buffer, bytes.byteOffset, WORDS).every((each) => each === word),
    'what was downloaded is not what the buffer held when its turn had come',
  )
}

const LARGE = 18 * 2 ** 20

const LARGE_BYTE = 0x5a

function largeBuffer(scene: Scene): DeviceBuffer {
  const buffer = scene.keep(scene.device.alloc(LARGE, { stream: scene.lab.allocationStream }))
  scene.closers.set('the large buffer', () => buffer.close())
  return buffer
}

function checkLarge(bytes: Uint8Array): void {
  assert.equal(bytes.length, LARGE)
  // Every byte is the one before it, and the first is right. JavaScript takes hundreds of milliseconds to look at each.
  const areAlike = Buffer.compare(bytes.subarray(1), bytes.subarray(0, -1)) === 0
  if (areAlike && bytes[0] === LARGE_BYTE) return
  assert.fail(`byte ${bytes.findIndex((byte) => byte !== LARGE_BYTE)} was not moved`)
}

const ROWS = {
  shape: () => [8, BYTES / 8] as const,
  destinationStrides: () => [BYTES / 8],
  sourceStrides: () => [BYTES / 8],
}

const OF_ARRAYS = {
  shape: () => [2, 4] as const,
  format: () => 'u8' as const,
  channels: () => 4 as const,
  layered: () => true,
  cubemap: () => false,
  surface: () => true,
  gather: () => false,
}

const OF_TEXTURES = {
  addressMode: () => 'border' as const,
  filterMode: () => 'linear' as const,
  readMode: () => 'normalizedFloat' as const,
  normalizedCoordinates: () => true,
  borderColor: () => [0, 0, 0, 1],
  sRGB: () => true,
  format: () => 'u8' as const,
  channels: () => 4 as const,
  shape: () => [2, 16] as const,
  pitch: () => 64,
}

const piecesOf = (scene: Scene) => [
  { buffer: scene.buffer(0), access: 'out' as const },
  { buffer: scene.buffer(1), access: 'in' as const },
]

const copyBytes = ([written, read]: readonly Uint8Array[]) => written?.set(read ?? [])

const moving: readonly Call[] = [
  {
    name: 'stream.copy()',
    members: ['Stream#copy'],
    act: 'queues',
    memory: [destination, source],
    takesRoom: 'on both drivers',
    prepare: (scene) => () => scene.stream.copy(scene.buffer(0), scene.buffer(1)),
  },
  withOptions({
    name: 'stream.copy() of rows',
    members: ['Stream#copy'],
    options: { values: ROWS },
    act: 'queues',
    memory: [destination, source],
    takesRoom: 'on both drivers',
    prepare: (scene) => {
      const [shape, destinationStrides, sourceStrides] = [ROWS.shape(), ROWS.destinationStrides(), ROWS.sourceStrides()]
      const rows = { shape, destinationStrides, sourceStrides }
      return (options = rows) => scene.stream.copy(scene.buffer(0), scene.buffer(1), options)
    },
  }),
  {
    name: 'stream.copy() of planes, every other row and then the rest',
    members: [],
    act: 'queues',
    memory: [destination, source],
    takesRoom: 'on both drivers',
    nodes: () => 2,
    prepare: (scene) => {
      const rowLength = BYTES / 16
      const strides = [8 * rowLength, 2 * rowLength]
      const options = { shape: [2, 4, rowLength], destinationStrides: strides, sourceStrides: strides } as const
      const rest = BYTES - rowLength
      return () => {
        const [to, from] = [scene.buffer(0), scene.buffer(1)]
        scene.stream.copy(to, from, options)
        scene.stream.copy(to.subarray(rowLength, rowLength + rest), from.subarray(rowLength, rowLength + rest), options)
      }
    },
  },
  {
    name: 'stream.copy(pairs)',
    members: [],
    act: 'queues',
    memory: [destination, source],
    takesRoom: 'on both drivers',
    nodes: () => 2,
    prepare: (scene) => () => {
      const [to, from] = [scene.buffer(0), scene.buffer(1)]
      const half = BYTES / 2
      return scene.stream.copy([
        [to.subarray(0, half), from.subarray(0, half)],
        [to.subarray(half, 2 * half), from.subarray(half, 2 * half)],
      ])
    },
  },
  withOptions({
    name: 'stream.fill()',
    members: ['Stream#fill'],
    act: 'queues',
    memory: [{ name: 'destination', becomes: () => FILLED }],
    takesRoom: 'on both drivers',
    options: {
      values: {
        width: () => 4 as const,
        type: () => undefined,
        shape: () => [8, BYTES / 8] as const,
        strides: () => [BYTES / 8] as const,
      },
    },
    prepare:
      (scene) =>
      (options: FillOptions = { width: 4 }) =>
        scene.stream.fill(scene.buffer(0), FILLED, options),
  }),
  ...([1, 2] as const).map(
    (width): Call => ({
      name: `stream.fill() of width ${width}`,
      members: ['Stream#fill'],
      act: 'queues',
      memory: [{ name: 'destination', becomes: () => FILLED }],
      takesRoom: 'on both drivers',
      prepare: (scene) => () => scene.stream.fill(scene.buffer(0), width === 1 ? FILLED_BYTE : 0x4444, { width }),
    }),
  ),
  {
    name: 'stream.fill() of every other row and then the rest',
    members: [],
    act: 'queues',
    memory: [{ name: 'destination', becomes: () => FILLED }],
    takesRoom: 'on both drivers',
    nodes: () => 2,
    prepare: (scene) => {
      const rowLength = BYTES / 8
      const options = { width: 4, shape: [4, rowLength], strides: [2 * rowLength] } as const
      return () => {
        const to = scene.buffer(0)
        scene.stream.fill(to, FILLED, options).fill(to.subarray(rowLength, BYTES), FILLED, options)
      }
    },
  },
  {
    name: 'stream.upload()',
    members: ['Stream#upload'],
    act: 'is not captured',
    memory: [{ name: 'destination', becomes: () => UPLOADED }],
    takesRoom: 'on both drivers',
    prepare: (scene) => () => {
      const words = array()
      const promise = scene.stream.upload(scene.buffer(0), words)
      words.fill(0)
      return promise
    },
  },
  {
    name: 'stream.bufferFrom()',
    members: ['Stream#bufferFrom'],
    act: 'is not captured',
    takesRoom: 'on both drivers',
    prepare: (scene) => () => scene.keep(scene.stream.bufferFrom(array())).pointer,
  },
  withOptions({
    name: 'stream.download()',
    members: ['Stream#download'],
    act: 'is not captured',
    memory: [source],
    takesRoom: 'on both drivers',
    options: { values: { signal: () => new AbortController().signal } },
    prepare:
      (scene) =>
      (options = { signal: new AbortController().signal }) =>
        scene.stream.download(scene.buffer(0), options),
    answers: (scene, value) => checkArray(value as Uint8Array, scene.wordRead(0)),
  }),
  {
    name: 'stream.download(buffer, constructor)',
    members: [],
    act: 'is not captured',
    memory: [source],
    takesRoom: 'on both drivers',
    prepare: (scene) => () => scene.stream.download(scene.buffer(0), Int32Array),
    answers: (scene, value) => {
      assert.ok(value instanceof Int32Array)
      checkArray(new Uint8Array(value.buffer), scene.wordRead(0))
    },
  },
  {
    name: 'stream.download(buffer, array)',
    members: [],
    act: 'is not captured',
    memory: [source],
    takesRoom: 'on both drivers',
    uses: ['the array'],
    closedCodes: ['ERR_INVALID_ARG_VALUE', 'ERR_OUT_OF_RANGE'],
    prepare: (scene) => {
      const bytes = new Uint8Array(BYTES)
      scene.closers.set('the array', () => void structuredClone(bytes.buffer, { transfer: [bytes.buffer] }))
      return () => scene.stream.download(scene.buffer(0), bytes)
    },
    answers: (scene, value) => checkArray(value as Uint8Array, scene.wordRead(0)),
  },
  {
    name: 'stream.uploader()',
    members: ['Stream#uploader'],
    act: 'makes',
    memory: [{ name: 'destination', becomes: () => UPLOADED }],
    // What is written in the turns of the event loop that follow is no part of a capture any more.
    prepare: (scene) => () => {
      const writer = scene.stream.uploader(scene.buffer(0)).getWriter()
      const half = BYTES / 8
      return Promise.all([writer.write(array().subarray(half)), writer.write(array().subarray(half)), writer.close()])
    },
  },
  withOptions({
    name: 'stream.downloader()',
    members: ['Stream#downloader'],
    act: 'makes',
    memory: [source],
    options: { values: { chunkBytes: () => BYTES } },
    prepare:
      (scene) =>
      async (options = { chunkBytes: BYTES / 2 }) => {
        const chunks: Uint8Array[] = []
        for await (const chunk of scene.stream.downloader(scene.buffer(0), options)) chunks.push(chunk)
        return Uint8Array.from(chunks.flatMap((chunk) => [...chunk]))
      },
    answers: (scene, value) => checkArray(value as Uint8Array, scene.wordRead(0)),
  }),
  {
    name: 'stream.upload() of more than the staging memory holds',
    members: [],
    act: 'is not captured',
    slow: true,
    takesRoom: 'on both drivers',
    uses: ['the large buffer', 'the array'],
    closedCodes: ['ERR_INVALID_ARG_VALUE'],
    prepare: (scene) => {
      const buffer = largeBuffer(scene)
      const bytes = new Uint8Array(LARGE).fill(LARGE_BYTE)
      scene.closers.set('the array', () => void structuredClone(bytes.buffer, { transfer: [bytes.buffer] }))
      return () => scene.stream.upload(buffer, bytes).then(() => buffer)
    },
    answers: async ({ lab: { allocationStream } }, value) => {
      const buffer = value as DeviceBuffer
      if (!buffer.closed) checkLarge(await allocationStream.download(buffer))
    },
  },
  {
    name: 'stream.download() of more than the staging memory holds',
    members: [],
    act: 'is not captured',
    slow: true,
    takesRoom: 'on both drivers',
    uses: ['the large buffer'],
    prepare: (scene) => {
      const buffer = largeBuffer(scene)
      scene.lab.allocationStream.fill(buffer, LARGE_BYTE)
      return () => scene.stream.download(buffer)
    },
    answers: (_scene, value) => checkLarge(value as Uint8Array),
  },
  withOptions({
    name: 'stream.external()',
    members: ['Stream#external'],
    act: 'queues',
    memory: [destination, source],
    takesRoom: 'on both drivers',
    options: {
      values: {
        name: () => 'another library',
        memory: piecesOf,
        simulate: () => copyBytes,
        nanoseconds: () => 1000,
      },
      lacks: onlySimulated,
    },
    prepare: (scene) => {
      const [to, from] = [scene.buffer(0), scene.buffer(1)]
      const theirs = { name: 'another library', memory: piecesOf(scene), simulate: copyBytes }
      // In the place of another library on a GPU.
      return (work: ExternalWork = theirs) => scene.stream.external(work, () => void scene.stream.copy(to, from))
    },
  }),
  withOptions({
    name: 'stream.external() of one piece of memory',
    members: ['Stream#external'],
    act: 'queues',
    memory: [{ name: 'destination', becomes: () => FILLED }],
    takesRoom: 'on both drivers',
    options: {
      values: { buffer: (scene) => scene.buffer(0), access: () => 'out' as const },
      isNested: true,
      lacks: onlySimulated,
    },
    prepare: (scene) => {
      const simulate = ([bytes]: readonly Uint8Array[]) => bytes?.fill(FILLED_BYTE)
      const all = { buffer: scene.buffer(0), access: 'out' as const }
      return (piece: ExternalMemory = all) =>
        scene.stream.external({ name: 'another library', memory: [piece], simulate }, () => {
          scene.stream.fill(piece.buffer, FILLED_BYTE)
        })
    },
  }),
]

const buffers: readonly Call[] = [
  {
    name: 'device.alloc()',
    members: ['Device#alloc'],
    // Beside captures that the null stream would wait for it takes another stream.
    act: 'makes',
    on: 'null',
    prepare: (scene) => () => scene.keep(scene.device.alloc(BYTES)).pointer,
  },
  withOptions({
    name: 'device.alloc(length, { stream })',
    members: ['Device#alloc'],
    act: 'allocates',
    options: {
      values: {
        stream: ({ stream }) => stream,
        interprocess: () => false,
        pool: ({ device }) => device.memoryPool,
      },
    },
    prepare:
      (scene) =>
      (options: AllocOptions = { stream: scene.stream }) =>
        scene.keep(scene.device.alloc(BYTES, options)).pointer,
  }),
  {
    name: 'device.alloc(length, { stream }), and a fill of it',
    members: [],
    act: 'allocates',
    nodes: () => 1,
    prepare: (scene) => () => {
      const buffer = scene.keep(scene.device.alloc(BYTES, { stream: scene.stream }))
      return scene.stream.fill(buffer, 1) === scene.stream
    },
    answers: (_scene, value) => assert.equal(value, true),
  },
  {
    name: 'device.alloc(length, { stream, pool })',
    members: [],
    act: 'allocates',
    prepare: (scene) => {
      const pool = scene.keep(new MemoryPool({ device: scene.device }))
      return () => scene.keep(scene.device.alloc(BYTES, { stream: scene.stream, pool })).pointer
    },
  },
  withOptions({
    name: 'new MemoryPool()',
    members: ['new MemoryPool'],
    act: 'makes',
    options: {
      values: { device: ({ device }) => device, releaseThreshold: () => 0, maxBytes: () => 2 ** 20 },
    },
    prepare:
      (scene) =>
      (options: MemoryPoolOptions = { device: scene.device }) =>
        scene.keep(new MemoryPool(options)).handle,
  }),
  withOptions({
    name: 'MemoryPool.from()',
    members: ['MemoryPool.from', 'MemoryPool#handle'],
    act: 'makes',
    options: { values: OWNED, closedCodes: ['ERR_INVALID_HANDLE'] },
    prepare: (scene) => {
      const { handle } = scene.keep(new MemoryPool({ device: scene.device }))
      return (options: ForeignPoolOptions = { device: scene.device }) =>
        scene.keep(MemoryPool.from(handle, options)).handle - handle
    },
    answers: (_scene, value) => assert.equal(value, 0n),
  }),
  {
    name: 'new MemoryPool(), its figures, and pool.close()',
    members: [
      ...['new MemoryPool', 'Device#memory', 'Device#memoryPool'],
      ...['releaseThreshold', 'used', 'peakUsed', 'reserved', 'peakReserved', 'resetPeaks', 'trim', 'close'].map(
        (name) => `MemoryPool#${name}`,
      ),
      'MemoryPool#[Symbol.dispose]',
    ],
    act: 'makes',
    prepare: (scene) => () => {
      const { device } = scene
      const pools = [scene.keep(new MemoryPool({ device, maxBytes: 2 ** 20 })), device.memoryPool]
      const figures = pools.map((pool) => {
        pool.releaseThreshold = Number.POSITIVE_INFINITY
        pool.trim().resetPeaks()
        return pool.peakUsed - pool.used + pool.peakReserved - pool.reserved
      })
      for (const pool of pools) pool.close()
      return [...figures, Math.sign(device.memory.total - device.memory.free)]
    },
    answers: (_scene, value) => assert.deepEqual((value as readonly number[]).slice(0, 2), [0, 0]),
  },
  {
    name: 'pool.close() and buffer.close() of memory that it lent behind the host function',
    members: [],
    act: 'makes',
    withoutStream: true,
    prepare: (scene) => {
      const pool = scene.keep(new MemoryPool({ device: scene.device }))
      const buffer = scene.keep(scene.device.alloc(BYTES, { stream: scene.stream, pool }))
      scene.stream.fill(buffer, 1)
      return () => {
        pool.close()
        buffer.close()
      }
    },
  },
  {
    name: 'device.alloc(length, { interprocess: true })',
    members: [],
    act: 'makes',
    prepare: (scene) => () => scene.keep(scene.device.alloc(BYTES, { interprocess: true })).pointer,
  },
  withOptions({
    name: 'PinnedBuffer.from()',
    members: ['PinnedBuffer.from'],
    act: 'makes',
    options: { values: { device: ({ device }) => device } },
    prepare:
      ({ device }) =>
      (options = { device }) => {
        const array = new Uint8Array(new SharedArrayBuffer(BYTES))
        const pinned = PinnedBuffer.from(array, options)
        pinned.close()
      },
  }),
  withOptions({
    name: 'device.createArray()',
    members: ['Device#createArray'],
    act: 'makes',
    options: { values: OF_ARRAYS },
    prepare: (scene) => {
      const given = {
        ...{ shape: OF_ARRAYS.shape(), format: OF_ARRAYS.format(), channels: OF_ARRAYS.channels() },
        ...{ layered: true, cubemap: false, surface: true, gather: false },
      }
      return (options = given) => scene.keep(scene.device.createArray(options)).byteLength
    },
  }),
  withOptions({
    name: 'device.createTexture()',
    members: ['Device#createTexture'],
    act: 'makes',
    options: { values: OF_TEXTURES },
    prepare: (scene) => {
      const buffer = scene.keep(scene.device.alloc(512, { stream: scene.lab.allocationStream }))
      const given = {
        ...{ addressMode: OF_TEXTURES.addressMode(), filterMode: OF_TEXTURES.filterMode() },
        ...{ readMode: OF_TEXTURES.readMode(), normalizedCoordinates: true, borderColor: [0, 0, 0, 1], sRGB: true },
        ...{ format: OF_TEXTURES.format(), channels: OF_TEXTURES.channels(), shape: OF_TEXTURES.shape(), pitch: 64 },
      }
      return (options = given) => scene.keep(scene.device.createTexture(buffer, options)).handle
    },
  }),
  {
    name: 'device.createSurface()',
    members: ['Device#createSurface'],
    act: 'makes',
    prepare: (scene) => {
      const array = scene.keep(scene.device.createArray({ shape: [4], format: 'f32', surface: true }))
      return () => scene.keep(scene.device.createSurface(array)).handle
    },
  },
  {
    name: 'device.allocPinned()',
    members: ['Device#allocPinned'],
    act: 'makes',
    prepare: (scene) => () => scene.keep(scene.device.allocPinned(BYTES)).bytes.fill(1).length,
  },
  {
    name: 'DeviceBuffer.from(pointer)',
    members: ['DeviceBuffer.from'],
    act: 'makes',
    prepare: (scene) => {
      const whole = scene.keep(scene.device.alloc(BYTES, { stream: scene.lab.allocationStream }))
      return () => scene.keep(DeviceBuffer.from(whole.pointer, BYTES, { device: scene.device }))
    },
  },
  withOptions({
    name: 'DeviceBuffer.from(pointer, length, options)',
    members: ['DeviceBuffer.from'],
    act: 'makes',
    apart: 'it has a row without options',
    memory: [source],
    // A pointer of memory that is freed in the order of its stream is one until that is done.
    options: { values: OWNED, closedCodes: ['ERR_INVALID_HANDLE'] },
    prepare: (scene) => {
      const buffer = scene.buffer(0)
      // A pinned one cannot be wrapped.
      return (options) =>
        buffer instanceof PinnedBuffer ? options?.owner : scene.keep(DeviceBuffer.from(buffer.pointer, BYTES, options))
    },
  }),
  {
    name: 'DeviceBuffer.from(token)',
    members: [],
    act: 'makes',
    prepare: (scene) => {
      const whole = scene.keep(scene.device.alloc(BYTES, { stream: scene.stream }))
      const token = whole.share()
      return () => assert.ok(DeviceBuffer.from(token) === whole)
    },
  },
  withOptions({
    name: 'DeviceBuffer.fromIpcHandle()',
    members: ['DeviceBuffer.fromIpcHandle'],
    act: 'makes',
    options: { values: { device: ({ device }) => device }, apart: ANOTHER_PROCESS },
    // Of the same process, which CUDA does not open.
    refuses: () => ['ERR_INVALID_HANDLE'],
    prepare: (scene) => {
      const { device } = scene
      const whole = scene.keep(device.alloc(BYTES, { interprocess: true }))
      const bytes = whole.ipcHandle()
      return (options = { device }) => DeviceBuffer.fromIpcHandle(bytes, options)
    },
  }),
  {
    name: 'buffer.ipcHandle()',
    members: ['DeviceBuffer#ipcHandle'],
    act: 'makes',
    prepare: (scene) => {
      const buffer = scene.keep(scene.device.alloc(BYTES, { interprocess: true }))
      return () => buffer.ipcHandle()
    },
    answers: (_scene, value) => assert.equal((value as Uint8Array).length, 80),
  },
  {
    name: 'buffer.share()',
    members: ['DeviceBuffer#share'],
    act: 'makes',
    memory: [source],
    prepare: (scene) => {
      const buffer = scene.buffer(0)
      return () => (buffer instanceof DeviceBuffer ? buffer.share().byteLength : buffer.byteLength)
    },
    answers: (_scene, value) => assert.equal(value, BYTES),
  },
  {
    name: 'buffer.subarray()',
    members: ['DeviceBuffer#subarray', 'PinnedBuffer#subarray'],
    act: 'makes',
    memory: [source],
    prepare: (scene) => () => scene.buffer(0).subarray(4, 12).byteLength,
    answers: (_scene, value) => assert.equal(value, 8),
  },
  {
    name: 'buffer.tensorMap() and map.bytes',
    members: ['DeviceBuffer#tensorMap', 'TensorMap#bytes'],
    act: 'makes',
    prepare: (scene) => {
      const buffer = scene.keep(scene.device.alloc(BYTES, { stream: scene.stream }))
      return () => buffer.tensorMap({ type: 'u8', shape: [BYTES], box: [16] }).bytes.length
    },
    answers: (_scene, value) => assert.equal(value, 128),
  },
  {
    name: 'pinned.bytes and pinned.view()',
    members: ['PinnedBuffer#bytes', 'PinnedBuffer#view'],
    act: 'makes',
    prepare: (scene) => {
      const pinned = scene.keep(scene.device.allocPinned(BYTES))
      scene.stream.fill(pinned, 1)
      return () => pinned.bytes.length + pinned.view(Float64Array).length
    },
    answers: (_scene, value) => assert.equal(value, BYTES + BYTES / 8),
  },
  ...closing('buffer', 'DeviceBuffer', (scene) => {
    const buffer = scene.keep(scene.device.alloc(BYTES, { stream: scene.stream }))
    scene.stream.fill(buffer, 1)
    return buffer
  }),
  ...closing('pinned', 'PinnedBuffer', (scene) => {
    const pinned = scene.keep(scene.device.allocPinned(BYTES))
    scene.stream.fill(pinned, 1)
    return pinned
  }),
  ...closing('array', 'OpaqueArray', (scene) => scene.keep(scene.device.createArray({ shape: [8], format: 'f32' }))),
  ...closing('texture', 'TextureObject', (scene) => {
    const array = scene.keep(scene.device.createArray({ shape: [8], format: 'f32' }))
    return scene.keep(scene.device.createTexture(array))
  }),
  ...closing('surface', 'SurfaceObject', (scene) => {
    const array = scene.keep(scene.device.createArray({ shape: [8], format: 'f32', surface: true }))
    return scene.keep(scene.device.createSurface(array))
  }),
  ...closing('the interprocess buffer', 'DeviceBuffer', (scene) => {
    const buffer = scene.keep(scene.device.alloc(BYTES, { interprocess: true }))
    scene.stream.fill(buffer, 1)
    return buffer
  }),
  ...closing('the buffer of a closed stream', 'DeviceBuffer', (scene) => {
    const closed = new Stream({ device: scene.device })
    const buffer = scene.keep(scene.device.alloc(BYTES, { stream: closed }))
    closed.fill(buffer, 1).close()
    return buffer
  }),
  {
    name: 'buffer.close() of memory in use',
    members: [],
    act: 'queues',
    consumes: true,
    nodes: () => 2,
    prepare: (scene) => {
      const device = scene.keep(scene.device.alloc(BYTES, { stream: scene.lab.allocationStream }))
      const own = scene.keep(scene.device.alloc(BYTES, { stream: scene.stream }))
      return () => {
        for (const each of [device, own]) {
          if (!each.closed) scene.stream.fill(each, 1)
          each.close()
        }
      }
    },
  },
]

const unregistering: Call = {
  name: 'pinned.close() of registered memory in use',
  members: [],
  act: 'queues',
  consumes: true,
  prepare: (scene) => {
    const array = new Uint8Array(new SharedArrayBuffer(BYTES))
    const pinned = PinnedBuffer.from(array, { device: scene.device })
    scene.keep(pinned)
    return () => {
      if (!pinned.closed) scene.stream.fill(pinned, 2)
      pinned.close()
      return scene.stream.isCapturing ? undefined : scene.stream.finished().then(() => array)
    }
  },
  answers: (_scene, value) => {
    if (value instanceof Uint8Array)
      assert.ok(
        value.every((byte) => byte === 2),
        'it was unlocked too early',
      )
  },
}

export const memoryCalls: readonly Call[] = [...moving, ...buffers, unregistering]
