/** Machine code of several architectures: which of it a device runs, and what a definition may say. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { cubinFor } from '../../../src/core/kernels/cubins.js'

const PTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry one(.param .u64 to) {
  .reg .u64 %to;
  ld.param.u64 %to, [to];
  st.global.u32 [%to], 1;
  ret;
}
`
const CODE = Buffer.from('\x7fELF\x02 and so on').toString('base64')

test('a device takes the latest code that it runs: of its major version, and no later minor one', () => {
  const chosen = (device: string, ...architectures: string[]): string | undefined => {
    const [major = 0, minor = 0] = device.split('.').map(Number)
    return cubinFor(new Map(architectures.map((each) => [each, each])), { major, minor })
  }
  assert.equal(chosen('9.0', 'sm_80', 'sm_90', 'sm_100'), 'sm_90')
  assert.equal(chosen('8.9', 'sm_80', 'sm_86', 'sm_90'), 'sm_86')
  assert.equal(chosen('8.0', 'sm_86', 'sm_90'), undefined)
  assert.equal(chosen('10.3', 'sm_100', 'sm_90'), 'sm_100')
  assert.equal(chosen('12.1', 'sm_120'), 'sm_120')
  // With what one architecture alone has.
  assert.equal(chosen('9.0', 'sm_90', 'sm_90a'), 'sm_90a')
  assert.equal(chosen('10.3', 'sm_100a', 'sm_100f'), 'sm_100f')
  // A GPU on one chip with a processor runs no code of others, and others none of its.
  assert.equal(chosen('8.7', 'sm_80', 'sm_86'), undefined)
  assert.equal(chosen('8.7', 'sm_86', 'sm_87'), 'sm_87')
  assert.equal(chosen('8.9', 'sm_87'), undefined)
})

test('the simulator takes the PTX, and the name that the kernel has there', async () => {
  const [device] = simulate().devices
  assert.ok(device)
  const { major, minor } = device.computeCapability
  const one = defineKernel({
    name: 'one',
    ptx: PTX,
    cubins: { [`sm_${major}${minor}`]: CODE },
    mangledName: '_Z3onePj',
    signature: ['out u32*'],
  })
  using stream = new Stream({ device })
  const to = device.alloc(4, { stream })
  stream.launch(one, { grid: 1, block: 1 }, to)
  assert.deepEqual(await stream.download(to, Uint32Array), Uint32Array.of(1))
})

test('what is no machine code, or for no architecture, is refused where the kernel is defined', () => {
  const define = (more: object) => () => defineKernel({ name: 'one', signature: ['out u32*'], ptx: PTX, ...more })
  const refused: readonly [object, string, RegExp][] = [
    [{ cubins: { hopper: CODE } }, 'ERR_INVALID_ARG_VALUE', /definition\.cubins has code for 'hopper': name .* sm_90/],
    [{ cubins: { sm_90: './one.cubin' } }, 'ERR_INVALID_ARG_VALUE', /cubins\.sm_90 must be a cubin as base64: .*read/],
    [{ cubins: { sm_90: PTX } }, 'ERR_INVALID_ARG_VALUE', /must be a cubin as base64/],
    [
      { cubins: { sm_90: Buffer.from(CODE, 'base64') } },
      'ERR_INVALID_ARG_TYPE',
      /cubins\.sm_90 must be a cubin as base64/,
    ],
    [{ cubins: CODE }, 'ERR_INVALID_ARG_TYPE', /cubins must be an object such as \{ sm_90/],
    [{ cubins: { sm_90: CODE }, ptx: undefined, source: '' }, 'ERR_INVALID_ARG_VALUE', /cubins needs definition\.ptx/],
    [{ mangledName: 7 }, 'ERR_INVALID_ARG_TYPE', /definition\.mangledName/],
  ]
  for (const [more, code, message] of refused) assert.throws(define(more), { code, message })
})
