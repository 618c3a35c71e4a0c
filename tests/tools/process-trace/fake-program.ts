/** The program of fake-cupti.c, which calls the traced library as CUDA and CUPTI do. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../../helpers/root.js'

/** Compiles the program into a folder, beside libfake-cupti.so. Returns its path. */
export function fakeProgram(folder: string): string {
  const [library, path] = [join(folder, 'libfake-cupti.so'), join(folder, 'program')]
  const run = (args: readonly string[], input?: string): void => {
    const { status, stderr } = spawnSync('cc', args, { encoding: 'utf8', input })
    assert.equal(status, 0, stderr)
  }
  const warnings = ['-std=gnu11', '-Wall', '-Wextra', '-Werror']
  const kind = ['-shared', '-fPIC', '-fvisibility=hidden', `-I${join(root, 'native', 'injection')}`, '-pthread']
  const source = join(root, 'tests', 'tools', 'process-trace', 'fake-cupti.c')
  run([...warnings, ...kind, '-o', library, source, '-ldl'])
  const main = 'int play(int, char **); int main(int count, char **arguments) { return play(count, arguments); }'
  run(['-x', 'c', '-', '-o', path, '-x', 'none', library, `-Wl,-rpath,${folder}`], main)
  return path
}
