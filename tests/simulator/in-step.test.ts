/** At which accesses lanes of a warp go in step: `simulate({ inStep })` and CUDA_STREAMS_SIM_IN_STEP. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Module } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { VARIABLES } from '../../src/foundation/base/environment-variables.js'

/** A scan over one warp in one buffer of plain shared memory, by each of many blocks: block b leaves its result at out + 32 b. */
const TEXT = `.version 8.0
.target sm_70
.address_size 64
.visible .entry scan(.param .u64 .ptr .global out)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 4 .b8 s[128];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; mov.u32 %r4, 1;
st.shared.u32 [%r2], %r4; bar.sync 0;
${[1, 2, 4, 8, 16]
  .map(
    (distance) => `setp.lt.u32 %p1, %r1, ${distance}; @%p1 bra NEXT${distance};
ld.shared.u32 %r4, [%r2+-${4 * distance}]; ld.shared.u32 %r5, [%r2]; add.u32 %r5, %r5, %r4; st.shared.u32 [%r2], %r5;
NEXT${distance}:`,
  )
  .join('\n')}
bar.sync 0; ld.shared.u32 %r5, [%r2];
mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 32, %r1;
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r5; ret;
}
`

async function scan(device: Device, blocks = 1): Promise<Uint32Array> {
  using module = Module.load(TEXT, { device })
  using stream = device.createStream()
  using out = device.alloc(4 * 32 * blocks)
  stream.launch(module.kernel('scan', ['out u32*']), { grid: blocks, block: 32 }, out)
  const { buffer } = await stream.download(out)
  return new Uint32Array(buffer)
}

const right = Uint32Array.from({ length: 32 }, (_, lane) => lane + 1)

describe('a scan over a warp in plain shared memory', () => {
  it('has the results of an H100 with inStep: shared, and need not have them without', async () => {
    using inStep = simulate({ inStep: 'shared' })
    using usual = simulate({ inStep: 'volatile' })
    const [device, other] = [inStep.devices[0], usual.devices[0]]
    assert.ok(device && other)
    assert.deepEqual(await scan(device), right)
    assert.notDeepEqual(await scan(other), right)
  })

  it('has them in each of many blocks', async () => {
    using simulation = simulate({ inStep: 'shared' })
    const [device] = simulation.devices
    assert.ok(device)
    const blocks = 4096
    const all = await scan(device, blocks)
    for (let block = 0; block < blocks; block++) assert.deepEqual(all.subarray(32 * block, 32 * block + 32), right)
  })

  it('takes the word of CUDA_STREAMS_SIM_IN_STEP', () => {
    assert.equal(VARIABLES.simInStep.row.parse('shared'), 'shared')
    assert.equal(VARIABLES.simInStep.row.default, 'volatile')
    assert.equal(VARIABLES.simInStep.row.parse('all'), undefined)
  })

  it('refuses other words', () => {
    // @ts-expect-error a word that is not in the list
    assert.throws(() => simulate({ inStep: 'all' }), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: "options.inStep must be 'volatile' or 'shared', not 'all'",
    })
  })
})
