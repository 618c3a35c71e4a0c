/** A project that has the library in its node_modules, as installed there, with its native layer in different states. */
import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './root.js'

export type Native = 'absent' | 'another file' | 'caged'

const nameOf = (libc: 'glibc' | 'musl'): string => `linux-${process.arch}-${libc}.node`

/** Where a project made here has the file of its native layer. */
export const nativeIn = (project: string, libc: 'glibc' | 'musl' = 'glibc'): string =>
  join(project, 'node_modules', 'cuda-streams', 'dist', 'native', nameOf(libc))

/** Makes a native layer as it is in Electron: no ArrayBuffer may lie over memory of C. */
function makeCaged(file: string): void {
  const sources = ['native', 'native/posix'].flatMap((each) =>
    readdirSync(join(root, each)).flatMap((name) => (name.endsWith('.c') ? [join(root, each, name)] : [])),
  )
  const cage = `${file}.c`
  // 22 is napi_no_external_buffers_allowed.
  writeFileSync(cage, 'int caged(void) { return 22; }')
  const options = ['-shared', '-fPIC', '-pthread', '-Dnapi_create_external_arraybuffer=caged', '-Wl,-z,nodelete']
  execFileSync('cc', [...options, '-o', file, cage, ...sources, '-ldl'])
}

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
    else if (native === 'caged') makeCaged(join(layers, nameOf(libc)))
    else if (native === undefined)
      copyFileSync(join(root, 'dist', 'native', nameOf('glibc')), join(layers, nameOf(libc)))
  }
  return project
}
