/** Runs a program of any language under the trace of its process, and looks for missing waits in what it did. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { checkWritableFolder } from '../../foundation/base/file-of-process.js'
import { printError } from '../../foundation/base/standard-error.js'
import { injectionFile } from '../../foundation/native/layer.js'
import { checkRecording } from '../recording/check.js'
import { recordTrace } from '../recording/process-trace.js'
import { Reader } from '../recording/reader.js'
import { checkReportFiles, type ProcessFindings, type ReportFiles, sumOf, writeReports } from './finding-reports.js'
import { NOTHING_TRACED, type Program, runTraced, tracedProcesses } from './traced-program.js'
import { possibleFile, watchedFile, watchedFindings } from './watched.js'

/**
 * How closely what the host does with page-locked memory is watched: each copy, the first copies of each line and one in 64 later, or none.
 */
export type HostLevel = 'exact' | 'sampled' | 'off'

export interface SanitizeRequest extends Program {
  readonly possible: boolean
  /** How closely the host is watched. */
  readonly host: HostLevel
  /** The folder in which the recordings are left. */
  readonly keep: string | undefined
  readonly files: ReportFiles
}

/** Runs a program. Returns the exit code. The program has the terminal to itself; the findings are printed to standard error when it has ended. */
export async function sanitizeProgram(request: SanitizeRequest): Promise<number> {
  const { program, args, possible, host, keep, files } = request
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-trace-'))
  const recordings = keep ?? folder
  try {
    checkReportFiles(files)
    if (keep !== undefined) {
      mkdirSync(keep, { recursive: true })
      checkWritableFolder(keep, `A recording in ${keep}`)
    }
    if (possible) writeFileSync(possibleFile(folder), '')
    const watching = { [VARIABLES.traceHost.name]: host, LD_PRELOAD: preloaded(injectionFile()) }
    const code = await runTraced(request, folder, host === 'off' ? {} : watching)
    const processes = await checkTraces(folder, recordings, possible)
    writeReports(files, processes, [program, ...args].join(' '))
    const errors = errorsOf(processes)
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

/** Checks the traces of processes, writes their recordings to a folder, and prints the findings. */
export async function checkTraces(
  folder: string,
  recordings: string,
  possible: boolean,
): Promise<readonly ProcessFindings[]> {
  const processes: ProcessFindings[] = []
  const traces = tracedProcesses(folder)
  for (const number of traces) {
    const recording = join(recordings, `${number}.rec`)
    const calls = recordTrace(join(folder, `${number}.trace`), recording, { possible })
    const name = `process ${number}`
    const watched = watchedFile(folder, number)
    const isWatched = existsSync(watched)
    const one = isWatched
      ? { name, findings: watchedFindings(watched), calls, isComplete: true }
      : await check(recording, name)
    // A part that is watched has told its findings to the program.
    if (!isWatched) printMessages(one, printError)
    printError(`cuda-streams: ${traces.length > 1 ? `Process ${number}: ` : ''}${sumOf(one)}`)
    processes.push(one)
  }
  if (traces.length === 0) printError(NOTHING_TRACED)
  return processes
}

export const errorsOf = (processes: readonly ProcessFindings[]): number =>
  processes.flatMap(({ findings }) => findings).filter(({ severity }) => severity === 'error').length

async function check(recording: string, name: string): Promise<ProcessFindings> {
  const { reports, calls, isComplete } = await checkRecording(new Reader(recording))
  return { name, findings: reports, calls, isComplete }
}

/** Prints the findings in a recording. Returns the number of errors. */
export async function checkOne(recording: string): Promise<number> {
  const one = await check(recording, recording)
  printMessages(one, console.log)
  console.log(sumOf(one))
  return errorsOf([one])
}

function printMessages({ findings }: ProcessFindings, print: (text: string) => void): void {
  for (const { message } of findings) print(`${message}\n`)
}
