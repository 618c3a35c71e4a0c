/** C for tests: a shared library made of a text by the C compiler of the machine. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratchFolder } from '../helpers/scratch.js'

const missing = spawnSync('cc', ['--version']).error?.message

/** Why the native layer cannot be tried here, or false. */
export const skip: string | false =
  process.platform !== 'linux'
    ? 'the native layer is for Linux'
    : missing === undefined
      ? false
      : `no C compiler here: ${missing}`
if (skip !== false) console.log(`skipped: ${skip}`)

/** The file of the library. */
export function compiled(name: string, source: string): string {
  const folder = scratchFolder(name)
  const [file, text] = [join(folder, `${name}.so`), join(folder, `${name}.c`)]
  if (skip !== false) return file
  writeFileSync(text, source)
  const { status, stderr } = spawnSync('cc', ['-shared', '-fPIC', '-O2', '-pthread', '-o', file, text], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(stderr)
  return file
}
