/**
 * The Python package: built, installed where there is no Node but its own, and run on what a GPU is not needed for. It is skipped where pip can
 * install nothing.
 */
import assert from 'node:assert/strict'
import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { cLibrary } from '../helpers/c-library.js'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'

const programs = join(root, 'tests', 'package', 'wheel')
const folder = scratchFolder('wheel')
const installed = join(folder, 'venv')
const python = join(installed, 'bin', 'python')

/** Why pip cannot install: it reaches no index, or Python comes without it. */
const CANNOT_INSTALL =
  /No matching distribution found|Could not find a version|No module named (?:pip|venv|ensurepip)|ensurepip is not available|ENOENT/

/** Runs what a machine may lack. Returns why it cannot, if so. */
function lacks(command: string, ...args: readonly string[]): string | undefined {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', cwd: folder })
  if (status === 0) return undefined
  const says = `${stdout ?? ''}${stderr ?? ''}${error ?? ''}`
  const [why] = CANNOT_INSTALL.exec(says) ?? []
  assert.ok(why !== undefined, `${command} ${args.join(' ')}\n${says}`)
  return `the wheel cannot be made or installed here: ${why}`
}

function install(): string | undefined {
  if (process.platform !== 'linux') return 'the wheel is for Linux'
  const host = process.env['PYTHON'] || 'python3'
  const lack =
    lacks(process.execPath, join(root, 'scripts', 'wheel.mjs'), folder) ?? lacks(host, '-m', 'venv', installed)
  if (lack !== undefined) return lack
  const [wheel = ''] = readdirSync(folder).filter((name) => name.endsWith('.whl'))
  return lacks(python, '-m', 'pip', 'install', '--quiet', join(folder, wheel), 'pytest', 'pytest-xdist')
}

const fake = cLibrary(
  'libfake-cupti.so',
  [join(root, 'tests', 'tools', 'process-trace', 'fake-cupti.c')],
  ['-std=gnu11', '-pthread', '-fvisibility=hidden', `-I${join(root, 'native', 'injection')}`, '-ldl'],
)
const skip = typeof fake === 'string' ? fake : (install() ?? false)
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

/** Runs a program of the folder in an environment without Node. */
function run(program: string, ...args: readonly string[]): SpawnSyncReturns<string> {
  assert.ok(typeof fake !== 'string')
  const env = { PATH: '/no/such/folder', CUDA_STREAMS_CUPTI: fake.file, PYTHONDONTWRITEBYTECODE: '1', HOME: folder }
  return spawnSync(program, args, { encoding: 'utf8', cwd: programs, env, timeout: 120_000 })
}

describe('the wheel', { skip }, () => {
  it('has the tag of its native parts, the licence, and the commands', () => {
    const [wheel = ''] = readdirSync(folder).filter((name) => name.endsWith('.whl'))
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    assert.match(wheel, new RegExp(`^stream_sanitizer-${version}-py3-none-manylinux_2_\\d+_(?:x86_64|aarch64)\\.whl$`))
    const { stdout } = run(python, '-m', 'pip', 'show', '--files', 'stream-sanitizer')
    const licence = "from importlib.metadata import metadata as m; print(m('stream-sanitizer')['License-Expression'])"
    assert.equal(run(python, '-c', licence).stdout, 'MIT\n')
    for (const file of [
      'licenses/LICENSE',
      'licenses/THIRD-PARTY.md',
      'bin/stream-sanitizer',
      'stream_sanitizer/py.typed',
    ])
      assert.ok(stdout.includes(file), `${file} is not in\n${stdout}`)
    assert.equal(run(join(installed, 'bin', 'stream-sanitizer'), '--version').stdout, `${version}\n`)
  })

  it('runs a program: its exit code is the program’s, or 1 if a wait is missing', () => {
    const racy = run(python, '-m', 'stream_sanitizer', 'traced.py', 'racy', '0')
    assert.equal(racy.status, 1, racy.stderr)
    assert.match(racy.stderr, /kernel 'set' writes on stream 1\n {6}at play \(\S*traced\.py:11\)/)
    assert.match(racy.stderr, /1 finding\(s\) in \d+ calls/)
    for (const [how, code] of [
      ['right', '0'],
      ['right', '5'],
      ['racy', '5'],
    ] as const) {
      assert.equal(run(join(installed, 'bin', 'stream-sanitizer'), 'traced.py', how, code).status, Number(code))
    }
    const module = run(python, '-m', 'stream_sanitizer', '-m', 'traced', 'racy', '0')
    assert.equal(module.status, 1, module.stderr)
    const command = run(python, '-m', 'stream_sanitizer', '--', python, 'traced.py', 'right', '7')
    assert.equal(command.status, 7, command.stderr)
  })

  it('writes its reports', () => {
    const [junit, html, text] = ['f.xml', 'f.html', 'f.txt'].map((name) => join(folder, name))
    const args = ['--junit', junit ?? '', '--html', html ?? '', `--text=${text}`, 'traced.py', 'racy', '0']
    assert.equal(run(python, '-m', 'stream_sanitizer', ...args).status, 1)
    for (const file of [junit, html, text]) assert.match(readFileSync(file ?? '', 'utf8'), /kernel 'set' writes/)
  })

  it('says what is wrong with its arguments', () => {
    for (const args of [[], ['--possible'], ['--']]) {
      const { status, stderr } = run(python, '-m', 'stream_sanitizer', ...args)
      assert.equal(status, 2)
      assert.match(stderr, /there is no program to run: name a file of Python/)
    }
    assert.match(
      run(python, '-m', 'stream_sanitizer', '--juint', 'f.xml', 'traced.py').stderr,
      /unrecognized arguments: --juint/,
    )
  })

  it('watches parts of a program: only their findings count, and an error says them', () => {
    const { status, stdout, stderr } = run(python, '-m', 'stream_sanitizer', 'parts.py')
    const expected = ['right', 'race error race error', 'raised 1 True', 'the error of the program comes first', '']
    assert.deepEqual(stdout.split('\n').slice(1), expected, stderr)
    assert.equal(status, 1)
    assert.match(stderr, /3 finding\(s\) in/)
  })

  it('says how a process is started whose parts are to be watched', () => {
    const { status, stdout } = run(python, 'parts.py')
    assert.equal(status, 3)
    assert.match(
      stdout,
      /this process is not traced.*`python -m stream_sanitizer PROGRAM\.py`.*`pytest --stream-sanitizer`/,
    )
  })

  for (const [how, ...pytest] of [
    ['pytest', join(installed, 'bin', 'pytest')],
    ['python -m pytest', python, '-m', 'pytest'],
    ['pytest-xdist, in each worker', python, '-m', 'pytest', '-n', '2'],
  ] as const) {
    it(`makes tests fail in which a wait is missing: ${how}`, () => {
      const [program = '', ...args] = pytest
      const { status, stdout, stderr } = run(
        program,
        ...args,
        '-rA',
        '-p',
        'no:cacheprovider',
        '--stream-sanitizer',
        'races.py',
      )
      assert.equal(status, 1, stdout + stderr)
      assert.match(stdout, /3 failed, 2 passed, 2 errors/)
      for (const line of [
        'PASSED races.py::test_right',
        'FAILED races.py::test_racy - Failed: Race: nothing orders two accesses',
        'FAILED races.py::test_racy_again - Failed: Race: nothing orders',
        'ERROR races.py::test_early - Failed: Race: nothing orders',
        'ERROR races.py::test_late - Failed: Race: nothing orders',
        'FAILED races.py::test_fails - assert 1 == 2',
        'Captured stream-sanitizer call',
      ])
        assert.ok(stdout.includes(line), `${line} is not in\n${stdout}`)
      assert.match(
        stdout,
        /_ test_racy _+\n(?:\[gw\d\].*\n)?Race: [\s\S]*?kernel 'set' writes on stream \d+\n {6}at play [\s\S]*?at test_racy \(\S*races\.py:22\)/,
      )
    })
  }

  it('leaves pytest alone without the option', () => {
    const { status, stdout } = run(python, '-m', 'pytest', '-p', 'no:cacheprovider', '--collect-only', '-q', 'races.py')
    assert.equal(status, 0, stdout)
    assert.match(stdout, /6 tests collected/)
  })
})
