/** A project in which the package is installed as `npm pack` packs it, without a network: its dependencies are those of the repository. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../helpers/root.js'

/** Runs a command in the folder, with the simulator. */
export function runIn(folder: string, command: string, ...args: readonly string[]): { stdout: string; stderr: string } {
  const env = { ...process.env, NODE_OPTIONS: '', NODE_TEST_CONTEXT: undefined, CUDA_STREAMS_DRIVER: 'sim' }
  const options = { cwd: folder, encoding: 'utf8', timeout: 120_000, env } as const
  const { status, stdout, stderr } = spawnSync(command, args, options)
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`)
  return { stdout, stderr }
}

/** Why nothing can be packed here, if it cannot: a machine with a GPU may have Node alone. */
export function npmUnavailable(): string | false {
  return spawnSync('npm', ['--version']).status === 0 ? false : 'npm is not installed here'
}

/** Packs into the folder, without the package's scripts, which would build dist/ again under the feet of the other tests. */
export function packInto(folder: string): string {
  const { stdout } = runIn(folder, 'npm', 'pack', root, '--ignore-scripts', '--json', '--pack-destination', folder)
  const [{ filename }] = JSON.parse(stdout) as [{ readonly filename: string }]
  return join(folder, filename)
}

export function installPacked(folder: string, tarball: string, packages: readonly string[]): void {
  const modules = join(folder, 'node_modules')
  const own = join(modules, 'cuda-streams')
  mkdirSync(own, { recursive: true })
  runIn(folder, 'tar', '-xzf', tarball, '-C', own, '--strip-components=1')
  for (const name of packages) symlinkSync(join(root, 'node_modules', name), join(modules, name))
}
