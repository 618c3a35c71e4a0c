/**
 * Runs the programs of the guides on the simulator: `guide-runner.js SCRIPT…` gives each a thread of its own, in one process, and prints
 * what came of them.
 */
import { spawn } from 'node:child_process'
import { json, text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

/** What came of a program. */
export interface Run {
  readonly output: string
  /** What it wrote to stderr, and the error that ended it; empty where all went well. */
  readonly trouble: string
}

const OWN_FILE = fileURLToPath(import.meta.url)
const LIMIT = 30_000
const AT_ONE_TIME = 2

/** In a process of its own, in this folder, with the default simulator. */
export async function runPrograms(scripts: readonly string[], folder: string): Promise<ReadonlyMap<string, Run>> {
  const env = { ...process.env, NODE_OPTIONS: '', NODE_TEST_CONTEXT: undefined, CUDA_STREAMS_DRIVER: 'sim' }
  const stdio = ['ignore', 'pipe', 'inherit'] as const
  const child = spawn(process.execPath, [OWN_FILE, ...scripts], { cwd: folder, env, stdio: [...stdio] })
  return new Map((await json(child.stdout)) as [string, Run][])
}

async function run(script: string): Promise<Run> {
  const worker = new Worker(script, { stdout: true, stderr: true })
  const outputs = Promise.all([text(worker.stdout), text(worker.stderr)])
  const troubles: string[] = []
  worker.on('error', (error) => troubles.push(error instanceof Error ? (error.stack ?? error.message) : String(error)))
  const late = setTimeout(() => {
    troubles.push(`It had not ended after ${LIMIT / 1000} seconds`)
    void worker.terminate()
  }, LIMIT)
  const code = await new Promise<number>((resolve) => worker.once('exit', resolve))
  clearTimeout(late)
  const [output, warnings] = await outputs
  if (warnings !== '') troubles.push(warnings)
  if (code !== 0 && troubles.length === 0) troubles.push(`It ended with the code ${code}`)
  // A reader's file has another name, and is in the folder in which it runs.
  return { output: output.replaceAll(script, 'program.js'), trouble: troubles.join('\n') }
}

if (process.argv[1] === OWN_FILE) {
  const left = process.argv.slice(2)
  const runs: [string, Run][] = []
  const work = async (): Promise<void> => {
    for (let script = left.shift(); script !== undefined; script = left.shift()) runs.push([script, await run(script)])
  }
  await Promise.all(Array.from({ length: AT_ONE_TIME }, work))
  console.log(JSON.stringify(runs))
}
