/** Runs one of children/scenarios.ts in a process of its own: for what ends, breaks or configures a process. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { simulationOf } from 'cuda-streams/sim'
import { FEW_QUEUES, sameLibrary } from '../helpers/run-time.js'
import type { Workbench } from '../helpers/workbench.js'
import type { Scenario } from './children/scenarios.js'

const SCRIPT = fileURLToPath(new URL('./children/scenarios.js', import.meta.url))
/** Long enough for a slow machine to start CUDA in; a process that hangs is ended then, and `code` is null. */
const LONGEST = 30_000

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string | undefined>>
  /** What the scenario is given. */
  readonly argument?: string
}

/** The process has the workbench of the backend named, or none where the scenario is about the default driver. */
export function runScenario(
  backend: Workbench | undefined,
  scenario: Scenario,
  options: ChildOptions = {},
): Promise<Ended> {
  const env: NodeJS.ProcessEnv = { ...process.env, NODE_TEST_CONTEXT: undefined, ...FEW_QUEUES, ...options.env }
  const args = [...sameLibrary, '--expose-gc', SCRIPT, nameOf(backend), scenario, options.argument ?? '']
  return new Promise((resolve) => {
    execFile(process.execPath, args, { env, timeout: LONGEST, encoding: 'utf8' }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : null
      resolve({ code, stdout, stderr })
    })
  })
}

function nameOf(backend: Workbench | undefined): string {
  if (backend === undefined) return 'none'
  return backend.name === 'sim' ? `sim:${simulationOf(backend.device).seed}` : backend.name
}
