/** What a GPU gave of the launches of cases.ts: answers.json.br, which record.py writes as JSON. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { root } from '../../helpers/root.js'
import { Machine, type TestLaunch } from '../machine.js'
import type { RecordedLaunch } from './cases.js'
import { filled } from './fill.js'

export interface Answer {
  /** The beginning of the SHA-256 of the results, in base64. */
  readonly hash: string
  /** The first four words, for whoever reads a difference. */
  readonly first: string
}

interface Recording {
  readonly device: string
  readonly answers: Readonly<Record<string, readonly [hash: string, first: string]>>
}

const file = join(root, 'tests/ptx/warpgroup/answers.json.br')
const recording = JSON.parse(brotliDecompressSync(readFileSync(file)).toString()) as Recording

export const { device } = recording

export function answerOf(key: string): Answer {
  const [hash, first] = recording.answers[key] ?? []
  if (hash === undefined || first === undefined) throw new Error(`${key} is not in answers.json.br: record it on a GPU`)
  return { hash, first }
}

/** Runs a launch on the simulator; returns its results. */
export function played(launch: RecordedLaunch, options: TestLaunch = {}): Uint32Array {
  const machine = new Machine()
  const module = machine.load(launch.text)
  let [out, size] = [0, 0]
  const parameters = launch.parameters.map((each) => {
    if ('number' in each) return each.number
    if ('words' in each) return machine.put(BigUint64Array.from(each.words, (word) => BigInt(`0x${word}`)))
    if ('fills' in each) return machine.put(filled(each.fills))
    size = each.out
    out = machine.put(new Uint32Array(size).fill(0xdeadbeef))
    return out
  })
  const { grid, block, shared, kernel } = launch
  machine.run(module, kernel, { grid: [...grid], block, shared, ...options }, parameters)
  return machine.get(out, new Uint32Array(size))
}

export function answered(results: Uint32Array): Answer {
  const bytes = new Uint8Array(results.buffer, results.byteOffset, results.byteLength)
  const hash = createHash('sha256').update(bytes).digest('base64').slice(0, 16)
  return { hash, first: [...results.subarray(0, 4)].map((word) => word.toString(16)).join(' ') }
}
