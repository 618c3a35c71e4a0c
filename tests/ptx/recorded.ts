/**
 * What a GPU made of the kernels of these tests: kernels/recorded.jsonl. The engine must give the same, bit for bit; where
 * approximations made other bits when it was recorded, within a small error.
 *
 * To record, run these tests on a machine with a GPU with CUDA_STREAMS_TEST_RECORDING=file, one file of tests at a time.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../helpers/root.js'
import type { NumericArray } from './machine.js'

/** Of a launch, its arrays: a hash where the engine had the same bits when it was recorded, else all bytes. */
interface RecordedArray {
  readonly hash?: string
  readonly bytes?: string
}

interface RecordedKernel {
  readonly key: string
  readonly device: string
  readonly launches: readonly (readonly RecordedArray[])[]
}

const file = join(root, 'tests/ptx/kernels/recorded.jsonl')
const into = process.env['CUDA_STREAMS_TEST_RECORDING']
const lines = readFileSync(file, 'utf8').trim().split('\n')
const known = new Map(lines.map((line) => JSON.parse(line) as RecordedKernel).map((each) => [each.key, each]))

const bytesOf = (array: NumericArray): Buffer => Buffer.from(array.buffer, array.byteOffset, array.byteLength)
const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('base64').slice(0, 22)

export class Results {
  readonly #engine: NumericArray[][] = []
  readonly #gpu: NumericArray[][] = []

  constructor(readonly key: string) {}

  ofEngine(arrays: readonly NumericArray[]): void {
    this.#engine.push(arrays.map((each) => each.slice()))
  }

  ofGpu(arrays: readonly NumericArray[]): void {
    this.#gpu.push(arrays.map((each) => each.slice()))
  }

  /** The engine's results against the recorded ones. */
  compare(): void {
    const recorded = known.get(this.key)
    if (into !== undefined) return
    assert.ok(recorded, `${this.key} is not in kernels/recorded.jsonl: record it on a GPU`)
    for (const [nth, launch] of recorded.launches.entries()) {
      for (const [index, { hash, bytes }] of launch.entries()) {
        const array = this.#engine[nth]?.[index]
        assert.ok(array, `${this.key}: no array ${index} of launch ${nth}`)
        const where = `${this.key}: array ${index} of launch ${nth}`
        if (hash !== undefined) assert.equal(hashOf(bytesOf(array)), hash, `${where} has other bits than on a GPU`)
        else if (bytes !== undefined) near(array, Buffer.from(bytes, 'base64'), where)
      }
    }
  }

  /** Writes the GPU's results down, where that is asked for. */
  record(device: string): void {
    if (into === undefined) return
    const launches = this.#gpu.map((arrays, nth) =>
      arrays.map((array, index) => {
        const [bytes, engine] = [bytesOf(array), this.#engine[nth]?.[index]]
        const same = engine !== undefined && bytes.equals(bytesOf(engine))
        return same ? { hash: hashOf(bytes) } : { bytes: bytes.toString('base64') }
      }),
    )
    appendFileSync(into, `${JSON.stringify({ key: this.key, device, launches })}\n`)
  }
}

/** Approximations differ by a few units in the last place, which sums carry on: an error counts beside the largest value of the array. */
function near(array: NumericArray, recorded: Buffer, where: string): void {
  const expected = array.slice()
  bytesOf(expected).set(recorded)
  const sizes = Array.from<number | bigint, number>(expected, (value) => Math.abs(Number(value)))
  const largest = Math.max(0, ...sizes.filter(Number.isFinite))
  for (const [index, value] of array.entries()) {
    const other = expected[index]
    if (Object.is(value, other)) continue
    const [a, b] = [Number(value), Number(other)]
    assert.ok(Math.abs(a - b) <= 1e-5 * Math.abs(b) + 1e-6 * largest, `${where}, ${index}: ${a} instead of ${b}`)
  }
}
