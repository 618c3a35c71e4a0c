/** Which PTX the simulated GPU loads: that of its own compute capability and earlier ones, as the driver of CUDA 13.0 does. */
import assert from 'node:assert/strict'
import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { Module, Program } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { runsModule } from '../helpers/run-time.js'

const ptx = (version: string, target: string): string =>
  `.version ${version}\n.target ${target}\n.address_size 64\n.visible .entry k() { ret; }\n`

/** What loading gives: the number of an error, or 'loaded'. */
function load(text: string, computeCapability?: string): unknown {
  using simulation = simulate(computeCapability === undefined ? {} : { computeCapability })
  const [device] = simulation.devices
  assert.ok(device)
  try {
    Module.load(text, { device }).close()
    return 'loaded'
  } catch (error) {
    assert.ok(error instanceof Error && 'number' in error)
    return error.number
  }
}

describe('PTX for the simulated GPU', () => {
  for (const [version, target, answer, computeCapability] of [
    ['9.0', 'sm_90', 'loaded'],
    ['8.6', 'sm_90a', 'loaded'],
    ['8.6', 'sm_89', 'loaded'],
    ['6.0', 'sm_50', 'loaded'],
    ['3.2', 'sm_20', 'loaded'],
    ['9.1', 'sm_90', 222],
    ['9.3', 'sm_90', 222],
    ['10.0', 'sm_90', 222],
    ['8.6', 'sm_100', 218],
    ['8.8', 'sm_100f', 218],
    ['8.7', 'sm_120a', 218],
    ['9.0', 'sm_99999', 218],
    ['8.6', 'sm_81', 218],
    ['8.6', 'sm_90f', 218],
    ['7.7', 'sm_90', 218],
    ['7.8', 'sm_90a', 218],
    ['8.6', 'sm_100', 'loaded', '10.0'],
    ['8.6', 'sm_100a', 'loaded', '10.0'],
    ['8.6', 'sm_90', 'loaded', '10.0'],
    ['8.6', 'sm_90a', 218, '10.0'],
    ['8.6', 'sm_100a', 218, '10.3'],
    ['8.8', 'sm_100f', 'loaded', '10.3'],
    ['8.8', 'sm_103f', 218, '10.0'],
    ['8.8', 'sm_100f', 218, '12.0'],
    ['8.7', 'sm_120a', 'loaded', '12.0'],
    ['8.6', 'sm_90', 218, '8.6'],
    ['9.3', 'sm_100', 222, '10.0'],
  ] as const) {
    it(`of version ${version} for ${target} on ${computeCapability ?? '9.0'}: ${answer}`, () => {
      assert.equal(load(ptx(version, target), computeCapability), answer)
    })
  }

  it('that is refused says why, and the way out', () => {
    const [device] = simulate().devices
    assert.ok(device)
    assert.throws(
      () => Module.load(ptx('8.6', 'sm_100'), { device }),
      /The code is for sm_100, and this device has compute capability 9\.0: compile it for sm_90 or an earlier one; simulate\(\{ computeCapability \}\) or CUDA_STREAMS_SIM_COMPUTE_CAPABILITY/,
    )
    assert.throws(() => Module.load(ptx('9.3', 'sm_90'), { device }), /PTX 9\.3, .* this one, for 13\.0, up to 9\.0/)
    assert.throws(
      () => Module.load(ptx('7.0', 'sm_86'), { device }),
      /PTX 7\.0, which does not have sm_86 yet: .* PTX 7\.1/,
    )
  })
})

describe('computeCapability of a simulation', () => {
  it('is 9.0, or what is given, as a text or as a device has it', () => {
    const of = (computeCapability?: string | { major: number; minor: number }): unknown =>
      simulate(computeCapability === undefined ? {} : { computeCapability }).devices[0]?.computeCapability
    assert.deepEqual(of(), { major: 9, minor: 0 })
    assert.deepEqual(of('12.0'), { major: 12, minor: 0 })
    assert.deepEqual(of({ major: 8, minor: 6 }), { major: 8, minor: 6 })
  })

  it('is one of those that exist', () => {
    assert.throws(() => simulate({ computeCapability: '9.7' }), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /'9\.7': it must be one of 5\.0, .*12\.1/,
    })
    // @ts-expect-error A number is no compute capability: 10.0 would be 10.
    assert.throws(() => simulate({ computeCapability: 9 }), { code: 'ERR_INVALID_ARG_TYPE' })
  })

  it('is that of the variable for the default simulator', () => {
    const code = `import { Device } from 'cuda-streams'; console.log(JSON.stringify(Device.get().computeCapability))`
    const play = (given: string): SpawnSyncReturns<string> =>
      spawnSync(process.execPath, runsModule(code), {
        encoding: 'utf8',
        cwd: root,
        env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_SIM_COMPUTE_CAPABILITY: given },
      })
    assert.equal(play('10.3').stdout.trim(), '{"major":10,"minor":3}')
    assert.match(play('9.7').stderr, /CUDA_STREAMS_SIM_COMPUTE_CAPABILITY/)
  })

  it('is what NVRTC compiles for', { skip: lacksNvrtc() }, async () => {
    const [device] = simulate({ computeCapability: '10.0' }).devices
    assert.ok(device)
    using module = await Program.compile('extern "C" __global__ void k() {}', { device })
    assert.ok(module.kernel('k', []))
  })
})
