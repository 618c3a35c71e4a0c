/** Which Python is started, and what is said where there is none: each in a process of its own. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { openPython } from '../helpers/python.js'
import { runsModule } from '../helpers/run-time.js'
import { scratchFolder } from '../helpers/scratch.js'

const python = openPython()
const skip = typeof python === 'string' ? python : false
if (skip !== false) console.log(`skipped: ${skip}`)
const folder = scratchFolder('python')

const ENTRY = new URL('../../src/entry-points/python.js', import.meta.url).href
const SCRIPT = `
  const { Python } = await import(${JSON.stringify(ENTRY)})
  try {
    const python = Python.start()
    console.log(python.version, python.library, python.executable, python.evaluate('__import__("sys").prefix').text())
  } catch (error) {
    console.log(error.code, error.message)
  }
`

/** What the script prints with these variables and no others that name a Python. */
function started(env: NodeJS.ProcessEnv): string {
  const none = { VIRTUAL_ENV: '', CONDA_PREFIX: '', PYENV_ROOT: '', CUDA_STREAMS_PYTHON: '' }
  const { stdout, stderr } = spawnSync(process.execPath, runsModule(SCRIPT), {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, ...none, ...env },
  })
  return stdout.trim() || stderr
}

/** An executable that prints this. */
function pretending(name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${text}\n`)
  chmodSync(file, 0o755)
  return file
}

describe('the Python that is started', { skip }, () => {
  if (typeof python === 'string') return
  const { executable, library, version } = python
  const expected = `${version} ${library} ${executable} `

  it('is the one that the variable names, by its executable or by its library', () => {
    assert.ok(started({ CUDA_STREAMS_PYTHON: executable, PATH: folder }).startsWith(expected))
    const byLibrary = started({ CUDA_STREAMS_PYTHON: library })
    assert.ok(byLibrary.startsWith(`${version} ${library} `), byLibrary)
  })

  it('is that of the virtual environment, and of no other', () => {
    const there = join(executable, '..', '..')
    assert.ok(started({ VIRTUAL_ENV: there }).startsWith(expected))
    assert.ok(started({ CONDA_PREFIX: there }).startsWith(expected))
    const gone = started({ VIRTUAL_ENV: '/nonesuch' })
    assert.match(
      gone,
      /^ERR_UNSUPPORTED .*\/nonesuch\/bin\/python3, from VIRTUAL_ENV, is not there; set CUDA_STREAMS_PYTHON/,
    )
  })

  it('is told of where there is none', () => {
    assert.match(
      started({ PATH: folder, HOME: folder }),
      /^ERR_UNSUPPORTED .*neither VIRTUAL_ENV nor CONDA_PREFIX is set, and the PATH has no python3 \(.*\): set CUDA_STREAMS_PYTHON/,
    )
    assert.match(
      started({ CUDA_STREAMS_PYTHON: '/nonesuch/libpython3.so' }),
      /^ERR_UNSUPPORTED .*libpython3\.so cannot be loaded: .*cannot open shared object file/,
    )
    const broken = pretending('broken', 'echo "it is broken" >&2; exit 3')
    assert.match(
      started({ CUDA_STREAMS_PYTHON: broken }),
      /^ERR_UNSUPPORTED .*broken, from CUDA_STREAMS_PYTHON, does not say where its library is \(it is broken\)/,
    )
    const told = {
      version: '3.12',
      executable: '/usr/bin/python3.12',
      libraries: ['/a/libpython3.12.so', '/b/libpython3.12.so'],
    }
    const isStatic = pretending('static', `echo '${JSON.stringify(told)}'`)
    assert.match(
      started({ CUDA_STREAMS_PYTHON: isStatic }),
      /^ERR_UNSUPPORTED .*has no shared library: tried \/a\/libpython3\.12\.so, \/b\/\S+\. Install .*--enable-shared; or set/,
    )
  })
})
