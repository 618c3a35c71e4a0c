/** Shared libraries of C, by the C compiler of the machine: each is compiled once, and then lies in .cache until its source is another. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { C_LIBRARIES } from './machine.js'
import { root } from './root.js'

/** The file, in a folder of its own; or why there is none. The sources include no file of this repository. */
export function cLibrary(
  name: string,
  sources: readonly string[],
  options: readonly string[],
): { readonly file: string } | string {
  const hash = createHash('sha256').update(JSON.stringify([process.arch, options]))
  for (const source of sources) hash.update(readFileSync(source))
  const home = join(root, '.cache', C_LIBRARIES)
  mkdirSync(home, { recursive: true })
  // As the loader names it.
  const place = realpathSync(home)
  const folder = join(place, hash.digest('hex').slice(0, 16))
  const file = join(folder, name)
  if (existsSync(file)) return { file }
  // Several processes may compile it at a time: the first one that is done gives it its place.
  const made = mkdtempSync(join(place, 'made-'))
  try {
    const compiled = spawnSync('cc', ['-shared', '-fPIC', ...options, '-o', join(made, name), ...sources], {
      encoding: 'utf8',
    })
    if (compiled.error !== undefined) return `no C compiler here: ${compiled.error.message}`
    if (compiled.status !== 0) throw new Error(compiled.stderr)
    renameSync(made, folder)
  } catch (error) {
    if (!existsSync(file)) throw error
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  return { file }
}
