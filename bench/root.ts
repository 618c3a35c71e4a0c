import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The directory with package.json: sources that are not TypeScript are found from there, not from dist/. */
export const root = findRoot()

function findRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory)
    if (parent === directory) throw new Error('no package.json above bench/root.js')
    directory = parent
  }
  return directory
}
