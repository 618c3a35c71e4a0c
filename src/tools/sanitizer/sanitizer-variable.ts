/**
 * The environment variable CUDA_STREAMS_SANITIZER starts a sanitizer when the default driver is opened. Its value is a mode
 * and other options, such as `print,stacks=all,exit-code=1`.
 */

import { provideInterceptor } from '../../core/environment-interceptors.js'
import { isWholeProcess, SANITIZER_WORDS, VARIABLES } from '../../foundation/base/environment-variables.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { process } from '../../foundation/base/node-modules.js'
import { MODES, type Suppression } from './findings.js'
import { STACK_MODES } from './operations.js'
import { type SanitizerOptions, startForProcess } from './sanitizer.js'

/** The URL of this file in a constant: webpack bundles a file that is named by `new URL()` with import.meta.url itself, but not what it imports. */
const HERE = import.meta.url

provideInterceptor(VARIABLES.sanitizer.name, (driver, value) => {
  const options = optionsOf(value)
  if (isWholeProcess(value) && driver.name === 'cuda') checkAtTheEnd(value, options)
  else startForProcess(options)
})

/** Lets another process check the trace of this one at its end. This process has been traced since CUDA was initialised (src/cuda/libcuda). */
function checkAtTheEnd(value: string, { exitCode }: SanitizerOptions): void {
  if (!process.getBuiltinModule('node:worker_threads').isMainThread) return
  const folder = VARIABLES.trace.read()
  process.once('exit', () => {
    const command = process.getBuiltinModule('node:url').fileURLToPath(new URL('../cli/main.js', HERE))
    const more = value.split(',').includes('possible') ? ['--possible'] : []
    const env = {
      ...process.env,
      [VARIABLES.sanitizer.name]: '',
      [VARIABLES.trace.name]: '',
      CUDA_INJECTION64_PATH: '',
    }
    const { spawnSync } = process.getBuiltinModule('node:child_process')
    const { status } = spawnSync(process.execPath, [command, 'check', folder, ...more], {
      stdio: ['ignore', 2, 2],
      env,
    })
    process.getBuiltinModule('node:fs').rmSync(folder, { recursive: true, force: true })
    if (status === 1 && exitCode !== undefined && !process.exitCode) process.exitCode = exitCode
  })
}

/** The values by which the sanitizer is switched on, without saying how it reports. */
const MEAN_PRINT = ['1', 'true']

/** The options that each word stands for, given the text behind its `=`; undefined if the text is no value of the word. */
const READERS: Record<keyof typeof SANITIZER_WORDS, (given: string | undefined) => SanitizerOptions | undefined> = {
  fix: (given) => (given === undefined ? { fix: true } : undefined),
  causal: (given) => (given === undefined ? { causal: true } : undefined),
  'at-once': (given) => (given === undefined ? { atOnce: true } : undefined),
  'exit-code': (given = '') => (/^\d+$/.test(given) ? { exitCode: Number(given) } : undefined),
  stacks: (given) => {
    const stacks = STACK_MODES.find((one) => one === given)
    return stacks === undefined ? undefined : { stacks }
  },
  suppressions: (given = '') => (given === '' ? undefined : { suppress: suppressionsIn(given) }),
  process: (given) => (given === undefined ? {} : undefined),
  possible: (given) => (given === undefined ? {} : undefined),
}
const readers = new Map(Object.entries(READERS))

/** The options that a value of the variable stands for. Throws ERR_INVALID_ARG_VALUE for a word that is no option. */
function optionsOf(value: string): SanitizerOptions {
  const parts = value.split(',').map((part) => part.trim())
  return Object.assign({ mode: 'print' }, ...parts.map(optionsOfPart))
}

function optionsOfPart(part: string): SanitizerOptions {
  const mode = MODES.find((one) => one === part)
  if (mode !== undefined) return { mode }
  if (MEAN_PRINT.includes(part)) return {}
  const [word = '', given] = part.split(/=(.*)/s)
  const options = readers.get(word)?.(given)
  if (options === undefined) throw wrongWord(part)
  return options
}

function wrongWord(part: string): Error {
  const forms = Object.values(SANITIZER_WORDS).map(({ form }) => `'${form}'`)
  const words = `${forms.slice(0, -1).join(', ')} or ${forms.at(-1)}`
  return invalidValue(
    `${VARIABLES.sanitizer.name} must be 1, '${MODES.join("', '")}' or 0, and with commas ${words}, not '${part}'`,
  )
}

/** Reads a file of suppressions. Each line has a part of the message, then # and the reason. */
function suppressionsIn(path: string): readonly Suppression[] {
  const lines = process.getBuiltinModule('node:fs').readFileSync(path, 'utf8').split(/\r?\n/)
  return lines.flatMap((line, index) => {
    const [match = '', reason = ''] = line.split(/#(.*)/s).map((text) => text.trim())
    if (match === '') return []
    if (reason === '') throw invalidValue(`${path}:${index + 1} gives no reason: write '${match} # why'`)
    return [{ match, reason }]
  })
}
