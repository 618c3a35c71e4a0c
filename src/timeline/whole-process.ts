/**
 * `CUDA_STREAMS_TIMELINE=file.html`: records a process from its first use of the GPU to its end, with
 * `CUDA_STREAMS_TIMELINE_SITES=1` as `{ callSites: true }` does.
 */
import { absolutePath, isMainThread, printError, process, threadId, writeFileNow } from '#platform'
import { variable } from '../base/environment-variables.js'
import { messageOf } from '../base/errors.js'
import { provideWrapper } from '../driver/environment-wrappers.js'
import { checkExtension, contentsOf } from './file-format.js'
import { DEFAULT_LIMIT, Session } from './session.js'
import { timelineOf } from './timeline.js'

/** An operation that is not done when the process ends has no end in the file. */
provideWrapper('CUDA_STREAMS_TIMELINE', (driver, file) => {
  const { extension } = checkExtension(file, 'CUDA_STREAMS_TIMELINE')
  // The directory may change until the end; and each worker has a driver, and a file, of its own.
  const named = isMainThread ? file : `${file.slice(0, -extension.length)}.worker-${threadId}${extension}`
  const path = absolutePath(named)
  const callSites = (variable('CUDA_STREAMS_TIMELINE_SITES') ?? '0') !== '0'
  const session = new Session(driver, undefined, DEFAULT_LIMIT, callSites)
  process.once('exit', () => {
    try {
      writeFileNow(path, contentsOf(path, timelineOf(session.stopNow()).render(path)))
    } catch (error) {
      // The process ends as it would have ended; but the program asked for that file.
      printError(`cuda-streams: no timeline was written to ${path}: ${messageOf(error)}`)
    }
  })
})
