/** The CUDA toolkits on this machine that tests are held against: those that the user names, that of `scripts/cuda-toolkit.mjs`, those installed. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pythonFolders, toolkitFolders } from '../../src/foundation/native/shared-library.js'
import { CACHED } from './nvrtc.js'

/** The header of this name; undefined with the places that were tried. */
export function findHeader(name: string): string | { readonly tried: readonly string[] } {
  const { CUDA_HOME, CUDA_PATH } = process.env
  const named = [CUDA_HOME, CUDA_PATH].filter((home) => home !== undefined && home !== '')
  const folders = [...named, CACHED, ...pythonFolders(), ...toolkitFolders(), '/usr', '/usr/local']
  const tried = [...new Set(folders)].map((folder) => join(`${folder}`, 'include', name))
  return tried.find((path) => existsSync(path)) ?? { tried }
}
