/** What orders work: events, waits, host functions, and values in memory. */
import assert from 'node:assert/strict'
import { PinnedBuffer, type RecordOptions, type Stream, type WaitStreamOptions } from 'cuda-streams'
import type { MemoryKind } from './axes.js'
import { type Call, withOptions } from './call.js'
import { type Piece, WORDS } from './lab.js'
import type { Scene } from './scene.js'
import { EVENT_OPTIONS, GivenUp } from './values.js'

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
        assert.ok(stream === scene.stream)
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
    const marker = markers.subarray(made % 64, (made % 64) + 1)
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

const values: readonly Call[] = [
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
]

export const orderCalls: readonly Call[] = [...ordering, ...calling, ...values]
