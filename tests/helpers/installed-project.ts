/** A project that has the library in its node_modules, as installed there, with koffi in different states. */
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './root.js'

export type Koffi = 'absent' | 'without its binary' | 'with another file for its binary'

/** The folder of the project: made inside the one given, where it is not there yet. */
export function installedProject(folder: string, koffi?: Koffi): string {
  const project = join(folder, `koffi ${koffi ?? 'whole'}`)
  const modules = join(project, 'node_modules')
  if (existsSync(modules)) return project
  const own = join(modules, 'cuda-streams')
  mkdirSync(own, { recursive: true })
  cpSync(join(root, 'package.json'), join(own, 'package.json'))
  cpSync(join(root, 'dist', 'src'), join(own, 'dist', 'src'), { recursive: true })
  const install = (name: string): void =>
    cpSync(join(root, 'node_modules', name), join(modules, name), { recursive: true, dereference: true })
  if (koffi !== 'absent') install('koffi')
  if (koffi === undefined || koffi === 'with another file for its binary') install('@koromix')
  if (koffi === 'with another file for its binary') {
    for (const libc of ['linux', 'musl'])
      writeFileSync(
        join(modules, '@koromix', `koffi-linux-${process.arch}`, `${libc}_${process.arch}`, 'koffi.node'),
        'x',
      )
  }
  return project
}
