/** Driver choice: which driver a program gets, and when it hears of it. Each case is a process of its own. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { onMachine, preload } from '../helpers/machine.js'
import { type ChildOptions, runScenario } from './child.js'
import type { Scenario } from './children/scenarios.js'

interface Warning {
  readonly name: string
  readonly code: string
  readonly message: string
  readonly detail: string
}
interface Choice {
  readonly driver: string
  readonly count: number
  readonly ordinals: readonly number[]
  readonly current: number
  readonly streamOn: string
  readonly warnings: readonly Warning[]
}
interface Attempt {
  readonly name?: string
  readonly code?: string
  readonly message?: string
}

const UNSET: NonNullable<ChildOptions['env']> = {
  CUDA_STREAMS_DRIVER: undefined,
  CUDA_STREAMS_SIM_DEVICES: undefined,
  CUDA_STREAMS_SIM_SEED: undefined,
  NODE_NO_WARNINGS: undefined,
}
const UNWRITTEN = [0xcd, 0xcd, 0xcd, 0xcd]
/** Where there is a GPU, this hides it: the driver loads and does not start. */
const NO_DEVICE = { CUDA_VISIBLE_DEVICES: '-1' }
/** A machine without an NVIDIA driver, also where there is one. */
const NO_DRIVER = { ...onMachine(), LD_LIBRARY_PATH: undefined }

async function ask<Answer>(scenario: Scenario, env: ChildOptions['env'], argument?: string): Promise<Answer> {
  const options = { env: { ...UNSET, ...env }, ...(argument === undefined ? {} : { argument }) }
  const { code, stdout, stderr } = await runScenario(undefined, scenario, options)
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as Answer
}

interface Uses {
  readonly first: Attempt
  readonly second: Attempt
}

/** What comes of two uses with each value of a variable. */
async function usesWith(variable: string, values: readonly string[], env: ChildOptions['env'] = {}) {
  const given = JSON.stringify(values.map((value) => [variable, value]))
  const answers = await ask<readonly Uses[]>('wrongValues', env, given)
  assert.equal(answers.length, values.length)
  return answers.map((uses, index) => ({ ...uses, value: values[index] ?? '' }))
}

const noCuda = openCudaWorkbench()
const hasCuda = typeof noCuda !== 'string'

test('B1 by default CUDA where it has a device, else the simulator', async () => {
  for (const env of [{}, { CUDA_STREAMS_DRIVER: 'auto' }]) {
    const choice = await ask<Choice>('choice', env)
    assert.equal(choice.driver, hasCuda ? 'cuda' : 'sim')
    assert.equal(choice.warnings.length, hasCuda ? 0 : 1)
    assert.equal(choice.current, 0)
  }
})

test('B1 without a driver it is the simulator, and one warning says so', async () => {
  for (const env of [{}, { CUDA_STREAMS_DRIVER: 'auto' }]) {
    const choice = await ask<Choice>('choice', { ...env, ...NO_DRIVER })
    assert.equal(choice.driver, 'sim')
    assert.equal(choice.streamOn, 'sim')
    assert.equal(choice.count, 1)
    assert.equal(choice.warnings.length, 1)
    const [warning] = choice.warnings
    assert.ok(warning)
    assert.match(warning.message, /simulated/)
    assert.match(warning.message, /NVIDIA driver/)
    assert.match(warning.detail, /CUDA_STREAMS_DRIVER=sim/)
  }
})

test('B1 threads that start after the warning do not say it again', async () => {
  const env = { ...UNSET, ...NO_DRIVER }
  const { code, stdout, stderr } = await runScenario(undefined, 'workers', { env })
  assert.equal(code, 0, stderr)
  assert.deepEqual(JSON.parse(stdout), { driver: 'sim' })
  assert.equal(stderr.match(/Using the simulated GPU/g)?.length, 1, stderr)
})

test('B2 sim is taken without a warning', async () => {
  const choice = await ask<Choice>('choice', { CUDA_STREAMS_DRIVER: 'sim' })
  assert.equal(choice.driver, 'sim')
  assert.deepEqual(choice.warnings, [])
})

test('B2 cuda is taken where there is one', async (t) => {
  if (!hasCuda) return t.skip(`no NVIDIA driver here: ${noCuda}`)
  const choice = await ask<Choice>('choice', { CUDA_STREAMS_DRIVER: 'cuda' })
  assert.equal(choice.driver, 'cuda')
  assert.deepEqual(choice.warnings, [])
})

test('B2 cuda without a device is ERR_NO_DRIVER, at each use', async () => {
  const { first, second } = await ask<Uses>('firstUse', {
    CUDA_STREAMS_DRIVER: 'cuda',
    ...NO_DEVICE,
  })
  for (const attempt of [first, second]) {
    assert.equal(attempt.code, 'ERR_NO_DRIVER')
    assert.equal(attempt.name, 'Error')
    assert.match(attempt.message ?? '', /NVIDIA driver/)
  }
})

test('B1 hidden devices are no reason to simulate', async (t) => {
  if (!hasCuda) return t.skip(`no NVIDIA driver here: ${noCuda}`)
  const { first } = await ask<{ first: Attempt }>('firstUse', NO_DEVICE)
  assert.equal(first.code, 'ERR_NO_DRIVER')
  assert.match(first.message ?? '', /CUDA_VISIBLE_DEVICES is '-1'.*CUDA_STREAMS_DRIVER=sim/)
})

test('B2 cuda without a driver names the places where it was looked for', async () => {
  const { first } = await ask<{ first: Attempt }>('firstUse', { CUDA_STREAMS_DRIVER: 'cuda', ...NO_DRIVER })
  assert.equal(first.code, 'ERR_NO_DRIVER')
  if (process.platform === 'linux') {
    assert.match(first.message ?? '', /libcuda\.so\.1/)
    assert.match(first.message ?? '', /\/usr\/lib64, .*\/dev\/nvidiactl/)
  }
})

test('B3 another value is ERR_INVALID_ARG_VALUE, at first use', async () => {
  for (const { first, second, value } of await usesWith('CUDA_STREAMS_DRIVER', ['gpu', 'SIM', 'Cuda', 'sim ', '1'])) {
    for (const { code, name, message = '' } of [first, second]) {
      assert.equal(code, 'ERR_INVALID_ARG_VALUE')
      assert.equal(name, 'TypeError')
      assert.ok(message.includes(`'${value}'`), message)
      for (const expected of [/CUDA_STREAMS_DRIVER/, /'cuda'/, /'sim'/, /'auto'/]) assert.match(message, expected)
    }
  }
})

test('B3 nothing happens at import, whatever the variables say', async () => {
  const wrong = [
    { CUDA_STREAMS_DRIVER: 'nonsense' },
    { CUDA_STREAMS_DRIVER: 'cuda', ...NO_DEVICE },
    { CUDA_STREAMS_DRIVER: 'auto', ...NO_DEVICE },
    { CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_SIM_DEVICES: 'many' },
  ]
  for (const env of wrong) {
    const { code, stdout, stderr } = await runScenario(undefined, 'importOnly', { env: { ...UNSET, ...env } })
    assert.equal(code, 0, stderr)
    assert.equal(stderr, '')
    assert.deepEqual(JSON.parse(stdout), { imported: 'function' })
  }
})

test('V4 a simulation of the program’s own asks for no driver', async () => {
  for (const env of [{ CUDA_STREAMS_DRIVER: 'nonsense' }, { CUDA_STREAMS_DRIVER: 'cuda', ...NO_DEVICE }]) {
    const answer = await ask<unknown>('simulateOnly', env)
    assert.deepEqual(answer, { ordinal: 1, driver: 'sim', query: true })
  }
})

test('B4 CUDA_STREAMS_SIM_DEVICES says how many devices the simulator has', async () => {
  for (const count of [1, 2, 8]) {
    const env = { CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_SIM_DEVICES: String(count) }
    const choice = await ask<Choice>('choice', env)
    assert.equal(choice.count, count)
    assert.deepEqual(
      choice.ordinals,
      Array.from({ length: count }, (_, ordinal) => ordinal),
    )
  }
})

test('B3 variables that are empty are variables that are not set', async () => {
  const choice = await ask<Choice>('choice', { CUDA_STREAMS_DRIVER: '', CUDA_STREAMS_SIM_DEVICES: '', ...NO_DRIVER })
  assert.equal(choice.driver, 'sim')
  assert.equal(choice.count, 1)
})

test('B4 a number of devices or a seed that is none is ERR_INVALID_ARG_VALUE', async () => {
  const wrong = {
    CUDA_STREAMS_SIM_DEVICES: ['0', '-1', '1.5', 'many', '1000000', '1e1', ' 1'],
    CUDA_STREAMS_SIM_SEED: ['-1', '1.5', 'many', '9007199254740993', '0x10', '7 '],
  }
  for (const [variable, values] of Object.entries(wrong)) {
    for (const { first, value } of await usesWith(variable, values, { CUDA_STREAMS_DRIVER: 'sim' })) {
      assert.equal(first.code, 'ERR_INVALID_ARG_VALUE')
      assert.ok(first.message?.includes(`'${value}'`), first.message)
      assert.ok(first.message?.includes(variable), first.message)
    }
  }
})

test('B4 CUDA_STREAMS_SIM_SEED gives the default simulator a seed; without one a missing wait shows', async () => {
  for (const [seed, expected] of [
    ['', { seed: 0, bytes: UNWRITTEN }],
    ['0', { seed: 0, bytes: UNWRITTEN }],
    // With this one the fill comes first, by chance.
    ['3', { seed: 3, bytes: [7, 7, 7, 7] }],
  ] as const) {
    const env = { CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_SIM_SEED: seed }
    assert.deepEqual(await ask<unknown>('missingWait', env), expected, `seed '${seed}'`)
  }
})

test('B1 of all threads of a process the first that falls back says so', async () => {
  const code = `
    const { Worker } = require('node:worker_threads')
    import('${import.meta.resolve('cuda-streams')}').then(() => {
      const thread = "import('${preload}').then(() => import('${import.meta.resolve('cuda-streams')}')).then(({ Device }) => console.log(Device.get().driver))"
      for (let i = 0; i < 3; i++) new Worker(thread, { eval: true })
    })`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', code], {
    encoding: 'utf8',
    env: { ...process.env, CUDA_STREAMS_DRIVER: 'auto', ...NO_DRIVER, NODE_NO_WARNINGS: '' },
  })
  assert.equal(status, 0, stderr)
  assert.equal(stdout, 'sim\n'.repeat(3))
  assert.equal(stderr.match(/CUDA_STREAMS_SIMULATED/g)?.length, 1, stderr)
})
