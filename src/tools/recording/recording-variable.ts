/**
 * The environment variable `CUDA_STREAMS_RECORD=run.rec` records a process from its first use of the GPU to its end; with
 * `run.rec,stacks=all` it takes the stack of each call.
 */

import { provideInterceptor } from '../../core/environment-interceptors.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { cannotBeWritten, fileOfProcess } from '../../foundation/base/file-of-process.js'
import { process } from '../../foundation/base/node-modules.js'
import { STACK_MODES, type StackMode } from '../sanitizer/operations.js'
import { recorderOf } from './recorder.js'

provideInterceptor(VARIABLES.record.name, (driver, value) => {
  const { file, stacks } = meaningOf(value)
  const path = fileOfProcess(file, process.getBuiltinModule('node:path').extname(file))
  try {
    recorderOf(driver, path, stacks)
  } catch (error) {
    throw cannotBeWritten(`${VARIABLES.record.name}: the recording ${path}`, error)
  }
})

function meaningOf(value: string): { readonly file: string; readonly stacks: StackMode } {
  const [file = '', word = 'stacks=sampled', more] = value.split(',')
  const stacks = STACK_MODES.find((one) => `stacks=${one}` === word)
  if (stacks === undefined || file === '' || more !== undefined) {
    const modes = STACK_MODES.map((one) => `'${one}'`).join(', ')
    throw invalidValue(
      `${VARIABLES.record.name} must be a file, or a file and ,stacks= one of ${modes}, not '${value}'`,
    )
  }
  return { file, stacks }
}
