/** The files of Python of these tests, and what Triton made of them when they were stored. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'
import { root } from '../../helpers/root.js'
import { scratchFolder } from '../../helpers/scratch.js'

const folder = join(root, 'tests', 'cu', 'triton')

export const tritonFile = (name: string): string => join(folder, 'files', name)

let scratch: string | undefined
let projects = 0

/** A new folder for programs, in which the library is found. */
export function projectFolder(): string {
  scratch ??= scratchFolder('triton')
  projects += 1
  const project = join(scratch, `${projects}`)
  mkdirSync(join(project, 'node_modules'), { recursive: true })
  symlinkSync(root, join(project, 'node_modules', 'cuda-streams'), 'dir')
  writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  return project
}

let stored: string | undefined

/** The module that `scripts/triton-store.mjs` made of a file, so that a machine without Triton runs it. */
export async function importStored(name: string): Promise<Readonly<Record<string, unknown>>> {
  stored ??= projectFolder()
  const path = join(stored, `${name}.js`)
  if (!existsSync(path)) writeFileSync(path, storedModule(name))
  return import(pathToFileURL(path).href)
}

export const storedModule = (name: string): string =>
  brotliDecompressSync(readFileSync(join(folder, 'compiled', `${name}.js.br`))).toString()

/** Where `node scripts/triton.mjs` puts Triton. */
const CACHED = join(root, '.cache', 'triton')

/** Lets the library find the cached Triton. Returns why no file can be compiled here; false where it can. */
export function lacksTriton(): string | false {
  if (existsSync(CACHED)) process.env['PYTHONPATH'] ??= CACHED
  const python = process.env['CUDA_STREAMS_PYTHON'] ?? 'python3'
  const { status } = spawnSync(python, ['-c', 'import triton'], { stdio: 'ignore' })
  return status === 0 ? false : `${python} has no Triton: node scripts/triton.mjs brings it`
}
