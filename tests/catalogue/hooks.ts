/**
 * Code of the program that runs inside a call and is no getter of an option: methods of the stream protocol, iterators, thenables,
 * functions that it is given. A test lets it close what the call uses.
 */
import assert from 'node:assert/strict'
import { DeviceBuffer, Event, ExternalStream, PinnedBuffer, Stream } from 'cuda-streams'
import { Communicator, group } from 'cuda-streams/nccl'
import { addedByStruct, CONFIG, needsStruct } from './adding.js'
import { type Call, type Invoke, onlySimulated, valuesOf } from './call.js'
import { BYTES, WORDS } from './lab.js'
import type { Scene } from './scene.js'
import { graphOf } from './values.js'

export interface Hook extends Pick<Call, 'name' | 'memory' | 'event' | 'uses' | 'lacks' | 'waits' | 'closedCodes'> {
  /** The code may run later, or not at all. */
  readonly isLate?: boolean
  /** The call, in which `act` is called by code of the program. */
  prepare(scene: Scene, act: () => void): Invoke | Promise<Invoke>
}

/** An object, one of whose properties is a getter that does something before it tells its value. */
function getting<T extends object>(object: T, name: keyof T, act: () => void): T {
  return Object.defineProperty({ ...object }, name, { enumerable: true, get: acting(object[name], act) })
}

/** A copy of the array, whose element of this number is a getter that does something before it tells the value. */
function gettingAt<T extends readonly unknown[]>(array: T, index: number, act: () => void): T {
  const copy = Object.defineProperty([...array], index, { enumerable: true, get: acting(array[index], act) })
  return copy as readonly unknown[] as T
}

const acting = (value: unknown, act: () => void) => (): unknown => {
  act()
  return value
}

/** One for each option of the call: its getter. */
export const gettersOf = (call: Call): readonly Hook[] =>
  Object.keys(call.options?.apart === undefined ? (call.options?.values ?? {}) : {}).map((name) => ({
    ...call,
    name: `${call.name}: the getter of ${name}`,
    closedCodes: [...(call.closedCodes ?? []), ...(call.options?.closedCodes ?? [])],
    lacks: call.options?.lacks ?? call.lacks ?? (() => undefined),
    prepare: async (scene, act) => {
      const invoke = await call.prepare(scene)
      const options = valuesOf(call, scene)
      return () => invoke(getting(options, name, act) as never)
    },
  }))

const ADDED = 5
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

const streams: readonly Hook[] = [
  ...(Object.keys(protocols) as Protocol[]).flatMap((protocol): Hook[] => [
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
  {
    name: 'Stream.from(token): the getter of key',
    prepare: (scene, act) => {
      const token = scene.stream.share()
      return () => Stream.from(getting(token, 'key', act))
    },
  },
  {
    name: 'device.split({ multiprocessors }): the getter of a number',
    waits: 'everything',
    prepare: (scene, act) => () => {
      const [part] = scene.device.split({ multiprocessors: gettingAt([8] as const, 0, act) })
      return scene.keep(part).handle
    },
  },
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

const memory: readonly Hook[] = [
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
    closedCodes: ['an error without a code: TypeError: Cannot perform Construct on a detached ArrayBuffer'],
  },
]

const launches: readonly Hook[] = [
  {
    name: 'stream.launch(kernel, config, a struct)',
    memory: [addedTo],
    lacks: needsStruct,
    prepare: (scene, act) => () =>
      scene.stream.launch(addedByStruct, CONFIG, scene.buffer(0), getting({ count: WORDS }, 'count', act), ADDED),
  },
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
  {
    name: 'stream.capture(function, { into, after }): the getter of a node',
    uses: ['the graph'],
    prepare: (scene, act) => {
      const into = graphOf(scene)
      const after = gettingAt(into.nodes, 0, act)
      return () => void scene.stream.capture(() => {}, { into, after })
    },
  },
  {
    name: 'stream.capture(function, { into }): the function',
    uses: ['the graph'],
    prepare: (scene, act) => {
      const into = graphOf(scene)
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
    closedCodes: ['ERR_INVALID_ARG_VALUE'],
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

const events: readonly Hook[] = [
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

const libraries: readonly Hook[] = [
  {
    name: 'group(function): the function, after the calls',
    memory: [copied, source],
    uses: ['the communicator'],
    closedCodes: ['ERR_INVALID_ARG_TYPE'],
    lacks: onlySimulated,
    prepare: async (scene, act) => {
      const [communicator] = await Communicator.createAll([scene.device])
      assert.ok(communicator !== undefined)
      scene.closers.set('the communicator', () => void communicator.abort())
      const [to, from] = [scene.buffer(0), scene.buffer(1)] as [DeviceBuffer, DeviceBuffer]
      return () =>
        group(() => {
          communicator.allReduce(scene.stream, from, to, { type: 'u32' })
          act()
        })
    },
  },
]

export const hooks: readonly Hook[] = [...streams, ...memory, ...launches, ...events, ...libraries]
