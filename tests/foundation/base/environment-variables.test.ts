/** The library's environment variables: what their values mean, and that a misspelt name does not stay unnoticed. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, test } from 'node:test'
import { type EnvironmentVariable, VARIABLES } from '../../../src/foundation/base/environment-variables.js'
import { refused } from '../../conformance/expect.js'
import { root } from '../../helpers/root.js'
import { runsModule } from '../../helpers/run-time.js'

const all: readonly EnvironmentVariable<unknown>[] = Object.values(VARIABLES)
const before = { ...process.env }

afterEach(() => {
  for (const { name } of all) {
    if (before[name] === undefined) delete process.env[name]
    else process.env[name] = before[name]
  }
})

const { simDevices, simSeed, simMemory, releaseThreshold, deadlockTimeout, warnAfter, watchdog, sync, driver } =
  VARIABLES
const MEANINGS: readonly (readonly [EnvironmentVariable<unknown>, text: string, meaning: unknown])[] = [
  [driver, 'sim', 'sim'],
  [simDevices, '64', 64],
  [simSeed, '0', 0],
  [simMemory, '1', 1],
  [releaseThreshold, '0', 0],
  [releaseThreshold, '1073741824', 1073741824],
  [deadlockTimeout, '0.5', 0.5],
  [warnAfter, '0', 0],
  [watchdog, '0', false],
  [watchdog, '1', true],
  [sync, '0', '0'],
  [VARIABLES.timeline, '0', ''],
  [VARIABLES.sanitizer, 'throw,fix', 'throw,fix'],
]
const WRONG: readonly (readonly [EnvironmentVariable<unknown>, texts: readonly string[]])[] = [
  [driver, ['gpu', 'SIM']],
  [simDevices, ['0', '65', '1.5', '-1', 'two', '0x2']],
  [simSeed, ['-1', '9007199254740993']],
  [simMemory, ['0', '1e9']],
  [releaseThreshold, ['-1', 'everything']],
  [deadlockTimeout, ['0', '-1', 'NaN', 'Infinity', 'soon']],
  [warnAfter, ['-1', 'never']],
  [watchdog, ['2', 'true']],
  [sync, ['yes']],
  [VARIABLES.allocationSites, ['yes']],
  [VARIABLES.timelineSites, ['2']],
]

describe('a variable', () => {
  test('that is not set, or empty, has its default', () => {
    for (const variable of all) {
      delete process.env[variable.name]
      assert.equal(variable.read(), variable.row.default, variable.name)
      process.env[variable.name] = ''
      assert.equal(variable.read(), variable.row.default, variable.name)
    }
  })

  for (const [variable, text, meaning] of MEANINGS) {
    test(`${variable.name}=${text} means ${JSON.stringify(meaning)}`, () => {
      process.env[variable.name] = text
      assert.equal(variable.read(), meaning)
    })
  }

  test('with a value that the table does not have is refused, with those that it has', () => {
    for (const [variable, texts] of WRONG) {
      for (const text of texts) {
        process.env[variable.name] = text
        const { message } = refused(() => variable.read(), 'ERR_INVALID_ARG_VALUE')
        assert.equal(message, `${variable.name} must be ${variable.row.values}, not '${text}'`)
      }
    }
  })

  test('is read by no other code than the table', () => {
    const folder = join(root, 'dist', 'src')
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
    const reading = files.filter((name) =>
      /\benv(\.|\[['"`])CUDA_STREAM/.test(readFileSync(join(folder, name), 'utf8')),
    )
    assert.deepEqual(reading, [])
  })
})

describe('a misspelt variable', () => {
  /** What a program whose worker uses the library too prints on standard error. */
  function warnings(env: NodeJS.ProcessEnv): string {
    const worker = `
      import { simulate } from 'cuda-streams/sim'
      import { Device } from 'cuda-streams'
      Device.get()`
    const program = `
      import { Worker } from 'node:worker_threads'
      import { once } from 'node:events'
      ${worker}
      const again = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(worker)}
        .replace(/'(cuda-streams[^']*)'/g, (_, name) => JSON.stringify(import.meta.resolve(name)))))
      await once(new Worker(again), 'exit')
      Device.get()`
    const { status, stderr } = spawnSync(process.execPath, runsModule(program), {
      encoding: 'utf8',
      cwd: new URL('.', import.meta.url),
      env: { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim', ...env },
    })
    assert.equal(status, 0, stderr)
    return stderr
  }

  test('gives one warning for all threads at the first use, with the name that was meant', () => {
    const text = warnings({ CUDA_STREAMS_SANITISER: '1' })
    const told = text.match(/\[CUDA_STREAMS_VARIABLE\] CudaStreamsWarning: .*/g)
    assert.deepEqual(told, [
      '[CUDA_STREAMS_VARIABLE] CudaStreamsWarning: There is no environment variable CUDA_STREAMS_SANITISER: did you mean CUDA_STREAMS_SANITIZER?',
    ])
  })

  test('that has a wrong prefix alone, or one and a wrong letter, is told the name that was meant', () => {
    for (const name of ['CUDA_STREAM_SANITIZER', 'CUDA_STREAMSANITIZER', 'CUDA_STREAM_SANITISER']) {
      const text = warnings({ [name]: '1' })
      assert.match(text, new RegExp(`variable ${name}: did you mean CUDA_STREAMS_SANITIZER\\?`))
    }
  })

  test('that is like no other one gives a warning that says where they are listed', () => {
    assert.match(
      warnings({ CUDA_STREAM_POOL: '1' }),
      /no environment variable CUDA_STREAM_POOL: docs\/reference\/environment\.md has/,
    )
  })

  test('is none that exists, that tests and examples use, or that begins otherwise', () => {
    const env = {
      CUDA_STREAMS_SIM_SEED: '1',
      CUDA_STREAMS_TEST_SEED: '1',
      CUDA_PATH: '/x',
    }
    assert.equal(warnings(env), '')
  })
})
