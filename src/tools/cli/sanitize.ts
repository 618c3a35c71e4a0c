/** Runs a program of any language under the trace of its process, and looks for missing waits in what it did. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { checkWritableFolder } from '../../foundation/base/file-of-process.js'
import { printError } from '../../foundation/base/standard-error.js'
import { injectionFile } from '../../foundation/native/layer.js'
import { checkRecording } from '../recording/check.js'
import { recordTrace } from '../recording/process-trace.js'
import { Reader } from '../recording/reader.js'

/**
 * How closely what the host does with page-locked memory is watched: each copy, the first copies of each line and one in 64 later, or none.
 */
export type HostLevel = 'exact' | 'sampled' | 'off'

export interface SanitizeRequest {
  readonly program: string
  readonly args: readonly string[]
  readonly possible: boolean
  /** How closely the host is watched. */
  readonly host: HostLevel
  /** The folder in which the recordings are left. */
  readonly keep: string | undefined
}

/** Runs a program. Returns the exit code. The program has the terminal to itself; the findings are printed to standard error when it has ended. */
export async function sanitizeProgram({ program, args, possible, host, keep }: SanitizeRequest): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-trace-'))
  const recordings = keep ?? folder
  try {
    if (keep !== undefined) {
      mkdirSync(keep, { recursive: true })
      checkWritableFolder(keep, `A recording in ${keep}`)
    }
    const code = await run(program, args, {
      ...process.env,
      CUDA_INJECTION64_PATH: injectionFile(),
      CUDA_STREAMS_TRACE: folder,
      ...(host === 'off' ? {} : { [VARIABLES.traceHost.name]: host, LD_PRELOAD: preloaded(injectionFile()) }),
    })
    const errors = await checkTraces(folder, recordings, possible)
    return code === 0 && errors > 0 ? 1 : code
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The value of LD_PRELOAD with this library: in place of the C library it makes the calls of the system that touch memory. */
function preloaded(library: string): string {
  const { LD_PRELOAD: before = '' } = process.env
  return before === '' ? library : `${library}:${before}`
}

/** Checks the traces of processes, and writes their recordings to a folder. Returns the number of errors. */
export async function checkTraces(folder: string, recordings: string, possible: boolean): Promise<number> {
  let errors = 0
  const traces = readdirSync(folder).filter((name) => name.endsWith('.trace'))
  for (const name of traces) {
    const recording = join(recordings, name.replace('.trace', '.rec'))
    recordTrace(join(folder, name), recording, { possible })
    const whose = traces.length > 1 ? `Process ${name.replace('.trace', '')}: ` : ''
    errors += await checkOne(recording, printError, `cuda-streams: ${whose}`)
  }
  if (traces.length === 0)
    printError('cuda-streams: nothing was traced: the program did not use CUDA, or did before it was to be traced')
  return errors
}

/** Prints the findings in a recording, and their number behind `before`. Returns the number of errors. */
export async function checkOne(recording: string, print: (line: string) => void, before = ''): Promise<number> {
  const { reports, calls, isComplete } = await checkRecording(new Reader(recording))
  for (const { message } of reports) print(`${message}\n`)
  const found = reports.length === 0 ? 'No findings' : `${reports.length} finding(s)`
  print(`${before}${found} in ${calls} calls${missing(isComplete)}`)
  return reports.filter(({ severity }) => severity === 'error').length
}

/** The addition to a sentence about a recording whose process was ended before it. */
export const missing = (isComplete: boolean): string => (isComplete ? '' : '. The end of the recording is missing')

function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit', env })
  // The program decides what a Ctrl+C means.
  const ignore = (): void => {}
  process.on('SIGINT', ignore)
  return new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])))
  }).finally(() => process.off('SIGINT', ignore))
}
