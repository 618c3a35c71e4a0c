/** What the CUDA backend does on its own account beside captures, on a driver that is pretended and counts invalidated captures. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CudaDriver } from '../../../src/driver/cuda/cuda-driver.js'
import { Captures } from '../../../src/driver/cuda/host-functions/captures.js'
import { alone } from '../../../src/driver/cuda/host-functions/thread-table.js'
import type { Contexts } from '../../../src/driver/cuda/libcuda/contexts.js'
import { NativeMemory } from '../../../src/driver/cuda/libcuda/native.js'
import { StreamCalls } from '../../../src/driver/cuda/libcuda/stream-calls.js'
import {
  CaptureMode,
  type ContextHandle,
  defaultStream,
  EventFlag,
  type EventHandle,
  ExternalFlag,
  type StreamHandle,
} from '../../../src/driver/driver.js'
import { refusedByDriver } from '../../conformance/expect.js'

const CONTEXTS = [100, 200] as ContextHandle[]
const EVENT = 9 as EventHandle
const ACTIVE = 1
const INVALIDATED = 2

interface Capture {
  readonly id: bigint
  readonly origin: number
  spoilt: boolean
}

/** Two devices. A default stream is known by the context that is current. */
function pretend() {
  const memory = new NativeMemory(4096)
  const { uint32, uint64 } = memory
  const captures = new Map<number, Capture>()
  const contextOf = new Map<number, ContextHandle>()
  const calls: string[] = []
  let [current, isRelaxed, made] = [CONTEXTS[0] as ContextHandle, false, 0]
  /** The per-thread stream of the context that is current, or the stream itself. */
  const key = (raw: number): number => (raw === 2 ? -current : raw)
  const library = {
    cuStreamCreateWithPriority: () => {
      made += 1
      const handle = 0x10000 + 0x100 * made
      contextOf.set(handle, current)
      uint64[0] = BigInt(handle)
      return 0
    },
    cuStreamDestroy_v2: (raw: number) => {
      captures.delete(raw)
      return 0
    },
    cuStreamGetCtx: (raw: number) => {
      uint64[0] = BigInt(contextOf.get(raw) ?? 0)
      return 0
    },
    cuStreamIsCapturing: (raw: number) => {
      uint64[0] = captures.has(key(raw)) ? 1n : 0n
      return 0
    },
    cuStreamBeginCapture_v2: (raw: number) => {
      made += 1
      captures.set(key(raw), { id: BigInt(made), origin: key(raw), spoilt: false })
      return 0
    },
    cuStreamGetCaptureInfo_v3: (raw: number) => {
      const capture = captures.get(key(raw))
      if (capture === undefined) return 0
      uint32[0] = capture.spoilt ? INVALIDATED : ACTIVE
      uint64[1] = capture.spoilt ? 0n : capture.id
      return 0
    },
    cuStreamEndCapture: (raw: number) => {
      const capture = captures.get(key(raw))
      if (capture === undefined) return 401
      if (capture.origin !== key(raw)) {
        capture.spoilt = true
        return 903
      }
      for (const [stream, its] of captures) if (its === capture) captures.delete(stream)
      uint64[0] = 0x77n
      calls.push('cuStreamEndCapture')
      return capture.spoilt ? 901 : 0
    },
    cuCtxRecordEvent: (context: ContextHandle) => {
      calls.push(`cuCtxRecordEvent ${context}`)
      for (const [stream, capture] of captures) {
        if ((stream < 0 ? -stream : contextOf.get(stream)) === context) capture.spoilt = true
      }
      return 0
    },
    cuEventRecord: () => 0,
    cuEventRecordWithFlags: () => 0,
    cuStreamWaitEvent: () => 0,
    cuEventDestroy_v2: (event: number) => calls.push(`cuEventDestroy ${event}`) * 0,
    cuGraphDestroy: () => calls.push('cuGraphDestroy') * 0,
    cuModuleLoadData: () => calls.push(`cuModuleLoadData ${isRelaxed}`) * 0,
    cuModuleUnload: () => calls.push(`cuModuleUnload ${isRelaxed}`) * 0,
    cuStreamGetId: () => calls.push(`cuStreamGetId ${isRelaxed}`) * 0,
    cuStreamGetFlags: () => calls.push(`cuStreamGetFlags ${isRelaxed}`) * 0,
  }
  const contexts = {
    primary: (device: number) => CONTEXTS[device],
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
  const threads = alone()
  const parts = {
    library,
    memory,
    contexts,
    calls: new StreamCalls(contexts as unknown as Contexts),
    threads,
    captures: new Captures(threads, () => {}),
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
      ...{ streamCreated: () => {}, streamDestroyed: () => {}, checkStream: () => {} },
      ...{ eventCreated: () => {}, eventDestroyed: () => {} },
    },
    hostFunctions: {
      pending: false,
      anyPending: false,
      tracksOrder: false,
      trackOrder: () => {},
      calmDown: () => {},
      forgetStream: () => {},
      streamAdopted: () => {},
      exclusivelyNow: <R>(call: () => R) => ({ made: call() }),
    },
    blocking: { exclusively: <R>(call: () => R): R => call() },
    promises: {
      forgetStream: () => {},
      contextFinished: (context: ContextHandle) => {
        library.cuCtxRecordEvent(context)
        return () => {}
      },
    },
    pool: { create: () => 0 as EventHandle },
    graphGates: {},
    reserve: { fillWhereNeeded: () => {}, making: <R>(call: () => R): R => call(), wants: () => false },
  }
  const driver = new CudaDriver(parts as unknown as ConstructorParameters<typeof CudaDriver>[0])
  const stream = (device = 0): StreamHandle => driver.streamCreate(CONTEXTS[device] as ContextHandle, 1, 0)
  const foreign = (device = 0): StreamHandle => {
    made += 1
    const handle = 0x10000 + 0x100 * made
    contextOf.set(handle, CONTEXTS[device] as ContextHandle)
    return driver.streamAdopt(handle, device).stream
  }
  /** What another stream does by a wait, and another library by itself. */
  const join = (joined: number, origin: number): void => void captures.set(joined, captures.get(origin) as Capture)
  const spoilt = (): number => [...captures.values()].filter((capture) => capture.spoilt).length
  return { driver, library, calls, captures, stream, foreign, join, spoilt }
}

test('an event that a graph may record, or wait for, is never destroyed; another with its handle is', () => {
  const { driver, calls, stream } = pretend()
  const [capturing, plain] = [stream(), stream()]
  const made = (handle: number): EventHandle => {
    driver.eventCreate(CONTEXTS[0] as ContextHandle, EventFlag.BLOCKING_SYNC)
    return handle as EventHandle
  }
  const destroyed = (event: EventHandle): boolean => {
    driver.eventDestroy(event)
    return calls.splice(0).includes(`cuEventDestroy ${event}`)
  }
  driver.graphs.begin(capturing, CaptureMode.RELAXED)
  driver.eventRecord(made(1), capturing, ExternalFlag.EXTERNAL)
  driver.streamWaitEvent(capturing, made(2), ExternalFlag.EXTERNAL)
  driver.eventRecord(made(3), plain, ExternalFlag.EXTERNAL)
  driver.eventRecord(made(4), capturing, ExternalFlag.NONE)
  assert.deepEqual(
    [1, 2, 3, 4].map((event) => destroyed(event as EventHandle)),
    [false, false, true, true],
  )
})

const { RELAXED } = CaptureMode
const finished = (driver: CudaDriver, device = 0) => driver.deviceFinished(device, () => {})

test('a device is not looked at while a stream of it captures, and nothing is invalidated', () => {
  const { driver, library, calls, stream, foreign, join, spoilt } = pretend()
  const [own, wrapped, elsewhere, joined, handedOut] = [stream(), foreign(), stream(1), stream(), stream()]
  const perThread = defaultStream(0, 2)
  driver.streamHandedOut(handedOut)
  finished(driver)
  assert.equal(driver.deviceRecordOwn(EVENT, 0), true)
  assert.deepEqual(calls.splice(0), ['cuCtxRecordEvent 100', 'cuCtxRecordEvent 100'])

  const whileCapturing = (begin: () => void, end: () => void): void => {
    begin()
    calls.length = 0
    refusedByDriver(() => finished(driver), 900)
    assert.equal(driver.deviceRecordOwn(EVENT, 0), false)
    assert.deepEqual([calls.splice(0), spoilt()], [[], 0])
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
  assert.deepEqual([calls.splice(0), spoilt()], [['cuCtxRecordEvent 100'], 0])
  for (const each of [joined, -100]) {
    whileCapturing(
      () => join(each, elsewhere),
      () => library.cuStreamDestroy_v2(each),
    )
  }
  driver.graphs.end(elsewhere)
  // Another library begins it, on a stream whose handle it has.
  whileCapturing(
    () => library.cuStreamBeginCapture_v2(handedOut),
    () => library.cuStreamEndCapture(handedOut),
  )
})

test('a stream that leaves ends the capture that it began, and no other', () => {
  const { driver, library, calls, captures, stream, join, spoilt } = pretend()
  const [first, second] = [stream(), stream()]
  driver.graphs.abandon(first)
  assert.deepEqual(calls, [])

  driver.graphs.begin(first, RELAXED)
  join(second, first)
  driver.graphs.abandon(second)
  assert.deepEqual([captures.size, spoilt()], [2, 0])
  driver.graphs.abandon(first)
  assert.deepEqual([captures.size, calls.splice(0)], [0, ['cuStreamEndCapture', 'cuGraphDestroy']])

  // What is spoilt gives no graph.
  driver.graphs.begin(first, RELAXED)
  for (const capture of captures.values()) capture.spoilt = true
  driver.graphs.abandon(first)
  assert.deepEqual([captures.size, calls.splice(0)], [0, ['cuStreamEndCapture']])

  // Its own was ended behind our back, and it joined another since.
  driver.graphs.begin(first, RELAXED)
  library.cuStreamEndCapture(first)
  calls.splice(0)
  driver.graphs.begin(second, RELAXED)
  join(first, second)
  driver.graphs.abandon(first)
  assert.deepEqual([captures.size, spoilt(), calls], [2, 0, []])
})

test('modules come and go, and streams are asked, with the captures of the thread relaxed', () => {
  const { driver, calls, stream } = pretend()
  const [context] = CONTEXTS as [ContextHandle]
  driver.kernels.unload(driver.kernels.load(new Uint8Array(8), context), context)
  const own = stream()
  driver.streamGetId(own)
  driver.streamGetFlags(own)
  assert.deepEqual(calls, [
    'cuModuleLoadData true',
    'cuModuleUnload true',
    'cuStreamGetId true',
    'cuStreamGetFlags true',
  ])
})
