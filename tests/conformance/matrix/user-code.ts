/**
 * Code of the program that runs inside a call: getters of its options, methods of the stream protocol, iterators, thenables,
 * functions that it is given. Here it closes what the call uses. The call then is ERR_CLOSED, or does what it says.
 */
import assert from 'node:assert/strict'
import {
  DeviceBuffer,
  Event,
  ExternalStream,
  type Graph,
  type GraphExec,
  type GreenContext,
  MemoryPool,
  PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { fromCudaArrayInterface, fromDLPack, toCudaArrayInterface, toDLPack } from 'cuda-streams/dlpack'
import { Communicator, group } from 'cuda-streams/nccl'
import { added, addedByStruct, CONFIG, needsCompiler, needsStruct } from '../../catalogue/adding.js'
import { type Hold, isPinned, type MemoryKind } from '../../catalogue/axes.js'
import type { Call, Invoke } from '../../catalogue/call.js'
import { BYTES, type Lab, WORDS } from '../../catalogue/lab.js'
import { RETURNS } from '../../catalogue/rules.js'
import { outcomeOf, Scene } from '../../catalogue/scene.js'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { aboutLibraries } from '../../libraries/about-libraries.js'
import { onlySimulated } from '../../libraries/about-library.js'
import { closedOrDone } from './closings.js'
import { combinations } from './combinations.js'
import type { Row } from './table.js'
import { Victims } from './victims.js'
import { describePlace, type Place, Watch } from './watch.js'

export interface UserCode extends Pick<Call, 'name' | 'memory' | 'event' | 'uses' | 'lacks'> {
  /** The option whose getter it is, as `publicOptions()` names it. */
  readonly tries?: string
  /** Other codes that say what has happened as well. */
  readonly also?: readonly string[]
  /** The code may run later, or not at all. */
  readonly isLate?: boolean
  /** The call waits for the device, and so runs host functions. */
  readonly mayWait?: boolean
  /** The call, in which `act` is called by code of the program. */
  prepare(scene: Scene, act: () => void): Invoke | Promise<Invoke>
}

/** The options, one of which is a getter that does something before it tells its value. */
function getting<T extends object>(options: T, name: keyof T, act: () => void): T {
  const value = options[name]
  const get = (): unknown => {
    act()
    return value
  }
  return Object.defineProperty({ ...options }, name, { enumerable: true, get })
}

/** A copy of the array, whose element of this number is a getter that does something before it tells the value. */
function gettingAt<T extends readonly unknown[]>(array: T, index: number, act: () => void): T {
  const value = array[index]
  const get = (): unknown => {
    act()
    return value
  }
  return Object.defineProperty([...array], index, { enumerable: true, get }) as readonly unknown[] as T
}

const greenOf = (lab: Lab): GreenContext =>
  lab.once('a green context', () => lab.device.split({ multiprocessors: [16] }))[0]

const STREAM_OPTIONS = ['priority', 'nonBlocking', 'context', 'memorySyncDomain'] as const
const streamOptions = (lab: Lab) =>
  ({ priority: 0, nonBlocking: true, context: greenOf(lab), memorySyncDomain: 'default' }) as const

export type ForEachOption = typeof forEachOption

/** One row for each of the options. */
function forEachOption<T extends object>(
  member: string,
  call: string,
  options: (scene: Scene) => T,
  names: readonly (keyof T & string)[],
  more: Omit<UserCode, 'name' | 'prepare'>,
  prepare: (scene: Scene, hooked: () => T) => Invoke | Promise<Invoke>,
): readonly UserCode[] {
  return names.map((name) => ({
    ...more,
    name: `${call}: the getter of ${name}`,
    tries: `${member}: ${name}`,
    prepare: (scene, act) => prepare(scene, () => getting(options(scene), name, act)),
  }))
}

const FILLED = 0x44444444
const ADDED = 5
const filled = { name: 'destination', becomes: () => FILLED }
const source = { name: 'source' }
const copied = { name: 'destination', becomes: (scene: Scene) => scene.wordRead(1) }
const addedTo = { name: 'operand', becomes: (scene: Scene, times: number) => scene.wordBefore(0) + times * ADDED }

/** An object with the stream protocol, in either spelling, that acts when it is asked for the handle. */
const protocols = {
  '[cudaStream]()': (handle: bigint, act: () => void) => ({
    [Symbol.for('cuda.stream')]: () => {
      act()
      return [0, handle]
    },
  }),
  '__cuda_stream__()': (handle: bigint, act: () => void) => ({
    __cuda_stream__: () => {
      act()
      return [0, handle]
    },
  }),
  'the getter of [cudaStream]': (handle: bigint, act: () => void) => ({
    get [Symbol.for('cuda.stream')]() {
      act()
      return () => [0, handle]
    },
  }),
} as const
type Protocol = keyof typeof protocols
const asStream = (protocol: Protocol, handle: bigint, act: () => void): Stream =>
  protocols[protocol](handle, act) as unknown as Stream

const another = (scene: Scene): Stream => {
  const stream = scene.newStream('non-blocking')
  scene.closers.set('the other stream', () => stream.close())
  return stream
}

const streams: readonly UserCode[] = [
  ...(Object.keys(protocols) as Protocol[]).flatMap((protocol): UserCode[] => [
    {
      name: `Stream.from(object): ${protocol}`,
      prepare: (scene, act) => {
        const { handle } = scene.stream
        return () => scene.keep(Stream.from(asStream(protocol, handle, act), { device: scene.device }))
      },
    },
    {
      name: `new ExternalStream(object): ${protocol}`,
      prepare: (scene, act) => {
        const { handle } = scene.stream
        return () => scene.keep(new ExternalStream(asStream(protocol, handle, act), { device: scene.device }))
      },
    },
    {
      name: `device.createStream(object): ${protocol}`,
      prepare: (scene, act) => {
        const { handle } = scene.stream
        return () => scene.keep(scene.device.createStream(asStream(protocol, handle, act)))
      },
    },
    {
      name: `stream.wait(object): ${protocol}`,
      uses: ['the other stream'],
      prepare: (scene, act) => {
        const { handle } = another(scene)
        return () => scene.stream.wait(asStream(protocol, handle, act))
      },
    },
  ]),
  ...forEachOption(
    'new ExternalStream',
    'new ExternalStream(stream, options)',
    ({ device }) => ({ device, owner: {} }),
    ['device', 'owner'],
    {},
    (scene, hooked) => () => scene.keep(new ExternalStream(scene.stream, hooked())),
  ),
  ...forEachOption(
    'Stream.from',
    'Stream.from(stream, options)',
    ({ device }) => ({ device, owner: {} }),
    ['device', 'owner'],
    {},
    (scene, hooked) => () => Stream.from(scene.stream, hooked()),
  ),
  {
    name: 'Stream.from(token): the getter of key',
    prepare: (scene, act) => {
      const token = scene.stream.share()
      return () => Stream.from(getting(token, 'key', act))
    },
  },
  ...forEachOption(
    'Stream#record',
    'stream.record(options)',
    () => ({ external: false, timing: false, blockingSync: false, interprocess: false }),
    ['external', 'timing', 'blockingSync', 'interprocess'],
    {},
    (scene, hooked) => () => scene.keep(scene.stream.record(hooked())),
  ),
  ...forEachOption(
    'Stream#record',
    'stream.record(event, options)',
    () => ({ external: true, timing: false }),
    ['external', 'timing'],
    { event: 'never', uses: ['the event'] },
    (scene, hooked) => () => scene.stream.record(scene.event, hooked()),
  ),
  ...forEachOption(
    'Stream#wait',
    'stream.wait(event, options)',
    () => ({ external: true }),
    ['external'],
    { event: 'before', uses: ['the event'] },
    (scene, hooked) => () => scene.stream.wait(scene.event, hooked()),
  ),
  ...forEachOption(
    'Stream#wait',
    'stream.wait(stream, options)',
    ({ event }) => ({ event, external: true }),
    ['event', 'external'],
    { event: 'never', uses: ['the event', 'the other stream'] },
    (scene, hooked) => {
      const other = another(scene)
      return () => scene.stream.wait(other, hooked())
    },
  ),
  ...forEachOption(
    'Stream#finished',
    'stream.finished(options)',
    () => ({ signal: new AbortController().signal }),
    ['signal'],
    {},
    (scene, hooked) => () => scene.stream.finished(hooked()),
  ),
  ...forEachOption(
    'new Stream',
    'new Stream(options)',
    ({ device, lab }) => ({ device, ...streamOptions(lab) }),
    ['device', ...STREAM_OPTIONS],
    {},
    (scene, hooked) => () => scene.keep(new Stream(hooked())).handle,
  ),
  ...forEachOption(
    'Device#createStream',
    'device.createStream(options)',
    ({ lab }) => streamOptions(lab),
    STREAM_OPTIONS,
    {},
    (scene, hooked) => () => scene.keep(scene.device.createStream(hooked())).handle,
  ),
  ...forEachOption(
    'Device#split',
    'device.split(options)',
    () => ({ multiprocessors: [8] as const }),
    ['multiprocessors'],
    { mayWait: true },
    (scene, hooked) => () => scene.device.split(hooked()).map((part) => scene.keep(part).handle).length,
  ),
  {
    name: 'device.split({ multiprocessors }): the getter of a number',
    mayWait: true,
    prepare: (scene, act) => () => {
      const [part] = scene.device.split({ multiprocessors: gettingAt([8] as const, 0, act) })
      return scene.keep(part).handle
    },
  },
  ...forEachOption(
    'Device#finished',
    'device.finished(options)',
    () => ({ signal: new AbortController().signal }),
    ['signal'],
    {},
    (scene, hooked) => () => scene.device.finished(hooked()),
  ),
  ...forEachOption(
    'Stream#wait',
    'stream.wait(promise, options)',
    () => ({ signal: new AbortController().signal }),
    ['signal'],
    {},
    (scene, hooked) => () => scene.stream.wait(Promise.resolve(), hooked()),
  ),
  {
    name: 'stream.wait(thenable): the getter of then',
    prepare: (scene, act) => () =>
      scene.stream.wait({
        // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tried
        get then() {
          act()
          return (settle: (value: undefined) => void) => settle(undefined)
        },
      } as PromiseLike<unknown>),
  },
  {
    name: 'stream.wait(thenable): then itself',
    isLate: true,
    prepare: (scene, act) => () =>
      scene.stream.wait({
        // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tried
        then(settle: (value: undefined) => void) {
          act()
          settle(undefined)
        },
      } as PromiseLike<unknown>),
  },
  {
    name: 'stream.run(function)',
    prepare: (scene, act) => () => scene.stream.run(act),
  },
]

const words = { name: 'flags', word: 9 }

const memory: readonly UserCode[] = [
  ...forEachOption(
    'Stream#copy',
    'stream.copy(destination, source, options)',
    () => ({ shape: [8, BYTES / 8] as const, destinationStrides: [BYTES / 8], sourceStrides: [BYTES / 8] }),
    ['shape', 'destinationStrides', 'sourceStrides'],
    { memory: [copied, source] },
    (scene, hooked) => () => scene.stream.copy(scene.buffer(0), scene.buffer(1), hooked()),
  ),
  {
    name: 'stream.copy(destination, source, { shape }): the getter of a number',
    memory: [copied, source],
    prepare: (scene, act) => () =>
      scene.stream.copy(scene.buffer(0), scene.buffer(1), { shape: gettingAt([8, BYTES / 8] as const, 1, act) }),
  },
  {
    name: 'stream.copy(pairs): the getter of a pair',
    memory: [copied, source],
    prepare: (scene, act) => () => {
      const pair = [scene.buffer(0), scene.buffer(1)] as const
      return scene.stream.copy(gettingAt([pair], 0, act))
    },
  },
  {
    name: 'stream.copy(pairs): the getter of a buffer of a pair',
    memory: [copied, source],
    prepare: (scene, act) => () => {
      const pair = [scene.buffer(0), scene.buffer(1)] as const
      return scene.stream.copy([gettingAt(pair, 1, act)])
    },
  },
  {
    name: 'stream.copy(pairs): the iterator of an array of a class of its own',
    memory: [copied, source],
    isLate: true,
    prepare: (scene, act) => () => {
      class Pairs extends Array<readonly [DeviceBuffer | PinnedBuffer, DeviceBuffer | PinnedBuffer]> {
        override [Symbol.iterator]() {
          act()
          return super[Symbol.iterator]()
        }
      }
      const pairs = new Pairs()
      pairs.push([scene.buffer(0), scene.buffer(1)])
      return scene.stream.copy(pairs)
    },
  },
  ...forEachOption(
    'Stream#waitValue',
    'stream.waitValue(buffer, value, options)',
    () => ({ byteOffset: 4, compare: 'geq' as const }),
    ['byteOffset', 'compare'],
    { memory: [words], also: ['ERR_UNSUPPORTED', '1'] },
    (scene, hooked) => () => scene.stream.waitValue(scene.buffer(0), 9, hooked()),
  ),
  ...forEachOption(
    'Stream#writeValue',
    'stream.writeValue(buffer, value, options)',
    () => ({ byteOffset: 4 }),
    ['byteOffset'],
    { memory: [words], also: ['ERR_UNSUPPORTED', '1'] },
    (scene, hooked) => () => scene.stream.writeValue(scene.buffer(0), 9, hooked()),
  ),
  ...forEachOption(
    'PinnedBuffer.from',
    'PinnedBuffer.from(array, options)',
    ({ device }) => ({ device }),
    ['device'],
    {},
    (scene, hooked) => () => scene.keep(PinnedBuffer.from(new Uint8Array(BYTES), hooked())).pointer,
  ),
  ...forEachOption(
    'Stream#fill',
    'stream.fill(buffer, value, options)',
    () => ({ width: 4 as const, type: undefined, shape: [8, BYTES / 8] as const, strides: [BYTES / 8] as const }),
    ['width', 'type', 'shape', 'strides'],
    { memory: [filled] },
    (scene, hooked) => () => scene.stream.fill(scene.buffer(0), FILLED, hooked()),
  ),
  {
    name: 'stream.download(buffer, constructor)',
    memory: [source],
    prepare: (scene, act) => {
      class Closing extends Uint8Array {
        constructor(...given: readonly [ArrayBuffer, number, number]) {
          super(...given)
          act()
        }
      }
      return () => scene.stream.download(scene.buffer(0), Closing)
    },
  },
  ...forEachOption(
    'Stream#downloader',
    'stream.downloader(buffer, options)',
    () => ({ chunkBytes: BYTES }),
    ['chunkBytes'],
    { memory: [source] },
    (scene, hooked) => () => scene.stream.downloader(scene.buffer(0), hooked()).getReader().read(),
  ),
  ...forEachOption(
    'Device#alloc',
    'device.alloc(length, options)',
    ({ stream, device }) => ({ stream, interprocess: false, pool: device.memoryPool }),
    ['stream', 'interprocess', 'pool'],
    {},
    (scene, hooked) => () => scene.keep(scene.device.alloc(BYTES, hooked())).pointer,
  ),
  ...forEachOption(
    'new MemoryPool',
    'new MemoryPool(options)',
    ({ device }) => ({ device, releaseThreshold: 0, maxBytes: 2 ** 20 }),
    ['device', 'releaseThreshold', 'maxBytes'],
    {},
    (scene, hooked) => () => scene.keep(new MemoryPool(hooked())).handle,
  ),
  ...forEachOption(
    'DeviceBuffer.from',
    'DeviceBuffer.from(pointer, length, options)',
    ({ device }) => ({ device, owner: {} }),
    ['device', 'owner'],
    // A pointer of memory that is freed in the order of its stream is one until that is done.
    { memory: [source], also: ['ERR_INVALID_HANDLE'] },
    (scene, hooked) => {
      const buffer = scene.buffer(0)
      return () => {
        const options = hooked()
        // A pinned one cannot be wrapped.
        return buffer instanceof PinnedBuffer
          ? options.owner
          : scene.keep(DeviceBuffer.from(buffer.pointer, BYTES, options))
      }
    },
  ),
  {
    name: 'DeviceBuffer.from(token): the getter of byteLength',
    memory: [source],
    prepare: (scene, act) => {
      const buffer = scene.buffer(0)
      if (buffer instanceof PinnedBuffer) return act
      const token = buffer.share()
      return () => DeviceBuffer.from(getting(token, 'byteLength', act)).pointer
    },
  },
  {
    name: 'pinned.view(constructor): the constructor, and the getter of BYTES_PER_ELEMENT',
    uses: ['the pinned buffer'],
    prepare: (scene, act) => {
      const pinned = scene.keep(scene.device.allocPinned(BYTES))
      scene.closers.set('the pinned buffer', () => pinned.close())
      class Words extends Uint32Array {
        constructor(buffer: ArrayBuffer, byteOffset: number, length: number) {
          act()
          super(buffer, byteOffset, length)
        }
        static override get BYTES_PER_ELEMENT() {
          act()
          return 4 as const
        }
      }
      return () => pinned.view(Words).length
    },
    // A view of a buffer that was detached cannot be made: JavaScript's own error.
    also: ['an error without a code: TypeError: Cannot perform Construct on a detached ArrayBuffer'],
  },
]

const LAUNCH_OPTIONS = [
  ...(['grid', 'threads', 'block', 'sharedMemory', 'cooperative', 'cluster'] as const),
  ...(['programmatic', 'priority', 'sharedMemoryCarveout', 'memorySyncDomain'] as const),
  ...(['clusterScheduling', 'preferredCluster'] as const),
]
const launchConfig = () => ({
  ...{ grid: 1, threads: undefined, block: WORDS, sharedMemory: 0, cooperative: false, cluster: undefined },
  ...{ programmatic: false, priority: 0, sharedMemoryCarveout: 50, memorySyncDomain: 'default' as const },
  ...{ clusterScheduling: undefined, preferredCluster: undefined },
})

function execOf(scene: Scene, capture: () => void): { readonly graph: Graph; readonly exec: GraphExec } {
  const graph = scene.keep(scene.lab.allocationStream.capture(capture))
  const exec = scene.keep(graph.instantiate())
  scene.closers.set('the graph', () => graph.close())
  scene.closers.set('the graph exec', () => exec.close())
  return { graph, exec }
}

const launches: readonly UserCode[] = [
  {
    name: 'stream.launch(kernel, config, a struct)',
    memory: [addedTo],
    lacks: needsStruct,
    prepare: (scene, act) => () =>
      scene.stream.launch(addedByStruct, CONFIG, scene.buffer(0), getting({ count: WORDS }, 'count', act), ADDED),
  },
  ...forEachOption(
    'Stream#launch',
    'stream.launch(kernel, config)',
    launchConfig,
    LAUNCH_OPTIONS,
    { memory: [addedTo], lacks: needsCompiler },
    (scene, hooked) => () => scene.stream.launch(added, hooked(), scene.buffer(0), WORDS, ADDED),
  ),
  ...forEachOption(
    'GraphExec#update',
    'exec.update(kernel node, config)',
    launchConfig,
    LAUNCH_OPTIONS,
    { memory: [{ name: 'operand' }], uses: ['the graph', 'the graph exec'], lacks: needsCompiler },
    (scene, hooked) => {
      const { allocationStream } = scene.lab
      const launch = () => void allocationStream.launch(added, launchConfig(), scene.buffer(0), WORDS, ADDED)
      const { graph, exec } = execOf(scene, launch)
      const [node] = graph.nodesOf(added)
      assert.ok(node)
      return () => exec.update(node, hooked(), scene.buffer(0), WORDS, ADDED)
    },
  ),
  ...forEachOption(
    'GraphExec#update',
    'exec.update(fill node, buffer, value, options)',
    () => ({ width: 4 as const, type: undefined }),
    ['width', 'type'],
    { memory: [{ name: 'destination' }], uses: ['the graph', 'the graph exec'] },
    (scene, hooked) => {
      const { graph, exec } = execOf(scene, () => void scene.lab.allocationStream.fill(scene.buffer(0), 1))
      const [node] = graph.nodes
      assert.ok(node?.kind === 'fill')
      return () => exec.update(node, scene.buffer(0), FILLED, hooked())
    },
  ),
  ...forEachOption(
    'Stream#external',
    'stream.external(work)',
    (scene) => ({
      name: 'another library',
      memory: [{ buffer: scene.buffer(0), access: 'out' as const }],
      simulate: ([bytes]: readonly Uint8Array[]) => bytes?.fill(0x44),
      nanoseconds: 1000,
    }),
    ['name', 'memory', 'simulate', 'nanoseconds'],
    { memory: [filled], lacks: onlySimulated },
    (scene, hooked) => () => scene.stream.external(hooked(), () => {}),
  ),
  ...(['buffer', 'access'] as const).map(
    (name): UserCode => ({
      name: `stream.external(work): the getter of ${name}`,
      memory: [filled],
      lacks: onlySimulated,
      prepare: (scene, act) => () => {
        const piece = getting({ buffer: scene.buffer(0), access: 'out' as const }, name, act)
        const simulate = ([bytes]: readonly Uint8Array[]) => bytes?.fill(0x44)
        return scene.stream.external({ name: 'another library', memory: [piece], simulate }, () => {})
      },
    }),
  ),
  {
    name: 'stream.external(work, function): the function',
    memory: [{ name: 'destination' }],
    lacks: ({ bench }) =>
      bench.name === 'sim' ? 'the simulator queues the host implementation in its place' : undefined,
    prepare: (scene, act) => {
      const work = { name: 'another library', memory: [{ buffer: scene.buffer(0) }] }
      return () => scene.stream.external(work, act)
    },
  },
  ...forEachOption(
    'Stream#capture',
    'stream.capture(function, options)',
    () => ({ mode: 'relaxed' as const }),
    ['mode'],
    {},
    (scene, hooked) => () => scene.keep(scene.stream.capture(() => {}, hooked())),
  ),
  ...forEachOption(
    'Stream#capture',
    'stream.capture(function, { into, after })',
    (scene) => {
      const into = scene.lab.allocationStream.capture(() => void scene.lab.allocationStream.launchHostFunc(() => {}))
      scene.keep(into)
      scene.closers.set('the graph', () => into.close())
      return { into, after: into.nodes }
    },
    ['into', 'after'],
    { uses: ['the graph'] },
    (scene, hooked) => {
      const options = hooked()
      return () => void scene.stream.capture(() => {}, options)
    },
  ),
  {
    name: 'stream.capture(function, { into, after }): the getter of a node',
    uses: ['the graph'],
    prepare: (scene, act) => {
      const into = scene.lab.allocationStream.capture(() => void scene.lab.allocationStream.launchHostFunc(() => {}))
      scene.keep(into)
      scene.closers.set('the graph', () => into.close())
      const after = gettingAt(into.nodes, 0, act)
      return () => void scene.stream.capture(() => {}, { into, after })
    },
  },
  {
    name: 'stream.capture(function, { into }): the function',
    uses: ['the graph'],
    prepare: (scene, act) => {
      const into = scene.lab.allocationStream.capture(() => void scene.lab.allocationStream.launchHostFunc(() => {}))
      scene.keep(into)
      scene.closers.set('the graph', () => into.close())
      return () => void scene.stream.capture(act, { into })
    },
  },
  {
    name: 'stream.capture(function): the function',
    memory: [{ name: 'destination' }],
    prepare: (scene, act) => () => {
      scene.keep(
        scene.stream.capture(() => {
          scene.stream.fill(scene.buffer(0), 1)
          act()
        }),
      )
    },
  },
  {
    name: 'stream.capture(function): then of what it returns',
    also: ['ERR_INVALID_ARG_VALUE'],
    prepare: (scene, act) => () => {
      const thenable = {
        // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tried
        get then() {
          act()
          return () => {}
        },
      }
      scene.keep(scene.stream.capture(() => thenable as unknown as undefined))
    },
  },
]

const events: readonly UserCode[] = [
  ...forEachOption(
    'new Event',
    'new Event(options)',
    ({ device }) => ({ device, timing: false, blockingSync: false, interprocess: false }),
    ['device', 'timing', 'blockingSync', 'interprocess'],
    {},
    (scene, hooked) => () => scene.keep(new Event(hooked())).handle,
  ),
  ...forEachOption(
    'Device#createEvent',
    'device.createEvent(options)',
    () => ({ timing: false, blockingSync: false, interprocess: false }),
    ['timing', 'blockingSync', 'interprocess'],
    {},
    (scene, hooked) => () => scene.keep(scene.device.createEvent(hooked())).handle,
  ),
  ...forEachOption(
    'Event#wait',
    'event.wait(stream, options)',
    () => ({ external: true }),
    ['external'],
    { event: 'before', uses: ['the event'] },
    (scene, hooked) => () => scene.event.wait(scene.stream, hooked()),
  ),
  ...forEachOption(
    'Event#record',
    'event.record(stream, options)',
    () => ({ external: true }),
    ['external'],
    { event: 'never', uses: ['the event'] },
    (scene, hooked) => () => scene.event.record(scene.stream, hooked()),
  ),
  ...forEachOption(
    'Event#finished',
    'event.finished(options)',
    () => ({ signal: new AbortController().signal }),
    ['signal'],
    { event: 'behind', uses: ['the event'] },
    (scene, hooked) => () => scene.event.finished(hooked()),
  ),
  ...forEachOption(
    'Event.fromHandle',
    'Event.fromHandle(handle, options)',
    ({ device }) => ({ device, owner: {} }),
    ['device', 'owner'],
    { event: 'behind', uses: ['the event'], also: ['ERR_INVALID_HANDLE'] },
    (scene, hooked) => () => scene.keep(Event.fromHandle(scene.event.handle, hooked())),
  ),
  {
    name: 'Event.from(token): the getter of key',
    event: 'behind',
    uses: ['the event'],
    prepare: (scene, act) => {
      const token = scene.event.share()
      return () => Event.from(getting(token, 'key', act))
    },
  },
]

const lent = { dtype: 'u32', shape: [1], strides: [1] } as const
const ofHost = ['ERR_INVALID_ARG_VALUE', 'ERR_INVALID_ARG_TYPE']
/** Pinned memory is exported by its real address, which the simulator does not know. */
const ofRealMemory = ['ERR_UNSUPPORTED']

const tensors: readonly UserCode[] = [
  ...forEachOption(
    'toDLPack',
    'toDLPack(buffer, options)',
    ({ stream }) => ({ ...lent, readOnly: false, stream, maxVersion: undefined }),
    ['readOnly', 'stream', 'maxVersion', 'dtype', 'shape', 'strides'],
    { memory: [source], also: ofHost },
    (scene, hooked) => () => toDLPack(scene.buffer(0), hooked()).release(),
  ),
  ...forEachOption(
    'fromDLPack',
    'fromDLPack(tensor, options)',
    ({ stream }) => ({ stream }),
    ['stream'],
    { memory: [source], also: [...ofHost, ...ofRealMemory] },
    (scene, hooked) => {
      const tensor = toDLPack(scene.buffer(0), { ...lent, stream: null })
      scene.lends()
      scene.keep({ close: () => tensor.release() })
      return () => fromDLPack(tensor, hooked()).buffer.close()
    },
  ),
  ...forEachOption(
    'toCudaArrayInterface',
    'toCudaArrayInterface(buffer, options)',
    ({ stream }) => ({ ...lent, readOnly: false, stream }),
    ['readOnly', 'stream', 'dtype', 'shape', 'strides'],
    { memory: [source], also: ofHost },
    (scene, hooked) => () => toCudaArrayInterface(scene.buffer(0) as DeviceBuffer, hooked()),
  ),
  ...forEachOption(
    'fromCudaArrayInterface',
    'fromCudaArrayInterface(dict, options)',
    ({ stream }) => ({ stream, owner: {} }),
    ['stream', 'owner'],
    { memory: [source], also: [...ofHost, 'ERR_INVALID_HANDLE'] },
    (scene, hooked) => () => {
      const options = hooked()
      const dict = toCudaArrayInterface(scene.buffer(0) as DeviceBuffer, { ...lent, stream: null })
      fromCudaArrayInterface(dict, options).buffer.close()
    },
  ),
]

const libraries: readonly UserCode[] = [
  ...aboutLibraries.flatMap((library) => library.userCode(forEachOption)),
  ...forEachOption(
    'Communicator#allReduce',
    'communicator.allReduce(source, destination, options)',
    ({ stream }) => ({ type: 'u32' as const, op: 'sum' as const, stream }),
    ['type', 'op', 'stream'],
    {
      memory: [copied, source],
      uses: ['the communicator'],
      also: ['ERR_INVALID_ARG_TYPE'],
      lacks: onlySimulated,
    },
    async (scene, hooked) => {
      const [communicator] = await Communicator.createAll([scene.device])
      assert.ok(communicator !== undefined)
      scene.closers.set('the communicator', () => void communicator.abort())
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      return () => communicator.allReduce(from, to, hooked())
    },
  ),
  {
    name: 'group(function): the function, after the calls',
    memory: [copied, source],
    uses: ['the communicator'],
    also: ['ERR_INVALID_ARG_TYPE'],
    lacks: onlySimulated,
    prepare: async (scene, act) => {
      const [communicator] = await Communicator.createAll([scene.device])
      assert.ok(communicator !== undefined)
      scene.closers.set('the communicator', () => void communicator.abort())
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      return () =>
        group(() => {
          communicator.allReduce(from, to, { type: 'u32', stream: scene.stream })
          act()
        })
    },
  },
]

const all: readonly UserCode[] = [...streams, ...memory, ...launches, ...events, ...tensors, ...libraries]

const HELD: readonly Hold[] = ['nothing', 'own']
const PLACES: readonly Place[] = [
  { stream: 'non-blocking' },
  { stream: 'blocking' },
  { stream: 'non-blocking', isWatched: true },
]
const KINDS: readonly MemoryKind[] = [
  ...(['own', 'device', 'slice', 'pinned', 'foreign', 'interprocess', 'shared'] as const),
  ...(['registered shared', 'pool', 'dlpack'] as const),
]

/** The options whose getters are tried. */
export const triedOptions: readonly string[] = all.flatMap(({ tries }) => tries ?? [])

export const userCodeRows: readonly Row[] = all.map((code, turn) => ({
  name: code.name,
  lacks: (lab) => code.lacks?.({ lab, bench: lab.bench }),
  *cells(lab) {
    const places = isFakeDriver() ? PLACES.slice(0, 1) : PLACES
    const operands = (code.memory ?? []).map(({ name }) => `the ${name}`)
    const targets = ['the stream', ...operands, ...(code.uses ?? [])]
    const kinds = code.memory === undefined ? [undefined] : KINDS
    for (const [first = 0, second = 0, third = 0, fourth = 0] of combinations([places, HELD, kinds, targets], turn)) {
      const [place, hold, kind, target] = [places[first], HELD[second], kinds[third], targets[fourth]]
      if (place === undefined || hold === undefined || target === undefined) continue
      const stands = hold === 'nothing' ? '' : ' at which a host function stands'
      yield {
        name: `${target} is closed, ${describePlace(place)}${stands}${kind === undefined ? '' : `, memory: ${kind}`}`,
        play: () => play(lab, code, place, hold, kind, target),
      }
    }
  },
}))

async function play(
  lab: Lab,
  code: UserCode,
  place: Place,
  hold: Hold,
  kind: MemoryKind | undefined,
  target: string,
): Promise<void> {
  const kinds = (code.memory ?? []).map(() => kind ?? 'device')
  using watch = new Watch(lab, place)
  const asCall: Call = { ...code, members: [], act: 'makes', prepare: () => () => {} }
  const scene = new Scene(lab, asCall, place, hold, kinds, true)
  const victims = new Victims(lab)
  try {
    let acted = false
    // Once only: what a getter does at the first look must not be undone at the next.
    const act = (): void => {
      if (acted) return
      acted = true
      scene.closer(target)()
    }
    const invoke = await code.prepare(scene, act)
    scene.recordBefore()
    lab.settle()
    scene.holdUp()
    scene.beginCapture()
    const first = outcomeOf(invoke)
    if (!code.mayWait) assert.equal(scene.ran, 0, 'the call has run the host function that stood')
    victims.arrive()
    const last = await closedOrDone(first, ...(code.also ?? []))
    await scene.settled()
    const isPinnedKind = kind !== undefined && isPinned(kind)
    assert.ok(acted || code.isLate || first.outcome !== RETURNS || isPinnedKind, 'no code of the program was run')
    scene.checkMemory(last.outcome === RETURNS ? 1 : 0)
    await victims.check()
    watch.check()
  } finally {
    victims.dispose()
    scene.dispose()
  }
}
