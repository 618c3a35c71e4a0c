/** What was compiled before, by what NVRTC was given: nothing is compiled twice, by no process of this user. */
import { createHash, randomUUID } from 'node:crypto'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, readOwnFile } from '../foundation/native/cache-folder.js'
import { type CompiledSource, nvrtcVersion } from '../foundation/native/nvrtc.js'

/** The file that what is compiled of a source has, or will have. Undefined where there is no cache. */
export function cachedFile(
  { text, file, options, headers = new Map() }: CompiledSource,
  output: 'cubin' | 'ptx',
): string | undefined {
  const cache = cacheFolder('cu')
  if ('problem' in cache) return undefined
  const given = JSON.stringify([nvrtcVersion(), file, text, options, [...headers]])
  return join(cache.folder, `${createHash('sha256').update(given).digest('hex')}.${output}`)
}

/** The code in the cache; undefined if it was not compiled yet. */
export function readCached(file: string | undefined): Uint8Array | undefined {
  return file === undefined ? undefined : readOwnFile(file)
}

/**
 * Writes the code to the cache. Another process reads a whole file or none. A cache that cannot be written, such as on a full
 * disk, is skipped.
 */
export function writeCached(file: string | undefined, code: Uint8Array): void {
  if (file === undefined) return
  const written = `${file}.${randomUUID()}`
  try {
    writeFileSync(written, code, { mode: 0o600 })
    renameSync(written, file)
  } catch {
    rmSync(written, { force: true })
  }
}
