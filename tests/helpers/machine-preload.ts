/** Loaded before a program, it hides the NVIDIA driver of this machine, and shows that of the machine that is described. */
import fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { C_LIBRARIES, type Machine, VARIABLE } from './machine.js'

const { platform, arch, musl, files = {}, native }: Machine = JSON.parse(process.env[VARIABLE] ?? '{}')
const OF_A_DRIVER = /nvidia|nvmap|libcuda|nvcuda|ld\.so\.cache/
/** What tests have written or compiled is of neither machine. */
const isMade = (path: string): boolean => path.startsWith(tmpdir()) || path.includes(`${sep}${C_LIBRARIES}${sep}`)
const isOurs = (path: unknown): path is string => typeof path === 'string' && OF_A_DRIVER.test(path) && !isMade(path)
const { statSync, existsSync, readFileSync } = fs

function missing(path: string): Error {
  return Object.assign(new Error(`ENOENT: no such file or directory, stat '${path}'`), {
    code: 'ENOENT',
    syscall: 'stat',
  })
}

Object.assign(fs, {
  statSync: (path: string, ...more: never[]) => {
    if (!isOurs(path)) return statSync(path, ...more)
    if (path in files) return statSync('/')
    throw missing(path)
  },
  existsSync: (path: string) => (isOurs(path) ? path in files : existsSync(path)),
  readFileSync: (path: string, ...more: never[]) => {
    if (musl && path === '/proc/self/maps') return '7f0000000000-7f0000001000 r-xp 0 08:01 1 /lib/ld-musl-x86_64.so.1'
    if (!isOurs(path)) return readFileSync(path, ...more)
    if (path in files) return files[path]
    throw missing(path)
  },
})
syncBuiltinESMExports()
if ('bun' in process.versions) {
  // There, syncBuiltinESMExports() changes nothing.
  const testing: string = 'bun:test'
  const { mock } = await import(testing)
  mock.module('node:fs', () => ({ ...fs, default: fs }))
}

// The loader of this machine may find a driver that the other one lacks.
const folders = (process.env['LD_LIBRARY_PATH'] ?? '').split(':').filter((folder) => folder !== '')
const isNamed = (name: string): boolean => folders.some((folder) => existsSync(join(folder, name)))
const layers = ['glibc', 'musl'].map((libc) =>
  fileURLToPath(new URL(`../../native/${process.platform}-${process.arch}-${libc}.node`, import.meta.url)),
)
try {
  const layer = createRequire(import.meta.url)(native ?? layers.find((file) => existsSync(file)) ?? '')
  const { open } = layer
  layer.open = (path: string) => {
    if (isOurs(path) && !isNamed(path)) throw new Error(`${path}: ${path in files ? 'Exec format error' : 'not here'}`)
    return open(path)
  }
} catch {
  // The native layer cannot be loaded: that is what is tried.
}
if (musl) process.report.getReport = () => ({ header: {} })
if (arch !== undefined) Object.defineProperty(process, 'arch', { value: arch })
if (platform !== undefined) Object.defineProperty(process, 'platform', { value: platform })
