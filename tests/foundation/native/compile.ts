/** C for tests: a shared library made of a text by the C compiler of the machine. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeLibrary, noCompiler } from '../../helpers/compiler.js'
import { scratchFolder } from '../../helpers/scratch.js'

/** Why the native layer cannot be tried here, or false. */
export const skip = noCompiler
if (skip !== false) console.log(`skipped: ${skip}`)

/** The file of the library. */
export function compiled(name: string, source: string): string {
  const path = join(scratchFolder(name), name)
  if (skip !== false) return path
  writeFileSync(`${path}.c`, source)
  return makeLibrary(`${path}.c`, path)
}
