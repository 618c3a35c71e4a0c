/** How the CUDA backend asks its pools for memory, on a fake driver. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CudaPools, type CudaPoolsParts } from '../../src/cuda/cuda-pools.js'
import { CUresult } from '../../src/foundation/driver/cuda-results.js'
import type { ContextHandle, PoolHandle } from '../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { mustOf } from './fake-parts.js'

const skip = process.platform === 'linux' ? false : 'the native layer is for Linux'
const OPPORTUNISTIC = 2
const [DEFAULT, OWN] = [7, 9] as const
const CONTEXT = 1 as ContextHandle
const SMALL = 2 ** 20

/** A pool that searches the memory of all streams if `searches`, and whose memory no stream knows that does not search if `isFull`. */
function fakePools(given: { readonly searches: boolean; readonly isFull?: boolean }) {
  const memory = new NativeMemory(64)
  const calls: string[] = []
  let searches = given.searches
  const library = {
    cuDeviceGetDefaultMemPool: () => {
      memory.uint64[0] = BigInt(DEFAULT)
      return 0
    },
    cuMemPoolGetAttribute: (_pool: number, attribute: number) => {
      assert.equal(attribute, OPPORTUNISTIC)
      memory.uint32[0] = Number(searches)
      return 0
    },
    cuMemPoolSetAttribute: (pool: number, attribute: number) => {
      assert.equal(attribute, OPPORTUNISTIC)
      searches = memory.uint32[0] === 1
      calls.push(`pool ${pool} ${searches ? 'searches' : 'does not'}`)
      return 0
    },
  }
  const parts = {
    library,
    must: mustOf(library),
    memory,
    contexts: { deviceOf: () => 0, cudaDevice: () => 0 },
    relaxed: { run: <R>(fn: () => R): R => fn() },
  } as unknown as CudaPoolsParts
  const pools = new CudaPools(parts)
  const allocate = (byteLength: number, pool?: number): number =>
    pools.allocate(pool as PoolHandle | undefined, CONTEXT, byteLength, () => {
      calls.push('allocate')
      return given.isFull && !searches ? CUresult.OUT_OF_MEMORY : 0
    })
  return { allocate, calls }
}

describe('an allocation of a pool of the CUDA backend', { skip }, () => {
  it('asks no other stream for its memory where it is small, and leaves the pool as it was', () => {
    for (const pool of [undefined, OWN]) {
      const { allocate, calls } = fakePools({ searches: true })
      assert.equal(allocate(SMALL, pool), 0)
      const which = pool ?? DEFAULT
      assert.deepEqual(calls, [`pool ${which} does not`, 'allocate', `pool ${which} searches`])
      assert.equal(allocate(SMALL + 1, pool), 0)
      assert.deepEqual(calls.slice(3), ['allocate'])
    }
  })

  it('changes nothing where the program has told the pool not to ask', () => {
    const { allocate, calls } = fakePools({ searches: false })
    assert.equal(allocate(1), 0)
    assert.deepEqual(calls, ['allocate'])
  })

  it('asks all others before it fails', () => {
    const { allocate, calls } = fakePools({ searches: true, isFull: true })
    assert.equal(allocate(1), 0)
    assert.deepEqual(calls, [`pool ${DEFAULT} does not`, 'allocate', `pool ${DEFAULT} searches`, 'allocate'])
  })
})
