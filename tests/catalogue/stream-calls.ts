/** Calls on streams: rows of the matrix. */
import assert from 'node:assert/strict'
import {
  type AllocOptions,
  type CaptureOptions,
  DeviceBuffer,
  type ExternalMemory,
  ExternalStream,
  type ExternalWork,
  type FillOptions,
  Graph,
  MemoryPool,
  type MemoryPoolOptions,
  PinnedBuffer,
  type RecordOptions,
  Stream,
  type StreamOptions,
  type WaitStreamOptions,
} from 'cuda-streams'
import { hasWorkBehind, type MemoryKind } from './axes.js'
import { type Call, closing, onlySimulated, withOptions } from './call.js'
import { BYTES, type Piece, WORDS } from './lab.js'
import type { Scene } from './scene.js'

/** The reason of a signal, which a wait of the host behind the stream's wait tells. */
class GivenUp extends Error {
  readonly code = 'ERR_GIVEN_UP'
}

const UPLOADED = 0x55555555
const FILLED = 0x44444444
const destination = { name: 'destination', becomes: (scene: Scene) => scene.wordRead(1) }
const source = { name: 'source' }
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

export const STREAM_OPTIONS = {
  priority: () => 0,
  nonBlocking: () => true,
  context: ({ lab }: Scene) => lab.once('a green context', () => lab.device.split({ multiprocessors: [16] }))[0],
  memorySyncDomain: () => 'remote' as const,
}
export const EVENT_OPTIONS = { timing: () => false, blockingSync: () => false, interprocess: () => false }
/** Of what is wrapped. */
export const OWNED = { device: ({ device }: Scene) => device, owner: () => ({}) }
const ROWS = {
  shape: () => [8, BYTES / 8] as const,
  destinationStrides: () => [BYTES / 8],
  sourceStrides: () => [BYTES / 8],
}
export const ANOTHER_PROCESS = 'it needs another process: tests/processes'
const FILLED_BYTE = 0x44
const piecesOf = (scene: Scene) => [
  { buffer: scene.buffer(0), access: 'out' as const },
  { buffer: scene.buffer(1), access: 'in' as const },
]
const copyBytes = ([written, read]: readonly Uint8Array[]) => written?.set(read ?? [])

const making: readonly Call[] = [
  withOptions({
    name: 'new Stream()',
    members: ['new Stream'],
    act: 'makes',
    options: { values: { device: ({ device }) => device, ...STREAM_OPTIONS } },
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
    options: { values: { device: ({ device }) => device, ...STREAM_OPTIONS } },
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
    options: { values: OWNED },
    prepare: (scene) => (options) => scene.keep(new ExternalStream(scene.stream, options)),
    answers: (scene, value) => assert.ok((value as Stream).equals(scene.stream)),
  }),
  withOptions({
    name: 'Stream.from(stream)',
    members: ['Stream.from'],
    act: 'makes',
    options: { values: OWNED },
    prepare: (scene) => (options) => Stream.from(scene.stream, options),
    answers: (scene, value) => assert.equal(value, scene.stream),
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
    answers: (scene, value) => assert.equal(value, scene.stream),
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
    answers: (scene, value) => assert.equal(value, scene.stream.cachedEvent),
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

const asking: readonly Call[] = [
  ...(['id', 'nonBlocking', 'priority'] as const).map(
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

const ordering: readonly Call[] = [
  withOptions({
    name: 'stream.record()',
    members: ['Stream#record'],
    act: 'records',
    options: { values: { external: () => false, ...EVENT_OPTIONS } },
    prepare:
      (scene) =>
      (options: RecordOptions = {}) =>
        scene.keep(scene.stream.record(options)),
  }),
  withOptions({
    name: 'stream.record(event)',
    members: ['Stream#record'],
    act: 'records',
    event: 'never',
    uses: ['the event'],
    options: { values: { external: () => true, ...EVENT_OPTIONS } },
    prepare: (scene) => (options) => scene.stream.record(scene.event, options),
  }),
  {
    name: 'stream.record(event with timing)',
    members: [],
    act: 'records',
    takesRoom: 'on cuda',
    uses: ['the event'],
    prepare: (scene) => {
      const event = scene.keep(scene.device.createEvent({ timing: true }))
      scene.closers.set('the event', () => event.close())
      return () => scene.stream.record(event)
    },
  },
  {
    name: 'stream.record({ external: true })',
    members: [],
    act: 'records',
    nodes: () => 1,
    prepare: (scene) => () => scene.keep(scene.stream.record({ external: true })),
  },
  withOptions({
    name: 'event.record(stream)',
    members: ['Event#record'],
    act: 'records',
    event: 'never',
    uses: ['the event'],
    options: { values: { external: () => true }, others: Object.keys(EVENT_OPTIONS) },
    prepare: (scene) => (options) => scene.event.record(scene.stream, options),
  }),
  {
    name: 'stream.wait(event) of the outside',
    members: ['Stream#wait'],
    act: 'waits for the outside',
    event: 'before',
    prepare: (scene) => () => scene.stream.wait(scene.event),
  },
  {
    name: 'stream.wait(event) of its own',
    members: [],
    act: 'waits for the inside',
    event: 'behind',
    prepare: (scene) => () => scene.stream.wait(scene.event),
  },
  {
    name: 'stream.wait(event) that was never recorded',
    members: [],
    act: 'waits for nothing',
    event: 'never',
    prepare: (scene) => () => scene.stream.wait(scene.event),
  },
  withOptions({
    name: 'stream.wait(event, { external: true })',
    members: ['Stream#wait'],
    act: 'waits externally',
    event: 'before',
    uses: ['the event'],
    nodes: () => 1,
    options: { values: { external: () => true } },
    prepare:
      (scene) =>
      (options = { external: true }) =>
        scene.stream.wait(scene.event, options),
  }),
  withOptions({
    name: 'event.wait(stream)',
    members: ['Event#wait'],
    act: 'waits for the outside',
    event: 'before',
    uses: ['the event'],
    options: { values: { external: () => true } },
    prepare: (scene) => (options) => scene.event.wait(scene.stream, options),
  }),
  {
    name: 'stream.wait(another)',
    members: [],
    act: 'waits for the outside',
    prepare: (scene) => {
      const another = scene.newStream('non-blocking')
      return () => scene.stream.wait(another)
    },
  },
  withOptions({
    name: 'stream.wait(another, { event })',
    members: ['Stream#wait'],
    act: 'waits for the outside',
    event: 'never',
    uses: ['the event', 'the other stream'],
    options: { values: { event: ({ event }) => event, external: () => true } },
    prepare: (scene) => {
      const another = scene.newStream('non-blocking')
      scene.closers.set('the other stream', () => another.close())
      return (options: WaitStreamOptions = { event: scene.event }) => scene.stream.wait(another, options)
    },
  }),
  {
    name: 'stream.wait(an object with the stream protocol)',
    members: [],
    act: 'waits for the outside',
    prepare: (scene) => {
      const handle = scene.newStream('external').handle
      const like = { __cuda_stream__: () => [0, handle] as const }
      return () => scene.stream.wait(like)
    },
  },
  withOptions({
    name: 'stream.wait(device)',
    members: ['Stream#wait'],
    act: 'waits for its device',
    options: { values: {} },
    // Untyped, since it has none.
    prepare: (scene) => (options) => Reflect.apply(scene.stream.wait, scene.stream, [scene.device, options]),
  }),
  {
    name: 'stream.wait(device), then a host function',
    members: [],
    act: 'waits for its device',
    prepare: (scene) => () => {
      scene.stream.wait(scene.device)
      scene.stream.launchHostFunc(() => scene.log.push('call'))
    },
    answers: ({ log, hold }) => assert.deepEqual(log, hold === 'nothing' ? ['call'] : ['hold', 'call']),
  },
  withOptions({
    name: 'stream.wait(promise)',
    members: ['Stream#wait'],
    act: 'is not captured',
    takesRoom: 'on both drivers',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => (options) => scene.stream.wait(Promise.resolve(), options),
  }),
  {
    name: 'stream.wait(promise) that settles later',
    members: [],
    act: 'is not captured',
    takesRoom: 'on both drivers',
    prepare: (scene) =>
      passing(scene, () => {
        let settle = (): void => {}
        scene.stream.wait(
          new Promise<void>((resolve) => {
            settle = resolve
          }),
        )
        return settle
      }),
  },
  {
    name: 'stream.wait(promise, { signal })',
    members: [],
    act: 'is not captured',
    takesRoom: 'on both drivers',
    prepare: (scene) => {
      const invoke = passing(scene, () => {
        const controller = new AbortController()
        scene.stream.wait(new Promise(() => {}), { signal: controller.signal })
        return () => controller.abort(new GivenUp())
      })
      return () => {
        const passed = invoke()
        return Promise.all([passed, assert.rejects(scene.stream.finished(), GivenUp)])
      }
    },
  },
  {
    name: 'stream.wait(itself)',
    members: [],
    act: 'waits for nothing',
    prepare: (scene) => () => scene.stream.wait(scene.stream),
  },
  {
    name: 'another.wait(stream)',
    members: [],
    act: 'waits for nothing',
    mayLeaveUnjoined: true,
    prepare: (scene) => {
      const another = scene.newStream('non-blocking')
      return () => another.wait(scene.stream)
    },
  },
]

const calling: readonly Call[] = [
  {
    name: 'stream.launchHostFunc()',
    members: ['Stream#launchHostFunc'],
    act: 'queues a host function',
    takesRoom: 'on both drivers',
    prepare: (scene) => () => scene.stream.launchHostFunc((word) => scene.log.push(word), 'call'),
    answers: ({ log }) => assert.equal(log.filter((each) => each === 'call').length, 1, 'so often the function ran'),
  },
  {
    name: 'stream.addCallback()',
    members: ['Stream#addCallback'],
    act: 'queues a callback',
    takesRoom: 'on both drivers',
    prepare: (scene) => () => {
      scene.stream.addCallback((stream, status, word) => {
        assert.equal(stream, scene.stream)
        assert.equal(status, 0)
        scene.log.push(word)
      }, 'call')
    },
    answers: ({ log }) => assert.equal(log.filter((each) => each === 'call').length, 1, 'so often the function ran'),
  },
]

/** Where the value is, in bytes from the beginning: not at it, and not at the end. */
const BYTE_OFFSET = 16
const UNWRITTEN = 0x11111111

/** The words of memory, when all is done. */
async function wordsOf({ lab }: Scene, { whole }: Piece): Promise<Uint32Array> {
  return lab.allocationStream.download(whole, Uint32Array)
}

function flagsOf(scene: Scene, kind: MemoryKind): Piece {
  const piece = scene.lab.make(kind, scene.lab.allocationStream)
  scene.keep({ close: () => piece.dispose() })
  scene.closers.set('the flags', () => piece.whole.close())
  scene.lab.write(piece, UNWRITTEN)
  return piece
}

/** A number has 32 bits, a bigint 64, and nothing beside them is written. */
function writing(kind: MemoryKind, value: number | bigint): Call {
  return {
    name: `stream.writeValue() of a ${typeof value} into memory: ${kind}`,
    members: ['Stream#writeValue'],
    act: 'queues',
    takesRoom: 'on both drivers',
    uses: ['the flags'],
    prepare: (scene) => {
      const flags = flagsOf(scene, kind)
      scene.lab.once('the flags', () => new WeakMap<Scene, Piece>()).set(scene, flags)
      return () => scene.stream.writeValue(flags.whole, value, { byteOffset: BYTE_OFFSET })
    },
    answers: async (scene) => {
      const flags = scene.lab.once('the flags', () => new WeakMap<Scene, Piece>()).get(scene)
      if (flags === undefined || flags.whole.closed) return
      const wanted = new Uint32Array(WORDS).fill(UNWRITTEN)
      wanted[BYTE_OFFSET / 4] = Number(BigInt(value) & 0xffffffffn)
      if (typeof value === 'bigint') wanted[BYTE_OFFSET / 4 + 1] = Number(value >> 32n)
      if (isTaken(scene)) assert.deepEqual(await wordsOf(scene, flags), wanted)
    },
  }
}

/** Was the work done, and not only written down in a capture that gave no graph? */
const isTaken = ({ situation: { capture } }: Scene): boolean => !(capture?.of === 'the stream' && capture.invalidated)

/** Of each comparison a word for which the wait stands, and one for which it is over. */
const COMPARED = {
  geq: { value: 5, stands: 4, over: 6 },
  eq: { value: 5, stands: 6, over: 5 },
  and: { value: 4, stands: 3, over: 12 },
  nor: { value: 1, stands: 0xffffffff, over: 0xfffffffd },
} as const

/** What is queued behind it has not run while the word is another; then the program writes it, where the memory is the host's. */
function waiting(kind: MemoryKind, compare: keyof typeof COMPARED): Call {
  const { value, stands, over } = COMPARED[compare]
  return {
    name: `stream.waitValue() by ${compare} for memory: ${kind}`,
    members: ['Stream#waitValue'],
    act: 'queues',
    takesRoom: 'on both drivers',
    uses: ['the flags'],
    nodes: () => 2,
    prepare: (scene) => {
      const { stream, lab } = scene
      const flags = flagsOf(scene, kind)
      const { whole } = flags
      if (!(whole instanceof PinnedBuffer)) lab.write(flags, over)
      const write = (word: number): void => {
        if (whole instanceof PinnedBuffer && !whole.closed) whole.view(Uint32Array).fill(word)
      }
      return passing(
        scene,
        () => {
          write(stands)
          stream.waitValue(whole, value, { byteOffset: BYTE_OFFSET, compare })
          return () => write(over)
        },
        whole instanceof PinnedBuffer,
      )
    },
  }
}

const TURNS = 5

/** Queues a wait and work behind it: the work has not run before what `wait` returns has ended it, or it `stands` not at all. */
function passing(scene: Scene, wait: () => () => void, stands = true): () => Promise<void> | undefined {
  const { stream } = scene
  const markers = scene.keep(scene.device.allocPinned(64))
  let made = 0
  return () => {
    // What an earlier one has queued and not waited for writes a byte of its own.
    const marker = markers.slice(made % 64, 1)
    made += 1
    marker.bytes.fill(0)
    const end = wait()
    try {
      stream.fill(marker, 1)
    } catch (error) {
      end()
      throw error
    }
    return stands ? passes(stream, marker, end) : undefined
  }
}

/** Nothing has passed the wait before this ends it. */
async function passes(stream: Stream, marker: PinnedBuffer, end: () => void): Promise<void> {
  try {
    // On the simulator time passes where something is waited for.
    const isPast = stream.isCapturing ? undefined : stream.finished().catch(() => {})
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < TURNS; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    }
    await (isPast === undefined ? turns() : Promise.race([isPast, turns()]))
    assert.equal(marker.bytes[0], 0, 'what is queued behind the wait has run before the wait was over')
  } finally {
    end()
  }
}

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
        scene.stream.copy(to.slice(rowLength, rest), from.slice(rowLength, rest), options)
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
        [to.slice(0, half), from.slice(0, half)],
        [to.slice(half, half), from.slice(half, half)],
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
        scene.stream.fill(to, FILLED, options).fill(to.slice(rowLength, BYTES - rowLength), FILLED, options)
      }
    },
  },
  ...(['pinned', 'registered shared', 'interprocess'] as const).flatMap((kind) => [
    writing(kind, 7),
    writing(kind, 2n ** 40n + 7n),
    ...(['geq', 'eq', 'and', 'nor'] as const).map((compare) => waiting(kind, compare)),
  ]),
  withOptions({
    name: 'stream.waitValue(buffer, value, options)',
    members: ['Stream#waitValue'],
    act: 'queues',
    apart: 'its rows are those for each kind of memory',
    memory: [{ name: 'flags', word: 9 }],
    options: {
      values: { byteOffset: () => 4, compare: () => 'geq' as const },
      closedCodes: ['ERR_UNSUPPORTED', '1'],
    },
    prepare: (scene) => (options) => scene.stream.waitValue(scene.buffer(0), 9, options),
  }),
  withOptions({
    name: 'stream.writeValue(buffer, value, options)',
    members: ['Stream#writeValue'],
    act: 'queues',
    apart: 'its rows are those for each kind of memory',
    memory: [{ name: 'flags', word: 9 }],
    options: { values: { byteOffset: () => 4 }, closedCodes: ['ERR_UNSUPPORTED', '1'] },
    prepare: (scene) => (options) => scene.stream.writeValue(scene.buffer(0), 9, options),
  }),
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
  {
    name: 'stream.download()',
    members: ['Stream#download'],
    act: 'is not captured',
    memory: [source],
    takesRoom: 'on both drivers',
    prepare: (scene) => () => scene.stream.download(scene.buffer(0)),
    answers: (scene, value) => checkArray(value as Uint8Array, scene.wordRead(0)),
  },
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
      return () => assert.equal(DeviceBuffer.from(token), whole)
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
    name: 'buffer.slice()',
    members: ['DeviceBuffer#slice', 'PinnedBuffer#slice'],
    act: 'makes',
    memory: [source],
    prepare: (scene) => () => scene.buffer(0).slice(4, 8).byteLength,
    answers: (_scene, value) => assert.equal(value, 8),
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

const graphs = new WeakMap<Scene, Graph>()

/** A graph of the scene, of one host function. */
export function graphOf(scene: Scene): Graph {
  const known = graphs.get(scene)
  if (known !== undefined) return known
  const { allocationStream } = scene.lab
  const graph = scene.keep(
    allocationStream.capture(() => void allocationStream.launchHostFunc(() => scene.log.push('before'))),
  )
  scene.closers.set('the graph', () => graph.close())
  graphs.set(scene, graph)
  return graph
}

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

export const streamCalls: readonly Call[] = [
  ...making,
  ...asking,
  ...ordering,
  ...calling,
  ...moving,
  ...buffers,
  unregistering,
  ...capturing,
]
