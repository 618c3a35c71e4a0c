/** For which allocations the CUDA backend lets pools search, on a fake driver. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { CudaPools, type CudaPoolsParts } from '../../src/cuda/cuda-pools.js'
import type { ContextHandle, PoolHandle } from '../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { mustOf } from './fake-parts.js'

const skip = process.platform === 'linux' ? false : 'the native layer is for Linux'
const [DEFAULT, OWN] = [7, 9 as PoolHandle] as const
const CONTEXT = 1 as ContextHandle
const SMALL = 2 ** 20

it('a pool of the CUDA backend does not search the memory of other streams for what is small', { skip }, () => {
  const memory = new NativeMemory(64)
  const library = {
    cuDeviceGetDefaultMemPool: () => {
      memory.uint64[0] = BigInt(DEFAULT)
      return 0
    },
  }
  const parts = {
    library,
    must: mustOf(library),
    memory,
    contexts: { deviceOf: () => 0, cudaDevice: () => 0 },
  } as unknown as CudaPoolsParts
  const pools = new CudaPools(parts)
  assert.equal(pools.notSearched(undefined, CONTEXT, SMALL), DEFAULT)
  assert.equal(pools.notSearched(OWN, CONTEXT, 1), OWN)
  assert.equal(pools.notSearched(undefined, CONTEXT, SMALL + 1), 0)
  assert.equal(pools.notSearched(OWN, CONTEXT, SMALL + 1), 0)
})
