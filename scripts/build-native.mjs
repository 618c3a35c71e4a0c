// Compiles native/calls.c into dist/, for this machine by its C compiler, or for all platforms by zig, which compiles for any
// (`pip install ziglang`, then `node scripts/build-native.mjs --all`). The library works without: koffi makes the calls then.
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const TARGETS = { 'linux-x64': 'x86_64-linux-gnu', 'linux-arm64': 'aarch64-linux-gnu' }
const FLAGS = ['-O2', '-std=c11', '-Wall', '-Werror', '-fPIC', '-shared', '-nostdlib', '-fvisibility=hidden', '-s']
const ZIG = ['python3', '-m', 'ziglang', 'cc']

/** For this machine. */
export function buildNative(root) {
  const here = `${process.platform}-${process.arch}`
  if (here in TARGETS) compile(root, here, [process.env.CC || 'cc'])
}

function compile(root, platform, [command, ...compiler]) {
  const out = join(root, 'dist', 'src', 'driver', 'cuda', 'libcuda', `calls-${platform}.node`)
  const args = [...compiler, ...FLAGS, '-o', out, join(root, 'native', 'calls.c')]
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' })
  if (error) console.error(`No addon for calls was built, so koffi makes them all: ${error.message}`)
  else if (status !== 0) throw new Error(`${command} ended with ${status} for ${platform}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const all = process.argv.includes('--all')
  if (!all) buildNative(root)
  else for (const [platform, target] of Object.entries(TARGETS)) compile(root, platform, [...ZIG, '-target', target])
}
