/**
 * Watches a soak from outside: the process that is soaked may block, crash or never end, and then it is ended, and what
 * each of its clients did last is printed.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ProgressLine } from '../../src/foundation/base/standard-error.js'
import { readTrace, trackName } from './trace.js'

/** How a soak ended, as an exit code. */
export const PASSED = 0
export const FAILED = 1
export const LOST = 2

const LOOK_MILLISECONDS = 500

export interface Watched {
  /** The script of the process, and its arguments; the path of the trace is added. */
  readonly script: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Seconds in which every client begins something, or the process is hung. */
  readonly silence: number
  /** Seconds after which the process is hung, whatever it does. */
  readonly most: number
}

/** Runs it to its end. Resolves with its exit code; LOST where it crashed, hung, or ended in another way. */
export function watch({ script, args, env, silence, most }: Watched): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-soak-'))
  const trace = join(folder, 'trace')
  writeFileSync(trace, '')
  const node = spawn(process.execPath, ['--expose-gc', script, ...args, '--trace', trace], {
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  return new Promise((resolve) => {
    let hung: string | undefined
    const hear = new Hearing(trace, silence)
    const began = performance.now()
    const line = new ProgressLine()
    const progress = (): string => {
      const actions = readTrace(trace).reduce((sum, { count }) => sum + count, 0)
      return `soak: ${Math.round((performance.now() - began) / 1000)} s, ${actions} actions`
    }
    const look = setInterval(() => {
      line.show(progress)
      hung = performance.now() - began > most * 1000 ? `has not ended after ${most} s` : hear.silentFor()
      if (hung === undefined) return
      clearInterval(look)
      node.kill('SIGKILL')
    }, LOOK_MILLISECONDS)
    const end = (code: number, lost?: string): void => {
      clearInterval(look)
      line.erase()
      if (lost !== undefined) console.log(`${lost}. Last actions, the latest last:\n${told(trace)}`)
      rmSync(folder, { recursive: true, force: true })
      resolve(code)
    }
    node.once('error', (error) => end(LOST, `The process could not be started: ${error}`))
    node.once('close', (code, signal) => {
      if (hung !== undefined) end(LOST, `HUNG: ${hung}`)
      else if (code === PASSED || code === FAILED) end(code)
      else end(LOST, `CRASHED: the process ended with ${signal ?? `code ${code}`}`)
    })
  })
}

/** When each track was last heard of. */
class Hearing {
  readonly #trace: string
  readonly #silence: number
  readonly #heard = new Map<number, { count: number; at: number }>()
  #begun = performance.now()

  constructor(trace: string, silence: number) {
    this.#trace = trace
    this.#silence = silence
  }

  /** Which track is silent for too long; undefined where none is. */
  silentFor(): string | undefined {
    const now = performance.now()
    const late = (since: number): boolean => now - since > this.#silence * 1000
    const tracks = readTrace(this.#trace)
    for (const { track, count } of tracks) {
      if (this.#heard.get(track)?.count === count) continue
      this.#heard.set(track, { count, at: now })
      this.#begun = now
    }
    const silent = tracks.find(({ track, over }) => !over && late(this.#heard.get(track)?.at ?? now))
    if (silent !== undefined) return `nothing heard of ${trackName(silent.track)} for ${this.#silence} s`
    // Before the first action and after the last one nothing moves: the process starts, or does not end.
    return late(this.#begun) && tracks.every(({ over }) => over)
      ? `the process does not ${tracks.length === 0 ? 'begin' : 'end'}`
      : undefined
  }
}

function told(trace: string): string {
  return readTrace(trace)
    .map(({ track, count, latest }) => `  ${trackName(track)}, ${count} actions: ${latest.join(' | ')}`)
    .join('\n')
}
