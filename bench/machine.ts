/** What a result says of the run itself: the machine, the sources and the command. */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import type { Result } from './result.js'
import { root } from './root.js'

/** Without where the results go, and folders of this machine. */
export function commandOf(program: string, separator = ''): string {
  const given = process.argv.slice(2)
  const kept = given.filter((word, nth) => !/^--(json|svg)$/.test(word) && !/^--(json|svg)$/.test(given[nth - 1] ?? ''))
  const words = kept.filter((word) => !/^--(json|svg)=/.test(word)).map((word) => word.replace(/[^,=]*\//g, ''))
  return words.length > 0 ? `${program}${separator} ${words.join(' ')}` : program
}

/** @param facts of the first contestant */
export function machineOf(
  { gpu = '', driver = '', cuda }: Readonly<Record<string, string>>,
  loadBefore: number,
  cores?: string,
): Result['machine'] {
  const nvidia = driver === 'cuda' ? nvidiaVersion() : undefined
  return {
    GPU: gpu,
    driver: [driver, nvidia, cuda && `CUDA ${cuda}`].filter(Boolean).join(', '),
    CPU: `${cpus()[0]?.model.trim() || 'unknown'} (${cpus().length} cores, ${availableParallelism()} to use)`,
    ...(cores === undefined ? {} : { cores }),
    load: `${loadBefore.toFixed(1)} before, ${(loadavg()[0] ?? 0).toFixed(1)} after`,
    system: `${process.platform} ${process.arch}`,
  }
}

/** Of the sources; a bundle has it in a file. */
export function commitOf(): string {
  const file = join(root, 'commit')
  if (existsSync(file)) return readFileSync(file, 'utf8').trim()
  const { status, stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--abbrev=12'], {
    cwd: root,
    encoding: 'utf8',
  })
  return status === 0 ? stdout.trim() : 'unknown'
}

/** The kernel module's version, where Linux shows it. */
function nvidiaVersion(): string | undefined {
  try {
    return /\b\d+\.\d+(\.\d+)?\b/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[0]
  } catch {
    return undefined
  }
}
