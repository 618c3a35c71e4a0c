/** What the CUDA backend keeps of kernels, on a fake driver that gives a function's address out again. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CudaKernels, type CudaKernelsParts } from '../../src/cuda/cuda-kernels.js'
import { cudaError } from '../../src/foundation/driver/cuda-results.js'
import type { ContextHandle, KernelHandle, StreamHandle } from '../../src/foundation/driver/handle-types.js'
import type { LaunchShape } from '../../src/foundation/driver/kernel-driver.js'
import type { QueuedKernel } from '../../src/foundation/driver/queued-work.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { mustOf } from './fake-parts.js'
import { idleWhen } from './idle-when.js'

const FUNCTION = 0x5000
/** The module of every function that is asked for its module. */
const OTHERS_MODULE = 0x7000
const MOST_NAME = 32
const context = 1 as ContextHandle
const stream = 4096 as StreamHandle
const shape = (sharedMemory = 0): LaunchShape => ({
  grid: [1, 1, 1],
  block: [1, 1, 1],
  sharedMemory,
  cooperative: false,
  cluster: undefined,
  attributes: undefined,
})

const launchOf = (handle: KernelHandle, shape: LaunchShape, args: readonly number[]): QueuedKernel => {
  return { kind: 'kernel', stream, kernel: { handle, name: 'k', uses: [] }, shape, args }
}

function fakeParts() {
  const memory = new NativeMemory(256)
  const granted: number[] = []
  const launched: { function: number; bits: number }[] = []
  const names: string[] = []
  const attributes: (readonly (readonly number[])[])[] = []
  let modules = 0
  const library = {
    cuModuleLoadData: () => {
      modules += 1
      memory.uint64[0] = BigInt(modules)
      return 0
    },
    cuModuleUnload: () => 0,
    cuModuleGetFunction: (_out: number, _module: number, name: number) => {
      const { bytes } = new NativeMemory(MOST_NAME, name)
      names.push(Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString())
      memory.uint64[0] = BigInt(FUNCTION)
      return 0
    },
    cuModuleEnumerateFunctions: (functions: number, most: number) => {
      const made = new NativeMemory(most * 8, functions)
      made.uint64.set([7n, 8n, 9n])
      return 0
    },
    cuFuncGetName: (_out: number, handle: number) => {
      if (handle === 8) return 400
      memory.uint64[0] = BigInt(NativeMemory.ofText(`kernel ${handle % 100}`).address)
      return 0
    },
    cuFuncGetModule: () => {
      memory.uint64[0] = BigInt(OTHERS_MODULE)
      return 0
    },
    cuFuncGetParamInfo: (_function: number, index: number) => {
      memory.uint64[1] = 4n
      return index < 1 ? 0 : 1
    },
    cuFuncGetAttribute: () => {
      memory.uint64[0] = 0n
      return 0
    },
    cuFuncSetAttribute: (_function: number, _attribute: number, value: number) => {
      granted.push(value)
      return 0
    },
    cuLaunchKernelEx: (config: number, called: number, parameters: number) => {
      const { uint32, uint64 } = new NativeMemory(56, config)
      const all = new NativeMemory(72 * (uint32[12] ?? 0), Number(uint64[5]))
      attributes.push(
        Array.from({ length: uint32[12] ?? 0 }, (_, at) => [...all.uint32.subarray(18 * at, 18 * at + 5)]),
      )
      const pointer = new NativeMemory(8, parameters).pointerAt(0)
      launched.push({ function: called, bits: new NativeMemory(8, pointer).uint32[0] ?? 0 })
      return 0
    },
  }
  const contexts = { within: <R>(_context: number, calls: () => R): R => calls() }
  const parts = {
    library,
    must: mustOf(library),
    memory,
    contexts,
    calls: { onStream: () => {} },
    handles: { checkThere: () => {} },
    relaxed: { run: <R>(calls: () => R): R => calls() },
    blocking: { exclusively: <R>(call: () => R): R => call() },
    hostFunctions: { countEntries: () => {} },
    idleDevices: idleWhen(() => true),
  }
  const kernels = new CudaKernels(parts as unknown as CudaKernelsParts)
  return { kernels, granted, launched, names, attributes }
}

describe('kernels of the CUDA backend', () => {
  it('one function may have two signatures: each kernel writes its arguments by its own', () => {
    const { kernels, launched } = fakeParts()
    const module = kernels.load(new Uint8Array(8), context)
    const float = kernels.kernel(module, 'k', ['f32'])
    const integer = kernels.kernel(module, 'k', ['i32'])
    kernels.launch(launchOf(float, shape(), [1.5]))
    kernels.launch(launchOf(integer, shape(), [3]))
    assert.deepEqual(launched, [
      { function: FUNCTION, bits: 0x3fc00000 },
      { function: FUNCTION, bits: 3 },
    ])
  })

  it('of a module of text are held against its types, of a module of machine code against sizes alone', () => {
    const { kernels } = fakeParts()
    const text = new TextEncoder().encode('//\n.visible .entry k(.param .f32 k_0)\n{ ld.param.b32 %r1, [k_0]; ret; }')
    const module = kernels.load(text, context)
    kernels.kernel(module, 'k', ['f32'])
    kernels.kernel(module, 'k', [4])
    const refused = {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /kernel 'k' has an integer for what is \.f32 in the code: argument 0: .* struct\(\{ bits: 'u32' \}\)$/,
    }
    assert.throws(() => kernels.kernel(module, 'k', ['i32']), refused)
    const cubin = Uint8Array.of(0x7f, ...text)
    assert.ok(kernels.kernel(kernels.load(cubin, context), 'k', ['i32']) >= 0)
  })

  it('are named, the latest first, where a GPU tells of a fault and not whose it is', () => {
    const { kernels } = fakeParts()
    const module = kernels.load(new Uint8Array(8), context)
    const launch = (name: string): void => kernels.launch(launchOf(kernels.kernel(module, name, ['i32']), shape(), [1]))
    for (const name of ['first', 'second', 'third', 'fourth', 'fifth', 'fifth']) launch(name)
    assert.match(
      cudaError('cuMemcpyAsync', 719).message,
      /^Earlier work faulted: .*The latest launches of this thread: fifth, fourth, third$/,
    )
    assert.doesNotMatch(cudaError('cuMemcpyAsync', 1).message, /latest launches/)
  })

  it('is given the attributes of a launch as CUDA lays them out, and none that an earlier launch had', () => {
    const { kernels, attributes } = fakeParts()
    const kernel = kernels.kernel(kernels.load(new Uint8Array(8), context), 'k', ['f32'])
    const every: LaunchShape = {
      ...shape(),
      cooperative: true,
      cluster: [2, 1, 1],
      attributes: {
        programmatic: true,
        priority: 3,
        sharedMemoryCarveout: 50,
        memorySyncDomain: 1,
        clusterScheduling: 2,
        preferredCluster: [4, 2, 1],
      },
    }
    kernels.launch(launchOf(kernel, every, [1]))
    kernels.launch(launchOf(kernel, shape(), [1]))
    const byId = [...(attributes[0] ?? [])].sort(([one = 0], [other = 0]) => one - other)
    assert.deepEqual(byId, [
      [2, 0, 1, 0, 0],
      [4, 0, 2, 1, 1],
      [5, 0, 2, 0, 0],
      [6, 0, 1, 0, 0],
      [8, 0, 3, 0, 0],
      [10, 0, 1, 0, 0],
      [11, 0, 4, 2, 1],
      [14, 0, 50, 0, 0],
    ])
    assert.deepEqual(attributes[1], [])
  })

  it('is looked up by its name, however long that is', () => {
    const { kernels, names } = fakeParts()
    const module = kernels.load(new Uint8Array(8), context)
    for (const name of ['k', 'a-kernel', 'größer', '']) kernels.kernel(module, name, ['f32'])
    assert.deepEqual(names, ['k', 'a-kernel', 'größer', ''])
    assert.doesNotThrow(() => kernels.kernel(module, 'n'.repeat(100_000), ['f32']))
  })

  it('names those that the module has, without one whose name the driver refuses', () => {
    const { kernels } = fakeParts()
    assert.deepEqual(kernels.names(kernels.load(new Uint8Array(8), context)), ['kernel 7', 'kernel 9'])
  })

  it('got twice, it is one', () => {
    const { kernels } = fakeParts()
    const module = kernels.load(new Uint8Array(8), context)
    assert.equal(kernels.kernel(module, 'k', ['f32']), kernels.kernel(module, 'k', ['f32']))
  })

  it('leave for shared memory is the function’s, and ends with its module', () => {
    const { kernels, granted } = fakeParts()
    const first = kernels.load(new Uint8Array(8), context)
    const large = kernels.kernel(first, 'k', ['f32'])
    kernels.launch(launchOf(large, shape(100_000), [1]))
    kernels.launch(launchOf(kernels.kernel(first, 'k', ['i32']), shape(60_000), [1]))
    assert.deepEqual(granted, [100_000], 'a smaller one would take leave away')
    kernels.unload(first, context)
    assert.throws(() => kernels.launch(launchOf(large, shape(), [1])), {
      code: 'CUDA_ERROR_INVALID_HANDLE',
    })
    const again = kernels.kernel(kernels.load(new Uint8Array(8), context), 'k', ['f32'])
    kernels.launch(launchOf(again, shape(100_000), [1]))
    assert.deepEqual(granted, [100_000, 100_000])
  })

  it('a wrapper whose module was unloaded meanwhile takes nothing from those of the module that has its handle now', () => {
    const { kernels, launched } = fakeParts()
    const [before, after] = [0x5007, 0x5007 + 100]
    const stale = kernels.wrap(before, context)
    const wrapped = kernels.wrap(after, context)
    assert.deepEqual(wrapped, stale, 'module and name are the same, which is what the test is of')
    const kernel = kernels.kernel(wrapped.module, wrapped.name, ['f32'])
    kernels.release(stale)
    kernels.launch(launchOf(kernel, shape(), [1]))
    assert.deepEqual(launched, [{ function: after, bits: 0x3f800000 }])
    kernels.release(wrapped)
    assert.throws(
      () => kernels.kernel(wrapped.module, wrapped.name, ['f32']),
      'the last wrapper takes the module with it',
    )
  })
})
