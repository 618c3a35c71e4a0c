/** How the CUDA backend finds out whether a device has nothing to do, on a fake library, beside captures of other threads. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StreamRecords } from '../../../src/cuda/handles/stream-records.js'
import { Captures } from '../../../src/cuda/host-functions/captures.js'
import { ProcessRegistry, REGISTRY_WORDS, startOf } from '../../../src/cuda/host-functions/process-registry.js'
import { IdleDevices, type IdleDevicesParts } from '../../../src/cuda/waiting/idle-devices.js'
import { CUresult } from '../../../src/foundation/driver/cuda-results.js'
import { type ContextHandle, isNullStream, type StreamHandle } from '../../../src/foundation/driver/handle-types.js'

/** A device with its default streams, of which the null stream says `answers` in turn. Another thread tries to begin a capture inside each call. */
function fakeDevice(answers: readonly number[]) {
  const memory = new ArrayBuffer(4 * REGISTRY_WORDS)
  const words = new Int32Array(memory)
  for (const slot of [0, 1]) words[startOf(slot)] = slot + 1
  const registry = new ProcessRegistry(memory, 0)
  const { capturing } = new ProcessRegistry(memory, 1)
  const contexts = {
    primaries: [[0, 1 as ContextHandle]] as const,
    primary: () => 1 as ContextHandle,
    deviceOf: () => 0,
  }
  const seen: string[] = []
  let captures = false
  let queries = 0
  /** What a call says, in a moment in which the other thread would like to begin a capture. */
  const answer = (name: string, result: number): number => {
    if (capturing.tryTake()) {
      seen.push(`${name}: a capture could begin`)
      capturing.during(() => {})
    } else seen.push(name)
    return captures ? CUresult.STREAM_CAPTURE_IMPLICIT : result
  }
  const library = {
    cuStreamQuery: (stream: number) =>
      stream === 2 ? answer('per-thread', 0) : answer('query', answers[queries++] ?? 0),
    cuEventRecord: () => answer('record', 0),
    cuEventQuery: () => 0,
  }
  const calls = {
    captures: (stream: StreamHandle) => isNullStream(stream) && captures,
    onStream: <R>(stream: StreamHandle, call: (raw: number) => R): R => call(isNullStream(stream) ? 0 : 2),
  }
  const parts = {
    library,
    calls,
    contexts,
    streams: new StreamRecords(contexts),
    relaxed: { run: <R>(call: () => R): R => call() },
    handles: { isStill: () => true },
    pool: { take: () => 7, giveBack: () => {} },
    hostFunctions: { exclusivelyNow: <R>(call: () => R): R => call() },
    captures: new Captures({ library, calls } as never, registry, () => {}),
  }
  const idle = new IdleDevices(parts as unknown as IdleDevicesParts)
  const setCaptures = (value: boolean): void => {
    captures = value
  }
  return { idle, seen, setCaptures }
}

describe('whether a device is idle', () => {
  it('is asked of a stream only while no thread can begin a capture, which the query would invalidate', () => {
    const { idle, seen } = fakeDevice([CUresult.NOT_READY, 0])
    let made = 0
    idle.whenIdle(() => {
      made += 1
    })
    assert.equal(made, 0)
    idle.check()
    assert.equal(made, 1)
    assert.deepEqual(seen, ['query', 'per-thread', 'record', 'query', 'per-thread'])
  })

  it('is not asked of the null stream while a blocking stream captures', () => {
    const { idle, seen, setCaptures } = fakeDevice([0])
    let made = 0
    setCaptures(true)
    idle.whenIdle(() => {
      made += 1
    })
    assert.deepEqual([made, seen], [0, []])
    setCaptures(false)
    idle.check()
    assert.deepEqual([made, seen], [1, ['query', 'per-thread']])
  })
})
