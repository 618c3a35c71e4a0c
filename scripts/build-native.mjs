// Compiles the native layer (native/README.md) into dist/native: for this machine by its C compiler. `node scripts/build-native.mjs
// --all` compiles for every platform that the package is for, by zig (`pip install ziglang`): for a release, before `npm pack`.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** By the file's name, what zig calls it: with the oldest glibc that a supported Node runs on. */
export const TARGETS = {
  'linux-x64-glibc': 'x86_64-linux-gnu.2.28',
  'linux-x64-musl': 'x86_64-linux-musl',
  'linux-arm64-glibc': 'aarch64-linux-gnu.2.28',
  'linux-arm64-musl': 'aarch64-linux-musl',
}
const FLAGS = ['-std=gnu11', '-Wall', '-Wextra', '-Werror', '-fPIC', '-shared', '-fvisibility=hidden', '-pthread']
/** Unloaded with the last thread that loaded it, it would take code away that hooks and threads still run. */
const LINKING = ['-Wl,-z,nodelete']

export const COMPILER = [process.env.CC || 'cc']
const ZIG = [process.env.PYTHON || 'python3', '-m', 'ziglang', 'cc']

/**
 * Throws an Error when there is no such compiler, or it refuses a source. The library that the CUDA driver loads into processes that
 * are traced stands beside the layer.
 */
export function compileNative(root, out, compiler, options) {
  compile(join(root, 'native'), out, compiler, options)
  compile(join(root, 'native', 'injection'), out.replace(/\.node$/, '.injection.so'), compiler, options)
}

function compile(folder, out, [command, ...compiler], options) {
  const sources = readdirSync(folder).filter((name) => name.endsWith('.c'))
  mkdirSync(dirname(out), { recursive: true })
  const args = [
    ...compiler,
    ...FLAGS,
    ...options,
    '-o',
    out,
    ...sources.map((name) => join(folder, name)),
    ...LINKING,
    '-ldl',
  ]
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' })
  if (error) throw error
  if (status !== 0) throw new Error(`${command} ended with ${status} for ${out}`)
}

export const layerOf = (root, target) => join(root, 'dist', 'native', `${target}.node`)

/** The name of the file for this machine. */
export function thisTarget() {
  const isMusl = process.report.getReport().header.glibcVersionRuntime === undefined
  return `${process.platform}-${process.arch}-${isMusl ? 'musl' : 'glibc'}`
}

/** For this machine. Without a compiler there is no CUDA driver, and the simulator works. */
export function buildNative(root) {
  const target = thisTarget()
  if (!(target in TARGETS)) return
  try {
    compileNative(root, layerOf(root, target), COMPILER, ['-O2', '-s'])
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    console.error(
      `The native layer was not built, so the CUDA driver does not work: no C compiler here (${error.message})`,
    )
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  if (!process.argv.includes('--all')) buildNative(root)
  else
    for (const [target, name] of Object.entries(TARGETS))
      compileNative(root, layerOf(root, target), ZIG, ['-O2', '-s', '-target', name])
}
