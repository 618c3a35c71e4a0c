/**
 * G13: a graph keeps what its work uses. Each kind of thing, dropped in each way, in each state that a graph and its
 * launches can be in: the bytes are right, and afterwards it is given back, once.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  DeviceBuffer as Buffers,
  type DeviceBuffer,
  Event,
  ExternalStream,
  type Graph,
  type GraphExec,
  type PinnedBuffer,
  Program,
  type Stream,
} from 'cuda-streams'
import { driverOf } from '../../src/core/device.js'
import type { Driver } from '../../src/foundation/driver/driver.js'
import type { EventDriver } from '../../src/foundation/driver/event-driver.js'
import type { KernelDriver } from '../../src/foundation/driver/kernel-driver.js'
import type { MemoryDriver } from '../../src/foundation/driver/memory-driver.js'
import type { WorkDriver } from '../../src/foundation/driver/queued-work.js'
import type { SharingDriver } from '../../src/foundation/driver/sharing-driver.js'
import type { Interceptor } from '../../src/foundation/driver/wrappable-driver.js'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import { allPairs, product } from '../helpers/all-pairs.js'
import { byEffort, runs } from '../helpers/effort.js'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import { collectUntil, refused, turns } from './expect.js'

const BYTES = 1024
const VALUE = 7
const LAUNCHES = runs({ quick: 200, normal: 200, nightly: 10_000 })

/** Counts what is given back to the driver. */
class AllocationTracker implements Interceptor {
  readonly freed = new Map<number, number>()
  readonly #others = new Set<number>()
  /** The modules that were loaded. */
  readonly loaded: number[] = []

  constructor(private readonly next: Driver) {}

  readonly memory: Partial<MemoryDriver> = {
    allocatePinned: (byteLength, context) => {
      const pinned = this.next.memory.allocatePinned(byteLength, context)
      this.made(pinned.pointer)
      return pinned
    },
    closePinned: (pointer, bytes, after) => {
      this.next.memory.closePinned(pointer, bytes, after)
      this.count(pointer)
    },
  }
  readonly kernels: Partial<KernelDriver> = {
    load: (image, context) => {
      const module = this.next.kernels.load(image, context)
      this.loaded.push(module)
      return module
    },
    unload: (module, context) => {
      this.next.kernels.unload(module, context)
      this.count(module)
    },
  }
  readonly sharing: Partial<SharingDriver> = {
    free: (pointer, after) => {
      this.next.sharing.free(pointer, after)
      this.count(pointer)
    },
  }

  readonly work: Partial<WorkDriver> = {
    queue: (work) => {
      this.next.work.queue(work)
      if (work.kind === 'allocate') this.made(work.pointer)
      if (work.kind === 'free') this.count(work.pointer)
    },
  }

  readonly events: Partial<EventDriver> = {
    destroy: (event) => {
      this.next.events.destroy(event)
      this.count(event)
    },
    create: (context, flags, recordedNext) => this.made(this.next.events.create(context, flags, recordedNext)),
  }

  /** What was given back may come again for something else, which is not counted. */
  made<H extends number>(handle: H): H {
    if (this.freed.has(handle)) this.#others.add(handle)
    return handle
  }
  count(handle: number): void {
    if (this.#others.has(handle)) return
    this.freed.set(handle, (this.freed.get(handle) ?? 0) + 1)
  }
}

/** A thing that a graph uses. The program has it by `held` alone. */
interface Thing {
  held: { close(): void } | undefined
  /** Captures work with it, which writes VALUE into `out`. */
  readonly capture: (stream: Stream, out: DeviceBuffer) => void
  /** How often it was given back. */
  readonly givenBack: () => number
  /** Memory that is filled by junk where it was given back too early. */
  readonly invalidates: boolean
}

type Make = (bench: Workbench, tracker: AllocationTracker, allocationStream: Stream) => Thing | Promise<Thing>

function ofMemory<M extends DeviceBuffer | PinnedBuffer>(
  tracker: AllocationTracker,
  memory: M,
  use: (memory: M) => DeviceBuffer | PinnedBuffer,
): Thing {
  const pointer = Number(memory.pointer)
  const thing: Thing = {
    held: memory,
    capture: (stream, out) => void stream.copy(out, use(thing.held as unknown as M)),
    givenBack: () => tracker.freed.get(pointer) ?? 0,
    invalidates: true,
  }
  return thing
}

const same = <M>(memory: M): M => memory

const KINDS: Readonly<Record<string, Make>> = {
  'memory of the stream': (bench, tracker, allocationStream) => {
    const buffer = bench.device.alloc(BYTES, { stream: allocationStream })
    allocationStream.fill(buffer, VALUE).synchronize()
    return ofMemory(tracker, buffer, same)
  },
  'memory of another stream': (bench, tracker) => {
    const other = bench.stream()
    const buffer = bench.device.alloc(BYTES, { stream: other })
    other.fill(buffer, VALUE).synchronize()
    return ofMemory(tracker, buffer, same)
  },
  'memory of a stream that is closed': (bench, tracker) => {
    using other = bench.stream()
    const buffer = bench.device.alloc(BYTES, { stream: other })
    other.fill(buffer, VALUE).synchronize()
    return ofMemory(tracker, buffer, same)
  },
  'memory that the capture allocates': ({ device }, tracker) => {
    let pointer = 0
    const thing: Thing = {
      held: undefined,
      capture: (stream, out) => {
        const buffer = device.alloc(BYTES, { stream })
        thing.held = buffer
        pointer = tracker.made(Number(buffer.pointer))
        stream.fill(buffer, VALUE).copy(out, buffer)
      },
      givenBack: () => tracker.freed.get(pointer) ?? 0,
      invalidates: true,
    }
    return thing
  },
  'a slice': (bench, tracker, allocationStream) => {
    const buffer = bench.device.alloc(2 * BYTES, { stream: allocationStream })
    allocationStream.fill(buffer, VALUE).synchronize()
    return ofMemory(tracker, buffer, (whole) => whole.subarray(BYTES, 2 * BYTES))
  },
  'pinned memory': (bench, tracker) => {
    const buffer = bench.device.allocPinned(BYTES)
    buffer.bytes.fill(VALUE)
    return ofMemory(tracker, buffer, same)
  },
  'interprocess memory': (bench, tracker, allocationStream) => {
    const buffer = bench.device.alloc(BYTES, { interprocess: true })
    allocationStream.fill(buffer, VALUE).synchronize()
    return ofMemory(tracker, buffer, same)
  },
  'an event that it records': (bench, tracker) => {
    const event = new Event({ device: bench.device })
    const thing: Thing = {
      held: event,
      capture: (stream, out) => {
        stream.fill(out, VALUE).record(thing.held as Event, { external: true })
      },
      givenBack: countOf(tracker, Number(event.handle)),
      invalidates: false,
    }
    return thing
  },
  'an event that it waits for': (bench, tracker, allocationStream) => {
    const event = allocationStream.record(new Event({ device: bench.device }))
    const thing: Thing = {
      held: event,
      capture: (stream, out) => {
        stream.wait(thing.held as Event, { external: true }).fill(out, VALUE)
      },
      givenBack: countOf(tracker, Number(event.handle)),
      invalidates: false,
    }
    return thing
  },
}

const countOf = (tracker: AllocationTracker, handle: number) => (): number => tracker.freed.get(handle) ?? 0

const ofModule: Make = async (bench, tracker) => {
  const source = 'extern "C" __global__ void put(unsigned char* x) { x[threadIdx.x] = 7; }'
  const module = await Program.compile(source, { device: bench.device })
  const handle = tracker.loaded.at(-1) ?? 0
  const thing: Thing = {
    held: module,
    capture: (stream, out) => {
      const kernel = (thing.held as typeof module).kernel('put', ['out u8*'])
      if (isFakeDriver()) stream.fill(out, VALUE)
      stream.launch(kernel, { grid: 1, block: BYTES }, out)
    },
    givenBack: () => tracker.freed.get(handle) ?? 0,
    invalidates: false,
  }
  return thing
}

/** Lets the program drop the thing. The graph is captured between the two. */
const CLOSED_INSIDE = { inside: close, after: () => {} }
const WAYS: Readonly<Record<string, { inside(thing: Thing): void; after(thing: Thing): void | Promise<void> }>> = {
  'closed in the capture': CLOSED_INSIDE,
  'closed after the capture': { inside: () => {}, after: close },
  collected: {
    inside: () => {},
    after: async (thing) => {
      thing.held = undefined
      await collect()
    },
  },
}

function close(thing: Thing): void {
  thing.held?.close()
  thing.held = undefined
}

async function collect(): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    await turns(3)
    globalThis.gc?.()
  }
  await turns(3)
}

interface Stage {
  readonly bench: Workbench
  readonly allocationStream: Stream
  readonly thing: Thing
  readonly out: DeviceBuffer
  /** Captures a graph that uses the thing, and lets the program drop it. */
  captured(): Promise<Graph>
  /** The thing was given back so often, or will be without any more call of the program. */
  isGivenBack(times: 0 | 1): Promise<void>
  /** All bytes of the result are right. */
  isRight(stream: Stream): Promise<void>
}

const STATES: Readonly<Record<string, (stage: Stage) => Promise<void>>> = {
  'the graph is instantiated later': async ({ allocationStream, captured, isGivenBack, isRight }) => {
    const graph = await captured()
    await isGivenBack(0)
    const exec = graph.instantiate()
    allocationStream.launch(exec).launch(exec)
    await isRight(allocationStream)
    exec.close()
    await isGivenBack(0)
    graph.instantiate().close()
    await isGivenBack(0)
    graph.close()
    await isGivenBack(1)
  },
  'the graph is never launched': async ({ captured, isGivenBack }) => {
    const graph = await captured()
    graph.instantiate().close()
    graph.close()
    await isGivenBack(1)
  },
  'the graph is closed, and its instances are launched': async ({
    allocationStream,
    bench,
    captured,
    isGivenBack,
    isRight,
  }) => {
    const graph = await captured()
    const [one, two] = [graph.instantiate(), graph.instantiate()]
    graph.close()
    using other = bench.stream()
    allocationStream.launch(one)
    await isRight(allocationStream)
    one.close()
    await isGivenBack(0)
    other.launch(two)
    await isRight(other)
    two.close()
    other.synchronize()
    await isGivenBack(1)
  },
  'everything is closed with a launch in flight': async ({
    bench,
    allocationStream,
    captured,
    isGivenBack,
    isRight,
  }) => {
    const graph = await captured()
    const exec = graph.instantiate()
    using latch = bench.latch(allocationStream)
    allocationStream.launch(exec)
    exec.close()
    graph.close()
    latch.open()
    await isRight(allocationStream)
    await isGivenBack(1)
  },
  'everything is closed with a launch in flight on another stream': async (stage) => {
    const { bench, captured, isGivenBack, isRight } = stage
    const graph = await captured()
    const exec = graph.instantiate()
    using other = bench.stream()
    using latch = bench.latch(other)
    other.launch(exec)
    exec.close()
    graph.close()
    latch.open()
    await isRight(other)
    await isGivenBack(1)
  },
  'the stream of a launch in flight is closed first': async ({
    bench,
    allocationStream,
    captured,
    isGivenBack,
    isRight,
  }) => {
    const graph = await captured()
    const exec = graph.instantiate()
    const other = bench.stream()
    using latch = bench.latch(other)
    other.launch(exec)
    allocationStream.wait(other)
    other.close()
    exec.close()
    graph.close()
    latch.open()
    await isRight(allocationStream)
    await isGivenBack(1)
  },
  'launches move between streams': async ({ bench, allocationStream, captured, isGivenBack, isRight }) => {
    const graph = await captured()
    const exec = graph.instantiate()
    using other = bench.stream()
    for (const stream of [other, allocationStream, other, allocationStream, other]) stream.launch(exec)
    exec.close()
    graph.close()
    await isRight(other)
    await isGivenBack(1)
  },
  'a stream of another library launches it, and is destroyed': async (stage) => {
    const { bench, allocationStream, captured, isGivenBack, isRight } = stage
    const graph = await captured()
    const exec = graph.instantiate()
    const handle = bench.foreignStream(bench.device)
    const theirs = new ExternalStream(handle, { device: bench.device })
    using latch = bench.latch(allocationStream)
    theirs.wait(allocationStream).launch(exec).launch(exec)
    allocationStream.wait(theirs)
    theirs.close()
    latch.open()
    allocationStream.synchronize()
    bench.destroyForeignStream(handle)
    exec.close()
    graph.close()
    await isRight(allocationStream)
    await isGivenBack(1)
  },
  'the stream of the launch captures when all is closed': async ({
    allocationStream,
    captured,
    isGivenBack,
    isRight,
  }) => {
    const graph = await captured()
    const exec = graph.instantiate()
    allocationStream.launch(exec)
    allocationStream.beginCapture()
    exec.close()
    graph.close()
    allocationStream.endCapture().close()
    await isRight(allocationStream)
    await isGivenBack(1)
  },
  'the instance is updated': async ({ bench, allocationStream, captured, isGivenBack, isRight }) => {
    const graph = await captured()
    const exec = graph.instantiate()
    using latch = bench.latch(allocationStream)
    allocationStream.launch(exec)
    // The same work, and the instance keeps what it uses.
    exec.update(graph)
    graph.close()
    latch.open()
    allocationStream.launch(exec)
    await isRight(allocationStream)
    await isGivenBack(0)
    exec.close()
    await allocationStream.finished()
    await isGivenBack(1)
  },
  'a capture under way is ended by a mistake': async ({ allocationStream, thing, out, isGivenBack }) => {
    allocationStream.beginCapture()
    thing.capture(allocationStream, out)
    close(thing)
    assert.throws(() => allocationStream.query(), { number: 900 })
    assert.equal(thing.givenBack(), 0)
    assert.throws(() => allocationStream.endCapture(), { number: 901 })
    await isGivenBack(1)
  },
  'the function that captures throws': async ({ allocationStream, thing, out, isGivenBack }) => {
    const cause = new Error('mine')
    const failing = (): void => {
      thing.capture(allocationStream, out)
      close(thing)
      throw cause
    }
    assert.throws(
      () => allocationStream.capture(failing),
      (error) => error === cause,
    )
    await isGivenBack(1)
  },
  'the stream that captures is closed': async ({ bench, thing, out, isGivenBack }) => {
    const other = bench.stream()
    other.beginCapture()
    thing.capture(other, out)
    close(thing)
    other.close()
    await isGivenBack(1)
  },
  'graph and instance are dropped, and collected': async ({ allocationStream, captured, isGivenBack, isRight }) => {
    const launched = async (): Promise<void> => {
      const graph = await captured()
      allocationStream.launch(graph.instantiate())
    }
    await launched()
    await isRight(allocationStream)
    await collect()
    await isGivenBack(1)
  },
}

/** Each two of a kind, a state and a way to drop it; all three at night. */
const COMBINATIONS = byEffort({ quick: allPairs, normal: allPairs, nightly: product })

/** States of which the way that the program drops the thing is a part. */
const OWN_WAY = /^a capture under way|^the function|^the stream that captures/

onEveryBackend('a graph keeps what it uses', (bench) => {
  const { device } = bench

  async function play(make: Make, way: (typeof WAYS)[string], state: (stage: Stage) => Promise<void>): Promise<void> {
    const front = driverOf(device)
    const { wrapper: tracker, unwrap } = front.wrap((inner) => new AllocationTracker(inner))
    try {
      using allocationStream = bench.stream()
      using out = device.alloc(BYTES, { stream: allocationStream })
      using result = device.allocPinned(BYTES)
      allocationStream.fill(out, 0).synchronize()
      const thing = await make(bench, tracker, allocationStream)
      const stage: Stage = {
        bench,
        allocationStream,
        thing,
        out,
        captured: async () => {
          const graph = allocationStream.capture(() => {
            thing.capture(allocationStream, out)
            way.inside(thing)
          })
          await way.after(thing)
          if (thing.invalidates) invalidate(allocationStream)
          return graph
        },
        isGivenBack: async (times) => {
          // What was put off is done at the next allocation.
          const sweep = (): void => {
            allocationStream.synchronize()
            device.alloc(16, { stream: allocationStream }).close()
          }
          sweep()
          const done = (): boolean => thing.givenBack() === times
          // Queued work keeps pinned memory of the simulator reachable.
          if (way === WAYS['collected'] && times === 1) await collectUntil(done)
          sweep()
          assert.equal(thing.givenBack(), times)
        },
        isRight: async (stream) => {
          await stream.copy(result, out).finished()
          assert.deepEqual(new Set(result.bytes), new Set([VALUE]))
        },
      }
      await state(stage)
      allocationStream.synchronize()
    } finally {
      unwrap()
    }
  }

  /** Memory of the same length, filled with other bytes: what was given back too early is among it. */
  function invalidate(allocationStream: Stream): void {
    const junk = [BYTES, BYTES, 2 * BYTES].map((length) => device.alloc(length, { stream: allocationStream }))
    for (const buffer of junk) allocationStream.fill(buffer, 0xee)
    const pinned = device.allocPinned(BYTES)
    pinned.bytes.fill(0xee)
    allocationStream.synchronize()
    for (const buffer of [...junk, pinned]) buffer.close()
  }

  const kinds = bench.name === 'cuda' ? { ...KINDS, 'a module': ofModule } : KINDS
  const axes = [Object.entries(kinds), Object.entries(STATES), Object.entries(WAYS)] as const
  const played = new Set<string>()
  for (const [first = 0, second = 0, third = 0] of COMBINATIONS(axes.map(({ length }) => length))) {
    const [kind, make] = axes[0][first] ?? []
    const [state, run] = axes[1][second] ?? []
    const [way, how] = axes[2][third] ?? []
    assert.ok(make && state && run && how)
    const title = `G13 ${kind}${OWN_WAY.test(state) ? '' : `, ${way}`}: ${state}`
    if (played.has(title)) continue
    played.add(title)
    test(title, () => play(make, OWN_WAY.test(state) ? CLOSED_INSIDE : how, run))
  }

  test('G13 an instance that is updated lets go of what its new work does not use', async () => {
    using allocationStream = bench.stream()
    const [before, after] = [0, 1].map(() => device.alloc(BYTES, { stream: allocationStream })) as [
      DeviceBuffer,
      DeviceBuffer,
    ]
    const front = driverOf(device)
    const { wrapper: tracker, unwrap } = front.wrap((inner) => new AllocationTracker(inner))
    try {
      const graph = (buffer: DeviceBuffer): Graph =>
        allocationStream.capture(() => void allocationStream.fill(buffer, 1))
      const [first, second] = [graph(before), graph(after)]
      using exec = first.instantiate()
      const [one, two] = [before, after].map(({ pointer }) => Number(pointer)) as [number, number]
      before.close()
      after.close()
      allocationStream.launch(exec)
      first.close()
      exec.update(second)
      assert.deepEqual([tracker.freed.get(one), tracker.freed.get(two)], [1, undefined])
      second.close()
      allocationStream.launch(exec).synchronize()
      assert.deepEqual([tracker.freed.get(one), tracker.freed.get(two)], [1, undefined])
      exec.close()
      assert.equal(tracker.freed.get(two), 1)
    } finally {
      unwrap()
    }
  })

  test('G13 the buffer is closed for the program, and its views are empty', () => {
    using allocationStream = bench.stream()
    const pinned = device.allocPinned(BYTES)
    const buffer = device.alloc(BYTES, { stream: allocationStream })
    using graph = allocationStream.capture(() => void allocationStream.copy(buffer, pinned))
    const { bytes } = pinned
    pinned.close()
    buffer.close()
    assert.equal(bytes.length, 0)
    refused(() => pinned.bytes, 'ERR_CLOSED')
    refused(() => allocationStream.fill(buffer, 1), 'ERR_CLOSED')
    assert.equal(graph.nodeCount, 1)
    using exec = graph.instantiate()
    allocationStream.launch(exec).synchronize()
  })

  test('G13 the owner of foreign memory is reachable as long as the graph, and is collected with it', async () => {
    using allocationStream = bench.stream()
    using theirs = device.alloc(BYTES, { stream: allocationStream })
    allocationStream.fill(theirs, 1).synchronize()
    const make = (): { graph: Graph; owner: WeakRef<object> } => {
      const owner: { graph?: Graph } = {}
      const buffer = Buffers.from(theirs.pointer, BYTES, { device, owner })
      const graph = allocationStream.capture(() => void allocationStream.fill(buffer, 3))
      // An owner that knows the graph is no reason to keep both.
      owner.graph = graph
      buffer.close()
      return { graph, owner: new WeakRef(owner) }
    }
    const made: { graph: Graph | undefined; owner: WeakRef<object> } = make()
    await collect()
    assert.ok(made.owner.deref(), 'the graph keeps the owner')
    made.graph = undefined
    assert.ok(await collectUntil(() => made.owner.deref() === undefined), 'the owner is collected with the graph')
  })

  test(`G13 ${LAUNCHES} launches of a graph of which everything was dropped and collected, then all memory back`, async () => {
    const front = driverOf(device)
    const { wrapper: tracker, unwrap } = front.wrap((inner) => new AllocationTracker(inner))
    using _ = { [Symbol.dispose]: unwrap }
    using allocationStream = bench.stream()
    using out = device.alloc(BYTES, { stream: allocationStream })
    using result = device.allocPinned(BYTES)
    const make = (): { readonly exec: GraphExec; readonly handles: readonly number[] } => {
      const other = bench.stream()
      const parts = Array.from({ length: 8 }, () => device.alloc(BYTES, { stream: other }))
      const pinned = device.allocPinned(BYTES)
      pinned.bytes.fill(VALUE)
      const event = other.record(new Event({ device }))
      const graph = allocationStream.capture(() => {
        allocationStream.wait(event, { external: true })
        let from: DeviceBuffer | PinnedBuffer = pinned
        for (const part of parts) {
          allocationStream.copy(part, from)
          from = part
        }
        allocationStream.copy(out, from)
      })
      const handles = [...parts, pinned].map(({ pointer }) => Number(pointer))
      return { exec: graph.instantiate(), handles: [...handles, Number(event.handle)] }
    }
    const { exec, handles } = make()
    const givenBack = (): unknown[] => handles.map((handle) => tracker.freed.get(handle))
    await collect()
    for (let launch = 0; launch < LAUNCHES; launch += 1) {
      allocationStream.fill(out, 0).launch(exec)
      if (launch % 500 !== 0) continue
      await allocationStream.copy(result, out).finished()
      assert.deepEqual(new Set(result.bytes), new Set([VALUE]))
      await collect()
      invalidate(allocationStream)
    }
    await allocationStream.copy(result, out).finished()
    assert.deepEqual(new Set(result.bytes), new Set([VALUE]))
    assert.deepEqual(new Set(givenBack()), new Set([undefined]))
    exec.close()
    await allocationStream.finished()
    const isAllBack = (): boolean => {
      device.alloc(16, { stream: allocationStream }).close()
      return givenBack().every((times) => times === 1)
    }
    await collectUntil(isAllBack)
    assert.deepEqual(givenBack(), Array(handles.length).fill(1))
  })
})
