/** Runs the programs of the guides, each in a process of its own. */
import { execFile } from 'node:child_process'

/** What came of a program. */
export interface Run {
  readonly output: string
  /** What it wrote to stderr, and the error that ended it; empty where all went well. */
  readonly trouble: string
}

const LIMIT = 30_000
const AT_ONE_TIME = 2

/** In this folder, on the default simulator or on a GPU. */
export async function runPrograms(
  scripts: readonly string[],
  folder: string,
  driver: 'sim' | 'cuda',
): Promise<ReadonlyMap<string, Run>> {
  const left = [...scripts]
  const runs = new Map<string, Run>()
  const work = async (): Promise<void> => {
    for (let script = left.shift(); script !== undefined; script = left.shift()) {
      runs.set(script, await run(script, folder, driver))
    }
  }
  await Promise.all(Array.from({ length: AT_ONE_TIME }, work))
  return runs
}

/** On a machine that does other things, too, what a program computes at once takes longer than that warning allows. */
const NODE_OPTIONS = '--disable-warning=CUDA_STREAMS_EVENT_LOOP_HELD'

function run(script: string, cwd: string, driver: string): Promise<Run> {
  const env = { ...process.env, NODE_OPTIONS, NODE_TEST_CONTEXT: undefined, CUDA_STREAMS_DRIVER: driver }
  return new Promise((resolve) => {
    execFile(process.execPath, [script], { cwd, env, timeout: LIMIT }, (error, stdout, stderr) => {
      const ended = error === null || stderr !== '' ? '' : `It ended by ${error.signal ?? error.code}`
      // A reader's file has another name, and is in the folder in which it runs.
      resolve({ output: stdout.replaceAll(script, 'program.js'), trouble: stderr + ended })
    })
  })
}

/** The output with `…` for what the page leaves out, at the end of a line or of the whole; unchanged where it differs otherwise. */
export function asShown(output: string, shown: string): string {
  const parts = shown.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  const [rest, line] = ['[\\s\\S]*$', '[^\\n]*']
  const pattern = parts.reduce((all, part, at) => all + (part === '' && at === parts.length - 1 ? rest : line) + part)
  return new RegExp(`^${pattern}$`).test(output) ? shown : output
}
