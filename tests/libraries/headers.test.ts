/** The ledgers of cuBLAS and NCCL, each row and number against the headers where they are installed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ELEMENT_TYPES, type ElementTypeWith, elementTypesWith } from '../../src/foundation/base/element-types.js'
import {
  CUBLAS_GEMM_DEFAULT,
  CUBLAS_OP,
  CUBLAS_SIGNATURES,
  CUBLAS_STATUS,
} from '../../src/libraries/cublas/cublas-library.js'
import {
  NCCL_CONFIG,
  NCCL_CONFIG_MAGIC,
  NCCL_CONFIG_OF_SPLIT,
  NCCL_OPERATIONS,
  NCCL_RESULT,
  NCCL_SIGNATURES,
  NCCL_THREADED,
  UNIQUE_ID_BYTES,
} from '../../src/libraries/nccl/nccl-library.js'
import { against, ledger, rows } from './c-ledger.js'

describe('the ledger of cuBLAS', () => ledger(CUBLAS_SIGNATURES))
describe('the ledger of NCCL', () => ledger(NCCL_SIGNATURES))

against('cublas_api.h', (header) => {
  rows(header, CUBLAS_SIGNATURES)
  it('every result has its number', () => {
    for (const [name, value] of Object.entries(CUBLAS_STATUS)) assert.equal(header.enumerator(name), value, name)
  })
  it('operations, compute types, the default algorithm', () => {
    assert.equal(header.enumerator('CUBLAS_OP_N'), CUBLAS_OP.N)
    assert.equal(header.enumerator('CUBLAS_OP_T'), CUBLAS_OP.T)
    assert.equal(header.enumerator('CUBLAS_GEMM_DEFAULT'), CUBLAS_GEMM_DEFAULT)
    const [single, double] = [header.enumerator('CUBLAS_COMPUTE_32F'), header.enumerator('CUBLAS_COMPUTE_64F')]
    for (const type of elementTypesWith('cublas')) {
      assert.equal(ELEMENT_TYPES[type].cublas.compute, type === 'f64' ? double : single, type)
    }
  })
})

against('library_types.h', (header) => {
  it('the types of elements', () => {
    const names = { f32: 'CUDA_R_32F', f64: 'CUDA_R_64F', f16: 'CUDA_R_16F', bf16: 'CUDA_R_16BF' }
    for (const type of elementTypesWith('cublas')) {
      assert.equal(header.enumerator(names[type]), ELEMENT_TYPES[type].cublas.data, type)
    }
  })
})

against('nccl.h', (header) => {
  console.log(`NCCL ${header.macro('NCCL_VERSION_CODE')}`)
  rows(header, { ...NCCL_SIGNATURES, ...NCCL_THREADED })
  it('every result has its number', () => {
    for (const [name, value] of Object.entries(NCCL_RESULT)) assert.equal(header.enumerator(name), value, name)
  })
  it('the types of elements, and the reductions', () => {
    const names: Record<ElementTypeWith<'nccl'>, string> = {
      ...{ i8: 'ncclInt8', u8: 'ncclUint8', i32: 'ncclInt32', u32: 'ncclUint32', i64: 'ncclInt64', u64: 'ncclUint64' },
      ...{ f16: 'ncclFloat16', f32: 'ncclFloat32', f64: 'ncclFloat64', bf16: 'ncclBfloat16' },
    }
    for (const type of elementTypesWith('nccl')) {
      assert.equal(header.enumerator(names[type]), ELEMENT_TYPES[type].nccl, type)
    }
    const operations = { sum: 'ncclSum', prod: 'ncclProd', max: 'ncclMax', min: 'ncclMin', avg: 'ncclAvg' }
    for (const [op, value] of Object.entries(NCCL_OPERATIONS)) {
      assert.equal(header.enumerator(operations[op as keyof typeof operations]), value, op)
    }
  })
  it('an id has 128 bytes', () => {
    assert.equal(header.macro('NCCL_UNIQUE_ID_BYTES'), UNIQUE_ID_BYTES)
    assert.deepEqual(header.members('ncclUniqueId'), ['char internal[NCCL_UNIQUE_ID_BYTES]'])
  })
  it('the configuration begins as it did in 2.14', () => {
    assert.deepEqual(header.members('ncclConfig_t').slice(0, 4), [
      ...['size_t size', 'unsigned int magic', 'unsigned int version', 'int blocking'],
    ])
    // size_t has 8 bytes; the struct ends at a multiple of them.
    assert.deepEqual(NCCL_CONFIG, { size: 0, magic: 8, version: 12, blocking: 16, bytes: 24 })
    const members = header.members('ncclConfig_t')
    if (members.includes('int splitShare')) {
      assert.deepEqual(members.slice(4, 9), [
        ...['int cgaClusterSize', 'int minCTAs', 'int maxCTAs', 'const char *netName', 'int splitShare'],
      ])
    }
    const more = { cgaClusterSize: 20, minCTAs: 24, maxCTAs: 28, splitShare: 40, bytes: 48 }
    assert.deepEqual(NCCL_CONFIG_OF_SPLIT, { ...NCCL_CONFIG, ...more })
    const magic = header.macro('NCCL_API_MAGIC') ?? NCCL_CONFIG_MAGIC
    assert.equal(magic, NCCL_CONFIG_MAGIC)
  })
})
