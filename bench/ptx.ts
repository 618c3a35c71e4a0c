/**
 * What kernels cost that the simulator compiles from PTX, beside the same loops in C: `node dist/bench/ptx.js`. Both are
 * measured in time of the processor, so that other programs on the machine disturb them less. The kernels are those of
 * tests/ptx/kernels, as NVRTC compiled them for sm_75.
 */
import { setImmediate } from 'node:timers/promises'
import type { PtxModule } from '../src/ptx/ptx.js'
import { availableCores, KernelWorkers } from '../src/simulator/launch-workers.js'
import { Machine, ptxOf } from '../tests/ptx/machine.js'
import { empty, loopsInC, ROWS, type Row, single } from './ptx-kernels.js'

const ROUNDS = 30
function measure(
  { file, kernel, options, parameters }: Row,
  recorded = false,
): { readonly first: number; readonly best: number } {
  const machine = new Machine()
  const before = performance.now()
  const module: PtxModule = machine.load(ptxOf(`${file}.sm_75`))
  module.code(kernel, { recorded })
  const first = performance.now() - before
  const values = parameters.map((each) => (typeof each === 'object' ? machine.put(each) : each))
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const start = process.cpuUsage()
    machine.run(module, kernel, { ...options, recorded }, values)
    const { user, system } = process.cpuUsage(start)
    best = Math.min(best, (user + system) / 1000)
  }
  return { first, best }
}

/** Launches that are long enough for more cores. */
const LONG: readonly Row[] = [
  ...ROWS.filter(({ kernel }) => kernel === 'mandelbrot'),
  {
    name: 'matmul in tiles, 512³',
    file: 'matrices',
    kernel: 'matmul_tiled',
    options: { grid: [32, 32, 1], block: [16, 16, 1] },
    parameters: [single(512 * 512), single(512 * 512), empty(512 * 512), 512],
    target: undefined,
  },
  {
    name: 'n-body, 4096²',
    file: 'science',
    kernel: 'nbody',
    options: { grid: 32, block: 128 },
    parameters: [single(4 * 4096), empty(4 * 4096), 4096],
    target: undefined,
  },
]

/** The least milliseconds by the clock of a launch, once its kernel is compiled wherever it runs. */
async function measureLong({ file, kernel, options, parameters }: Row, cores: number): Promise<number> {
  const machine = new Machine()
  const text = ptxOf(`${file}.sm_75`)
  const module = machine.load(text)
  const workers = new KernelWorkers(cores, () => ({ text, kernel, addresses: module.code(kernel).variables }))
  while (cores > 1 && !workers.isReady()) await setImmediate()
  const values = parameters.map((each) => (typeof each === 'object' ? machine.put(each) : each))
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS / 2; round++) {
    const start = performance.now()
    machine.run(module, kernel, { ...options, workers: cores > 1 ? workers : undefined }, values)
    best = Math.min(best, performance.now() - start)
  }
  workers.close()
  return best
}

const inC = loopsInC()
console.log(`Node ${process.version}; milliseconds of the processor, the least of ${ROUNDS} launches`)
console.log(
  '| kernel | load and compile | launch | C, gcc -O2 | times | at most | exact accesses |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |',
)
for (const row of ROWS) {
  const { first, best } = measure(row)
  const loop = inC.get(row.kernel)
  const times = loop === undefined ? '' : (best / loop).toFixed(1)
  const exact = `× ${(measure(row, true).best / best).toFixed(2)}`
  console.log(
    `| ${row.name} | ${first.toFixed(1)} | ${best.toFixed(1)} | ${loop?.toFixed(1) ?? ''} | ${times} | ${row.target ?? ''} | ${exact} |`,
  )
}
const cores = Math.max(2, availableCores())
console.log(`\nMilliseconds by the clock; they mean something on a machine that does nothing else`)
console.log(`| launch | one core | ${cores} cores | times |\n| --- | ---: | ---: | ---: |`)
for (const row of LONG) {
  const [one, more] = [await measureLong(row, 1), await measureLong(row, cores)]
  console.log(`| ${row.name} | ${one.toFixed(0)} | ${more.toFixed(0)} | ${(one / more).toFixed(2)} |`)
}
