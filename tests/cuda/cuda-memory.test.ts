/** What the CUDA backend does with pinned memory, on a fake driver: memory of the layer's, and events by hand. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CudaMemory, type CudaMemoryParts } from '../../src/cuda/cuda-memory.js'
import { RelaxedCaptures } from '../../src/cuda/libcuda/driver-calls.js'
import { KEPT_PINNED } from '../../src/cuda/libcuda/owned-handles.js'
import { CudaError } from '../../src/foundation/base/errors.js'
import type { InternalEvent } from '../../src/foundation/driver/event-driver.js'
import type { ContextHandle, EventHandle } from '../../src/foundation/driver/handle-types.js'
import { own as layerOwn } from '../../src/foundation/native/c-functions.js'
import { layer } from '../../src/foundation/native/layer.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { OwnedKind, Trait } from '../../src/foundation/native/owned-handles.js'
import { mustOf } from './fake-parts.js'
import { idleWhen } from './idle-when.js'

const skip = process.platform === 'linux' ? false : 'the native layer is for Linux'
const context = 1 as ContextHandle
const own = (event: number): InternalEvent => ({ context, event: event as EventHandle })

function pinnedKind(): OwnedKind {
  const kind = new OwnedKind(layer().functions['release'] ?? 0, 'release', Trait.IS_PINNED)
  layerOwn().notePinned(kind.number, KEPT_PINNED.bytes, KEPT_PINNED.milliseconds)
  return kind
}

function fakeParts() {
  const memory = new NativeMemory(64)
  const calls: string[] = []
  const undone = new Set<number>()
  const recycled: number[] = []
  const state = { hostFunctions: false, fails: 0 }
  const library = {
    cuMemHostAlloc: (out: number, bytes: number, flags: number) => {
      calls.push(`cuMemHostAlloc ${bytes} ${flags}`)
      assert.equal(out, memory.address)
      memory.uint64[0] = BigInt(layerOwn().allocate(bytes))
      return state.fails
    },
    cuMemFreeHost: () => calls.push('cuMemFreeHost') * 0,
    cuThreadExchangeStreamCaptureMode: () => 0,
    cuEventQuery: (event: number) => (undone.has(event) ? 600 : 0),
  }
  const parts = {
    library,
    must: mustOf(library),
    memory,
    kinds: { pinned: pinnedKind(), asyncMemory: { number: 0 } },
    contexts: { primary: () => context, within: <R>(_context: number, calls: () => R): R => calls() },
    relaxed: new RelaxedCaptures(library),
    hostFunctions: {
      countEntries: () => {},
      exclusivelyNow: <R>(call: () => R) => (state.hostFunctions ? undefined : { made: call() }),
    },
    idleDevices: idleWhen(() => !state.hostFunctions),
    driver: {
      get memory() {
        return pinned
      },
      events: { recycle: (_context: ContextHandle, event: EventHandle) => recycled.push(event) },
    },
  }
  const pinned: CudaMemory = new CudaMemory(parts as unknown as CudaMemoryParts)
  return { pinned, calls, undone, recycled, state }
}

describe('pinned memory of the CUDA backend', { skip }, () => {
  it('is used again, but not before the work that needs it is done', () => {
    const { pinned, calls, undone, recycled } = fakeParts()
    const first = pinned.allocatePinned(100, context)
    new Uint8Array(first.bytes).fill(1)
    undone.add(5)
    pinned.closePinned(first.pointer, first.bytes, [own(5), own(6)])
    assert.equal(first.bytes.byteLength, 0)
    const second = pinned.allocatePinned(200, context)
    assert.notEqual(second.pointer, first.pointer)
    assert.deepEqual(recycled, [])
    undone.clear()
    const third = pinned.allocatePinned(300, context)
    assert.equal(third.pointer, first.pointer)
    assert.equal(third.bytes.byteLength, 300)
    assert.deepEqual(recycled, [5, 6])
    assert.deepEqual(calls, ['cuMemHostAlloc 65536 3', 'cuMemHostAlloc 65536 3'])
  })

  it('is given back beyond a limit, but never while a host function is pending', () => {
    const { pinned, calls, state } = fakeParts()
    const large = (): void => {
      const { pointer, bytes } = pinned.allocatePinned(200 * 1024 * 1024, context)
      pinned.allocatePinned(1, context)
      pinned.closePinned(pointer, bytes, [])
    }
    large()
    const { pointer, bytes } = pinned.allocatePinned(90 * 1024 * 1024, context)
    state.hostFunctions = true
    pinned.closePinned(pointer, bytes, [])
    assert.ok(!calls.includes('cuMemFreeHost'))
    state.hostFunctions = false
    const again = pinned.allocatePinned(60 * 1024 * 1024, context)
    pinned.closePinned(again.pointer, again.bytes, [])
    assert.ok(calls.includes('cuMemFreeHost'))
  })

  it('says what the driver said', () => {
    const { pinned, state } = fakeParts()
    state.fails = 2
    assert.throws(
      () => pinned.allocatePinned(1024 * 1024 * 1024, context),
      (error: unknown) => error instanceof CudaError && error.number === 2 && error.call === 'cuMemHostAlloc',
    )
  })
})
