/** Takes the place of the library's native/nvrtc.ts in a page, which can load no library in C. */
import { stateError } from '../../../../dist/src/base/errors.js'

type Nvrtc = typeof import('../../../../dist/src/native/nvrtc.js')

const impossible = (): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    'A page cannot run NVRTC, which compiles CUDA C++: load PTX that was made when the page was built',
  )

export const compileCuda: Nvrtc['compileCuda'] = async () => {
  throw impossible()
}

export const compileCudaNow: Nvrtc['compileCudaNow'] = () => {
  throw impossible()
}
