/**
 * The environment variable `CUDA_STREAMS_TIMELINE=file.html` records a process from its first use of the GPU to its end. With
 * `CUDA_STREAMS_TIMELINE_SITES=1`, call sites are recorded as by `{ callSites: true }`.
 */

import { provideInterceptor } from '../../core/environment-interceptors.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { messageOf } from '../../foundation/base/errors.js'
import { checkWritable, fileOfProcess } from '../../foundation/base/file-of-process.js'
import { process } from '../../foundation/base/node-modules.js'
import { printError } from '../../foundation/base/standard-error.js'
import { DEFAULT_LIMIT, Session } from './session.js'
import { checkExtension, contentsOf, timelineOf } from './timeline.js'

provideInterceptor(VARIABLES.timeline.name, (driver, file) => {
  const { extension } = checkExtension(file, VARIABLES.timeline.name)
  const path = fileOfProcess(file, extension)
  checkWritable(path, `${VARIABLES.timeline.name}: the timeline ${path}`)
  const callSites = VARIABLES.timelineSites.read()
  const session = new Session(driver, undefined, DEFAULT_LIMIT, callSites)
  process.once('exit', () => {
    try {
      process
        .getBuiltinModule('node:fs')
        .writeFileSync(path, contentsOf(path, timelineOf(session.stopNow()).render(path)))
    } catch (error) {
      // The exit code stays the same, but the missing file is reported.
      printError(`cuda-streams: no timeline was written to ${path}: ${messageOf(error)}`)
    }
  })
})
