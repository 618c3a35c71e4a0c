/** The value of CUDA_STREAMS_SANITIZER: a mode, and what else is wanted, such as `print,stacks=all,exit-code=1`. */
import { readText } from '#platform'
import { invalidValue } from '../base/errors.js'
import { MODES, type Suppression } from './findings.js'
import type { SanitizerOptions } from './sanitizer.js'
import { STACK_MODES } from './stacks.js'

type Options = { -readonly [K in keyof SanitizerOptions]: SanitizerOptions[K] }

/** Throws ERR_INVALID_ARG_VALUE for a word that is none. */
export function optionsOf(value: string): SanitizerOptions {
  const options: Options = { mode: 'print' }
  for (const part of value.split(',')) {
    const [word = '', given = ''] = part.trim().split(/=(.*)/s)
    const mode = MODES.find((one) => one === part.trim())
    const stacks = STACK_MODES.find((one) => one === given)
    if (mode !== undefined) options.mode = mode
    else if (part.trim() === 'mend') options.mend = true
    else if (part.trim() === 'causal') options.causal = true
    else if (part.trim() === 'at-once') options.atOnce = true
    else if (word === 'exit-code' && /^\d+$/.test(given)) options.exitCode = Number(given)
    else if (word === 'stacks' && stacks !== undefined) options.stacks = stacks
    else if (word === 'suppressions' && given !== '') options.suppress = suppressionsIn(given)
    else if (part.trim() !== '1') {
      const words = "'mend', 'causal', 'at-once', 'exit-code=…', 'stacks=…' or 'suppressions=FILE'"
      throw invalidValue(
        `CUDA_STREAMS_SANITIZER must be one of '${MODES.join("', '")}', and with commas ${words}, not '${part}'`,
      )
    }
  }
  return options
}

/** One a line: a part of the message, then # and the reason. */
function suppressionsIn(path: string): readonly Suppression[] {
  const lines = readText(path).split(/\r?\n/)
  return lines.flatMap((line, index) => {
    const [match = '', reason = ''] = line.split(/#(.*)/s).map((text) => text.trim())
    if (match === '') return []
    if (reason === '') throw invalidValue(`${path}:${index + 1} gives no reason: write '${match} # why'`)
    return [{ match, reason }]
  })
}
