/** The kernels of bench/ptx.ts and bench/lanes.ts with what they run on, and the same loops in C. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type NumericArray, randomNumbers, type TestLaunch } from '../tests/ptx/machine.js'
import { root } from './root.js'

const N = 1 << 20

export interface Row {
  readonly name: string
  readonly file: string
  readonly kernel: string
  readonly options: TestLaunch
  readonly parameters: readonly (number | NumericArray)[]
  /** How many times the C loop it may take. */
  readonly target: number | undefined
}

const random = randomNumbers(1)
export const single = (count: number): Float32Array => Float32Array.from({ length: count }, () => random() + 0.5)
const double = (count: number): Float64Array => Float64Array.from({ length: count }, () => random() + 0.5)
export const empty = (count: number): Float32Array => new Float32Array(count)

export const ROWS: readonly Row[] = [
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
export function loopsInC(options: readonly string[] = ['-O2']): ReadonlyMap<string, number> {
  const folder = mkdtempSync(join(tmpdir(), 'ptx-bench-'))
  try {
    const program = join(folder, 'loops')
    const compiled = spawnSync('cc', [...options, '-o', program, join(root, 'bench/ptx.c'), '-lm'], {
      stdio: 'inherit',
    })
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
