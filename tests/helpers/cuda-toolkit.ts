/** The CUDA toolkits on this machine that tests are held against: those that the user names, that of `scripts/cuda-toolkit.mjs`, those installed. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../src/base/errors.js'
import { compileCudaNow } from '../../src/native/nvrtc.js'
import { pythonFolders, toolkitFolders } from '../../src/native/shared-library.js'
import { root } from './root.js'

const CACHED = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13')

/** The header of this name; undefined with the places that were tried. */
export function findHeader(name: string): string | { readonly tried: readonly string[] } {
  const { CUDA_HOME, CUDA_PATH } = process.env
  const named = [CUDA_HOME, CUDA_PATH].filter((home) => home !== undefined && home !== '')
  const folders = [...named, CACHED, ...pythonFolders(), ...toolkitFolders(), '/usr', '/usr/local']
  const tried = [...new Set(folders)].map((folder) => join(`${folder}`, 'include', name))
  return tried.find((path) => existsSync(path)) ?? { tried }
}

/** Lets the library find the NVRTC of `scripts/cuda-toolkit.mjs`, where the user names none. */
export function preferCachedNvrtc(): void {
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
