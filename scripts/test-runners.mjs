// Runs one small test in each of the common test runners, from the package as npm packs it: the set-ups of docs/guides/testing.md. After
// `npm run build`. The runners are installed into .cache/, once; when npm cannot reach its registry nothing is run, which is printed.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fakeCuda, fakeCupti } from '../dist/tests/fake-driver/fake-cuda.js'
import { install, programOf, RUN_TIMES } from './run-times.mjs'
import { root } from './test-files.mjs'

const VERSIONS = {
  jest: '30.5.2',
  'babel-jest': '30.5.2',
  '@babel/core': '7.29.13',
  '@babel/preset-env': '7.29.14',
  'ts-jest': '29.4.15',
  typescript: '5.9.3',
  '@types/node': '20.19.25',
  mocha: '12.0.3',
  tsx: '4.23.15',
  vitest: '4.1.12',
}

/** Every entry point is loaded that needs no other package. */
const NAMES = ['cublas', 'cu', 'dlpack', 'nccl', 'sanitizer', 'sim', 'timeline']

const body = (test, equal, type = '') => `
${test}('a buffer has what was filled in', () =>
  sanitize(async () => {
    const stream = new Stream()
    const data = stream.bufferFrom(Float32Array.of(1, 2))
    stream.fill(data, 0.5, { type: 'f32' })
    const result${type && ': Float32Array'} = await stream.download(data, Float32Array)
    ${equal}
  }))
${test}('a missing wait throws', async () => {
  const device = Device.get()
  const [first, second] = [device.createStream(), device.createStream()]
  const buffer = device.alloc(16, { stream: first })
  const race = sanitize(async () => {
    first.fill(buffer, 7)
    second.fill(buffer, 8)
    await device.finished()
  })
  const { code } = await race.then(() => ({ code: 'none' }), (error) => error)
  if (code !== 'ERR_RACE') throw new Error('The race was not found: ' + code)
})
${test}('the machine of one test has a seed', async () => {
  const [device] = simulate({ seed: 3 }).devices
  await device${type && '?'}.finished()
})
`
const EQUAL = {
  jest: 'expect(result).toStrictEqual(Float32Array.of(0.5, 0.5))',
  node: 'assert.deepEqual(result, Float32Array.of(0.5, 0.5))',
}
const imported = [
  "import { Device, Stream } from 'cuda-streams'",
  "import { sanitize } from 'cuda-streams/sanitizer'",
  "import { simulate } from 'cuda-streams/sim'",
  ...NAMES.map((name) => `import 'cuda-streams/${name}'`),
].join('\n')
const required = [
  "const { Device, Stream } = require('cuda-streams')",
  "const { sanitize } = require('cuda-streams/sanitizer')",
  "const { simulate } = require('cuda-streams/sim')",
  ...NAMES.map((name) => `require('cuda-streams/${name}')`),
].join('\n')
const importing = (from, name = 'test', type = '') =>
  `import assert from 'node:assert/strict'\n${from === '' ? '' : `import { ${name} } from '${from}'\n`}${imported}\n${body(name, EQUAL.node, type)}`
/** With nothing imported but what any program imports: CUDA_STREAMS_SANITIZER=throw has to find the race. */
const racing = (
  from,
  type = '',
  load = "import { Device } from 'cuda-streams'",
  test = 'test',
) => `${from && `import { ${test} } from '${from}'`}
${load}
${test}('races', () => {
  const device${type && ': Device'} = Device.get()
  const [first, second] = [device.createStream(), device.createStream()]
  const buffer = device.alloc(16, { stream: first })
  first.fill(buffer, 7)
  second.fill(buffer, 8)
})
`
/** Waits of a program whose timers and clocks are fake: `install` makes them so, after the library is loaded. */
const waiting = (load, install, name = 'test') => `${load}
const { setImmediate: turn } = timers
${install}
const device = Device.get()
${name}('a large download ends', async () => {
  const stream = new Stream()
  const buffer = device.alloc(20 << 20, { stream })
  const bytes = await stream.fill(buffer, 7).download(buffer)
  if (!bytes.every((byte) => byte === 7)) throw new Error('other bytes')
})
${name}('a host function runs', async () => {
  const stream = new Stream()
  let ran = false
  stream.launchHostFunc(() => { ran = true })
  await stream.finished()
  if (!ran) throw new Error('it has not run')
})
${name}('a value that JavaScript writes arrives', async () => {
  const stream = new Stream()
  const flags = device.allocPinned(64)
  flags.bytes.fill(0)
  stream.waitValue(flags, 1)
  const end = stream.finished()
  for (let turns = 0; turns < 1000; turns += 1) await turn()
  flags.bytes[0] = 1
  await end
})
`
const LIBRARY = "import * as timers from 'node:timers/promises'\nimport { Device, Stream } from 'cuda-streams'"
const REQUIRED = "const timers = require('node:timers/promises')\nconst { Device, Stream } = require('cuda-streams')"
const jestModules = `${imported}\n${body('test', EQUAL.jest)}`
const jestTypes = `import { expect, test } from '@jest/globals'\n${imported}\n${body('test', EQUAL.jest, 'typed')}`

const MODULES = '{ "private": true, "type": "module" }'
const COMMONJS = '{ "private": true }'
const JEST = ['node_modules/jest/bin/jest.js']
const LINE = "setupFiles: ['cuda-streams/jest']"
const [node24] = RUN_TIMES.filter(({ name }) => name === 'node24')
const [bun] = RUN_TIMES.filter(({ name }) => name === 'bun')

const FAKE_TIMERS = {
  'jest, ES modules': {
    files: {
      'package.json': MODULES,
      'jest.config.js': `export default { ${LINE} }`,
      'wait.test.js': waiting(`import { jest } from '@jest/globals'\n${LIBRARY}`, 'jest.useFakeTimers()'),
    },
    run: ['--experimental-vm-modules', ...JEST],
  },
  'jest, CommonJS': {
    files: {
      'package.json': COMMONJS,
      'jest.config.js': `module.exports = { ${LINE} }`,
      'wait.test.js': waiting(REQUIRED, 'jest.useFakeTimers()'),
    },
    run: JEST,
  },
  'jest, fake before the import': {
    files: {
      'package.json': COMMONJS,
      'jest.config.js': `module.exports = { ${LINE}, fakeTimers: { enableGlobally: true } }`,
      'wait.test.js': waiting(REQUIRED, ''),
    },
    run: JEST,
  },
  vitest: {
    files: {
      'package.json': MODULES,
      'wait.test.js': waiting(
        `import { test, vi } from 'vitest'\n${LIBRARY}`,
        "vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'setImmediate', 'Date', 'performance', 'hrtime', 'queueMicrotask'] })",
      ),
    },
    run: ['node_modules/vitest/vitest.mjs', 'run'],
  },
  'node:test': {
    files: {
      'package.json': MODULES,
      'wait.test.js': waiting(`import { mock, test } from 'node:test'\n${LIBRARY}`, 'mock.timers.enable()'),
    },
    run: ['--test'],
  },
}

/** The files of each set-up, and what runs it: Node with these arguments, or another program. */
const SETUPS = {
  'jest, ES modules, Node 24, no configuration': {
    files: { 'package.json': MODULES, 'jest.config.js': 'export default {}', 'fill.test.js': jestModules },
    program: () => programOf(node24),
    run: ['--experimental-vm-modules', ...JEST],
  },
  'jest, ES modules': {
    files: { 'package.json': MODULES, 'jest.config.js': `export default { ${LINE} }`, 'fill.test.js': jestModules },
    run: ['--experimental-vm-modules', ...JEST],
  },
  'jest, CommonJS': {
    files: {
      'package.json': COMMONJS,
      'jest.config.js': `module.exports = { ${LINE} }`,
      'fill.test.js': `${required}\n${body('test', EQUAL.jest)}`,
    },
    run: JEST,
  },
  'babel-jest': {
    files: {
      'package.json': COMMONJS,
      'jest.config.js': `module.exports = { ${LINE} }`,
      'babel.config.js': "module.exports = { presets: [['@babel/preset-env', { targets: { node: 'current' } }]] }",
      'fill.test.js': jestModules,
    },
    run: JEST,
  },
  'ts-jest': {
    files: {
      'package.json': COMMONJS,
      'jest.config.js': `module.exports = { preset: 'ts-jest', ${LINE} }`,
      'tsconfig.json':
        '{ "compilerOptions": { "module": "nodenext", "isolatedModules": true, "target": "es2022", "types": ["node"], "strict": true, "skipLibCheck": true } }',
      'fill.test.ts': jestTypes,
    },
    run: JEST,
  },
  vitest: {
    files: { 'package.json': MODULES, 'fill.test.js': importing('vitest') },
    run: ['node_modules/vitest/vitest.mjs', 'run'],
  },
  mocha: {
    files: { 'package.json': MODULES, 'test/fill.js': importing('', 'it') },
    run: ['node_modules/mocha/bin/mocha.js'],
  },
  'node:test': {
    files: { 'package.json': MODULES, 'fill.test.js': importing('node:test') },
    run: ['--test'],
  },
  tsx: {
    files: { 'package.json': MODULES, 'fill.test.ts': importing('node:test', 'test', 'typed') },
    run: ['node_modules/tsx/dist/cli.mjs', '--test', 'fill.test.ts'],
  },
  'bun test': {
    files: { 'package.json': MODULES, 'fill.test.js': importing('bun:test') },
    program: () => programOf(bun),
    run: ['test'],
  },
}

/** A missing wait fails the run of each runner, also where it is printed: the exit codes of its workers are lost. */
const VITEST = ['node_modules/vitest/vitest.mjs', 'run']
const RACES = {
  'jest, ES modules': {
    files: { 'package.json': MODULES, 'jest.config.js': `export default { ${LINE} }`, 'race.test.js': racing('') },
    run: ['--experimental-vm-modules', ...JEST],
  },
  'jest, CommonJS': {
    files: {
      'package.json': COMMONJS,
      'jest.config.js': `module.exports = { ${LINE} }`,
      'race.test.js': racing('', '', "const { Device } = require('cuda-streams')"),
    },
    run: JEST,
  },
  'vitest, threads': {
    files: { 'package.json': MODULES, 'race.test.js': racing('vitest') },
    run: [...VITEST, '--pool=threads'],
  },
  'vitest, forks': {
    files: { 'package.json': MODULES, 'race.test.js': racing('vitest') },
    run: [...VITEST, '--pool=forks'],
  },
  mocha: {
    files: { 'package.json': MODULES, 'test/race.js': racing('', '', undefined, 'it') },
    run: ['node_modules/mocha/bin/mocha.js'],
  },
  'node:test': { files: { 'package.json': MODULES, 'race.test.js': racing('node:test') }, run: ['--test'] },
  tsx: {
    files: { 'package.json': MODULES, 'race.test.ts': racing('node:test', 'typed') },
    run: ['node_modules/tsx/dist/cli.mjs', '--test', 'race.test.ts'],
  },
  'bun test': {
    files: { 'package.json': MODULES, 'race.test.js': racing('bun:test') },
    program: () => programOf(bun),
    run: ['test'],
  },
}
/** The modes of the sanitizer by which a missing wait fails a run. On the simulator that of the whole process is the sanitizer, too. */
const MODES = ['1', 'throw', 'process']
const racingInAll = MODES.flatMap((races) =>
  Object.entries(RACES).map(([name, setup]) => [
    `a race, CUDA_STREAMS_SANITIZER=${races}, ${name}`,
    { ...setup, races },
  ]),
)

/**
 * What is printed where a whole process is to be checked on a GPU, at its end. The fake CUDA driver traces nothing, which the check says. Jest gives its
 * tests a process without an end, Vitest kills its own, and Bun runs nothing then: there `npx cuda-streams sanitize` checks, and the tests run as ever.
 */
const [CHECKED, RUN] = [/nothing was traced/, /1 passed|1 pass\b/]
const AT_THE_END = {
  'jest, ES modules': RUN,
  'jest, CommonJS': RUN,
  'vitest, threads': RUN,
  'vitest, forks': RUN,
  mocha: CHECKED,
  'node:test': CHECKED,
  tsx: CHECKED,
  'bun test': RUN,
}

function installed() {
  const packages = Object.entries(VERSIONS).map(([name, version]) => `${name}@${version}`)
  try {
    const versions = createHash('sha256').update(packages.join()).digest('hex').slice(0, 8)
    return join(install(`test-runners-${versions}`, ...packages), 'node_modules')
  } catch (error) {
    console.log(`The test runners are skipped: they cannot be installed (${error.message.split('\n')[0]})`)
    return undefined
  }
}

function must(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`)
  return stdout
}

/** The exit status, and what was printed. */
function output(program, args, cwd, variables) {
  const own = { CUDA_STREAMS_DRIVER: 'sim', NODE_OPTIONS: '', NODE_TEST_CONTEXT: undefined, ...variables }
  const env = { ...process.env, ...own }
  const child = spawn(program, args, { cwd, env, timeout: 120_000, stdio: ['ignore', 'pipe', 'pipe'] })
  const texts = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => texts.push(String(text)))
  return new Promise((resolve) => child.on('close', (status) => resolve({ status, text: texts.join('') })))
}

/** The set-ups with a race in which the whole process is traced, on the CUDA driver of the tests. */
function traced() {
  const fake = fakeCuda()
  if (typeof fake === 'string') return []
  const variables = { ...fake.env, CUDA_STREAMS_CUPTI: fakeCupti(), CUDA_STREAMS_SANITIZER: 'process' }
  return Object.entries(AT_THE_END).map(([name, says]) => [
    `a traced process, ${name}`,
    { ...RACES[name], variables, says },
  ])
}

/** The set-ups with fake timers on the simulator and, with a C compiler, on the CUDA driver: that of the tests, which needs no GPU. */
function onBothDrivers(setups) {
  const fake = fakeCuda()
  if (typeof fake === 'string') console.log(`Fake timers are not tried on the CUDA driver: ${fake}`)
  const drivers = [['simulator', {}], ...(typeof fake === 'string' ? [] : [['CUDA driver', fake.env]])]
  return Object.entries(setups).flatMap(([name, setup]) =>
    drivers.map(([driver, variables]) => [`fake timers, ${driver}, ${name}`, { ...setup, variables }]),
  )
}

async function check(name, setup, folder, modules) {
  const { files, program = () => process.execPath, run, races = '', variables = {}, says } = setup
  mkdirSync(folder)
  symlinkSync(modules, join(folder, 'node_modules'))
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  const { status, text } = await output(
    program(),
    run,
    folder,
    races !== '' ? { CUDA_STREAMS_SANITIZER: races } : variables,
  )
  // A runner that finds no test may end well.
  const ran =
    says !== undefined
      ? status === 0 && says.test(text)
      : races !== ''
        ? status !== 0 && status !== null && /Race: nothing orders two accesses/.test(text)
        : status === 0 && /3 (passed|passing|pass\b)|(pass|passed) 3\b/.test(text)
  console.log(`${name}: ${ran ? 'passes' : `FAILS, exit code ${status}\n${text}`}`)
  if (!ran) process.exitCode = 1
}

const cached = installed()
const scratch = mkdtempSync(join(tmpdir(), 'test-runners-'))
try {
  if (cached !== undefined) {
    const modules = join(scratch, 'node_modules')
    for (const name of Object.keys(VERSIONS)) {
      mkdirSync(dirname(join(modules, name)), { recursive: true })
      symlinkSync(join(cached, name), join(modules, name))
    }
    symlinkSync(join(cached, '@jest'), join(modules, '@jest'))
    const [{ filename }] = JSON.parse(must('npm', ['pack', root, '--ignore-scripts', '--json'], scratch))
    must('tar', ['-xzf', filename, '-C', modules], scratch)
    must('mv', ['package', 'cuda-streams'], modules)
    const since = performance.now()
    const setups = [...Object.entries(SETUPS), ...racingInAll, ...traced(), ...onBothDrivers(FAKE_TIMERS)]
    for (const [index, [name, setup]] of setups.entries()) {
      await check(name, setup, join(scratch, `setup-${index}`), modules)
    }
    console.log(`${Math.round((performance.now() - since) / 1000)} s`)
  }
} finally {
  rmSync(scratch, { recursive: true })
}
