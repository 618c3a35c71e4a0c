/** A second copy of the package in this process, as two dependencies of a program may bring two. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './root.js'
import { scratchFolder } from './scratch.js'

/** Returns what loads a file of its entry points. */
export function anotherCopy(): (name: string) => Promise<unknown> {
  const folder = scratchFolder('copy')
  for (const path of ['package.json', 'dist/src', 'dist/native'])
    cpSync(join(root, path), join(folder, path), { recursive: true })
  return (name) => import(pathToFileURL(join(folder, 'dist', 'src', 'entry-points', name)).href)
}
