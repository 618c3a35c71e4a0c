/** Runs a program of any language under the trace of its processes, which a library writes that the CUDA driver loads. */
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { constants } from 'node:os'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { injectionFile } from '../../foundation/native/layer.js'

/** A program with its arguments. */
export interface Program {
  readonly program: string
  readonly args: readonly string[]
}

/** Runs a program, with these variables besides. Returns its exit code. The program has the terminal to itself. */
export function runTraced(
  { program, args }: Program,
  folder: string,
  variables: Readonly<Record<string, string>>,
): Promise<number> {
  const trace = { CUDA_INJECTION64_PATH: injectionFile(), [VARIABLES.trace.name]: folder }
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...trace, ...variables } })
  // The program decides what a Ctrl+C means.
  const ignore = (): void => {}
  process.on('SIGINT', ignore)
  return new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])))
  }).finally(() => process.off('SIGINT', ignore))
}

/** The numbers of the processes whose traces are in a folder. */
export const tracedProcesses = (folder: string): readonly string[] =>
  readdirSync(folder).flatMap((name) => (name.endsWith('.trace') ? [name.replace('.trace', '')] : []))

export const NOTHING_TRACED =
  'cuda-streams: nothing was traced: the program did not use CUDA, or did before it was to be traced'
