/**
 * `npm run bench`. On a GPU: what a call costs, beside C and the Python libraries. On the simulator: how fast it is.
 * The Python libraries run as their users run them, with the number of hardware queues that CUDA has by default;
 * BENCH_SAME_QUEUES=1 gives them as many as cuda-streams asks for.
 * BENCH_ROUNDS (15), BENCH_JSON (a file for the results), BENCH_PYTHON (python3) and BENCH_CPUS (a list as taskset takes it,
 * such as 2,3: on a shared machine one core can be half as quick as the next, so all contestants get the same ones) adjust it.
 */

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Device } from 'cuda-streams'
import type { Contestant } from './catalogue.js'
import { type Surroundings, startContestants } from './contestants.js'
import { cpuBurnt } from './cpu-burnt.js'
import { openKernels, ptx } from './empty-kernel.js'
import { match, printMatch } from './match.js'
import { openNode } from './rows.js'
import { benchScale, benchSimulated, printScale, printSimulated } from './simulated.js'

/** No round of the comparison starts later than this: a whole run stays under 100 s. */
const MATCH_LIMIT_MS = 80_000

async function main(): Promise<void> {
  const { BENCH_ROUNDS, BENCH_JSON, BENCH_CPUS, BENCH_SAME_QUEUES } = process.env
  // Contestants are started later, and inherit this.
  if (BENCH_CPUS !== undefined) execFileSync('taskset', ['-acp', BENCH_CPUS, String(process.pid)])
  const rounds = readRounds(BENCH_ROUNDS)
  const root = findRoot()
  const untouched = { ...process.env }
  const device = Device.get(0)
  // A query costs more the more hardware queues there are, so C gets as many as cuda-streams has asked for.
  const environment = { ...process.env }
  const pythonEnvironment = BENCH_SAME_QUEUES === '1' ? environment : untouched
  const machine = {
    gpu: device.name,
    driver: device.driver,
    nvidia: device.driver === 'cuda' ? nvidiaVersion() : undefined,
    cpu: `${cpus()[0]?.model.trim() || 'unknown'} (${availableParallelism()} cores)`,
    queues: { ours: queuesOf(environment), python: queuesOf(pythonEnvironment) },
    node: process.version,
    version: readVersion(root),
  }
  console.log(`GPU     ${machine.gpu}`)
  console.log(`driver  ${[machine.driver, machine.nvidia].filter(Boolean).join(', ')}`)
  console.log(`CPU     ${machine.cpu}${BENCH_CPUS === undefined ? '' : `, of them ${BENCH_CPUS}`}`)
  if (machine.driver === 'cuda') {
    console.log(`queues  ${queuesOf(environment)} ours and C, ${queuesOf(pythonEnvironment)} the others`)
  }
  console.log(`Node    ${machine.node}, cuda-streams ${machine.version}\n`)
  const results =
    device.driver === 'cuda'
      ? await onGpu(device, join(root, 'bench'), machine.version, rounds, { environment, pythonEnvironment })
      : onSimulator(device)
  if (BENCH_JSON) writeFileSync(BENCH_JSON, `${JSON.stringify({ machine, ...results }, null, 2)}\n`)
}

async function onGpu(
  device: Device,
  sources: string,
  version: string,
  rounds: number,
  environments: Pick<Surroundings, 'environment' | 'pythonEnvironment'>,
): Promise<object> {
  const started = performance.now()
  const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-bench-'))
  const others: Contestant[] = []
  try {
    const kernels = openKernels()
    const ptxFile = join(scratch, 'kernels.ptx')
    writeFileSync(ptxFile, ptx)
    const leftOut: string[] = []
    for (const one of await startContestants({
      sources,
      scratch,
      libcuda: kernels.libcuda,
      ptx: ptxFile,
      ...environments,
    })) {
      if ('reason' in one) leftOut.push(`${one.name}: ${one.reason}`)
      else others.push(one)
    }
    for (const line of leftOut) console.log(`left out  ${line}`)
    const ours = openNode(device, kernels, version)
    const limitMs = MATCH_LIMIT_MS - (performance.now() - started)
    const result = await match(ours, others, { rounds, limitMs })
    const burnt = await cpuBurnt(device, kernels)
    await ours.close()

    for (const line of result.failures) console.log(`failed    ${line}`)
    const versions = others.map((one) => `${one.name === 'C' ? 'CUDA' : one.name} ${one.version}`).join(', ')
    console.log(`median of ${result.rounds} rounds in one run, all taking turns; against ${versions || 'nobody'}\n`)
    printMatch(result, ours, others)
    console.log(
      `\nCPU burnt while awaiting ${burnt.seconds.toFixed(1)} s of GPU work: ${burnt.percent.toFixed(1)}% of one core`,
    )
    return { ...result, leftOut, versions: Object.fromEntries(others.map((one) => [one.name, one.version])), burnt }
  } finally {
    await Promise.all(others.map((one) => one.close()))
    rmSync(scratch, { recursive: true, force: true })
  }
}

function onSimulator(device: Device): object {
  const rows = benchSimulated(device)
  printSimulated(rows)
  const scale = benchScale()
  console.log()
  printScale(scale)
  return { rows, scale }
}

const queuesOf = (environment: NodeJS.ProcessEnv): string =>
  environment['CUDA_DEVICE_MAX_CONNECTIONS'] ?? "CUDA's default (8)"

/** The directory with package.json: sources that are not TypeScript are found from there, not from dist/. */
function findRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory)
    if (parent === directory) throw new Error('no package.json above bench/main.js')
    directory = parent
  }
  return directory
}

function readVersion(root: string): string {
  const content: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  return typeof content === 'object' && content !== null && 'version' in content ? String(content.version) : 'unknown'
}

function readRounds(text = '15'): number {
  const rounds = Number(text)
  if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError(`BENCH_ROUNDS must be 1 or more, not '${text}'`)
  return rounds
}

/** The kernel module's version, where Linux shows it. */
function nvidiaVersion(): string | undefined {
  try {
    return /\b\d+\.\d+(\.\d+)?\b/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[0]
  } catch {
    return undefined
  }
}

await main()
