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

  /** Kernels with so many bytes of local memory in variables of their own, and in a function. */
  const local = (own: readonly number[], called = 0, call = ''): string => `.version 8.0
.target sm_75
.address_size 64
.func f() { .local .align 8 .b8 big[${Math.max(called, 8)}]; ret; }
.visible .entry k() {
  ${own.map((bytes, index) => `.local .align 8 .b8 l${index}[${bytes}];`).join(' ')}
  ${call}
  ret;
}
.visible .entry other() { ret; }`

  test('a kernel with more local memory for a thread than a GPU has: where it is looked up, and no other of its module', async () => {
    const device = deviceOf()
    const refused: readonly (readonly [string, number])[] = [
      [local([523_713]), 523_720],
      [local([300_000, 300_000]), 600_000],
      [local([8], 600_000, 'call f;'), 600_008],
      [local([300_000], 300_000, 'call f;'), 600_000],
      [local([2 ** 30]), 2 ** 30],
    ]
    for (const [text, bytes] of refused) {
      const module = Module.load(text, { device })
      const says = new RegExp(
        `^cuCtxSetLimit failed: CUDA_ERROR_INVALID_VALUE .*Kernel 'k' declares ${bytes} bytes .* at most 523712: use smaller arrays`,
      )
      refusedWith(1, says, () => module.kernel('k', []))
      module.kernel('other', [])
    }
    const stream = device.createStream()
    for (const text of [local([523_712]), local([261_856], 261_856, 'call f;'), local([8], 600_000)]) {
      stream.launch(Module.load(text, { device }).kernel('k', []), { grid: 1, block: 1 })
    }
    await stream.finished()
  })

  test('PTX of a version that no driver for CUDA 13 knows', () => {
    const device = deviceOf()
    refusedWith(222, /PTX 10\.0, and drivers for CUDA 13 know PTX up to 9\.x/, () =>
      Module.load(ptxWith('', '', '10.0'), { device }),
    )
    Module.load(ptxWith('', '', '9.0'), { device }).kernel('k', [])
  })
})
