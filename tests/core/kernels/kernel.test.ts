/** `kernel.activeBlocks()` checks its numbers before a driver is asked, which no kernel on the simulator is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Kernel, Module } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import type { KernelHandle, ModuleHandle } from '../../../src/foundation/driver/handle-types.js'
import type { KernelDriver } from '../../../src/foundation/driver/kernel-driver.js'
import type { Interceptor } from '../../../src/foundation/driver/wrappable-driver.js'
import { refused } from '../../conformance/expect.js'

type Asked = readonly [blockSize: number, sharedMemory: number]

/** Stands before a driver that knows no kernels, and knows one. */
class OneKernel implements Interceptor {
  readonly asked: Asked[] = []
  readonly kernels: Partial<KernelDriver> = {
    load: () => 8 as ModuleHandle,
    unload: () => {},
    kernel: () => 16 as KernelHandle,
    activeBlocks: (_kernel, blockSize, sharedMemory) => this.asked.push([blockSize, sharedMemory]),
  }
}

function openKernel(): { kernel: Kernel; asked: readonly Asked[] } {
  const [device] = simulate().devices
  assert.ok(device)
  const front = driverOf(device)
  const { asked } = front.wrap(() => new OneKernel()).wrapper
  return { kernel: Module.load('code', { device }).kernel('nothing', []), asked }
}

test('numbers that nothing can be are refused by name', () => {
  const { kernel, asked } = openKernel()
  for (const blockSize of [0, -1, 2 ** 31]) {
    refused(() => kernel.activeBlocks(blockSize), 'ERR_OUT_OF_RANGE', /^blockSize/)
  }
  for (const sharedMemory of [-1, 2 ** 31]) {
    refused(() => kernel.activeBlocks(32, sharedMemory), 'ERR_OUT_OF_RANGE', /^sharedMemory/)
  }
  for (const wrong of [1.5, Number.NaN, '32', null] as unknown as number[]) {
    refused(() => kernel.activeBlocks(wrong), 'ERR_INVALID_ARG_TYPE', /^blockSize/)
    refused(() => kernel.activeBlocks(32, wrong), 'ERR_INVALID_ARG_TYPE', /^sharedMemory/)
  }
  assert.deepEqual(asked, [])
})

test('the rest is asked of the driver, without shared memory unless it is given', () => {
  const { kernel, asked } = openKernel()
  kernel.activeBlocks(32)
  kernel.activeBlocks(1024, 49_152)
  assert.deepEqual(asked, [
    [32, 0],
    [1024, 49_152],
  ])
})
