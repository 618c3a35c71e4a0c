/**
 * CUDA's headers for NVRTC, such as cuda_fp16.h, mma.h, cooperative_groups.h and CCCL: those that it brings itself (13.3 and later),
 * unpacked once for each version into the user's cache; else those of the toolkit or wheel that is here.
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { stateError } from '../base/errors.js'
import { cacheFolder } from './cache-folder.js'
import { NativeMemory } from './native-memory.js'
import { fileOf, pythonFolders, type SharedLibrary, toolkitFolders } from './shared-library.js'

/** A header that each of them has. */
const WELL_KNOWN = 'cuda_fp16.h'
const INSTALL = 'nvrtcInstallBundledHeaders'
const WAY_OUT = 'Set XDG_CACHE_HOME to a folder that this user alone can write'

/** NVRTC's options for the headers; none where there are no headers. Throws ERR_UNSUPPORTED where they cannot be unpacked. */
export function headerOptions(nvrtc: SharedLibrary, version: string): readonly string[] {
  const folder = nvrtc.find(INSTALL) === undefined ? installedFolder(nvrtc) : unpackedFolder(nvrtc, version)
  if (folder === undefined) return []
  const folders = [folder, join(folder, 'cccl')].filter((each) => existsSync(each))
  return folders.map((each) => `--include-path=${each}`)
}

function unpackedFolder(nvrtc: SharedLibrary, version: string): string {
  const cache = cacheFolder()
  if ('problem' in cache) {
    const installed = installedFolder(nvrtc)
    if (installed !== undefined) return installed
    throw stateError('ERR_UNSUPPORTED', `NVRTC cannot unpack its headers: ${cache.problem}. ${WAY_OUT}`)
  }
  const folder = join(cache.folder, `cuda-headers-${version}`)
  const { [INSTALL]: install } = nvrtc.functions({
    [INSTALL]: 'const char *installPath, unsigned int flags, const char **errorLog',
  })
  const path = NativeMemory.ofText(folder)
  try {
    // Nothing is done where they are there, and other processes that unpack them are waited for.
    const result = install(path.address, 0, 0)
    if (result === 0) return folder
    throw stateError(
      'ERR_UNSUPPORTED',
      `NVRTC cannot unpack its headers into ${folder} (${INSTALL} returned ${result}). ${WAY_OUT}`,
    )
  } finally {
    path.free()
  }
}

/** The folder of the toolkit or wheel that NVRTC comes from, or else of any that is here. */
const installedFolder = (nvrtc: SharedLibrary): string | undefined =>
  installedFolders(nvrtc).find((folder) => existsSync(join(folder, WELL_KNOWN)))

/** The folders with headers of the toolkit or wheel that NVRTC comes from, and of those that are here. */
export function installedFolders(nvrtc: SharedLibrary): readonly string[] {
  const file = fileOf(nvrtc, 'nvrtcVersion')
  const near = file === undefined ? [] : [dirname(dirname(file)), dirname(dirname(dirname(dirname(file))))]
  const roots = [...near, ...toolkitFolders(), ...pythonFolders()]
  return [...new Set(roots.map((root) => join(root, 'include')))].filter((folder) => existsSync(folder))
}
