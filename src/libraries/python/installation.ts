/** The Python that is started, and the places of its modules and its shared library. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { stateError } from '../../foundation/base/errors.js'
import { executablePythons } from '../../foundation/native/pythons.js'

/** What a Python executable reports about itself. */
export interface Installation {
  /** The version of Python, such as '3.12'. */
  readonly version: string
  readonly executable: string
  readonly prefix: string
  readonly execPrefix: string
  readonly basePrefix: string
  readonly baseExecPrefix: string
  readonly path: readonly string[]
  /** Whether its shared library was built, and where it may be. */
  readonly libraries: readonly string[]
}

/** What it imports is not to come from the current folder. */
const DESCRIBE = `
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, os, sysconfig
get = sysconfig.get_config_var
version = '%d.%d' % sys.version_info[:2]
names = [get('INSTSONAME'), get('LDLIBRARY'), 'libpython' + version + '.so.1.0', 'libpython' + version + '.so']
folders = [get('LIBDIR'), os.path.join(get('LIBDIR') or '', get('MULTIARCH') or ''), get('LIBPL'),
           os.path.join(sys.base_exec_prefix, 'lib'), '/usr/lib/' + (get('MULTIARCH') or ''), '/usr/lib64', '/usr/local/lib']
paths = [os.path.join(folder, name) for folder in folders if folder for name in names if name and '.so' in name]
print(json.dumps({
    'version': version, 'executable': sys.executable,
    'prefix': sys.prefix, 'execPrefix': sys.exec_prefix,
    'basePrefix': sys.base_prefix, 'baseExecPrefix': sys.base_exec_prefix,
    'path': sys.path, 'libraries': list(dict.fromkeys(paths))}))
`
const PATIENCE_MS = 60_000
const LIBRARY = /\.so(\.\d+)*$/
export const SET = `set ${VARIABLES.python.name} to a Python executable, or to a libpython`
const WITH_LIBRARY =
  'Install the package of your distribution that has it (such as libpython3-dev), or use a Python that comes with one: that of conda or of uv, or of pyenv with PYTHON_CONFIGURE_OPTS=--enable-shared'

/** A Python and its shared library; `named` if the program named the library, whose version is then known when it is loaded. */
export type Found =
  | { readonly library: string; readonly installation: Installation }
  | { readonly library: string; readonly named: true }

/**
 * The Python that a shell would start: that of CUDA_STREAMS_PYTHON, or else of the virtual environment, of the conda environment, or the
 * first on the PATH, where pyenv has its own. One that is named and cannot be used is an error: another would have other modules.
 * @throws ERR_UNSUPPORTED, with what was tried
 */
export function findPython(): Found {
  const named = VARIABLES.python.read()
  if (LIBRARY.test(named)) return { library: named, named: true }
  const [source, executable] = named === '' ? likelyExecutable() : [VARIABLES.python.name, named]
  const installation = describeInstallation(executable)
  if (typeof installation === 'string') throw unusable(`${executable}, from ${source}, ${installation}; ${SET}`)
  const library = installation.libraries.find((path) => existsSync(path))
  if (library !== undefined) return { library, installation }
  const tried = installation.libraries.join(', ')
  throw unusable(
    `${installation.executable}, from ${source}, has no shared library: tried ${tried}. ${WITH_LIBRARY}; or ${SET}`,
  )
}

/** The Python of this version whose modules a library that was named uses. */
export function installationFor(library: string, version: string): Installation {
  const { VIRTUAL_ENV, CONDA_PREFIX } = process.env
  const environments = [VIRTUAL_ENV, CONDA_PREFIX].flatMap((prefix) => (prefix ? [join(prefix, 'bin', 'python3')] : []))
  const beside = join(dirname(dirname(library)), 'bin', `python${version}`)
  const candidates = [...environments, ...(existsSync(beside) ? [beside] : []), `python${version}`, 'python3']
  const tried: string[] = []
  for (const executable of candidates) {
    const installation = describeInstallation(executable)
    if (typeof installation !== 'string' && installation.version === version) return installation
    tried.push(`${executable} ${typeof installation === 'string' ? installation : `is Python ${installation.version}`}`)
  }
  throw unusable(
    `${library} is Python ${version}, and no executable of this version has its modules: ${tried.join(', ')}`,
  )
}

export const unusable = (why: string, cause?: unknown): Error =>
  stateError('ERR_UNSUPPORTED', `Python cannot be started: ${why}`, cause)

function likelyExecutable(): readonly [source: string, executable: string] {
  const { VIRTUAL_ENV, CONDA_PREFIX, PATH } = process.env
  if (VIRTUAL_ENV) return ['VIRTUAL_ENV', join(VIRTUAL_ENV, 'bin', 'python3')]
  if (CONDA_PREFIX) return ['CONDA_PREFIX', join(CONDA_PREFIX, 'bin', 'python3')]
  const [found] = executablePythons(['python3', 'python'])
  if (found !== undefined) return [found.source, found.executable]
  throw unusable(`neither VIRTUAL_ENV nor CONDA_PREFIX is set, and the PATH has no python3 (${PATH ?? ''}): ${SET}`)
}

/** Asks the executable. Returns why that failed. */
function describeInstallation(executable: string): Installation | string {
  try {
    const text = execFileSync(executable, ['-c', DESCRIBE], {
      encoding: 'utf8',
      timeout: PATIENCE_MS,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    // A sitecustomize may print before.
    return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')
  } catch (error) {
    const { code, stderr }: { readonly code?: unknown; readonly stderr?: unknown } = Object(error)
    if (code === 'ENOENT') return 'is not there'
    const last = String(stderr ?? '')
      .trimEnd()
      .split('\n')
      .at(-1)
    return `does not say where its library is (${last || (error instanceof Error ? error.message : String(error))})`
  }
}
