/** Examines the library's requirements on this machine. Code that loads libraries runs in a process of its own, with a time limit. */

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import {
  driverTraces,
  glibcVersion,
  kernelDriverVersion,
  OLDEST_CUDA,
  versionText,
} from '../../cuda/libcuda/libcuda.js'
import { misspeltVariables, VARIABLES } from '../../foundation/base/environment-variables.js'
import { messageOf } from '../../foundation/base/errors.js'
import { after } from '../../foundation/base/event-loop.js'
import { cacheFolder } from '../../foundation/native/cache-folder.js'
import { type Findings, type Progress, progressIn, type Report } from './report.js'

/** The environment variables that have an effect on the library: its own, CUDA's and the system's. docs/reference/environment.md documents them. */
export const ALL_VARIABLES: readonly string[] = [
  ...Object.values(VARIABLES).map(({ name }) => name),
  'CUDA_VISIBLE_DEVICES',
  'CUDA_DEVICE_MAX_CONNECTIONS',
  'CUDA_LAUNCH_BLOCKING',
  'CUDA_INJECTION64_PATH',
  'CUDA_MPS_PIPE_DIRECTORY',
  'NVIDIA_VISIBLE_DEVICES',
  'NVIDIA_DRIVER_CAPABILITIES',
  'LD_LIBRARY_PATH',
  'SystemRoot',
  'CUDA_HOME',
  'CUDA_PATH',
  'VIRTUAL_ENV',
  'CONDA_PREFIX',
  'PYENV_ROOT',
  'PYTHONHOME',
  'XDG_CACHE_HOME',
]

/**
 * @param version The version of the package.
 * @param seconds The time limit of a step.
 * @param files Files with kernels that are compiled.
 */
export async function examine(version: string, seconds: number, files: readonly string[]): Promise<Report> {
  const { problems: met, ...found } = await examineInProcess(seconds, files)
  const misspelt = misspeltVariables()
  const problems = [...met, ...misspelt.map(({ message }) => message)]
  const { bun, deno, node } = process.versions
  const glibc = orElse(undefined, glibcVersion)
  const set = [...ALL_VARIABLES, ...misspelt.map(({ name }) => name)].flatMap((name) => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value]]
  })
  return {
    ok: problems.length === 0,
    problems,
    version,
    runtime: bun
      ? { name: 'bun', version: bun }
      : deno
        ? { name: 'deno', version: deno }
        : { name: 'node', version: node },
    platform: { system: process.platform, arch: process.arch, libc: glibc === undefined ? null : `glibc ${glibc}` },
    variables: Object.fromEntries(set),
    traces: orElse([], driverTraces),
    kernelDriver: orElse(undefined, kernelDriverVersion) ?? null,
    cache: cacheFolder(),
    neededCuda: versionText(OLDEST_CUDA),
    ...found,
  }
}

/** Returns `otherwise` if `read` throws: access may not be permitted to this process. */
function orElse<T>(otherwise: T, read: () => T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

async function examineInProcess(seconds: number, files: readonly string[]): Promise<Findings> {
  let last: Progress = { step: 'start', found: { devices: [], libraries: {}, problems: [] } }
  const failed = (why: string): Findings => ({
    ...last.found,
    problems: [...last.found.problems, `The examination ended at this step: ${last.step}. ${why}`],
  })
  try {
    const file = fileURLToPath(new URL('./examination.js', import.meta.url))
    // The variables are cleared, since a recording would overwrite the program's own.
    const env = { ...process.env, CUDA_STREAMS_TIMELINE: '', NODE_NO_WARNINGS: '1' }
    const child = spawn(process.execPath, [...process.execArgv, file, ...files], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = new Promise<string>((resolve) => {
      child.on('error', (error) => resolve(messageOf(error)))
      child.on('close', (code, signal) => resolve(signal ?? `exit code ${code}`))
    })
    let errorOutput = ''
    let late = false
    child.stderr.setEncoding('utf8').on('data', (text) => (errorOutput += text))
    const limit = () =>
      after(seconds * 1000, () => {
        late = true
        child.kill('SIGKILL')
      })
    let timer = limit()
    for await (const line of createInterface(child.stdout)) {
      const progress = progressIn(line, last)
      if (progress === undefined) continue
      last = progress
      timer.cancel()
      timer = limit()
      if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${last.step === 'end' ? '' : `${last.step} …`}`)
    }
    const how = await ended
    timer.cancel()
    if (late) return failed(`It took longer than ${seconds} s`)
    if (last.step !== 'end' || how !== 'exit code 0')
      return failed(`The process ended with ${how}. ${stripVTControlCharacters(errorOutput).trim()}`)
    return last.found
  } catch (error) {
    return failed(messageOf(error))
  }
}
