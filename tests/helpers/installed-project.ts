/** A project that has the library in its node_modules, as installed there, with its native layer in different states. */
import { copyFileSync, cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './root.js'

export type Native = 'absent' | 'another file'

const nameOf = (libc: 'glibc' | 'musl'): string => `linux-${process.arch}-${libc}.node`

/** Where a project made here has the file of its native layer. */
export const nativeIn = (project: string, libc: 'glibc' | 'musl' = 'glibc'): string =>
  join(project, 'node_modules', 'cuda-streams', 'dist', 'native', nameOf(libc))

/** The folder of the project: made inside the one given, where it is not there yet. */
export function installedProject(folder: string, native?: Native): string {
  const project = join(folder, `native layer ${native ?? 'whole'}`)
  const own = join(project, 'node_modules', 'cuda-streams')
  if (existsSync(own)) return project
  const layers = join(own, 'dist', 'native')
  mkdirSync(layers, { recursive: true })
  cpSync(join(root, 'package.json'), join(own, 'package.json'))
  cpSync(join(root, 'dist', 'src'), join(own, 'dist', 'src'), { recursive: true })
  // This machine stands for one with musl, too.
  for (const libc of ['glibc', 'musl'] as const) {
    if (native === 'another file') writeFileSync(join(layers, nameOf(libc)), 'x')
    else if (native === undefined)
      copyFileSync(join(root, 'dist', 'native', nameOf('glibc')), join(layers, nameOf(libc)))
  }
  return project
}
