/** The figures of a GPU as NVIDIA's management library has them, by one that is made up: what is told, what is not, and what is refused. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { LibraryError } from 'cuda-streams'
import { NVML_SIGNATURES, Nvml } from '../../src/cuda/nvml.js'
import { shapeOf } from '../../src/foundation/native/c-functions.js'
import { cLibrary } from '../helpers/c-library.js'
import { root } from '../helpers/root.js'

const FIRST = '0000:01:00.0'
const SECOND = '0000:02:00.0'
const GIB = 2 ** 30

const made = cLibrary(
  'libnvidia-ml.so.1',
  [join(root, 'tests', 'libraries', 'nvml', 'fake-nvml.c')],
  ['-Wall', '-Wextra', '-Werror'],
)
const skip = typeof made === 'string' ? made : false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

const during = <R>(variables: NodeJS.ProcessEnv, act: () => R): R => {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const)
  Object.assign(process.env, variables)
  try {
    return act()
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
}

describe('the management library', { skip }, () => {
  if (typeof made === 'string') return
  const open = (): Nvml => during({ CUDA_STREAMS_NVML: made.file }, () => new Nvml())

  it('tells how busy, full and warm a device is, and who uses it', () => {
    assert.deepEqual(open().usage(FIRST), {
      utilization: 37,
      memoryUtilization: 12,
      memory: { total: 150 * GIB, free: 145 * GIB, used: 5 * GIB },
      processes: [
        { pid: 100, usedBytes: 1000 },
        { pid: 101, usedBytes: undefined },
      ],
      temperature: 61,
      power: 123.456,
      powerLimit: 700,
      clock: 1980,
    })
  })

  it('leaves out what a device does not tell', () => {
    assert.deepEqual(open().usage(SECOND), {
      utilization: undefined,
      memoryUtilization: undefined,
      memory: { total: 150 * GIB, free: 150 * GIB, used: 0 },
      processes: [],
      temperature: 61,
      power: undefined,
      powerLimit: undefined,
      clock: 1980,
    })
  })

  it('names all processes, however many there are', () => {
    // The variables of a process are read by C, where Node has set them.
    const { processes } = during({ FAKE_NVML_PROCESSES: '1000' }, () => open().usage(FIRST))
    assert.equal(processes.length, 1000)
    assert.deepEqual(processes.at(-1), { pid: 1099, usedBytes: 1_000_000 })
  })

  it('refuses a device that it does not have, and one that is lost, by its own name for that', () => {
    const named = (code: string) => (error: unknown) => error instanceof LibraryError && error.code === code
    assert.throws(() => open().usage('0000:09:00.0'), named('NVML_ERROR_NOT_FOUND'))
    during({ FAKE_NVML_LOST: '1' }, () => assert.throws(() => open().usage(FIRST), named('NVML_ERROR_GPU_IS_LOST')))
  })
})

describe('the functions of the management library', () => {
  it('have a call of the native layer each', () => {
    for (const [name, parameters] of Object.entries(NVML_SIGNATURES)) assert.ok(shapeOf(parameters), name)
  })

  it('are looked for where the variable says, and the error says where', () => {
    during({ CUDA_STREAMS_NVML: '/nowhere' }, () =>
      assert.throws(() => new Nvml(), {
        code: 'ERR_UNSUPPORTED',
        message: /NVML.*\/nowhere.*comes with the NVIDIA driver/,
      }),
    )
  })
})
