/** What was compiled before, by what NVRTC was given: nothing is compiled twice, by no process of this user. */
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../native/cuda-headers.js'
import { type CompiledSource, nvrtcVersion } from '../native/nvrtc.js'

/** The file that what is compiled of a source has, or will have. */
export function cachedFile(
  { text, file, options, headers = new Map() }: CompiledSource,
  output: 'cubin' | 'ptx',
): string {
  const given = JSON.stringify([nvrtcVersion(), file, text, options, [...headers]])
  return join(cacheFolder(), 'cu', `${createHash('sha256').update(given).digest('hex')}.${output}`)
}

/** Undefined for what was not compiled yet. */
export function readCached(file: string): Uint8Array | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined
  }
}

/** Another process reads a whole file or none. */
export function writeCached(file: string, code: Uint8Array): void {
  mkdirSync(join(file, '..'), { recursive: true, mode: 0o700 })
  const written = `${file}.${randomUUID()}`
  writeFileSync(written, code)
  renameSync(written, file)
}
