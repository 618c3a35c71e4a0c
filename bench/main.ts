/**
 * `npm run bench`: what calls cost, beside C and the Python libraries, on a GPU; and how fast the simulator is. All take turns in
 * one run, each in a process of its own, and as its users run it; but C plays its calls in the processes of cuda-streams, slice by
 * slice in turns. It has as many hardware queues as cuda-streams asks for, and where the price depends on them also CUDA's default.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Contestant } from './catalogue.js'
import { type Absent, buildC, type Ours, startOurs, startOutside } from './contestants.js'
import { commandOf, commitOf, machineOf } from './machine.js'
import { match } from './match.js'
import { RANKS, startOurRanks, startPythonRanks } from './nccl.js'
import { withoutOperation } from './no-op.js'
import { picture } from './picture.js'
import { type Result, type ResultContestant, writeResult } from './result.js'
import { root } from './root.js'
import { headOf, resultTables } from './table.js'
import { folderOf, nodeOf } from './versions.js'

const HELP = `npm run bench -- [options]
  --rounds N          rounds of each row (15), as far as the time goes
  --seconds N         of the whole comparison (120); each row is played once at least
  --rows WORDS        only the rows whose keys begin so: record,wait
  --cpus LIST         pins all to these cores, as taskset takes them: 2,3
  --against VERSIONS  versions of this library, too: folders of built packages, or what npm has
  --node VERSIONS     this library on other Nodes, too: 22, 24, 26, or programs
  --python PROGRAM    whose libraries are measured (python3); none: no Python
  --json FILE         for all samples (bench.json)
  --svg FILE          for a picture
  --no-op             over a libcuda that does nothing: the library's own share of each call, without a GPU
  --quick             one short round: to see that all works`

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    seconds: { type: 'string', default: '120' },
    rows: { type: 'string' },
    cpus: { type: 'string' },
    against: { type: 'string' },
    node: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    json: { type: 'string', default: 'bench.json' },
    svg: { type: 'string' },
    'no-op': { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

const listOf = (text: string | undefined): string[] => (text === undefined || text === '' ? [] : text.split(','))

function countOf(name: 'rounds' | 'seconds'): number {
  const count = Number(options[name])
  if (!Number.isInteger(count) || count < 1) throw new RangeError(`--${name} must be 1 or more, not '${options[name]}'`)
  return count
}

/** The first is this version as it stands; its versions and ways to run it are measured beside it. */
async function allOfOurs(environment: NodeJS.ProcessEnv): Promise<Ours[]> {
  const here = { kind: 'ours', folder: root, program: process.execPath, environment } as const
  const all: Ours[] = [{ ...here, name: 'cuda-streams' }]
  for (const version of listOf(options.against)) {
    const folder = await folderOf(version)
    all.push({ ...here, kind: 'other version', name: version.includes('/') ? versionOf(folder) : version, folder })
  }
  for (const node of listOf(options.node)) {
    const program = await nodeOf(node)
    const version = execFileSync(program, ['--version'], { encoding: 'utf8' }).trim()
    if (version !== process.version) all.push({ ...here, name: `Node ${version.slice(1).split('.')[0]}`, program })
  }
  const names = all.map(({ name }) => name)
  const twice = names.find((name, nth) => names.indexOf(name) !== nth)
  if (twice !== undefined) throw new Error(`two are called '${twice}': name each once`)
  return all
}

const versionOf = (folder: string): string =>
  String(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version)

async function main(): Promise<void> {
  if (options.help) return console.log(HELP)
  const [rounds, seconds] = [countOf('rounds'), countOf('seconds')]
  // What is started later inherits it.
  if (options.cpus !== undefined) execFileSync('taskset', ['-acp', options.cpus, String(process.pid)])
  const loadBefore = loadavg()[0] ?? 0
  const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-bench-'))
  const contestants: Contestant[] = []
  try {
    const environment = options['no-op'] ? withoutOperation(scratch) : process.env
    const ours = await allOfOurs(environment)
    const began = performance.now()
    const leftOut: string[] = []
    const add = (started: readonly (Contestant | Absent)[]): void => {
      for (const one of started) {
        if ('reason' in one) leftOut.push(`${one.name}: ${one.reason}`)
        else contestants.push(one)
      }
    }
    const ptx = join(scratch, 'kernels.ptx')
    const sources = join(root, 'bench')
    const c = await buildC(sources, scratch)
    for (const one of ours) add([await startOurs(one, ptx, c, options.quick)])
    const [first] = contestants
    if (first === undefined) throw new Error(leftOut.join('\n'))
    if (first.facts['driver'] === 'cuda') {
      const { libcuda = '', queues = '' } = first.facts
      const python = options.python === 'none' || options['no-op'] ? undefined : options.python
      add(await startOutside({ sources, c, libcuda, ptx, python, environment, queues }))
      if (Number(first.facts['devices']) >= RANKS) {
        for (const one of ours) add(await startOurRanks(one))
        if (python !== undefined) add(await startPythonRanks(sources, python, environment))
      } else leftOut.push(`NCCL: it needs ${RANKS} GPUs`)
    }
    if (options.quick) leftOut.push('what moves 256 MiB: --quick')
    const only = options.rows === undefined ? undefined : listOf(options.rows)
    const limitMs = seconds * 1000 - (performance.now() - began)
    const { rows, failures } = await match(contestants, {
      rounds: options.quick ? 1 : rounds,
      limitMs,
      only,
      onlyCalls: options['no-op'],
      quick: options.quick,
    })
    const notEnded = await closeAll(contestants)
    const result: Result = {
      date: new Date().toISOString(),
      commit: commitOf(),
      command: commandOf('npm run bench', ' --'),
      machine: machineOf(first.facts, loadBefore, options.cpus),
      contestants: merged(
        contestants.filter((one) => one === first || rows.some(({ samples }) => one.name in samples)),
      ),
      leftOut,
      failures: [...failures, ...notEnded],
      rows,
    }
    console.log(`${headOf(result)}\n\n${resultTables(result)}`)
    writeResult(options.json, result)
    if (options.svg !== undefined) writeFileSync(options.svg, picture(result))
  } finally {
    await closeAll(contestants)
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** What to say of those that did not end by themselves. */
async function closeAll(contestants: readonly Contestant[]): Promise<string[]> {
  const reasons = await Promise.all(contestants.map(async (one) => ({ name: one.name, reason: await one.close() })))
  return reasons.flatMap(({ name, reason }) => (reason === undefined ? [] : `${name}: ${reason}`))
}

/** One entry for each name. */
function merged(contestants: readonly Contestant[]): ResultContestant[] {
  const all = new Map<string, ResultContestant>()
  for (const { name, kind, facts } of contestants) {
    all.set(name, { name, kind, facts: { ...all.get(name)?.facts, ...facts } })
  }
  return [...all.values()]
}

await main()
