/**
 * What kernels cost that the simulator compiles from PTX, beside the same loops in C: `node dist/bench/ptx.js`. Both are
 * measured in time of the processor, so that other programs on the machine disturb them less. The kernels are those of
 * tests/ptx/kernels, as NVRTC compiled them for sm_75.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { PtxModule } from '../src/ptx/ptx.js'
import { availableCores, KernelWorkers } from '../src/simulator/launch-workers.js'
import { Machine, type NumericArray, ptxOf, randomNumbers, type TestLaunch } from '../tests/ptx/machine.js'
import { root } from './root.js'

const ROUNDS = 30
const N = 1 << 20

interface Row {
  readonly name: string
  readonly file: string
  readonly kernel: string
  readonly options: TestLaunch
  readonly parameters: readonly (number | NumericArray)[]
  /** How many times the C loop it may take. */
  readonly target: number | undefined
}

const random = randomNumbers(1)
const single = (count: number): Float32Array => Float32Array.from({ length: count }, () => random() + 0.5)
const double = (count: number): Float64Array => Float64Array.from({ length: count }, () => random() + 0.5)
const empty = (count: number): Float32Array => new Float32Array(count)

const ROWS: readonly Row[] = [
  {
    name: 'axpy, 1 M threads',
    file: 'science',
    kernel: 'axpy',
    options: { grid: N / 256, block: 256 },
    parameters: [0.5, single(N), single(N), N],
    target: undefined,
  },
  {
    name: 'Mandelbrot, f64, 512²',
    file: 'images',
    kernel: 'mandelbrot',
    options: { grid: [32, 64, 1], block: [16, 8, 1] },
    parameters: [new Int32Array(512 * 512), 512, 512, 1000],
    target: undefined,
  },
  {
    name: 'Black-Scholes, 262 144',
    file: 'science',
    kernel: 'black_scholes',
    options: { grid: N / 4 / 256, block: 256 },
    parameters: [empty(N / 4), empty(N / 4), single(N / 4), single(N / 4), single(N / 4), 0.02, 0.3, N / 4],
    target: 4,
  },
  {
    name: 'stencil, f64, 1024²',
    file: 'science',
    kernel: 'stencil',
    options: { grid: [64, 128, 1], block: [16, 8, 1] },
    parameters: [double(N), new Float64Array(N), 1024, 1024],
    target: 4,
  },
  {
    name: 'convolution 5×5, 512²',
    file: 'images',
    kernel: 'convolve',
    options: { grid: [32, 64, 1], block: [16, 8, 1] },
    parameters: [single(512 * 512), empty(512 * 512), 512, 512],
    target: 4,
  },
  {
    name: 'matmul in tiles, 256³',
    file: 'matrices',
    kernel: 'matmul_tiled',
    options: { grid: [16, 16, 1], block: [16, 16, 1] },
    parameters: [single(65536), single(65536), empty(65536), 256],
    target: 8,
  },
  {
    name: 'softmax, 256 × 4096',
    file: 'neural',
    kernel: 'softmax',
    options: { grid: 256, block: 256 },
    parameters: [single(N), empty(N), 4096],
    target: 8,
  },
  {
    name: 'n-body, 1024²',
    file: 'science',
    kernel: 'nbody',
    options: { grid: 8, block: 128 },
    parameters: [single(4096), empty(4096), 1024],
    target: 8,
  },
  {
    name: 'sum by shuffles, 1 M',
    file: 'reductions',
    kernel: 'sum_warp',
    options: { grid: 4096, block: 256 },
    parameters: [new Int32Array(N), new Int32Array(1), N],
    target: undefined,
  },
]

/** Milliseconds of the C loops, by their name; empty without a C compiler. */
function loopsInC(): ReadonlyMap<string, number> {
  const folder = mkdtempSync(join(tmpdir(), 'ptx-bench-'))
  try {
    const program = join(folder, 'loops')
    const compiled = spawnSync('cc', ['-O2', '-o', program, join(root, 'bench/ptx.c'), '-lm'], { stdio: 'inherit' })
    if (compiled.status !== 0) return new Map()
    const { stdout } = spawnSync(program, { encoding: 'utf8' })
    return new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(' '))
        .map(([name = '', time]) => [name, Number(time)]),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

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
