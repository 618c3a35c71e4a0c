/**
 * The environment variable `CUDA_STREAMS_RECORD=run.rec` records a process from its first use of the GPU to its end; with
 * `run.rec,stacks=all` it takes the stack of each call.
 */
import { VARIABLES } from '../base/environment-variables.js'
import { invalidValue, messageOf } from '../base/errors.js'
import { fileOfProcess } from '../base/file-of-process.js'
import { process } from '../base/node-modules.js'
import { printError } from '../base/standard-error.js'
import { provideInterceptor } from '../driver/environment-interceptors.js'
import { STACK_MODES, type StackMode } from '../sanitizer/operations.js'
import { recorderOf } from './recorder.js'

provideInterceptor(VARIABLES.record.name, (driver, value) => {
  const { file, stacks } = meaningOf(value)
  const path = fileOfProcess(file, process.getBuiltinModule('node:path').extname(file))
  const recorder = recorderOf(driver, path, stacks)
  process.once('exit', () => {
    try {
      recorder.stopNow()
    } catch (error) {
      printError(`cuda-streams: the recording ${path} is not complete: ${messageOf(error)}`)
    }
  })
})

function meaningOf(value: string): { readonly file: string; readonly stacks: StackMode } {
  const [file = '', word = 'sampled'] = value.split(/,stacks=/)
  const stacks = STACK_MODES.find((one) => one === word)
  if (stacks === undefined || file === '') {
    const modes = STACK_MODES.map((one) => `'${one}'`).join(', ')
    throw invalidValue(
      `${VARIABLES.record.name} must be a file, or a file and ,stacks= one of ${modes}, not '${value}'`,
    )
  }
  return { file, stacks }
}
