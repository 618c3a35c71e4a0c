/** Records what a program of any language does with CUDA, and when: the recordings are those that the other commands read. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { messageOf } from '../../foundation/base/errors.js'
import { checkWritable, checkWritableFolder } from '../../foundation/base/file-of-process.js'
import { printError } from '../../foundation/base/standard-error.js'
import { recordTimedTrace, type TimedRecording } from '../recording/process-trace.js'
import { NOTHING_TRACED, type Program, runTraced, tracedProcesses } from './traced-program.js'

export interface RecordRequest extends Program {
  /** The file of the recording, which ends in '.rec', or the folder for those of all processes. */
  readonly out: string
}

/** Runs a program, and writes the recordings of its processes. Returns the program's exit code, or 1 if something could not be recorded. */
export async function recordProgram(request: RecordRequest): Promise<number> {
  const { out } = request
  const isFile = out.endsWith('.rec')
  if (isFile) checkWritable(out, `The recording ${out}`)
  else {
    mkdirSync(out, { recursive: true })
    checkWritableFolder(out, `A recording in ${out}`)
  }
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-trace-'))
  try {
    const code = await runTraced(request, folder, { [VARIABLES.traceTimes.name]: '1' })
    const processes = tracedProcesses(folder)
    if (processes.length === 0) printError(NOTHING_TRACED)
    let failed = processes.length === 0
    for (const number of processes) {
      const file = isFile ? fileOf(out, processes.length > 1 ? number : undefined) : join(out, `${number}.rec`)
      try {
        printError(
          `cuda-streams: ${file} is written: ${sumOf(recordTimedTrace(join(folder, `${number}.trace`), file))}`,
        )
      } catch (error) {
        failed = true
        printError(`cuda-streams: process ${number} is not recorded: ${messageOf(error)}`)
      }
    }
    return code === 0 && failed ? 1 : code
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The file of one process among several: run.rec is run.1234.rec. */
const fileOf = (out: string, process: string | undefined): string =>
  process === undefined ? out : out.replace(/rec$/, `${process}.rec`)

function sumOf({ calls, timed, untimed, unknown }: TimedRecording): string {
  const parts = [`${calls} calls`, `${timed} operations with times`]
  if (untimed > 0) parts.push(`${untimed} without, as where the process ended before they did`)
  const sum = parts.join(', ')
  return unknown === 0
    ? sum
    : `${sum}. ${unknown} operations are missing: of calls that are not traced, such as copies of textures`
}
