/** Every options object of the library, and what becomes of names that no option has. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import {
  DeviceBuffer,
  defineKernel,
  Event,
  ExternalStream,
  MemoryPool,
  Module,
  PinnedBuffer,
  Program,
  Stream,
  struct,
} from 'cuda-streams'
import { compileCu, cuRollup } from 'cuda-streams/cu'
import { fromCudaArrayInterface, fromDLPack, toCudaArrayInterface, toDLPack } from 'cuda-streams/dlpack'
import { Communicator } from 'cuda-streams/nccl'
import { traceOperations } from 'cuda-streams/opentelemetry'
import { Recorder } from 'cuda-streams/recording'
import { declareAccess, Sanitizer, sanitize } from 'cuda-streams/sanitizer'
import { explore, foreignStream, replay, simulate, simulationOf } from 'cuda-streams/sim'
import { publish, Timeline } from 'cuda-streams/timeline'
import { root } from '../helpers/root.js'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import { aboutLibraries } from '../libraries/about-libraries.js'
import type { OptionsRow as Row } from '../libraries/about-library.js'
import { checkError, refused } from './expect.js'

const STREAM = 'device, priority, nonBlocking, context, memorySyncDomain'
const EVENT = 'timing, blockingSync, interprocess'
const DLPACK = 'dtype, shape, strides, readOnly, stream, maxVersion'
const FAULT = 'call, operation, nth, times, probability, result'
const SANITIZER = 'mode, fix, causal, device, stacks, suppress, atOnce, exitCode'
const EXPLORE = 'devices, maxRuns, maxMilliseconds, seed, strategy, faults, onProgress'
const LAUNCH =
  'grid, threads, block, sharedMemory, cooperative, cluster, programmatic, priority, sharedMemoryCarveout, memorySyncDomain, clusterScheduling, preferredCluster'
const KERNEL =
  'name, source, ptx, cubins, mangledName, options, signature, parameterNames, simulate, simulateGrid, runs, nanoseconds'

/** Objects of the rows, which are closed with it. */
class Held implements Disposable {
  readonly #ends: (() => unknown)[] = []

  use<T extends Disposable>(object: T): T {
    this.defer(() => object[Symbol.dispose]())
    return object
  }

  defer(end: () => unknown): void {
    this.#ends.unshift(end)
  }

  [Symbol.dispose](): void {
    for (const end of this.#ends) end()
  }
}

function rowsOf(bench: Workbench, held: Held): readonly Row[] {
  const { device } = bench
  const stream = held.use(bench.stream())
  const event = held.use(device.createEvent())
  const buffer = held.use(device.alloc(256, { stream }))
  const graph = held.use(stream.capture(() => stream.fill(buffer, 0)))
  const exec = held.use(graph.instantiate())
  const [node] = graph.nodes
  assert.ok(node?.kind === 'fill')
  const source = 'extern "C" __global__ void none() {}'
  const defined = defineKernel({ name: 'none', source, signature: [], simulateGrid: () => {} })
  const streams: readonly Row[] = [
    ['streams/stream-impl', 'new Stream()', STREAM, (o) => new Stream(o)],
    ['streams/stream-impl', 'new ExternalStream()', 'device, owner', (o) => new ExternalStream(stream.handle, o)],
    ['streams/stream-impl', 'Stream.from(stream)', 'device, owner', (o) => Stream.from(stream, o)],
    [
      'shortcuts',
      'device.createStream()',
      'priority, nonBlocking, context, memorySyncDomain, device',
      (o) => device.createStream(o),
    ],
    ['streams/green-context', 'device.split()', 'multiprocessors', (o) => device.split(o)],
    ['stream', 'stream.record()', `${EVENT}, external`, (o) => stream.record(o)],
    ['stream', 'stream.record(event)', `${EVENT}, external`, (o) => stream.record(event, o)],
    ['stream', 'event.record(stream)', `${EVENT}, external`, (o) => event.record(stream, o)],
    ['stream', 'stream.wait(event)', 'external', (o) => stream.wait(event, o)],
    ['stream', 'event.wait(stream)', 'external', (o) => event.wait(stream, o)],
    ['stream', 'stream.wait(stream)', 'event, external', (o) => stream.wait(bench.stream(), o)],
    ['stream', 'stream.wait(promise)', 'signal', (o) => stream.wait(Promise.resolve(), o)],
    [
      'memory/stream-memory-operations',
      'stream.waitValue()',
      'byteOffset, compare',
      (o) => stream.waitValue(buffer, 0, o),
    ],
    ['memory/stream-memory-operations', 'stream.writeValue()', 'byteOffset', (o) => stream.writeValue(buffer, 0, o)],
    ['stream', 'stream.downloader()', 'chunkBytes', (o) => stream.downloader(buffer, o)],
    [
      'memory/transfers',
      'stream.copy()',
      'shape, destinationStrides, sourceStrides',
      (o) => stream.copy(buffer, buffer, o),
    ],
    ['memory/pinned-buffer', 'PinnedBuffer.from()', 'device', (o) => PinnedBuffer.from(new Uint8Array(8), o)],
    ['memory/transfers', 'stream.fill()', 'width, type, shape, strides', (o) => stream.fill(buffer, 0, o)],
    ['memory/transfers', 'exec.update(fill node)', 'width, type', (o) => exec.update(node, buffer, 0, o)],
    ['graphs/capture', 'stream.capture()', 'mode, into, after', (o) => stream.capture(() => {}, o)],
    ['driver/finished', 'stream.finished()', 'signal', (o) => stream.finished(o)],
    ['driver/finished', 'event.finished()', 'signal', (o) => event.finished(o)],
    ['driver/finished', 'device.finished()', 'signal', (o) => device.finished(o)],
  ]
  const events: readonly Row[] = [
    ['event', 'new Event()', `${EVENT}, device`, (o) => new Event(o)],
    ['event', 'Event.fromHandle()', 'device, owner', (o) => Event.fromHandle(event.handle, o)],
    ['event', 'Event.fromIpcHandle()', 'device', (o) => Event.fromIpcHandle(new Uint8Array(64), o)],
    ['shortcuts', 'device.createEvent()', `${EVENT}, device`, (o) => device.createEvent(o)],
  ]
  const memory: readonly Row[] = [
    ['shortcuts', 'device.alloc()', 'stream, interprocess, pool', (o) => device.alloc(8, o)],
    [
      'memory/memory-pool',
      'new MemoryPool()',
      'device, releaseThreshold, maxBytes',
      (o) => held.use(new MemoryPool(o)),
    ],
    ['memory/device-buffer', 'DeviceBuffer.from()', 'device, owner', (o) => DeviceBuffer.from(buffer.pointer, 8, o)],
    [
      'memory/device-buffer',
      'DeviceBuffer.fromIpcHandle()',
      'device',
      (o) => {
        return DeviceBuffer.fromIpcHandle(new Uint8Array(80), o)
      },
    ],
  ]
  const kernels: readonly Row[] = [
    [
      'kernels/kernel',
      'stream.launch()',
      LAUNCH,
      (o) => stream.launch(defined, Object.assign(o, { grid: 1, block: 1 })),
    ],
    ['kernels/kernel', 'Module.load()', 'device', (o) => Module.load('', o)],
    ['kernels/kernel', 'Program.compile()', 'arch, options, device, name', (o) => Program.compile('', o)],
    ['cu/compile-cu', 'compileCu()', 'arch, cubins, options', (o) => compileCu('none.cu', o)],
    ['cu/plugins', 'cuRollup()', 'arch, cubins, options, declarations', (o) => cuRollup(o)],
    ['base/element-layout', 'struct()', 'alignment', (o) => struct({ x: 'f32' }, o)],
    ['kernels/defined-kernel', 'defineKernel()', KERNEL, (o) => defineKernel(o)],
    [
      'kernels/external-work',
      'stream.external()',
      'name, memory, simulate, nanoseconds',
      (o) => {
        return stream.external(o, () => {})
      },
    ],
    [
      'kernels/external-work',
      'stream.external({ memory })',
      'buffer, access',
      (each) => {
        return stream.external({ name: 'theirs', memory: [each] }, () => {})
      },
    ],
  ]
  const tools: readonly Row[] = [
    ['simulation/simulation', 'simulate()', 'devices, seed, memory, instructions, faults', (o) => simulate(o)],
    ['simulation/simulation', 'simulate({ faults })', FAULT, (fault) => simulate({ faults: [fault] })],
    ['explore/explore', 'explore()', EXPLORE, (o) => explore(() => {}, o)],
    ['explore/explore', 'replay()', 'devices, seed, faults', (o) => replay(() => {}, '2:5=7,9=0', o)],
    ['sanitizer/sanitizer', 'Sanitizer.start()', SANITIZER, (o) => Sanitizer.start(o)],
    ['sanitizer/sanitizer', 'sanitize()', 'device, stacks, causal, suppress', (o) => sanitize(() => {}, o)],
    [
      'sanitizer/sanitizer',
      'Sanitizer.start({ suppress })',
      'match, reason',
      (one) => Sanitizer.start({ suppress: [one as never] }),
    ],
    ['sanitizer/sanitizer', 'declareAccess()', 'reads, writes', (o) => declareAccess(stream, o)],
    [
      'timeline/timeline',
      'Timeline.start()',
      'device, simulation, callSites, limit, everything',
      (o) => Timeline.start(o),
    ],
    [
      'timeline/timeline',
      'Timeline.record()',
      'device, simulation, callSites, limit, everything',
      (o) => {
        return Timeline.record(() => {}, o)
      },
    ],
    [
      'timeline/timeline',
      'timeline.toHtml()',
      'title',
      async (o) => {
        return (await Timeline.record(() => {}, { device })).toHtml(o)
      },
    ],
    [
      'timeline/svg',
      'timeline.toSvg()',
      'width, from, to, title, arrows, criticalPath',
      async (o) => {
        return (await Timeline.record(() => {}, { device })).toSvg(o)
      },
    ],
    [
      'recording/recorder',
      'Recorder.start()',
      'device, stacks',
      (o) => Recorder.start(join(root, 'never', 'written'), o),
    ],
    ['timeline/channels', 'publish()', 'device, interval', (o) => publish(o)],
    ['timeline/spans', 'traceOperations()', 'tracer, device, interval', (o) => traceOperations(o)],
    ['libraries/dlpack/exchange', 'toDLPack()', DLPACK, (o) => toDLPack(buffer, o)],
    ['libraries/dlpack/exchange', 'fromDLPack()', 'stream', (o) => fromDLPack({ pointer: 8n, versioned: true }, o)],
    [
      'libraries/dlpack/array-interface',
      'toCudaArrayInterface()',
      'dtype, shape, strides, readOnly, stream',
      (o) => toCudaArrayInterface(buffer, o),
    ],
    [
      'libraries/dlpack/array-interface',
      'fromCudaArrayInterface()',
      'stream, owner',
      (o) => fromCudaArrayInterface({} as never, o),
    ],
    [
      'libraries/nccl/communicator',
      'Communicator.create()',
      'id, rank, size, device, timeout, signal',
      (o) => {
        return Communicator.create(o)
      },
    ],
    [
      'libraries/nccl/communicator',
      'Communicator.createAll()',
      'timeout, signal',
      (o) => {
        return Communicator.createAll([device], o)
      },
    ],
  ]
  const isSimulated = bench.name === 'sim'
  const use = held.use.bind(held)
  const libraries = aboutLibraries.flatMap(({ options }) => options({ stream, buffer, use }, isSimulated))
  return [...streams, ...events, ...memory, ...kernels, ...tools, ...libraries, ...(isSimulated ? simulated() : [])]

  /** Objects that a machine may lack the library for, and others that only the simulator has. */
  function simulated(): readonly Row[] {
    const ranks = Communicator.createAll([device])
    held.defer(() => void ranks.then(([rank]) => rank?.close()))
    const withRank = (call: (rank: Communicator) => unknown) => async (): Promise<unknown> => {
      const [rank] = await ranks
      assert.ok(rank)
      return call(rank)
    }
    const nccl = (call: string, takes: string, pass: (rank: Communicator, options: never) => unknown): Row => {
      const names = takes === 'signal' ? takes : ['type', 'stream', takes].filter((each) => each !== '').join(', ')
      const file = takes === 'signal' ? 'communicator' : 'nccl-call'
      return [`libraries/nccl/${file}`, `rank.${call}()`, names, (o) => withRank((rank) => pass(rank, o))()]
    }
    return [
      [
        'simulation/simulation',
        'foreignStream()',
        'priority, nonBlocking, context, memorySyncDomain, device',
        (o) => foreignStream(device, o),
      ],
      ['simulation/simulation', 'simulation.inject()', FAULT, (fault) => simulationOf(device).inject(fault)],
      nccl('allReduce', 'op', (rank, o) => rank.allReduce(buffer, buffer, o)),
      nccl('broadcast', 'root', (rank, o) => rank.broadcast(buffer, buffer, o)),
      nccl('reduce', 'op, root', (rank, o) => rank.reduce(buffer, buffer, o)),
      nccl('allGather', '', (rank, o) => rank.allGather(buffer, buffer, o)),
      nccl('reduceScatter', 'op', (rank, o) => rank.reduceScatter(buffer, buffer, o)),
      nccl('send', 'peer', (rank, o) => rank.send(buffer, o)),
      nccl('recv', 'peer', (rank, o) => rank.recv(buffer, o)),
      nccl('finished', 'signal', (rank, o) => rank.finished(o)),
      nccl('close', 'signal', (rank, o) => rank.close(o)),
    ]
  }
}

/** The refusal, whether the call throws or rejects. */
async function refusal(act: () => unknown, ...says: readonly RegExp[]): Promise<void> {
  let result: unknown
  try {
    result = await act()
  } catch (error) {
    checkError(error, 'ERR_INVALID_ARG_VALUE', ...says)
    return
  }
  assert.fail(`ERR_INVALID_ARG_VALUE was expected, not ${String(result)}`)
}

onEveryBackend('names of options', (bench) => {
  const { device } = bench

  test('A6 a name that no option has is refused by every call, with the names that there are', async () => {
    using held = new Held()
    for (const [, call, names, pass] of rowsOf(bench, held)) {
      const list = names.split(', ').join("', '")
      const says = new RegExp(`^(?:none: )?unknown option 'wwwwwwwwwwww' in .*: the options are '${list}'$`)
      await refusal(() => pass({ wwwwwwwwwwww: 1 } as never), says).catch((error: unknown) => {
        throw new Error(`${call} with { wwwwwwwwwwww }`, { cause: error })
      })
    }
  })

  test('A6 a name that is nearly an option’s is refused by every call, with the one that was meant', async () => {
    using held = new Held()
    for (const [, call, names, pass] of rowsOf(bench, held)) {
      for (const name of names.split(', ').filter((each) => each.length > 2)) {
        const [first = '', ...rest] = name
        const slips = [name.toUpperCase(), `${first}${first}${rest.join('')}`, `${name}s`]
        for (const slip of slips.filter((each) => !names.split(', ').includes(each))) {
          const says = new RegExp(`^(?:none: )?unknown option '${slip}' in .*: did you mean '${name}'\\?$`)
          await refusal(() => pass({ [slip]: undefined } as never), says).catch((error: unknown) => {
            throw new Error(`${call} with { ${slip} }`, { cause: error })
          })
        }
      }
    }
  })

  test('A6 options objects of every realm and none are read by name; an object of a class, and one that inherits, may have more', () => {
    const unknown = { prioritty: -1 }
    const refusedOptions = [
      { ...unknown },
      { prioritty: undefined },
      Object.assign(Object.create(null), unknown),
      runInNewContext('({ prioritty: -1 })'),
    ]
    for (const options of refusedOptions) {
      refused(() => device.createStream(options), 'ERR_INVALID_ARG_VALUE', /'prioritty'.*did you mean 'priority'/)
    }
    class Settings {
      prioritty = -1
      priority = 0
    }
    const acceptedOptions: readonly object[] = [
      new Settings(),
      Object.assign(Object.create({ priority: 0 }), unknown),
      { [Symbol('prioritty')]: -1 },
      Object.defineProperty({}, 'prioritty', { value: -1 }),
    ]
    for (const options of acceptedOptions) device.createStream(options).close()
  })
})

test('A6 a launch of the same shape as the last one is read as well', () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using stream = device.createStream()
  const kernel = defineKernel({ name: 'none', source: '', signature: [], simulateGrid: () => {} })
  stream.launch(kernel, { grid: 1, block: 1 })
  const slip = { grid: 1, block: 1, sharedmemory: 64 }
  refused(() => stream.launch(kernel, slip), 'ERR_INVALID_ARG_VALUE', /'sharedmemory'.*'sharedMemory'/)
  stream.synchronize()
})

const folder = join(root, 'src')
const skip = existsSync(folder) ? false : 'the sources are not here, only what was compiled of them'
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

test('A6 the table has a row for each place where options are read', { skip }, () => {
  const places: string[] = []
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts') || name === join('base', 'arguments.ts')) continue
    const text = readFileSync(join(folder, name), 'utf8').replaceAll(/function readOptionsOn.*?\n}/gs, '')
    for (const _ of text.matchAll(/\breadOptions(?:On)?\(/g))
      places.push(name.replace(/\.ts$/, '').replaceAll('\\', '/'))
  }
  assert.ok(places.length > 40)
  const { devices } = simulate()
  const [device] = devices
  assert.ok(device)
  const bench = { name: 'sim', device, stream: () => device.createStream() } as unknown as Workbench
  using held = new Held()
  const rows = rowsOf(bench, held).map(([file]) => file)
  const count = (all: readonly string[], one: string): number => all.filter((each) => each === one).length
  const missing = [...new Set(places)].filter((place) => count(rows, place) < count(places, place))
  assert.deepEqual(missing, [])
})
