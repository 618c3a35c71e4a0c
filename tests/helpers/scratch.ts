/** A folder for what a test writes, which goes with the process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function scratchFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `cuda-streams-${name}-`))
  process.once('exit', () => {
    try {
      rmSync(folder, { recursive: true, force: true })
    } catch (error) {
      // Windows keeps the file of a library that is loaded.
      if (process.platform !== 'win32') throw error
    }
  })
  return folder
}
