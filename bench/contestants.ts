/** Who takes part: versions of cuda-streams and ways to run it, the C program and the Python libraries, each a child. */

import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Contestant } from './catalogue.js'
import { Child } from './line-process.js'

/** A contestant that does not take part, and why. */
export interface Absent {
  readonly name: string
  readonly reason: string
}

export interface Ours {
  readonly name: string
  readonly kind: 'ours' | 'other version'
  /** The folder of the package. */
  readonly folder: string
  /** Node. */
  readonly program: string
  readonly environment: NodeJS.ProcessEnv
}

export interface Outside {
  /** bench/ in the source tree. */
  readonly sources: string
  /** Where the C program is built. */
  readonly scratch: string
  readonly libcuda: string
  readonly ptx: string
  readonly python: string | undefined
  /** Of all: each runs as its users run it. */
  readonly environment: NodeJS.ProcessEnv
  /** Hardware queues that cuda-streams asked for: C is measured with as many too. */
  readonly queues: string
}

const START_LIMIT_MS = 45_000
const TURN_LIMIT_MS = 30_000
/** Of its own where C has as many hardware queues as cuda-streams asks for: only what depends on them. */
const QUERIES = new Set(['stream-query', 'event-query', 'stream-query-busy', 'event-query-busy', 'synchronize-idle'])

/** Of a thread that sleeps while it waits: nothing else depends on that. */
const WAITS = new Set(['late-100us', 'late-1ms', 'late-10ms', 'late-100ms', 'cpu-await'])

const pythonLibraries = [
  { name: 'CuPy', argument: 'cupy' },
  { name: 'PyTorch', argument: 'torch' },
  { name: 'cuda.core', argument: 'cuda.core' },
  { name: 'Numba', argument: 'numba' },
] as const

export function startOurs(ours: Ours, ptx: string, quick: boolean): Promise<Contestant | Absent> {
  const script = fileURLToPath(new URL('./child.js', import.meta.url))
  const args = [script, ours.folder, ptx, ...(quick ? ['quick'] : [])]
  return start(ours.name, ours.kind, new Child(ours.program, args, ours.environment))
}

/** Starts them all at once, since importing takes them seconds. C comes first. */
export async function startOutside(outside: Outside): Promise<(Contestant | Absent)[]> {
  const { sources, libcuda, ptx, python, environment } = outside
  const script = join(sources, 'contestant.py')
  const lists = await Promise.all([
    startC(outside),
    ...(python === undefined ? [] : pythonLibraries).map(async ({ name, argument }) => [
      await start(name, 'Python', new Child(python ?? '', [script, argument, libcuda, ptx], environment)),
    ]),
  ])
  return lists.flat()
}

async function startC({
  sources,
  scratch,
  libcuda,
  ptx,
  environment,
  queues,
}: Outside): Promise<(Contestant | Absent)[]> {
  const program = join(scratch, 'contestant')
  const build = ['-O2', join(sources, 'contestant.c'), '-o', program, '-ldl']
  const withQueues = { ...environment, CUDA_DEVICE_MAX_CONNECTIONS: queues }
  let reason = ''
  for (const compiler of ['cc', 'gcc', 'clang']) {
    const child = new Child(compiler, build, environment)
    if ((await child.exit(START_LIMIT_MS)) !== 0) {
      reason ||= child.complaint || `${compiler} failed`
      continue
    }
    const same = await start('C', 'C', new Child(program, [libcuda, ptx], withQueues), { queues })
    const asleep = new Child(program, [libcuda, ptx, 'sleeps'], withQueues)
    const all = [same, only(WAITS, await start('C, blocking event', 'C', asleep, { queues }))]
    if (environment['CUDA_DEVICE_MAX_CONNECTIONS'] !== undefined) return all
    const asRun = new Child(program, [libcuda, ptx], environment)
    return [...all, only(QUERIES, await start('C, 8 queues', 'C', asRun, { queues: '8' }))]
  }
  return [{ name: 'C', reason }]
}

const only = (keys: ReadonlySet<string>, started: Contestant | Absent): Contestant | Absent =>
  'reason' in started ? started : { ...started, keys }

async function start(
  name: string,
  kind: Contestant['kind'],
  child: Child,
  facts: Contestant['facts'] = {},
): Promise<Contestant | Absent> {
  try {
    const line = await child.line(START_LIMIT_MS)
    const [, first = '', keys = ''] = /^ready (\{.*\}(?=\t)|\S+)\s?(.*)$/.exec(line) ?? []
    if (first !== '') {
      const said = first.startsWith('{') ? JSON.parse(first) : { version: first }
      return contestant(name, kind, { ...said, ...facts }, new Set(keys.split(' ')), child)
    }
    await child.leave()
    return { name, reason: line.startsWith('left-out ') ? line.slice(9) : `unexpected answer '${line}'` }
  } catch (error) {
    await child.leave()
    return { name, reason: error instanceof Error ? error.message : String(error) }
  }
}

function contestant(
  name: string,
  kind: Contestant['kind'],
  facts: Contestant['facts'],
  keys: ReadonlySet<string>,
  child: Child,
): Contestant {
  return {
    name,
    kind,
    facts,
    keys,
    async run(key, calls) {
      child.say(`run ${key} ${calls}`)
      const answer = await child.line(TURN_LIMIT_MS)
      const perCall = Number(answer.startsWith('ns ') ? answer.slice(3) : Number.NaN)
      if (!Number.isFinite(perCall)) throw new Error(answer.replace(/^fail /, ''))
      return perCall
    },
    close: () => child.leave(),
  }
}
