/**
 * What a GPU made of the kernels of these tests: kernels/recorded.jsonl. The engine must give the same, bit for bit.
 *
 * To record, run these tests on a machine with a GPU with CUDA_STREAMS_TEST_RECORDING=file, one file of tests at a time.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../helpers/root.js'
import type { NumericArray } from './machine.js'

/** An array of a launch, as the hash of its bytes. */
interface RecordedArray {
  readonly hash: string
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
      for (const [index, { hash }] of launch.entries()) {
        const array = this.#engine[nth]?.[index]
        const where = `${this.key}: array ${index} of launch ${nth}`
        assert.ok(array, where)
        assert.equal(hashOf(bytesOf(array)), hash, `${where} has other bits than on a GPU`)
      }
    }
  }

  /** Writes the GPU's results down, where that is asked for. */
  record(device: string): void {
    if (into === undefined) return
    const launches = this.#gpu.map((arrays) => arrays.map((array) => ({ hash: hashOf(bytesOf(array)) })))
    appendFileSync(into, `${JSON.stringify({ key: this.key, device, launches })}\n`)
  }
}
