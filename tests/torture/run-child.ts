/**
 * Runs a script of the tests in a process of its own, which is killed if it does not end: a hang on a real GPU blocks
 * the JavaScript thread, where no timer of the same process fires.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Workbench } from '../helpers/workbench.js'
import { backendOf } from './backend.js'

/** Milliseconds without progress after which a wait inside a host function is given up. */
const DEADLOCK_TIMEOUT = 2000

export interface Outcome {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** It did not end in time. */
  readonly killed: boolean
  readonly milliseconds: number
  readonly stdout: string
  readonly stderr: string
}

/** `script` is relative to this folder, with the ending of compiled code. */
export function runChild(script: string, args: readonly string[], seconds: number, env = {}): Promise<Outcome> {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const start = performance.now()
  const child = spawn(process.execPath, ['--expose-gc', path, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  return new Promise((resolve, reject) => {
    let killed = false
    const timer = setTimeout(() => {
      killed = true
      child.kill('SIGKILL')
    }, seconds * 1000)
    child.once('error', reject)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ code, signal, killed, milliseconds: performance.now() - start, ...output })
    })
  })
}

/** As runChild, on a backend: its name is the first argument, and the default driver of the child is of its kind. */
export function runOn(
  bench: Workbench,
  script: string,
  args: readonly string[],
  seconds: number,
  env = {},
): Promise<Outcome> {
  const own = { CUDA_STREAMS_DRIVER: bench.name, CUDA_STREAMS_DEADLOCK_TIMEOUT: String(DEADLOCK_TIMEOUT), ...env }
  return runChild(script, [backendOf(bench), ...args], seconds, own)
}

export function assertEnded(outcome: Outcome, code: number, said?: string): void {
  const { stdout, stderr, killed, milliseconds } = outcome
  const report = `\nstdout:\n${stdout}\nstderr:\n${stderr}`
  assert.ok(!killed, `it did not end within ${Math.round(milliseconds)} ms and was killed${report}`)
  assert.equal(outcome.signal, null, `it was ended by ${outcome.signal}${report}`)
  assert.equal(outcome.code, code, `it ended with code ${outcome.code}, not ${code}${report}`)
  if (said !== undefined) assert.ok(stdout.split('\n').includes(said), `it did not say '${said}'${report}`)
}

/** Runs one case of child.ts and sees it end by itself, with nothing left that keeps its process alive. */
export async function assertCase(bench: Workbench, name: string, seconds: number, env = {}): Promise<void> {
  assertEnded(await runOn(bench, './child.js', [name], seconds, env), 0, 'ok')
}
