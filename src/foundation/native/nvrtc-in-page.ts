/** Takes the place of nvrtc.ts in a page, which can load no library in C. */
import { stateError } from '../base/errors.js'

type Nvrtc = typeof import('./nvrtc.js')

const impossible = (): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    'A page cannot run NVRTC, which compiles CUDA C++. Compile it elsewhere, by nvcc --ptx or NVRTC, and give the PTX: as `ptx` in place of `source` to defineKernel(), or to Module.load()',
  )

export const compileCuda: Nvrtc['compileCuda'] = async () => {
  throw impossible()
}

export const compileCudaNow: Nvrtc['compileCudaNow'] = () => {
  throw impossible()
}
