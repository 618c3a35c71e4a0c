/**
 * The environment variable CUDA_STREAMS_SANITIZER starts a sanitizer when the default driver is opened. Its value is a mode
 * and other options, such as `print,stacks=all,exit-code=1`.
 */
import { invalidValue } from '../base/errors.js'
import { provideInterceptor } from '../driver/environment-interceptors.js'
import { MODES, type Suppression } from './findings.js'
import { STACK_MODES } from './operations.js'
import { Sanitizer, type SanitizerOptions } from './sanitizer.js'

provideInterceptor('CUDA_STREAMS_SANITIZER', (_driver, value) => {
  Sanitizer.start(optionsOf(value))
})

type Options = { -readonly [K in keyof SanitizerOptions]: SanitizerOptions[K] }

/** The options that a value of the variable stands for. Throws ERR_INVALID_ARG_VALUE for a word that is no option. */
export function optionsOf(value: string): SanitizerOptions {
  const options: Options = { mode: 'print' }
  for (const part of value.split(',')) {
    const [word = '', given = ''] = part.trim().split(/=(.*)/s)
    const mode = MODES.find((one) => one === part.trim())
    const stacks = STACK_MODES.find((one) => one === given)
    if (mode !== undefined) options.mode = mode
    else if (part.trim() === 'fix') options.fix = true
    else if (part.trim() === 'causal') options.causal = true
    else if (part.trim() === 'at-once') options.atOnce = true
    else if (word === 'exit-code' && /^\d+$/.test(given)) options.exitCode = Number(given)
    else if (word === 'stacks' && stacks !== undefined) options.stacks = stacks
    else if (word === 'suppressions' && given !== '') options.suppress = suppressionsIn(given)
    else if (part.trim() !== '1') {
      const words = "'fix', 'causal', 'at-once', 'exit-code=…', 'stacks=…' or 'suppressions=FILE'"
      throw invalidValue(
        `CUDA_STREAMS_SANITIZER must be one of '${MODES.join("', '")}', and with commas ${words}, not '${part}'`,
      )
    }
  }
  return options
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
