/** What the driver's log adds to the error of a refused call: entries as an H200 printed them (driver 580, CUDA 13.0), and a GPU's if there is one. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CudaError, DeviceBuffer } from 'cuda-streams'
import { whyRefused } from '../../../src/cuda/libcuda/libcuda.js'
import { openCudaWorkbench } from '../../helpers/cuda-workbench.js'

const entry = (text: string, thread = 140702254520128): string => `[16:47:17.860][${thread}][CUDA][E] ${text}\n`
const ALIGNED = entry('Device pointer must be 4-byte aligned to match elementSize')
const FILL = entry('Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemsetD32Async')

describe('the log of the driver', () => {
  it('has the reason before what the call returned', () => {
    const why = 'Device pointer must be 4-byte aligned to match elementSize'
    assert.equal(whyRefused(ALIGNED + FILL, 'cuMemsetD32Async', 1), why)
    const earlier =
      entry('Grid Dimension X must be nonzero') + entry('Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel')
    assert.equal(whyRefused(earlier + ALIGNED + FILL, 'cuMemsetD32Async', 1), why)
    assert.equal(whyRefused(ALIGNED + FILL + earlier, 'cuMemsetD32Async', 1), why)
  })

  it('joins several, and leaves out those of other threads', () => {
    const other = entry('Copy is larger than memobj size, for source operand', 7)
    const log = entry('JIT compilation failed') + other + entry('No device code available for GPU ISA 90')
    const result = entry('Returning 218 (CUDA_ERROR_INVALID_PTX) from cuModuleLoadData')
    assert.equal(
      whyRefused(log + result, 'cuModuleLoadData', 218),
      'JIT compilation failed; No device code available for GPU ISA 90',
    )
  })

  it('recognises the versions of a call, and the one that makes a semaphore', () => {
    const log = entry('Index 0: Address 0x7ff5b6800002 not aligned')
    const result = entry('Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuStreamBatchMemOp_v2')
    for (const call of ['cuStreamBatchMemOp', 'cuLaunchHostFunc']) {
      assert.equal(whyRefused(log + result, call, 1), 'Index 0: Address 0x7ff5b6800002 not aligned')
    }
  })

  it('says nothing of other calls and results, of a result alone, and of a fault before', () => {
    assert.equal(whyRefused('', 'cuMemsetD32Async', 1), undefined)
    assert.equal(whyRefused(ALIGNED + FILL, 'cuMemsetD8Async', 1), undefined)
    assert.equal(whyRefused(ALIGNED + FILL, 'cuMemsetD32Async', 400), undefined)
    assert.equal(whyRefused(FILL, 'cuMemsetD32Async', 1), undefined)
    const sticky =
      entry('Sticky error detected') + entry('Returning 700 (CUDA_ERROR_ILLEGAL_ADDRESS) from cuStreamQuery')
    assert.equal(whyRefused(sticky, 'cuStreamQuery', 700), undefined)
  })

  const bench = openCudaWorkbench()
  const skip = typeof bench === 'string' ? `no NVIDIA driver here: ${bench}` : false
  it('is in the message of a CudaError', { skip }, () => {
    assert.ok(typeof bench !== 'string')
    using stream = bench.stream()
    using pooled = bench.device.alloc(64, { stream })
    using foreign = DeviceBuffer.from(pooled.pointer, 64, { device: bench.device })
    assert.throws(
      () => stream.writeValue(foreign, 1),
      (error) => error instanceof CudaError && /The driver says: Batch memory/.test(error.message),
    )
  })
})
