/**
 * Loaded before the library (`--import`), it makes this machine look like the one of MACHINE: its platform, its C library,
 * and the files of an NVIDIA driver, of which it has none but those that are named.
 */
import fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'

export interface Machine {
  readonly platform?: NodeJS.Platform
  readonly musl?: boolean
  /** Files that are there, with what they contain. */
  readonly files?: Readonly<Record<string, string>>
  /** The folder of the project: what lies in it is as it is. */
  readonly project: string
}

const { platform, musl, files = {}, project }: Machine = JSON.parse(process.env['MACHINE'] ?? '')
const OF_A_DRIVER = /nvidia|nvmap|libcuda|nvcuda|ld\.so\.cache/
const isOurs = (path: unknown): path is string =>
  typeof path === 'string' && OF_A_DRIVER.test(path) && !path.startsWith(project)
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
    if (!isOurs(path)) return readFileSync(path, ...more)
    if (path in files) return files[path]
    throw missing(path)
  },
})
syncBuiltinESMExports()

// The loader of this machine may find a driver that the other one lacks.
if (process.env['LD_LIBRARY_PATH'] === undefined) {
  try {
    const koffi = createRequire(process.argv[1] ?? '')('koffi')
    const { load } = koffi
    koffi.load = (path: string | null) => {
      if (isOurs(path))
        throw new Error(`Failed to load shared library: ${path in files ? 'Exec format error' : 'not here'}`)
      return load(path)
    }
  } catch {
    // koffi cannot be loaded: that is what is tried.
  }
}
if (musl) process.report.getReport = () => ({ header: {} })
if (platform !== undefined) Object.defineProperty(process, 'platform', { value: platform })
