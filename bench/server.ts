/**
 * A server end to end: `node dist/bench/server.js`. HTTP requests with arrays go through upload, two kernels and download, by
 * cuda-streams and by PyTorch, and beside them through servers that only send them back. The servers take turns, number of clients
 * by number of clients and round by round, with one process that plays the clients.
 */
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ProgressLine } from '../src/base/progress-line.js'
import type { Unit } from './catalogue.js'
import { Child } from './line-process.js'
import { commandOf, commitOf, machineOf } from './machine.js'
import { type Result, type ResultContestant, type ResultRow, writeResult } from './result.js'
import { root } from './root.js'
import type { Load } from './server-load.js'
import { headOf, resultTable } from './table.js'

const HELP = `node dist/bench/server.js [options]
  --seconds N         of the whole comparison (90)
  --rounds N          in which the servers take turns (5)
  --clients LIST      how many at a time (1,4,16,64,256)
  --python PROGRAM    that has PyTorch (python3); none: no Python
  --json FILE         for all samples`

const START_LIMIT_MS = 60_000
const LEAST_TURN_MS = 100
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

function start(program: string, ...args: readonly string[]): Child {
  const child = new Child(program, args, process.env)
  children.push(child)
  return child
}

const scriptOf = (name: string): string => fileURLToPath(new URL(`./${name}.js`, import.meta.url))
const node = (way: string): Child => start(process.execPath, scriptOf('server-node'), way)
const python = (way: string): Child => start(options.python, join(root, 'bench', 'server.py'), way)

async function ready(name: string, kind: Server['kind'], child: Child, factor = FACTOR): Promise<Server | string> {
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
function startServers(): Promise<(Server | string)[]> {
  return Promise.all([
    ready('cuda-streams', 'ours', node('pool')),
    ready('a stream a request', 'ours', node('each')),
    ready('echo in Node', 'ours', node('echo'), 1),
    ...(options.python === 'none'
      ? []
      : [
          ready('echo in Python', 'ours', python('echo'), 1),
          ready('PyTorch', 'Python', python('blocks')),
          ready('PyTorch, polls', 'Python', python('polls')),
          ready('PyTorch, threads', 'Python', python('threads')),
        ]),
  ])
}

const MEASURES: readonly { readonly group: string; readonly unit: Unit; readonly ns: (load: Load) => number }[] = [
  { group: 'requests', unit: 'operations/s', ns: ({ requests, milliseconds }) => (milliseconds * 1e6) / requests },
  { group: 'from a request to its answer, median', unit: 'µs', ns: ({ median }) => median * 1e6 },
  { group: 'from a request to its answer, 99th percentile', unit: 'µs', ns: ({ p99 }) => p99 * 1e6 },
]

/** What each server answered to so many clients in each round; null where it failed. */
type Loads = Map<string, (Load | null)[]>

const rowsOf = (loads: ReadonlyMap<number, Loads>): ResultRow[] =>
  MEASURES.flatMap(({ group, unit, ns }) =>
    [...loads].map(([clients, byServer]) => ({
      key: `${group.split(' ').at(-1)}-${clients}`,
      title: clients === 1 ? '1 client' : `${clients} clients`,
      unit,
      group,
      samples: Object.fromEntries(
        [...byServer].map(([name, all]) => [name, all.map((load) => load && Number(ns(load).toPrecision(5)))]),
      ),
    })),
  )

async function main(): Promise<void> {
  if (options.help) return console.log(HELP)
  const [[seconds], [rounds], clients] = [counts('seconds'), counts('rounds'), counts('clients')]
  const loadBefore = loadavg()[0] ?? 0
  const began = performance.now()
  try {
    const generator = start(process.execPath, scriptOf('server-load'))
    const started = await startServers()
    const servers = started.filter((one) => typeof one !== 'string')
    const leftOut = started.filter((one) => typeof one === 'string')
    const [first] = servers
    if (first === undefined) throw new Error(leftOut.join('\n'))
    if (first.facts['driver'] === 'sim') leftOut.push('a GPU: these of cuda-streams are simulated')
    const turns = servers.length * (1 + rounds * clients.length)
    const turnMs = Math.max(LEAST_TURN_MS, (seconds * 1000 - (performance.now() - began)) / turns)
    const failures = new Map<string, string>()

    async function play({ name, port, factor }: Server, count: number): Promise<Load | null> {
      const label = `${name}, ${count} clients`
      if (failures.has(label)) return null
      generator.say(`${port} ${count} ${turnMs} ${factor}`)
      const line = await generator.line(turnMs + START_LIMIT_MS)
      if (!line.startsWith('fail ')) return JSON.parse(line)
      failures.set(label, line.slice(5))
      return null
    }

    const line = new ProgressLine()
    // Compilers warm up, and pools fill.
    for (const server of servers) await play(server, Math.max(...clients))
    const loads = new Map(clients.map((count) => [count, new Map(servers.map(({ name }) => [name, []])) as Loads]))
    for (let round = 0; round < rounds; round += 1) {
      for (const [count, byServer] of loads) {
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
      rows: rowsOf(loads),
    }
    console.log(`${headOf(result)}\n\n${resultTable(result)}`)
    if (options.json !== undefined) writeResult(options.json, result)
  } finally {
    await Promise.all(children.map((child) => child.leave()))
  }
}

await main()
