/**
 * A server end to end: `node dist/bench/server.js`. HTTP requests with arrays go through upload, two kernels and download, by
 * cuda-streams and by PyTorch, and beside them through servers that only send them back. The servers take turns, number of clients
 * by number of clients and round by round, with one process that plays the clients.
 *
 * Both sides have the least HTTP that does, so that their frameworks are not what is compared; the echo servers show what that takes.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ProgressLine } from '../src/foundation/base/standard-error.js'
import type { Unit } from './catalogue.js'
import { Child } from './line-process.js'
import { commandOf, commitOf, machineOf } from './machine.js'
import { withoutOperation } from './no-op.js'
import { type Result, type ResultContestant, type ResultRow, writeResult } from './result.js'
import { root } from './root.js'
import type { Load } from './server-load.js'
import type { RequestProfile } from './server-profile.js'
import { headOf, resultTables, table } from './table.js'
import { nodeOf } from './versions.js'

const HELP = `node dist/bench/server.js [options]
  --seconds N         of the whole comparison (90)
  --rounds N          in which the servers take turns (5)
  --clients LIST      how many at a time (1,4,16,64,256)
  --python PROGRAM    that has PyTorch (python3); none: no Python
  --node VERSION      for the servers: 22, 24, 26, or a program (this one)
  --against FOLDERS   the servers of these built checkouts, too: ../before
  --no-op             over a libcuda that does nothing, whose answers are not checked: the library's own share, without a GPU
  --profile           where the microseconds of a request to the servers in Node go, and no comparison
  --json FILE         for all samples`

const START_LIMIT_MS = 60_000
const LEAST_TURN_MS = 100
const SERVER_IN_CHECKOUT = join('dist', 'bench', 'server-node.js')
/** By which the kernels multiply. */
const FACTOR = 9

interface Server extends ResultContestant {
  readonly child: Child
  readonly port: string
  readonly factor: number
}

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '90' },
    rounds: { type: 'string', default: '5' },
    clients: { type: 'string', default: '1,4,16,64,256' },
    python: { type: 'string', default: 'python3' },
    node: { type: 'string' },
    against: { type: 'string', default: '' },
    'no-op': { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

function counts(name: 'seconds' | 'rounds' | 'clients'): readonly [number, ...number[]] {
  const [first = 0, ...others] = options[name].split(',').map(Number)
  const wrong = [first, ...others].find((count) => !Number.isInteger(count) || count < 1)
  if (wrong !== undefined) throw new RangeError(`--${name} must be 1 or more, not '${options[name]}'`)
  return [first, ...others]
}

const children: Child[] = []

function start(environment: NodeJS.ProcessEnv, program: string, ...args: readonly string[]): Child {
  const child = new Child(program, args, environment)
  children.push(child)
  return child
}

const scriptOf = (name: string): string => fileURLToPath(new URL(`./${name}.js`, import.meta.url))

async function ready(name: string, kind: Server['kind'], child: Child, factor: number): Promise<Server | string> {
  try {
    const line = await child.line(START_LIMIT_MS)
    const [, port = '', facts = ''] = /^ready (\d+) (.*)$/.exec(line) ?? []
    if (port === '') throw new Error(`unexpected answer '${line}'`)
    return { name, kind, facts: JSON.parse(facts), child, port, factor }
  } catch (error) {
    return `${name}: ${error instanceof Error ? error.message : error}`
  }
}

/** All at once, since importing PyTorch takes seconds. */
function startServers(program: string, environment: NodeJS.ProcessEnv): Promise<(Server | string)[]> {
  const node = (...way: readonly string[]): Child => start(environment, program, scriptOf('server-node'), ...way)
  const python = (way: string): Child => start(environment, options.python, join(root, 'bench', 'server.py'), way)
  const factor = options['no-op'] ? Number.NaN : FACTOR
  const others = options.against.split(',').filter((folder) => folder !== '')
  const echo = ready('echo in Node', 'ours', node('echo'), 1)
  const ours = [
    ready('cuda-streams', 'ours', node('pool'), factor),
    ready('a stream a request', 'ours', node('each'), factor),
    ready('over node:http', 'ours', node('pool', 'http'), factor),
    ...others.flatMap((folder) => {
      const other = (way: string): Child => start(environment, program, join(folder, SERVER_IN_CHECKOUT), way)
      return [
        ready(basename(folder), 'ours', other('pool'), factor),
        ready(`${basename(folder)}, a stream a request`, 'ours', other('each'), factor),
      ]
    }),
  ]
  if (options.python === 'none' || options.profile) return Promise.all([...ours, echo])
  const echoInPython = ready('echo in Python', 'ours', python('echo'), 1)
  if (options['no-op']) return Promise.all([...ours, echo, echoInPython])
  return Promise.all([
    ...ours,
    echo,
    echoInPython,
    ready('PyTorch', 'Python', python('blocks'), FACTOR),
    ready('PyTorch, polls', 'Python', python('polls'), FACTOR),
    ready('PyTorch, threads', 'Python', python('threads'), FACTOR),
  ])
}

/** Nanoseconds for which the threads of a process have run, where Linux says so. */
function processorTimeOf({ pid }: Child): number {
  if (process.platform !== 'linux' || pid === undefined) return Number.NaN
  const tasks = readdirSync(`/proc/${pid}/task`)
  // Threads come and go.
  const runTimes = tasks.map((task) => {
    try {
      return Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'latin1').split(' ')[0])
    } catch {
      return 0
    }
  })
  return runTimes.reduce((sum, time) => sum + time, 0)
}

/** What the clients saw of a server, and what it took. */
interface Turn extends Load {
  /** Nanoseconds of the processor. */
  readonly processor: number
}

const MEASURES: readonly { readonly group: string; readonly unit: Unit; readonly ns: (turn: Turn) => number }[] = [
  { group: 'requests', unit: 'operations/s', ns: ({ requests, milliseconds }) => (milliseconds * 1e6) / requests },
  { group: 'from a request to its answer, median', unit: 'µs', ns: ({ median }) => median * 1e6 },
  { group: 'from a request to its answer, 99th percentile', unit: 'µs', ns: ({ p99 }) => p99 * 1e6 },
  {
    group: 'of all processors for a request',
    unit: 'µs',
    ns: ({ processor, requests, others }) => processor / (requests + others),
  },
]

/** What each server answered to so many clients in each round; null where it failed. */
type Turns = Map<string, (Turn | null)[]>

const rowsOf = (turns: ReadonlyMap<number, Turns>): ResultRow[] =>
  MEASURES.flatMap(({ group, unit, ns }) =>
    [...turns].map(([clients, byServer]) => ({
      key: `${group.split(' ').at(-1)}-${clients}`,
      title: clients === 1 ? '1 client' : `${clients} clients`,
      unit,
      group,
      samples: Object.fromEntries(
        [...byServer].map(([name, all]) => [name, all.map((turn) => turn && Number(ns(turn).toPrecision(5)))]),
      ),
    })),
  )

type Play = (server: Server, clients: number) => Promise<Turn | null>

/** Prints where the microseconds of a request go, for each server and number of clients. */
async function printProfiles(servers: readonly Server[], clients: readonly number[], play: Play): Promise<void> {
  for (const server of servers) {
    const profiles: RequestProfile[] = []
    for (const count of clients) {
      server.child.say('begin')
      if ((await play(server, count)) === null)
        throw new Error(`${server.name} fails: see --json of a run without --profile`)
      server.child.say('end')
      profiles.push(JSON.parse(await server.child.line(START_LIMIT_MS)))
    }
    const parts = Object.keys(profiles[0]?.parts ?? {})
    const lines = parts.map((part) => [part, ...profiles.map((profile) => profile.parts[part]?.toFixed(1))])
    const cpu = ['all processors', ...profiles.map((profile) => profile.cpu.toFixed(1))]
    const header = [`${server.name}, µs of a request`, ...clients.map((count) => `${count} clients`)]
    console.log(`${table(header, [...lines, cpu])}\n`)
  }
}

async function main(): Promise<void> {
  if (options.help) return console.log(HELP)
  const [[seconds], [rounds], clients] = [counts('seconds'), counts('rounds'), counts('clients')]
  const program = options.node === undefined ? process.execPath : await nodeOf(options.node)
  const loadBefore = loadavg()[0] ?? 0
  const began = performance.now()
  const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-bench-'))
  try {
    const generator = start(process.env, process.execPath, scriptOf('server-load'))
    const started = await startServers(program, options['no-op'] ? withoutOperation(scratch) : process.env)
    const servers = started.filter((one) => typeof one !== 'string')
    const leftOut = started.filter((one) => typeof one === 'string')
    const [first] = servers
    if (first === undefined) throw new Error(leftOut.join('\n'))
    if (first.facts['driver'] === 'sim') leftOut.push('a GPU: these of cuda-streams are simulated')
    if (options['no-op']) leftOut.push('a GPU, and PyTorch: --no-op')
    const turns = servers.length * (1 + (options.profile ? 1 : rounds) * clients.length)
    const turnMs = Math.max(LEAST_TURN_MS, (seconds * 1000 - (performance.now() - began)) / turns)
    const failures = new Map<string, string>()

    async function play({ name, port, factor, child }: Server, count: number): Promise<Turn | null> {
      const label = `${name}, ${count} clients`
      if (failures.has(label)) return null
      const before = processorTimeOf(child)
      generator.say(`${port} ${count} ${turnMs} ${factor}`)
      const line = await generator.line(turnMs + START_LIMIT_MS)
      if (!line.startsWith('fail ')) return { ...JSON.parse(line), processor: processorTimeOf(child) - before }
      failures.set(label, line.slice(5))
      return null
    }

    const line = new ProgressLine()
    // Compilers warm up, and pools fill.
    for (const server of servers) await play(server, Math.max(...clients))
    if (options.profile) return await printProfiles(servers, clients, play)
    const all = new Map(clients.map((count) => [count, new Map(servers.map(({ name }) => [name, []])) as Turns]))
    for (let round = 0; round < rounds; round += 1) {
      for (const [count, byServer] of all) {
        // Those who go first in one round go last in the next.
        for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
          line.show(() => `round ${round + 1} of ${rounds}: ${server.name}, ${count} clients`)
          byServer.get(server.name)?.push(await play(server, count))
        }
      }
    }
    line.erase()
    const result: Result = {
      date: new Date().toISOString(),
      commit: commitOf(),
      command: commandOf('node dist/bench/server.js'),
      machine: machineOf(first.facts, loadBefore),
      contestants: servers.map(({ name, kind, facts }) => ({ name, kind, facts })),
      leftOut,
      failures: [...failures].map(([label, reason]) => `${label}: ${reason}`),
      rows: rowsOf(all),
    }
    console.log(`${headOf(result)}\n\n${resultTables(result)}`)
    if (options.json !== undefined) writeResult(options.json, result)
  } finally {
    await Promise.all(children.map((child) => child.leave()))
    rmSync(scratch, { recursive: true, force: true })
  }
}

await main()
