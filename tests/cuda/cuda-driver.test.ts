/** What the CUDA backend does on its own account beside captures, on a fake driver that counts invalidated captures. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CudaDriver } from '../../src/cuda/cuda-driver.js'
import { StreamRecords } from '../../src/cuda/handles/stream-records.js'
import { Captures } from '../../src/cuda/host-functions/captures.js'
import { Lock } from '../../src/cuda/host-functions/process-registry.js'
import { type Contexts, StreamCalls } from '../../src/cuda/libcuda/driver-calls.js'
import type { Library } from '../../src/cuda/libcuda/libcuda.js'
import { EventPool } from '../../src/cuda/waiting/event-pool.js'
import { CUresult, noteLoss } from '../../src/foundation/driver/cuda-results.js'
import { CaptureMode, EventFlag } from '../../src/foundation/driver/driver-constants.js'
import {
  type ContextHandle,
  defaultStream,
  type EventHandle,
  type StreamHandle,
} from '../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { refusedByDriver } from '../conformance/expect.js'
import { mustOf, NO_KINDS, registryWith } from './fake-parts.js'

const CONTEXTS = [100, 200] as ContextHandle[]
const EVENT = 9 as EventHandle
const ACTIVE = 1
const INVALIDATED = 2

interface Capture {
  readonly id: bigint
  readonly origin: number
  invalidated: boolean
}

/** Two devices. A default stream is known by the context that is current. */
function fakeParts() {
  const memory = new NativeMemory(4096)
  const { uint32, uint64 } = memory
  const captures = new Map<number, Capture>()
  const contextOf = new Map<number, ContextHandle>()
  const calls: string[] = []
  /** The addresses of destroyed streams of other libraries. The next streams of this library get them. */
  const places: number[] = []
  /** Streams that were reported to the handle check as gone. */
  const gone: StreamHandle[] = []
  /** What a query of these streams gives. */
  const busy = new Map<number, number>()
  let [current, isRelaxed, made] = [CONTEXTS[0] as ContextHandle, false, 0]
  /** The per-thread stream of the context that is current, or the stream itself. */
  const key = (raw: number): number => (raw === 2 ? -current : raw)
  const library = {
    cuStreamCreateWithPriority: () => {
      made += 1
      const handle = places.pop() ?? 0x10000 + 0x100 * made
      contextOf.set(handle, current)
      uint64[0] = BigInt(handle)
      return 0
    },
    cuStreamDestroy_v2: (raw: number) => {
      calls.push(`cuStreamDestroy ${raw}`)
      captures.delete(raw)
      return 0
    },
    cuStreamSetAttribute: (_raw: number, attribute: number) => {
      assert.deepEqual([attribute, isRelaxed, Number(uint64[0])], [10, true, 1])
      return 0
    },
    cuStreamQuery: (raw: number) => {
      calls.push(`cuStreamQuery ${raw}`)
      return busy.get(raw) ?? 0
    },
    cuEventQuery: (event: number) => calls.push(`cuEventQuery ${event}`) * 0,
    cuEventCreate: () => {
      made += 1
      uint64[0] = BigInt(made)
      return 0
    },
    cuStreamGetCtx_v2: (raw: number) => {
      uint64[0] = BigInt(contextOf.get(raw) ?? 0)
      uint64[1] = 0n
      return 0
    },
    cuStreamIsCapturing: (raw: number) => {
      uint64[0] = captures.has(key(raw)) ? 1n : 0n
      return 0
    },
    cuStreamBeginCapture_v2: (raw: number) => {
      made += 1
      captures.set(key(raw), { id: BigInt(made), origin: key(raw), invalidated: false })
      return 0
    },
    cuStreamGetCaptureInfo_v3: (raw: number) => {
      const capture = captures.get(key(raw))
      if (capture === undefined) return 0
      uint32[0] = capture.invalidated ? INVALIDATED : ACTIVE
      uint64[1] = capture.invalidated ? 0n : capture.id
      return 0
    },
    cuStreamEndCapture: (raw: number) => {
      const capture = captures.get(key(raw))
      if (capture === undefined) return 401
      if (capture.origin !== key(raw)) {
        capture.invalidated = true
        return 903
      }
      for (const [stream, its] of captures) if (its === capture) captures.delete(stream)
      uint64[0] = 0x77n
      calls.push('cuStreamEndCapture')
      return capture.invalidated ? 901 : 0
    },
    cuCtxRecordEvent: (context: ContextHandle) => {
      calls.push(`cuCtxRecordEvent ${context}`)
      for (const [stream, capture] of captures) {
        if ((stream < 0 ? -stream : contextOf.get(stream)) === context) capture.invalidated = true
      }
      return 0
    },
    cuEventRecord: () => 0,
    cuEventRecordWithFlags: () => 0,
    cuStreamWaitEvent: () => 0,
    cuEventDestroy_v2: (event: number) => calls.push(`cuEventDestroy ${event}`) * 0,
    cuGraphDestroy: () => calls.push('cuGraphDestroy') * 0,
    cuGraphGetNodes: () => {
      uint64[0] = 1n
      return 0
    },
    cuGraphInstantiateWithFlags: () => {
      uint64[0] = 0x88n
      return 0
    },
    cuGraphLaunch: (exec: number, raw: number) => calls.push(`cuGraphLaunch ${exec} ${raw}`) * 0,
    cuModuleLoadData: () => calls.push(`cuModuleLoadData ${isRelaxed}`) * 0,
    cuModuleUnload: () => calls.push(`cuModuleUnload ${isRelaxed}`) * 0,
    cuStreamGetId: () => calls.push(`cuStreamGetId ${isRelaxed}`) * 0,
    cuStreamGetFlags: () => calls.push(`cuStreamGetFlags ${isRelaxed}`) * 0,
  }
  const contexts = {
    primary: (device: number) => CONTEXTS[device],
    get primaries() {
      return CONTEXTS.entries()
    },
    deviceOf: (context: ContextHandle) => CONTEXTS.indexOf(context),
    within: <R>(context: ContextHandle, fn: () => R): R => {
      const before = current
      current = context
      try {
        return fn()
      } finally {
        current = before
      }
    },
  }
  const registry = registryWith({ hasOthers: false })
  const spares = { fillWhereNeeded: () => {}, making: <R>(call: () => R): R => call(), wants: () => false }
  const must = mustOf(library)
  const pool = new EventPool({ library, must, memory, contexts, spares } as never)
  const streams = new StreamRecords(contexts as unknown as Contexts)
  const streamCalls = new StreamCalls({ library, memory, contexts, streams } as never)
  const parts = {
    library,
    must,
    memory,
    contexts,
    streams,
    kinds: NO_KINDS,
    calls: streamCalls,
    registry,
    captures: new Captures({ library: library as unknown as Library, memory, calls: streamCalls }, registry, () => {}),
    relaxed: {
      run: <R>(fn: () => R): R => {
        isRelaxed = true
        try {
          return fn()
        } finally {
          isRelaxed = false
        }
      },
    },
    handles: {
      ...{
        streamCreated: () => {},
        streamDestroyed: (stream: StreamHandle) => gone.push(stream),
        streamLeft: () => {},
        readAfterEnd: (stream: StreamHandle) => gone.push(stream),
        checkStream: (stream: StreamHandle) => stream,
        isStill: () => true,
      },
      ...{ eventCreated: () => {}, eventDestroyed: () => {}, checkEvent: () => CONTEXT },
    },
    hostFunctions: {
      pending: false,
      anyPending: false,
      tracksOrder: false,
      trackOrder: () => {},
      settle: () => {},
      forgetEntries: () => {},
      countEntries: () => {},
      recordedDevice: () => {},
      exclusivelyNow: <R>(call: () => R) => ({ made: call() }),
    },
    valueWaits: {
      any: false,
      anyBlocks: () => false,
      beforeWait: () => true,
      queued: (stream: StreamHandle) => calls.push(`may be blocked at a value ${stream}`),
    },
    blocking: { exclusively: <R>(call: () => R): R => call(), beforeCapture: () => {} },
    promises: {
      contextFinished: (context: ContextHandle) => {
        library.cuCtxRecordEvent(context)
        return () => {}
      },
    },
    pool,
    graphSemaphores: { arm: () => [] },
    spares,
  }
  const driver = new CudaDriver(parts as unknown as ConstructorParameters<typeof CudaDriver>[0])
  const stream = (device = 0): StreamHandle => driver.streams.create(CONTEXTS[device] as ContextHandle, 1, 0)
  const foreign = (device = 0): StreamHandle => {
    made += 1
    const handle = 0x10000 + 0x100 * made
    contextOf.set(handle, CONTEXTS[device] as ContextHandle)
    return driver.streams.wrap(handle, device).stream
  }
  /** What another stream does by a wait, and another library by itself. */
  const join = (joined: number, origin: number): void => void captures.set(joined, captures.get(origin) as Capture)
  const invalidated = (): number => [...captures.values()].filter((capture) => capture.invalidated).length
  return { driver, library, calls, captures, stream, foreign, join, invalidated, registry, busy, pool, places, gone }
}

const { RELAXED } = CaptureMode
const finished = (driver: CudaDriver, device = 0) => driver.devices.finished(device, () => {})

test('a device is not looked at while a stream of it captures, and nothing is invalidated', () => {
  const { driver, library, calls, stream, foreign, join, invalidated } = fakeParts()
  const [own, wrapped, elsewhere, joined, escaped] = [stream(), foreign(), stream(1), stream(), stream()]
  const perThread = defaultStream(0, 2)
  driver.streams.escaped(escaped)
  finished(driver)
  assert.equal(driver.devices.recordInternal(EVENT, 0), true)
  assert.deepEqual(calls.splice(0), ['cuCtxRecordEvent 100', 'cuCtxRecordEvent 100'])

  const whileCapturing = (begin: () => void, end: () => void): void => {
    begin()
    calls.length = 0
    refusedByDriver(() => finished(driver), 900)
    assert.equal(driver.devices.recordInternal(EVENT, 0), false)
    assert.deepEqual([calls.splice(0), invalidated()], [[], 0])
    end()
    calls.splice(0)
    finished(driver)
    assert.deepEqual(calls.splice(0), ['cuCtxRecordEvent 100'])
  }
  for (const each of [own, wrapped, perThread]) {
    whileCapturing(
      () => driver.graphs.begin(each, RELAXED),
      () => driver.graphs.end(each),
    )
  }
  // Of another device, and a stream of this one joins.
  driver.graphs.begin(elsewhere, RELAXED)
  finished(driver)
  assert.deepEqual([calls.splice(0), invalidated()], [['cuCtxRecordEvent 100'], 0])
  for (const each of [joined, -100]) {
    whileCapturing(
      () => join(each, elsewhere),
      () => library.cuStreamDestroy_v2(each),
    )
  }
  driver.graphs.end(elsewhere)
  // Another library begins it, on a stream whose handle it has, or on one of its own as long as that is wrapped.
  const wrapper = driver.streams.wrapped(wrapped)
  for (const each of [escaped, wrapped]) {
    whileCapturing(
      () => library.cuStreamBeginCapture_v2(each),
      () => library.cuStreamEndCapture(each),
    )
  }
  wrapper.isOpen = false
  library.cuStreamBeginCapture_v2(wrapped)
  assert.equal(driver.devices.recordInternal(EVENT, 0), true)
})

test('a capture is one for the other threads until the driver has ended it', () => {
  const { driver, library, captures, stream, foreign, registry } = fakeParts()
  const list = registry.captures
  let isTaken = false
  const capturing = new Lock(
    () => {
      const isFree = !isTaken
      isTaken = true
      return isFree
    },
    () => {
      isTaken = false
    },
  )
  Object.assign(registry, { capturing })
  const seen: unknown[] = []
  for (const name of ['cuStreamBeginCapture_v2', 'cuStreamEndCapture', 'cuStreamDestroy_v2'] as const) {
    const call = library[name]
    const watched = (raw: number): number => {
      const result = call(raw)
      seen.push([name, isTaken, list.has(raw as StreamHandle), result])
      return result
    }
    Object.assign(library, { [name]: watched })
  }
  const begun = ['cuStreamBeginCapture_v2', true, false, 0]
  const ways: Readonly<Record<string, readonly [end: (each: StreamHandle) => unknown, expected: readonly unknown[]]>> =
    {
      'its end': [(each) => driver.graphs.end(each), ['cuStreamEndCapture', true, true, 0]],
      'an end that is refused': [
        (each) => {
          for (const capture of captures.values()) capture.invalidated = true
          refusedByDriver(() => driver.graphs.end(each), 901)
        },
        ['cuStreamEndCapture', true, true, 901],
      ],
      'the end of its stream': [(each) => driver.streams.destroy(each), ['cuStreamDestroy_v2', true, true, 0]],
    }
  for (const [way, [end, expected]] of Object.entries(ways)) {
    const each = way === 'the end of its stream' ? stream() : foreign()
    driver.graphs.begin(each, RELAXED)
    assert.equal(list.has(each), true, way)
    end(each)
    assert.deepEqual([seen.splice(0), isTaken, list.has(each)], [[begun, expected], false, false], way)
  }
  // Another thread has ended it: this one need not.
  const own = stream()
  driver.graphs.begin(own, RELAXED)
  library.cuStreamEndCapture(own)
  list.remove(own)
  assert.deepEqual(driver.graphs.begun, [])
})

test('a stream that leaves ends the capture that it began, and no other', () => {
  const { driver, library, calls, captures, stream, join, invalidated } = fakeParts()
  const [first, second] = [stream(), stream()]
  driver.graphs.abandon(first)
  assert.deepEqual(calls, [])

  driver.graphs.begin(first, RELAXED)
  join(second, first)
  driver.graphs.abandon(second)
  assert.deepEqual([captures.size, invalidated()], [2, 0])
  driver.graphs.abandon(first)
  assert.deepEqual([captures.size, calls.splice(0)], [0, ['cuStreamEndCapture', 'cuGraphDestroy']])

  // What is invalidated gives no graph.
  driver.graphs.begin(first, RELAXED)
  for (const capture of captures.values()) capture.invalidated = true
  driver.graphs.abandon(first)
  assert.deepEqual([captures.size, calls.splice(0)], [0, ['cuStreamEndCapture']])

  // Its own was ended behind our back, and it joined another since.
  driver.graphs.begin(first, RELAXED)
  library.cuStreamEndCapture(first)
  calls.splice(0)
  driver.graphs.begin(second, RELAXED)
  join(first, second)
  driver.graphs.abandon(first)
  assert.deepEqual([captures.size, invalidated(), calls], [2, 0, []])
})

test('modules are loaded and unloaded, and streams queried, with the captures of the thread relaxed', () => {
  const { driver, calls, stream } = fakeParts()
  const [context] = CONTEXTS as [ContextHandle]
  driver.kernels.unload(driver.kernels.load(new Uint8Array(8), context), context)
  const own = stream()
  driver.streams.getId(own)
  driver.streams.getFlags(own)
  // Of each device the null and the per-thread stream, before something is given back.
  const queries = ['cuStreamQuery 0', 'cuStreamQuery 2']
  assert.deepEqual(calls, [
    'cuModuleLoadData true',
    ...queries,
    ...queries,
    'cuModuleUnload true',
    'cuStreamGetId true',
    'cuStreamGetFlags true',
  ])
})

const [CONTEXT, ELSEWHERE] = CONTEXTS as [ContextHandle, ContextHandle]
const queries = (calls: string[]): string[] => calls.splice(0).filter((call) => /Query/.test(call))

test('a query that has its answer makes no call; an idle stream that other code can reach is queried', () => {
  const { driver, calls, stream, foreign, registry } = fakeParts()
  const [own, escaped, wrapped, capturing] = [stream(), stream(), foreign(), stream()]
  driver.streams.escaped(escaped)
  // As wrapping does.
  driver.streams.escaped(wrapped)
  const ask = (each: StreamHandle): string[] => {
    assert.equal(driver.streams.query(each, true), true)
    return queries(calls)
  }
  assert.deepEqual(ask(own), [])
  assert.equal(driver.streams.query(own), true)
  assert.deepEqual(queries(calls), [`cuStreamQuery ${own}`])
  for (const each of [escaped, wrapped]) assert.deepEqual(ask(each), [`cuStreamQuery ${each}`])
  for (const each of [0, 2] as const) assert.equal(ask(defaultStream(0, each)).length, 1)
  assert.equal(driver.events.query(EVENT, true), true)
  assert.deepEqual(queries(calls), [])

  const both = (): string[] => {
    driver.events.query(EVENT, true)
    return [...queries(calls), ...ask(own)]
  }
  driver.graphs.begin(capturing, RELAXED)
  assert.deepEqual(both(), [`cuEventQuery ${EVENT}`, `cuStreamQuery ${own}`])
  driver.graphs.end(capturing)
  assert.deepEqual(both(), [])
  Object.defineProperty(registry, 'hasOthers', { value: true })
  assert.deepEqual(both(), [`cuEventQuery ${EVENT}`, `cuStreamQuery ${own}`])
})

test('an idle stream that was closed is the next one of its sort, and none of another', () => {
  const { driver, calls } = fakeParts()
  const sorts: readonly Parameters<CudaDriver['streams']['create']>[] = [
    ...([1, 0] as const).flatMap((flags) => [0, -1, 1].map((priority) => [CONTEXT, flags, priority] as const)),
    ...[0, 2 ** 31 - 1, -(2 ** 31)].map((priority) => [ELSEWHERE, 1, priority] as const),
  ].map(([context, flags, priority]) => [context, flags, priority])
  const closed = sorts.map((sort) => driver.streams.create(...sort))
  for (const each of closed) driver.streams.destroy(each)
  assert.deepEqual(
    sorts.map((sort) => driver.streams.create(...sort)),
    closed,
  )
  assert.deepEqual(
    calls.splice(0).filter((call) => /Destroy/.test(call)),
    [],
  )
  assert.ok(sorts.every((sort) => !closed.includes(driver.streams.create(...sort))))
})

test('a stream that a caller can distinguish from another is never given out again', () => {
  const { driver, library, calls, stream, busy, join } = fakeParts()
  const states: Readonly<Record<string, (stream: StreamHandle) => void>> = {
    'its handle was read': (each) => driver.streams.escaped(each),
    'its id was queried': (each) => void driver.streams.getId(each),
    'it has an attribute': (each) => driver.streams.setMemorySyncDomain(each, 1),
    'it is busy': (each) => void busy.set(each, CUresult.NOT_READY),
    'it began a capture': (each) => driver.graphs.begin(each, RELAXED),
    'it joined a capture': (each) => {
      const origin = stream()
      library.cuStreamBeginCapture_v2(origin)
      join(each, origin)
    },
  }
  for (const [state, bring] of Object.entries(states)) {
    const own = stream()
    bring(own)
    calls.length = 0
    driver.streams.destroy(own)
    assert.deepEqual(
      calls.filter((call) => /Destroy \d/.test(call)),
      [`cuStreamDestroy ${own}`],
      state,
    )
    assert.notEqual(stream(), own, state)
  }
})

test('a stream whose handle is read after it was closed is destroyed then; one that was given out again is queried from then on', () => {
  const { driver, calls, stream } = fakeParts()
  const closed = stream()
  driver.streams.destroy(closed)
  driver.streams.escaped(closed)
  assert.deepEqual(calls.splice(0).slice(-1), [`cuStreamDestroy ${closed}`])
  assert.notEqual(stream(), closed)

  const again = stream()
  driver.streams.destroy(again)
  assert.equal(stream(), again)
  driver.streams.escaped(again)
  calls.length = 0
  driver.streams.query(again, true)
  assert.deepEqual(queries(calls), [`cuStreamQuery ${again}`])
  driver.streams.destroy(again)
  assert.notEqual(stream(), again)
})

test('a stream with the address of a destroyed stream of another library has not escaped', () => {
  const { driver, calls, stream, foreign, places, gone } = fakeParts()
  const theirs = foreign()
  driver.streams.escaped(theirs)
  places.push(theirs)
  const own = stream()
  assert.equal(own, theirs)
  assert.equal(driver.streams.isEscaped(own), false)
  driver.streams.destroy(own)
  assert.deepEqual(gone, [], 'it lives on: a mark that it is gone would refuse the next one that it is given out as')
  assert.equal(stream(), own)
  calls.length = 0
  driver.streams.query(own, true)
  assert.deepEqual(queries(calls), [])
})

test('no more than 64 closed streams are kept', () => {
  const { driver, calls, stream } = fakeParts()
  const many = Array.from({ length: 100 }, () => stream())
  const others = Array.from({ length: 10 }, (_, index) => driver.streams.create(CONTEXT, 1, -index - 1))
  for (const each of [...many, ...others]) driver.streams.destroy(each)
  assert.equal(calls.splice(0).filter((call) => /Destroy/.test(call)).length, 46)
  assert.equal(Array.from({ length: 65 }, () => stream()).filter((each) => many.includes(each)).length, 64)
})

test('an event that was never recorded is given out again, and no other is given out as new', () => {
  const { driver, pool } = fakeParts()
  const create = (context = CONTEXT, flags: number = EventFlag.DISABLE_TIMING): EventHandle =>
    driver.events.create(context, flags)
  const [fresh, recorded] = [create(), create()]
  driver.events.recycle(CONTEXT, recorded)
  driver.events.recycle(CONTEXT, fresh, EventFlag.DISABLE_TIMING, true)
  assert.equal(pool.hides(fresh), true)
  for (const flags of [EventFlag.DEFAULT, EventFlag.DISABLE_TIMING | EventFlag.BLOCKING_SYNC]) {
    assert.notEqual(create(CONTEXT, flags), fresh)
  }
  assert.notEqual(create(ELSEWHERE), fresh)
  assert.equal(create(), fresh)
  assert.notEqual(create(), recorded)
  const many = Array.from({ length: 100 }, () => create())
  for (const each of many) driver.events.recycle(CONTEXT, each, EventFlag.DISABLE_TIMING, true)
  const again = Array.from({ length: 100 }, () => create())
  assert.equal(again.filter((each) => many.includes(each)).length, 64)
})

test('an internal event is no event of the program, also while it is in use', () => {
  const { driver, pool } = fakeParts()
  const [internal, own] = [pool.take(CONTEXT), driver.events.create(CONTEXT, EventFlag.DISABLE_TIMING, true)]
  assert.deepEqual([pool.hides(internal), pool.hides(own)], [true, false])
  pool.giveBack(CONTEXT, internal)
  assert.equal(pool.hides(internal), true)
  assert.equal(driver.events.create(CONTEXT, EventFlag.DISABLE_TIMING, true), internal)
  assert.equal(pool.hides(internal), false)
})

test('an event with timing is used again for one that is recorded at once, and never given out as new', () => {
  const { driver } = fakeParts()
  const [timed, recorded] = [EventFlag.DEFAULT, EventFlag.DEFAULT].map((flags) => driver.events.create(CONTEXT, flags))
  assert.ok(timed !== undefined && recorded !== undefined)
  driver.events.recycle(CONTEXT, timed, EventFlag.DEFAULT, true)
  driver.events.recycle(CONTEXT, recorded, EventFlag.DEFAULT, false)
  const made = [EventFlag.DEFAULT, EventFlag.DISABLE_TIMING].flatMap((flags) => [
    driver.events.create(CONTEXT, flags),
    driver.events.create(CONTEXT, flags),
  ])
  assert.deepEqual(
    made.filter((event) => event === timed || event === recorded),
    [],
  )
  const next = [true, true].map(() => driver.events.create(CONTEXT, EventFlag.DEFAULT, true))
  assert.deepEqual(new Set(next), new Set([timed, recorded]))
})

test('an event where one of another library was is used again as what it was made', () => {
  const { driver } = fakeParts()
  const event = driver.events.create(CONTEXT, EventFlag.DISABLE_TIMING, true)
  driver.events.wrap(event)
  driver.events.recycle(CONTEXT, event, EventFlag.DISABLE_TIMING)
  assert.notEqual(driver.events.create(CONTEXT, EventFlag.DEFAULT, true), event, 'it has no timing')
  assert.equal(driver.events.create(CONTEXT, EventFlag.DISABLE_TIMING, true), event)
})

test('once a context is lost nothing is known any more, and nothing is given out again', () => {
  const { driver, calls, stream } = fakeParts()
  const [own, closed] = [stream(), stream()]
  const unused = driver.events.create(CONTEXT, EventFlag.DISABLE_TIMING)
  driver.streams.destroy(closed)
  driver.events.recycle(CONTEXT, unused, EventFlag.DISABLE_TIMING, true)
  calls.length = 0
  noteLoss(CUresult.NOT_READY)
  driver.streams.query(own, true)
  assert.deepEqual(queries(calls), [])
  noteLoss(CUresult.ILLEGAL_ADDRESS)
  driver.streams.query(own, true)
  driver.events.query(EVENT, true)
  assert.deepEqual(queries(calls), [`cuStreamQuery ${own}`, `cuEventQuery ${EVENT}`])
  assert.notEqual(stream(), closed)
  assert.notEqual(driver.events.create(CONTEXT, EventFlag.DISABLE_TIMING), unused)
})

test('what is captured here into a capture that another library began is known of its graph', () => {
  const { driver, library, calls, foreign } = fakeParts()
  const stream = foreign()
  library.cuStreamBeginCapture_v2(stream)
  driver.graphs.noteValueWait(stream)
  const exec = driver.graphs.instantiate(driver.graphs.end(stream), CONTEXTS[0] as ContextHandle)
  calls.length = 0
  driver.graphs.launch(exec, stream)
  assert.deepEqual(calls, [`cuGraphLaunch ${0x88} ${stream}`, `may be blocked at a value ${stream}`])
})
