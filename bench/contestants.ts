/** Who takes part: versions of cuda-streams and ways to run it, the C program and the Python libraries, each a child. */

import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Contestant, pairedRows, type Turn } from './catalogue.js'
import { Child } from './line-process.js'
import type { Pairs } from './pairs.js'

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

/** bench/contestant.c, built in both ways. */
export interface BuiltC {
  readonly program: string
  readonly addon: string
}

export interface Outside {
  /** bench/ in the source tree. */
  readonly sources: string
  readonly c: BuiltC | Absent
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
const BUILDS = [
  ['program', []],
  ['addon', ['-DADDON', '-shared', '-fPIC']],
] as const
/** Of its own where C has as many hardware queues as cuda-streams asks for: only what depends on them. */
const QUERIES = new Set(['stream-query', 'event-query', 'stream-query-busy', 'event-query-busy', 'synchronize-idle'])

const CALLS: ReadonlySet<string> = new Set(pairedRows.map(({ key }) => key))

/** Of a thread that sleeps while it waits: nothing else depends on that. */
const WAITS = new Set(['late-100us', 'late-1ms', 'late-10ms', 'late-100ms', 'cpu-await'])

const pythonLibraries = [
  { name: 'CuPy', argument: 'cupy' },
  { name: 'PyTorch', argument: 'torch' },
  { name: 'cuda.core', argument: 'cuda.core' },
  { name: 'Numba', argument: 'numba' },
] as const

/** Where there is no C compiler, all but C is measured. */
export async function buildC(sources: string, scratch: string): Promise<BuiltC | Absent> {
  const built: BuiltC = { program: join(scratch, 'contestant'), addon: join(scratch, 'contestant.node') }
  let reason = ''
  for (const compiler of ['cc', 'gcc', 'clang']) {
    const children = BUILDS.map(([name, flags]) => {
      const args = ['-O2', ...flags, join(sources, 'contestant.c'), '-o', built[name], '-ldl']
      return new Child(compiler, args, process.env)
    })
    const failed = await Promise.all(children.map(async (child) => (await child.exit(START_LIMIT_MS)) !== 0))
    const at = failed.indexOf(true)
    if (at < 0) return built
    reason ||= children[at]?.complaint || `${compiler} failed`
  }
  return { name: 'C', reason }
}

/** @param c Plays in its process, too. */
export function startOurs(ours: Ours, ptx: string, c: BuiltC | Absent, quick: boolean): Promise<Contestant | Absent> {
  const script = fileURLToPath(new URL('./child.js', import.meta.url))
  const args = [script, ours.folder, ptx, 'reason' in c ? '' : c.addon, ...(quick ? ['quick'] : [])]
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

async function startC({ c, libcuda, ptx, environment, queues }: Outside): Promise<(Contestant | Absent)[]> {
  if ('reason' in c) return [c]
  const startProgram = (name: string, itsQueues: string, where: NodeJS.ProcessEnv, ...more: readonly string[]) =>
    start(name, 'C', new Child(c.program, [libcuda, ptx, ...more], where), { queues: itsQueues })
  const withQueues = { ...environment, CUDA_DEVICE_MAX_CONNECTIONS: queues }
  const same = await startProgram('C', queues, withQueues)
  // Its calls are played in each process of ours.
  const processes =
    'reason' in same ? same : { ...same, keys: new Set([...same.keys].filter((key) => !CALLS.has(key))) }
  const all = [processes, only(WAITS, await startProgram('C, blocking event', queues, withQueues, 'sleeps'))]
  if (environment['CUDA_DEVICE_MAX_CONNECTIONS'] !== undefined) return all
  return [...all, only(QUERIES, await startProgram('C, 8 queues', '8', environment))]
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
      return turnOf(answer)
    },
    close: () => child.leave(),
  }
}

function turnOf(answer: string): Turn {
  if (answer.startsWith('pairs ')) {
    const { ours, c, ratios }: Pairs = JSON.parse(answer.slice(6))
    return { taken: ours, besideC: { taken: c, ratios } }
  }
  const taken = Number(answer.startsWith('ns ') ? answer.slice(3) : Number.NaN)
  if (!Number.isFinite(taken)) throw new Error(answer.replace(/^fail /, ''))
  return { taken }
}
