/** The Python that has Triton, and running it. */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { messageOf, stateError } from '../../foundation/base/errors.js'
import { executablePythons } from '../../foundation/native/pythons.js'
import { COMPILE_KERNELS } from './compile-kernels.js'

/** What Python printed. */
export interface Printed {
  readonly output: string
  readonly complaints: string
}

const LIBRARY = /\.so(\.\d+)*$/
const MOST_BYTES = 2 ** 30
const windows = process.platform === 'win32'

const inEnvironment = (folder: string): string =>
  windows ? join(folder, 'Scripts', 'python.exe') : join(folder, 'bin', 'python3')

/**
 * The Python for a file: that of the option, or of CUDA_STREAMS_PYTHON, or of the active environment, or of a folder `.venv` or `venv` beside the
 * file or above it, or the first on the PATH.
 * @throws ERR_UNSUPPORTED where there is none
 */
export function pythonFor(file: string, named: string | undefined): string {
  if (named !== undefined) return named
  const variable = VARIABLES.python.read()
  if (variable !== '') return LIBRARY.test(variable) ? inEnvironment(dirname(dirname(variable))) : variable
  const { VIRTUAL_ENV, CONDA_PREFIX } = process.env
  if (VIRTUAL_ENV) return inEnvironment(VIRTUAL_ENV)
  const beside = environmentsAbove(file).map(inEnvironment).find(existsSync)
  if (beside !== undefined) return beside
  if (CONDA_PREFIX) return inEnvironment(CONDA_PREFIX)
  const [found] = executablePythons(['python3', 'python'])
  if (found !== undefined) return found.executable
  throw stateError('ERR_UNSUPPORTED', `${file} is compiled by Triton, and there is no Python on the PATH: ${WAY_OUT}`)
}

export const WAY_OUT = `install one with Triton (pip install triton), or name it by ${VARIABLES.python.name} or options.python`

function environmentsAbove(file: string): readonly string[] {
  const folders = [dirname(file)]
  for (let folder = dirname(folders[0] ?? ''); folder !== folders.at(-1); folder = dirname(folder)) folders.push(folder)
  return folders.flatMap((folder) => ['.venv', 'venv'].map((name) => join(folder, name)))
}

const ARGUMENTS = ['-c', COMPILE_KERNELS]

/** Runs the script with a request, on a process beside this one. */
export function runPython(python: string, request: string): Promise<Printed> {
  return new Promise((resolve, reject) => {
    const child = execFile(python, ARGUMENTS, { maxBuffer: MOST_BYTES }, (error, output, complaints) => {
      if (error !== null && 'code' in error && error.code === 'ENOENT') reject(notThere(python))
      else resolve({ output, complaints: complaints || (error === null ? '' : messageOf(error)) })
    })
    // A Python that ends at once reads nothing.
    child.stdin?.on('error', () => {})
    child.stdin?.end(request)
  })
}

/** Does the same, and blocks meanwhile. */
export function runPythonNow(python: string, request: string): Printed {
  const { error, stdout, stderr, signal } = spawnSync(python, ARGUMENTS, {
    input: request,
    encoding: 'utf8',
    maxBuffer: MOST_BYTES,
  })
  if (error !== undefined && 'code' in error && error.code === 'ENOENT') throw notThere(python)
  return { output: stdout ?? '', complaints: stderr || (error === undefined ? `ended by ${signal}` : messageOf(error)) }
}

const notThere = (python: string): Error =>
  stateError('ERR_UNSUPPORTED', `The Python for Triton, ${python}, is not there: ${WAY_OUT}`)
