/** NVRTC for tests that compile CUDA C++: that of `scripts/cuda-toolkit.mjs`, where the user names none. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../src/foundation/base/errors.js'
import { compileCudaNow } from '../../src/foundation/native/nvrtc.js'
import { root } from './root.js'

export const CACHED = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13')

/** Lets the library find the cached NVRTC. */
function preferCachedNvrtc(): void {
  const folder = join(CACHED, 'lib')
  if (existsSync(folder)) process.env['CUDA_STREAMS_NVRTC'] ??= folder
}

/** Why CUDA C++ cannot be compiled here; false where it can. */
export function lacksNvrtc(): string | false {
  preferCachedNvrtc()
  try {
    compileCudaNow({ text: '', file: 'nothing.cu', options: [] }, 'ptx')
    return false
  } catch (error) {
    return messageOf(error)
  }
}
