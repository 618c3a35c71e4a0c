/** Whole kernels of CUDA C++ (kernels/hopper.cu), each with small input. */
import { integers, ptxOf } from '../machine.js'
import type { HopperCase, MapSpec } from './hopper-case.js'

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength)
const floats = (count: number, seed: number): Uint8Array =>
  bytesOf(Float32Array.from(integers(count, 17, seed), (value) => value / 4 - 2))
const FLOAT = 7
const map = (buffer: number, [rows, columns]: readonly [number, number], box: readonly [number, number]): MapSpec => ({
  ...{ buffer, type: FLOAT, dims: [columns, rows], strides: [4 * columns], box: [box[1], box[0]] },
})

const [M, N, K] = [64, 96, 160]

const cases: readonly Omit<HopperCase, 'ptx'>[] = [
  {
    ...{ name: 'matmul', entry: 'hopper_matmul', grid: [N / 32, M / 32, 1], block: [160, 1, 1] },
    buffers: [floats(M * K, 1), floats(K * N, 2), new Uint8Array(4 * M * N)],
    args: [
      { map: map(0, [M, K], [32, 32]) },
      { map: map(1, [K, N], [32, 32]) },
      { map: map(2, [M, N], [32, 32]) },
      { u32: K },
    ],
  },
  {
    ...{
      name: 'histogram',
      entry: 'hopper_histogram',
      grid: [4, 1, 1],
      block: [64, 1, 1],
      cluster: [4, 1, 1],
      shared: 100,
    },
    buffers: [new Uint8Array(400), bytesOf(integers(1000, 100, 3))],
    args: [{ buffer: 0 }, { u32: 25 }, { buffer: 1 }, { u32: 1000 }],
  },
  {
    ...{
      name: 'histogram of two clusters',
      entry: 'hopper_histogram',
      grid: [4, 1, 1],
      block: [64, 1, 1],
      cluster: [2, 1, 1],
    },
    ...{ shared: 200 },
    buffers: [new Uint8Array(400), bytesOf(integers(1000, 100, 3))],
    args: [{ buffer: 0 }, { u32: 50 }, { buffer: 1 }, { u32: 1000 }],
  },
  {
    ...{ name: 'sum', entry: 'hopper_sum', grid: [8, 1, 1], block: [64, 1, 1], cluster: [4, 1, 1] },
    buffers: [bytesOf(integers(512, 1000, 4)), new Uint8Array(8)],
    args: [{ buffer: 0 }, { buffer: 1 }],
  },
  {
    ...{ name: 'multicast', entry: 'hopper_multicast', grid: [4, 1, 1], block: [16, 1, 1], cluster: [2, 1, 1] },
    buffers: [floats(20 * 32, 5), new Uint8Array(256)],
    args: [{ map: map(0, [20, 32], [16, 16]) }, { buffer: 1 }],
  },
  {
    ...{ name: 'add one', entry: 'hopper_add_one', grid: [3, 1, 1], block: [96, 1, 1] },
    buffers: [bytesOf(integers(3072, 1000, 6))],
    args: [{ buffer: 0 }, { u32: 3072 }],
  },
]

export const KERNEL_CASES: readonly HopperCase[] = cases.map((each) => ({ ...each, ptx: ptxOf('hopper.sm_90') }))
