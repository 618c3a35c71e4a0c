/** What the CUDA backend does with memory that other processes see, on a fake driver. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { CudaSharing, type CudaSharingParts, Registrations } from '../../src/cuda/cuda-sharing.js'
import { RelaxedCaptures } from '../../src/cuda/libcuda/driver-calls.js'
import { CudaError } from '../../src/foundation/base/errors.js'
import type { InternalEvent } from '../../src/foundation/driver/event-driver.js'
import type { ContextHandle, EventHandle, Pointer } from '../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { mustOf, NO_KINDS } from './fake-parts.js'
import { idleWhen } from './idle-when.js'

const skip = process.platform === 'win32' ? 'the C library is found differently here' : false
const context = 1 as ContextHandle
const MiB = 2 ** 20
const own = (event: number): InternalEvent => ({ context, event: event as EventHandle })

function fakeParts() {
  const memory = new NativeMemory(128)
  const calls: string[] = []
  const undone = new Set<number>()
  const recycled: number[] = []
  const state = { hostFunctions: false, allocates: [] as number[], opens: 0, capable: 1, range: 16 * MiB }
  let next = 0x7000_0000_0000
  const out = (...values: number[]): number => {
    for (const [index, value] of values.entries()) memory.uint64[index] = BigInt(value)
    return 0
  }
  const library = {
    cuMemAlloc_v2: (_out: number, bytes: number) => {
      calls.push(`cuMemAlloc ${bytes}`)
      const result = state.allocates.shift() ?? 0
      if (result !== 0) return result
      next += bytes
      return out(next - bytes)
    },
    cuMemFree_v2: (pointer: number) => calls.push(`cuMemFree ${pointer}`) * 0,
    cuPointerGetAttribute: () => out(state.capable),
    cuMemGetAddressRange_v2: (_base: number, _size: number, pointer: number) =>
      out(pointer - (pointer % MiB), state.range),
    cuIpcGetMemHandle: (_out: number, pointer: number) => {
      memory.bytes.fill(0, 0, 64)
      return out(pointer)
    },
    cuIpcOpenMemHandle_v2: (_out: number, handle: number, flags: number) => {
      calls.push(`cuIpcOpenMemHandle ${memory.bytes[handle - memory.address]} ${flags}`)
      return state.opens === 0 ? out(0x6000_0000_0000) : state.opens
    },
    cuIpcCloseMemHandle: (pointer: number) => calls.push(`cuIpcCloseMemHandle ${pointer}`) * 0,
    cuThreadExchangeStreamCaptureMode: () => 0,
  }
  const parts = {
    library,
    must: mustOf(library),
    memory,
    kinds: NO_KINDS,
    contexts: { within: <R>(_context: number, calls: () => R): R => calls() },
    relaxed: new RelaxedCaptures(library),
    hostFunctions: {
      exclusivelyNow: <R>(call: () => R) => (state.hostFunctions ? undefined : { made: call() }),
    },
    idleDevices: idleWhen(() => !state.hostFunctions),
    driver: {
      memory: { isDone: (event: EventHandle) => !undone.has(event) },
      events: { recycle: (_context: ContextHandle, event: EventHandle) => recycled.push(event) },
    },
  }
  return { sharing: new CudaSharing(parts as unknown as CudaSharingParts), calls, undone, recycled, state }
}

const code = (wanted: string) => (error: unknown) => (error as { code?: unknown }).code === wanted

describe('memory for other processes on the CUDA backend', { skip }, () => {
  it('comes in steps of 2 MiB, and is used again once the work is done', () => {
    const { sharing, calls, undone, recycled } = fakeParts()
    const first = sharing.allocate(100, context)
    undone.add(5)
    sharing.free(first, [own(5), own(6)])
    const second = sharing.allocate(3 * MiB, context)
    assert.notEqual(second, first)
    undone.clear()
    assert.equal(sharing.allocate(2 * MiB, context), first)
    assert.deepEqual(recycled, [5, 6])
    assert.deepEqual(calls, [`cuMemAlloc ${2 * MiB}`, `cuMemAlloc ${4 * MiB}`])
  })

  it('of one context is not given to another', () => {
    const { sharing } = fakeParts()
    const first = sharing.allocate(1, context)
    sharing.free(first, [])
    assert.notEqual(sharing.allocate(1, 2 as ContextHandle), first)
    assert.equal(sharing.allocate(1, context), first)
  })

  it('is given back beyond a limit, but never while a host function is pending', () => {
    const { sharing, calls, state } = fakeParts()
    const large = [200, 90, 90].map((size) => sharing.allocate(size * MiB, context))
    for (const [index, pointer] of large.entries()) {
      state.hostFunctions = index === 1
      sharing.free(pointer, [])
    }
    assert.deepEqual(
      calls.filter((call) => call.startsWith('cuMemFree')),
      [`cuMemFree ${large[2]}`, `cuMemFree ${large[1]}`],
    )
  })

  it('what is kept is given back where the device has no more, unless a host function is pending', () => {
    const { sharing, calls, state } = fakeParts()
    const kept = sharing.allocate(1, context)
    sharing.free(kept, [])
    state.allocates = [2, 0]
    sharing.allocate(64 * MiB, context)
    assert.ok(calls.includes(`cuMemFree ${kept}`))
    sharing.free(sharing.allocate(1, context), [])
    state.hostFunctions = true
    state.allocates = [2, 0]
    assert.throws(
      () => sharing.allocate(64 * MiB, context),
      (error: unknown) => error instanceof CudaError && error.number === 2 && error.call === 'cuMemAlloc',
    )
  })

  it('is exported by its base, and known again in this process', () => {
    const { sharing, state } = fakeParts()
    const pointer = sharing.allocate(1, context)
    const { handle, byteOffset } = sharing.exportMemory((pointer + 12) as Pointer, context)
    assert.equal(handle.length, 64)
    assert.equal(byteOffset, 12)
    assert.throws(() => sharing.importMemory(handle, context), code('ERR_INVALID_HANDLE'))
    state.capable = 0
    assert.throws(() => sharing.exportMemory(pointer, context), code('ERR_UNSUPPORTED'))
  })

  it('of another process is unmapped after its work, and not while a host function is pending', async () => {
    const { sharing, calls, undone, recycled, state } = fakeParts()
    const imported = sharing.importMemory(new Uint8Array(64).fill(9), context)
    assert.deepEqual([imported.pointer, imported.byteLength], [0x6000_0000_0000, 16 * MiB])
    assert.deepEqual(sharing.exportMemory((imported.pointer + 5) as Pointer, context), {
      handle: new Uint8Array(64).fill(9),
      byteOffset: 5,
    })
    const closed = `cuIpcCloseMemHandle ${imported.pointer}`
    undone.add(1)
    imported.close([own(1)])
    assert.deepEqual(calls, ['cuIpcOpenMemHandle 9 1'])
    undone.clear()
    state.hostFunctions = true
    sharing.importMemory(new Uint8Array(64).fill(8), context).close([])
    assert.ok(!calls.includes(closed))
    state.hostFunctions = false
    // Looked at again by itself.
    const deadline = performance.now() + 10_000
    while (!calls.includes(closed) && performance.now() < deadline) await new Promise(setImmediate)
    assert.equal(calls.filter((call) => call === closed).length, 2)
    assert.deepEqual(recycled, [1])
  })

  it('what the driver refuses is an invalid handle, the same process among it, but for a lack of memory', () => {
    const { sharing, state } = fakeParts()
    const attempt = (number: number) => () => {
      state.opens = number
      sharing.importMemory(new Uint8Array(64), context)
    }
    for (const number of [1, 205, 400]) assert.throws(attempt(number), code('ERR_INVALID_HANDLE'))
    assert.throws(attempt(201), /same process/)
    assert.throws(attempt(2), code('CUDA_ERROR_OUT_OF_MEMORY'))
    assert.throws(attempt(700), code('CUDA_ERROR_ILLEGAL_ADDRESS'))
  })
})

describe('registrations', { skip }, () => {
  const source = `
    const { parentPort, workerData } = require('node:worker_threads')
    import(workerData).then(({ Registrations }) => {
      const registrations = new Registrations()
      parentPort.on('message', ({ registration, key }) => parentPort.postMessage(registrations.read(registration, key)))
    })`

  it('can be read by another thread, with their words, until they are removed', async () => {
    const module = new URL('../../src/cuda/cuda-sharing.js', import.meta.url).href
    const worker = new Worker(source, { eval: true, workerData: module })
    const read = async (registration: number, key: number): Promise<unknown> => {
      worker.postMessage({ registration, key })
      return (await once(worker, 'message'))[0]
    }
    const registrations = new Registrations()
    const key = 2 ** 48 - 5
    const address = 2 ** 47 - 8
    const registration = registrations.add([key, 2, 0, address, 100])
    assert.deepEqual(await read(registration, key), [2, 0, address, 100, 0, 0, 0])
    assert.equal(await read(registration, key - 1), undefined)
    assert.equal(await read(registration + 4, key), undefined)
    for (const unreadable of [8, 2 ** 46, 2 ** 47, Number.MAX_SAFE_INTEGER - 7]) {
      assert.equal(await read(unreadable, key), undefined)
    }
    registrations.remove(registration)
    assert.equal(await read(registration, key), undefined)
    assert.equal(registrations.add([7, 1]), registration, 'the words are used again')
    assert.deepEqual(await read(registration, 7), [1, 0, 0, 0, 0, 0, 0], 'nothing is left of what stood there before')
    assert.equal(await read(registration, key), undefined)
    assert.equal(await read(registration, 0), undefined)
    await worker.terminate()
  })
})
