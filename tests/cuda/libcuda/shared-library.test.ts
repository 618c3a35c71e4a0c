/** Where CUDA's libraries are searched, and what the error says when they are not found. */
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterEach, test } from 'node:test'
import { LibraryVariable } from '../../../src/foundation/base/environment-variables.js'
import { pythonPackages } from '../../../src/foundation/native/pythons.js'
import { loadLibrary, pythonFolders, toolkitFolders } from '../../../src/foundation/native/shared-library.js'
import { refused } from '../../conformance/expect.js'
import { scratchFolder } from '../../helpers/scratch.js'

const NAME = 'CUDA_STREAMS_NONESUCH'
const wanted = new LibraryVariable(NAME, '', {
  title: 'Nonesuch',
  names: { linux: ['libnonesuch.so.2', 'libnonesuch.so'], windows: ['nonesuch64_*.dll', 'nonesuch.dll'] },
  wayOut: 'Install it',
})
const skip = process.platform === 'linux' ? false : 'the names and folders of Linux'
const before = { ...process.env }
const cwd = process.cwd()
const [, ownProgram = ''] = process.argv

afterEach(() => {
  process.chdir(cwd)
  process.argv[1] = ownProgram
  for (const name of ['CUDA_HOME', 'CUDA_PATH', 'VIRTUAL_ENV', 'CONDA_PREFIX', 'PATH', 'HOME', 'PYENV_ROOT', NAME]) {
    if (before[name] === undefined) delete process.env[name]
    else process.env[name] = before[name]
  }
})

const all = scratchFolder('find')
let folders = 0

function folder(...parts: string[]): string {
  folders += 1
  const path = join(all, String(folders), ...parts)
  mkdirSync(path, { recursive: true })
  return path
}

test('a toolkit, and the packages of a Python on the path or of a virtual environment, are looked into', {
  skip,
}, () => {
  const toolkit = folder()
  process.env['CUDA_HOME'] = toolkit
  assert.equal(toolkitFolders()[0], toolkit)

  const environment = folder()
  const packages = join(environment, 'lib', 'python3.12', 'site-packages', 'nvidia', 'nonesuch', 'lib')
  mkdirSync(packages, { recursive: true })
  process.env['VIRTUAL_ENV'] = environment
  assert.ok(pythonFolders().includes(join(packages, '..')))

  const prefix = folder()
  mkdirSync(join(prefix, 'bin'))
  mkdirSync(join(prefix, 'lib', 'python3.11', 'dist-packages', 'nvidia', 'other'), { recursive: true })
  writeFileSync(join(prefix, 'bin', 'python3'), '', { mode: 0o755 })
  const linked = folder('bin')
  symlinkSync(join(prefix, 'bin', 'python3'), join(linked, 'python3'))
  process.env['PATH'] = ['', linked, '/nowhere'].join(delimiter)
  assert.ok(pythonFolders().includes(join(prefix, 'lib', 'python3.11', 'dist-packages', 'nvidia', 'other')))

  const error = refused(
    () => loadLibrary(wanted),
    'ERR_UNSUPPORTED',
    /^Nonesuch was not found: tried libnonesuch\.so\.2/,
  )
  assert.ok(error.message.includes(join(packages, 'libnonesuch.so')), error.message)
  assert.match(error.message, /Install it; if .* or set CUDA_STREAMS_NONESUCH/)
})

/** A folder of packages with a library, below the prefix of a Python. */
function packagesIn(prefix: string): string {
  const packages = join(prefix, 'lib', 'python3.13', 'site-packages')
  const lib = join(packages, 'nvidia', 'nonesuch', 'lib')
  mkdirSync(lib, { recursive: true })
  writeFileSync(join(lib, 'libnonesuch.so'), 'no library')
  return packages
}

/** A `python3` that is a script, as pyenv's are, and starts one that says these prefixes. */
function scriptIn(bin: string, answer: string): void {
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'python3'), `#!/bin/sh\necho noise\n${answer}\n`, { mode: 0o755 })
}

const saying = (...prefixes: readonly string[]): string => `echo '${JSON.stringify(prefixes)}'`

test('a Python that is a script, as those of pyenv are, is asked where it is, on the path and in the folder of pyenv', {
  skip,
}, () => {
  for (const name of ['VIRTUAL_ENV', 'CONDA_PREFIX', 'PYENV_ROOT']) delete process.env[name]
  const environment = folder()
  const base = folder()
  const expected = [packagesIn(environment), packagesIn(base)]
  const root = folder('.pyenv')
  scriptIn(join(root, 'shims'), saying(environment, base))
  const system = process.env['PATH'] ?? ''
  const nowhere = folder()
  for (const [name, value] of [
    ['PATH', [join(root, 'shims'), system].join(delimiter)],
    ['PYENV_ROOT', root],
    ['HOME', join(root, '..')],
  ] as const) {
    process.env['HOME'] = nowhere
    const earlier = process.env[name]
    process.env[name] = value
    const found = pythonPackages()
    for (const each of expected) assert.ok(found.includes(each), `${name}: ${found}`)
    process.env[name] = earlier ?? ''
  }
  process.env['PATH'] = [join(root, 'shims'), system].join(delimiter)
  refused(() => loadLibrary(wanted), 'ERR_UNSUPPORTED', /nonesuch\/lib\/libnonesuch\.so.*\(.*(invalid ELF|too short)/)
})

test('a script that starts no Python is passed over', { skip }, () => {
  for (const answer of ['exit 127', 'echo hello', "echo '{}'", `echo '[null, 1]'`]) {
    const bin = folder('bin')
    scriptIn(bin, answer)
    process.env['PATH'] = [bin, before['PATH']].join(delimiter)
    assert.ok(pythonPackages().every((each) => typeof each === 'string'))
  }
})

test('a virtual environment beside the program is looked into though it is not active, after all others; of the current folder none', {
  skip,
}, () => {
  const [project, current] = [folder(), folder()]
  const expected = [packagesIn(join(project, '.venv')), packagesIn(join(project, 'venv'))]
  const strange = packagesIn(join(current, '.venv'))
  const program = join(project, 'src', 'main.js')
  mkdirSync(join(project, 'src'))
  writeFileSync(program, '')
  process.argv[1] = program
  process.env['VIRTUAL_ENV'] = folder()
  const active = packagesIn(process.env['VIRTUAL_ENV'])
  process.chdir(current)
  const found = pythonPackages().filter((each) => each.endsWith('site-packages'))
  assert.equal(found[0], active)
  assert.deepEqual(found.slice(-2), expected)
  assert.ok(!found.includes(strange))
})

test('the error names the folders of pip that were searched, also those without a package of NVIDIA', { skip }, () => {
  for (const name of ['CONDA_PREFIX', 'PYENV_ROOT']) delete process.env[name]
  const environment = folder()
  const packages = join(environment, 'lib', 'python3.13', 'site-packages')
  mkdirSync(packages, { recursive: true })
  process.env['VIRTUAL_ENV'] = environment
  process.env['PATH'] = process.env['HOME'] = folder()
  process.chdir(folder())
  const { message } = refused(() => loadLibrary(wanted), 'ERR_UNSUPPORTED', /Nonesuch was not found/)
  assert.ok(message.includes(`; searched the packages of pip in ${packages}. Install it`), message)
  assert.match(message, /if pip has put it into another environment, activate that; or set CUDA_STREAMS_NONESUCH to/)
  delete process.env['VIRTUAL_ENV']
  refused(() => loadLibrary(wanted), 'ERR_UNSUPPORTED', /; no Python was found\. Install it/)
})

test('a file that exists and cannot be loaded is in the error, with the reason', { skip }, () => {
  const lib = folder('lib')
  writeFileSync(join(lib, 'libnonesuch.so'), 'no library')
  process.env['CUDA_HOME'] = join(lib, '..')
  refused(() => loadLibrary(wanted), 'ERR_UNSUPPORTED', /libnonesuch\.so.*\(.*(invalid ELF|too short)/)
})

test('a place that the user names is the only one', { skip }, () => {
  const lib = folder()
  process.env[NAME] = lib
  const inFolder = refused(() => loadLibrary(wanted), 'ERR_UNSUPPORTED', /CUDA_STREAMS_NONESUCH names/)
  assert.match(inFolder.message, new RegExp(`tried ${lib}/libnonesuch.so.2, ${lib}/libnonesuch.so\\.`))
  process.env[NAME] = '/nowhere/libmine.so'
  refused(() => loadLibrary(wanted), 'ERR_UNSUPPORTED', /tried \/nowhere\/libmine\.so\./)
})

test('on Windows a library is looked for on the path, in toolkits, and in the packages of a Python, the newest version first', {
  skip: process.platform === 'win32' ? false : 'the names and folders of Windows',
}, () => {
  const onPath = folder()
  const toolkit = folder()
  const python = folder()
  const wheel = join(python, 'Lib', 'site-packages', 'nvidia', 'cu13', 'bin', 'x86_64')
  for (const path of [join(toolkit, 'bin', 'x64'), wheel]) mkdirSync(path, { recursive: true })
  for (const version of [9, 13, 12]) writeFileSync(join(onPath, `nonesuch64_${version}.dll`), 'no library')
  writeFileSync(join(python, 'python.exe'), '')
  process.env['CUDA_PATH'] = toolkit
  process.env['PATH'] = [onPath, python].join(delimiter)
  const { message } = refused(
    () => loadLibrary(wanted),
    'ERR_UNSUPPORTED',
    /Nonesuch was not found: tried nonesuch\.dll/,
  )
  const places = [
    ...[13, 12, 9].map((version) => join(onPath, `nonesuch64_${version}.dll`)),
    join(toolkit, 'bin', 'x64', 'nonesuch.dll'),
    join(wheel, 'nonesuch.dll'),
  ].map((path) => message.indexOf(path))
  assert.deepEqual(
    places,
    [...places].sort((a, b) => a - b),
    message,
  )
  assert.ok(!places.includes(-1), message)
  const none = new LibraryVariable(NAME, '', { ...wanted.library, names: { ...wanted.library.names, windows: [] } })
  refused(() => loadLibrary(none), 'ERR_UNSUPPORTED', /^There is no Nonesuch for Windows$/)
})
