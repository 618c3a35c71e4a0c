// Compiles the native layer (native/README.md) into dist/native: for this machine by its C compiler, on Windows by zig (`pip install
// ziglang`). `node scripts/build-native.mjs --all` compiles for every platform that the package is for, by zig: for a release, before
// `npm pack`. Words are the targets to compile for by zig, such as win32-x64.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** By the file's name, what zig calls it: with the oldest glibc that a supported Node runs on. */
export const TARGETS = {
  'linux-x64-glibc': 'x86_64-linux-gnu.2.28',
  'linux-x64-musl': 'x86_64-linux-musl',
  'linux-arm64-glibc': 'aarch64-linux-gnu.2.28',
  'linux-arm64-musl': 'aarch64-linux-musl',
  'win32-x64': 'x86_64-windows-gnu',
  'win32-arm64': 'aarch64-windows-gnu',
}
const FLAGS = ['-std=gnu11', '-Wall', '-Wextra', '-Werror', '-shared']
/** By system: the folder of its sources, and its flags. */
const SYSTEMS = {
  linux: {
    folder: 'posix',
    compiling: ['-fPIC', '-fvisibility=hidden', '-pthread'],
    /** Unloaded with the last thread that loaded it, it would take code away that hooks and threads still run. */
    linking: ['-Wl,-z,nodelete', '-ldl'],
  },
  win32: {
    folder: 'windows',
    compiling: [],
    /** Otherwise a file for linking with the layer stands beside it. */
    linking: [`-Wl,--out-implib=${join(tmpdir(), 'cuda-streams.lib')}`],
  },
}
const systemOf = (target) => SYSTEMS[target.split('-')[0]]

export const ZIG = [process.env.PYTHON || 'python3', '-m', 'ziglang', 'cc']
export const COMPILER = process.platform === 'win32' ? ZIG : [process.env.CC || 'cc']

/**
 * Throws an Error when there is no such compiler, or it refuses a source. The library that the CUDA driver loads into processes that
 * are traced stands beside the layer, but on Windows.
 */
export function compileNative(root, target, out, compiler, options) {
  const native = join(root, 'native')
  const { folder } = systemOf(target)
  compile([native, join(native, folder)], target, out, compiler, options)
  if (folder === 'posix')
    compile([join(native, 'injection')], target, out.replace(/\.node$/, '.injection.so'), compiler, options)
}

function compile(folders, target, out, [command, ...compiler], options) {
  const { compiling, linking } = systemOf(target)
  const sources = folders.flatMap((folder) =>
    readdirSync(folder).flatMap((name) => (name.endsWith('.c') ? [join(folder, name)] : [])),
  )
  mkdirSync(dirname(out), { recursive: true })
  const args = [...compiler, ...FLAGS, ...compiling, ...options, '-o', out, ...sources, ...linking]
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' })
  if (error) throw error
  if (status !== 0) throw new Error(`${command} ended with ${status} for ${out}`)
}

export const layerOf = (root, target) => join(root, 'dist', 'native', `${target}.node`)

/** The name of the file for this machine. */
export function thisTarget() {
  if (process.platform === 'win32') return `win32-${process.arch}`
  const isMusl = process.report.getReport().header.glibcVersionRuntime === undefined
  return `${process.platform}-${process.arch}-${isMusl ? 'musl' : 'glibc'}`
}

/** For this machine. Without a compiler there is no CUDA driver, and the simulator works. */
export function buildNative(root) {
  const target = thisTarget()
  if (!(target in TARGETS)) return
  try {
    compileNative(root, target, layerOf(root, target), COMPILER, ['-O2', '-s'])
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    console.error(
      `The native layer was not built, so the CUDA driver does not work: no C compiler here (${error.message})`,
    )
  }
}

/** Throws an Error where there is no zig. */
export function buildByZig(root, target) {
  if (!(target in TARGETS)) throw new Error(`${target} is none of ${Object.keys(TARGETS).join(', ')}`)
  compileNative(root, target, layerOf(root, target), ZIG, ['-O2', '-s', '-target', TARGETS[target]])
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const words = process.argv.slice(2)
  if (words.length === 0) buildNative(root)
  else for (const target of words.includes('--all') ? Object.keys(TARGETS) : words) buildByZig(root, target)
}
