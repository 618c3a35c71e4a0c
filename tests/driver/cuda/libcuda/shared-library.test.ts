/** Where CUDA's libraries are searched, and what the error says when they are not found. */
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterEach, test } from 'node:test'
import { LibraryVariable } from '../../../../src/base/environment-variables.js'
import { loadLibrary, pythonFolders, toolkitFolders } from '../../../../src/native/shared-library.js'
import { refused } from '../../../conformance/expect.js'
import { scratchFolder } from '../../../helpers/scratch.js'

const NAME = 'CUDA_STREAMS_NONESUCH'
const wanted = new LibraryVariable(NAME, '', {
  title: 'Nonesuch',
  names: { linux: ['libnonesuch.so.2', 'libnonesuch.so'], windows: ['nonesuch64_*.dll', 'nonesuch.dll'] },
  wayOut: 'Install it',
})
const skip = process.platform === 'linux' ? false : 'the names and folders of Linux'
const before = { ...process.env }

afterEach(() => {
  for (const name of ['CUDA_HOME', 'CUDA_PATH', 'VIRTUAL_ENV', 'CONDA_PREFIX', 'PATH', NAME]) {
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
  writeFileSync(join(prefix, 'bin', 'python3'), '')
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
  assert.match(error.message, /Install it; set CUDA_STREAMS_NONESUCH/)
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
