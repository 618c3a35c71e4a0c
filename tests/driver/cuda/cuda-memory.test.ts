/** What the CUDA backend does with pinned memory, on a driver that is pretended: the C library's malloc, and events by hand. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import type * as Koffi from 'koffi'
import { CudaError } from '../../../src/base/errors.js'
import { CudaMemory, type CudaMemoryParts } from '../../../src/driver/cuda/cuda-memory.js'
import { NativeMemory } from '../../../src/driver/cuda/libcuda/native.js'
import { RelaxedCaptures } from '../../../src/driver/cuda/libcuda/relaxed-captures.js'
import { detach } from '../../../src/driver/cuda/memory/detach.js'
import type { ContextHandle, EventHandle, OwnEvent } from '../../../src/driver/driver.js'
import { idleWhen } from './idle-when.js'

const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
const skip = process.platform === 'win32' ? 'the C library is found differently here' : false
const context = 1 as ContextHandle
const own = (event: number): OwnEvent => ({ context, event: event as EventHandle })

function pretend() {
  const malloc = koffi.load(null).func('malloc', 'uintptr_t', ['uintptr_t'])
  const memory = new NativeMemory(64)
  const calls: string[] = []
  const undone = new Set<number>()
  const recycled: number[] = []
  const state = { hostFunctions: false, fails: 0 }
  const library = {
    cuMemHostAlloc: (out: number, bytes: number, flags: number) => {
      calls.push(`cuMemHostAlloc ${bytes} ${flags}`)
      assert.equal(out, memory.address)
      memory.uint64[0] = BigInt(malloc(bytes))
      return state.fails
    },
    cuMemFreeHost: () => calls.push('cuMemFreeHost') * 0,
    cuThreadExchangeStreamCaptureMode: () => 0,
    cuEventQuery: (event: number) => (undone.has(event) ? 600 : 0),
  }
  const parts = {
    library,
    memory,
    contexts: { within: <R>(_context: number, calls: () => R): R => calls() },
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
      eventRecycle: (_context: ContextHandle, event: EventHandle) => recycled.push(event),
    },
  }
  const pinned: CudaMemory = new CudaMemory(parts as unknown as CudaMemoryParts)
  return { pinned, calls, undone, recycled, state }
}

describe('pinned memory of the CUDA backend', { skip }, () => {
  it('an ArrayBuffer over C memory can be detached, with all its views', () => {
    const memory = new NativeMemory(4096)
    const buffer = koffi.view(BigInt(memory.address), 4096)
    const views = [new Uint8Array(buffer), new Float32Array(buffer, 16, 4)]
    memory.bytes[0] = 7
    assert.equal(views[0]?.[0], 7)
    assert.equal(detach(buffer), true)
    assert.equal(detach(buffer), true)
    assert.deepEqual([buffer.byteLength, ...views.map(({ length }) => length)], [0, 0, 0])
    assert.equal(memory.bytes[0], 7)
  })

  it('leaves no flag of V8 behind', () => {
    const native: unknown = Reflect.get(ArrayBuffer.prototype, 'transfer')
    detach(new ArrayBuffer(8))
    assert.equal(Reflect.get(ArrayBuffer.prototype, 'transfer'), native)
  })

  it('is used again, but not before the work that needs it is done', () => {
    const { pinned, calls, undone, recycled } = pretend()
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
    const { pinned, calls, state } = pretend()
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
    const again = pinned.allocatePinned(20 * 1024 * 1024, context)
    pinned.closePinned(again.pointer, again.bytes, [])
    assert.ok(calls.includes('cuMemFreeHost'))
  })

  it('says what the driver said', () => {
    const { pinned, state } = pretend()
    state.fails = 2
    assert.throws(
      () => pinned.allocatePinned(8, context),
      (error: unknown) => error instanceof CudaError && error.number === 2 && error.call === 'cuMemHostAlloc',
    )
  })
})
