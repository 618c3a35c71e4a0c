/**
 * A month of a server: many requests, over many workers that serve some each and end. What the process has is measured after every few workers, once
 * all is given back that they left. The run time itself keeps some memory of each thread that has ended: workers that import nothing say how much.
 * docs/internals/soak.md says more.
 *
 *   npm run soak -- --month --requests 1000000 --workers 5000 --driver fake
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { fakeCuda } from '../fake-driver/fake-cuda.js'
import { FIGURES, type Figure, type Growth, LEAST_FIT, short } from './figures.js'
import { MONTH_KINDS, type MonthKind, type MonthOptions, parseMonth } from './month-options.js'
import { FEWEST, toldSlope } from './slopes.js'
import { FAILED, PASSED } from './watchdog.js'

function environmentOf({ driver }: MonthOptions): NodeJS.ProcessEnv {
  if (driver !== 'fake') return { ...process.env, CUDA_STREAMS_DRIVER: driver }
  const fake = fakeCuda()
  if (typeof fake === 'string') throw new Error(fake)
  return { ...fake.env, FAKE_FREES: '1' }
}

async function growthIn(options: MonthOptions): Promise<readonly Growth[]> {
  const { requests, workers, driver, kind } = options
  const script = fileURLToPath(new URL('month-inside.js', import.meta.url))
  const args = ['--requests', `${requests}`, '--workers', `${workers}`, '--driver', driver, '--kind', kind]
  const child = spawn(process.execPath, ['--expose-gc', script, ...args], {
    env: environmentOf(options),
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  let growth: readonly Growth[] | undefined
  child.on('message', (message: readonly Growth[]) => {
    growth = message
  })
  const [code] = await once(child, 'close')
  if (growth === undefined) throw new Error(`a month of ${kind} ended with code ${code}`)
  return growth
}

export type Rises = Readonly<Partial<Record<Figure, number>>>

/** What may rise by how much for 100 000 requests, beyond what it rises by for workers that do nothing. */
const MOST: Rises = { process: 1, heap: 1, outside: 1, locked: 1, threads: 0.5, files: 0.5, left: 0.5 }

/** By how much each figure rises where its samples lie along the line: others have gone up and down. */
function risesOf(growth: readonly Growth[]): Rises {
  const rises = growth.flatMap(({ figure, slope }) =>
    slope !== undefined && slope.operations >= FEWEST && slope.fit >= LEAST_FIT ? [[figure, slope.rise] as const] : [],
  )
  return Object.fromEntries(rises)
}

/** What rises too much. */
export function judge(requests: Rises, nothing: Rises): string[] {
  return FIGURES.flatMap((figure) => {
    const [most, rise = 0, without = 0] = [MOST[figure], requests[figure], nothing[figure]]
    const own = rise - Math.max(0, without)
    if (most === undefined || own < most) return []
    return [`${figure} rises by ${own.toFixed(2)} for 100 000 requests, which is not below ${most}`]
  })
}

/** Returns the exit code. */
export async function runMonth(args: readonly string[]): Promise<number> {
  const options = parseMonth(args)
  const rises = new Map<MonthKind, Rises>()
  for (const kind of options.kind === 'requests' ? MONTH_KINDS : [options.kind]) {
    const growth = await growthIn({ ...options, kind })
    for (const { figure, from, to, slope } of growth)
      console.log(`${kind}: ${figure}: ${short(from)} after the warm-up, ${short(to)} at the end; ${toldSlope(slope)}`)
    rises.set(kind, risesOf(growth))
  }
  const failures = judge(rises.get('requests') ?? {}, rises.get('nothing') ?? {})
  for (const failure of failures) console.log(`FAILURE: ${failure}`)
  console.log(failures.length === 0 ? 'PASSED' : `FAILED: ${failures.length} failures`)
  return failures.length === 0 ? PASSED : FAILED
}
