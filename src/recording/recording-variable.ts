/** The environment variable `CUDA_STREAMS_RECORD=run.rec` records a process from its first use of the GPU to its end. */
import { VARIABLES } from '../base/environment-variables.js'
import { messageOf } from '../base/errors.js'
import { isMainThread, process, threadId } from '../base/node-modules.js'
import { printError } from '../base/standard-error.js'
import { provideInterceptor } from '../driver/environment-interceptors.js'
import { recorderOf } from './recorder.js'

provideInterceptor(VARIABLES.record.name, (driver, value) => {
  const [file = '', word] = value.split(/,(?=stacks=)/)
  const { dir, name, ext } = process.getBuiltinModule('node:path').parse(file)
  // Each worker has a driver and a file of its own.
  const named = isMainThread ? file : `${dir === '' ? '' : `${dir}/`}${name}.worker-${threadId}${ext}`
  const path = process.getBuiltinModule('node:path').resolve(named)
  const recorder = recorderOf(driver, path, word === 'stacks=all' ? 'all' : word === 'stacks=none' ? 'none' : 'sampled')
  process.once('exit', () => {
    try {
      recorder.stopNow()
    } catch (error) {
      printError(`cuda-streams: the recording ${path} is not complete: ${messageOf(error)}`)
    }
  })
})
