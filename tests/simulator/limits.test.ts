/** Values that a GPU refuses, by CUDA's manuals, are refused on the simulator, too: a program that passes them would fail on its first GPU. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CudaError, type Device, Module } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'

const deviceOf = (): Device => {
  const [device] = simulate().devices
  assert.ok(device)
  return device
}

/** PTX of a kernel without parameters, `k`, that writes to an address of one of these variables. */
const ptxWith = (variable: string, body = '', version = '8.0'): string => `.version ${version}
.target sm_75
.address_size 64
${variable}
.visible .entry k()
{
  .reg .b32 %r<3>;
  ${body}
  ret;
}`

const shared = (bytes: number): string =>
  ptxWith(`.shared .align 4 .b8 s[${bytes}];`, 'mov.u32 %r1, s; st.shared.u32 [%r1], %r1;')
const constant = (bytes: number): string =>
  ptxWith(`.const .align 4 .b8 c[${bytes}];`, 'mov.u32 %r1, c; ld.const.u32 %r2, [%r1];')

const refusedWith = (number: number, message: RegExp, act: () => unknown): void => {
  assert.throws(act, (error) => error instanceof CudaError && error.number === number && message.test(error.message))
}

describe('the simulator refuses what a GPU does', () => {
  test('a cluster of more than eight blocks', async () => {
    const device = deviceOf()
    const stream = device.createStream()
    const kernel = Module.load(ptxWith(''), { device }).kernel('k', [])
    for (const cluster of [9, 16, [2, 2, 3]] as const) {
      const grid = typeof cluster === 'number' ? cluster : ([2, 2, 3] as const)
      refusedWith(912, /A cluster has at most eight blocks/, () => stream.launch(kernel, { grid, block: 1, cluster }))
    }
    stream.launch(kernel, { grid: 8, block: 1, cluster: 8 })
    await stream.finished()
  })

  test('a kernel that declares more than 48 KiB of shared memory', () => {
    const device = deviceOf()
    const says = /Kernel 'k' declares 49153 bytes of shared memory, and at most 49152 fit: make it extern __shared__/
    refusedWith(218, says, () => Module.load(shared(49_153), { device }))
    Module.load(shared(49_152), { device }).kernel('k', [])
  })

  test('a module with more than 64 KiB of constant memory', () => {
    const device = deviceOf()
    refusedWith(218, /65537 bytes of constant memory/, () => Module.load(constant(65_537), { device }))
    Module.load(constant(65_536), { device }).kernel('k', [])
  })

  test('PTX of a version that no driver for CUDA 13 knows', () => {
    const device = deviceOf()
    refusedWith(222, /PTX 10\.0, and drivers for CUDA 13 know PTX up to 9\.x/, () =>
      Module.load(ptxWith('', '', '10.0'), { device }),
    )
    Module.load(ptxWith('', '', '9.0'), { device }).kernel('k', [])
  })
})
