/** `CUDA_STREAMS_TIMELINE=file.html`: records a process from its first use of the GPU to its end. */
import { absolutePath, isMainThread, process, threadId, writeFileNow } from '#platform'
import { messageOf } from '../base/errors.js'
import { provideWrapper } from '../driver/environment-wrappers.js'
import { checkExtension, contentsOf } from './file-format.js'
import { Session } from './session.js'
import { timelineOf } from './timeline.js'

/** An operation that is not done when the process ends has no end in the file. */
provideWrapper('CUDA_STREAMS_TIMELINE', (driver, file) => {
  const { extension } = checkExtension(file, 'CUDA_STREAMS_TIMELINE')
  // The directory may change until the end; and each worker has a driver, and a file, of its own.
  const named = isMainThread ? file : `${file.slice(0, -extension.length)}.worker-${threadId}${extension}`
  const path = absolutePath(named)
  const session = new Session(driver, undefined)
  process.once('exit', () => {
    try {
      writeFileNow(path, contentsOf(path, timelineOf(session.stopNow()).render(path)))
    } catch (error) {
      // The process ends as it would have ended; but the program asked for that file.
      console.error(`cuda-streams: no timeline was written to ${path}: ${messageOf(error)}`)
    }
  })
})
