/**
 * What a GPU answered to the cases of this folder, in a file: brotli over a header and one line of JSON for each case.
 * record.ts writes it, forms.test.ts reads it.
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { root } from '../../helpers/root.js'
import { type FormCase, keyOf, operandsFor } from './cases.js'

/** Threads of each case. */
export const COUNT = 96

export const RECORDING = join(root, 'tests/ptx/forms/answers.json.br')

export interface Header {
  /** The name of the GPU. */
  readonly device: string
  readonly driverVersion: string
  readonly count: number
}

export interface RecordedCase {
  readonly key: string
  /** Of the operands, so that results are never held against other operands. */
  readonly operands: string
  /** Two words of 64 bits for each thread. */
  readonly results: BigUint64Array
}

/** The second words are left out where all are zero. */
type Line = readonly [key: string, operands: string, first: string, second?: string]

export function recordedCase(each: FormCase, results: BigUint64Array): RecordedCase {
  return { key: keyOf(each), operands: digestOf(each), results }
}

export function digestOf(each: FormCase): string {
  return createHash('sha256').update(operandsFor(each, COUNT)).digest('base64url').slice(0, 6)
}

export function save(file: string, header: Header, cases: readonly RecordedCase[]): void {
  const lines = cases.map(({ key, operands, results }) => {
    const hex = (word: 0 | 1): string =>
      [...results.filter((_, index) => index % 2 === word)].map((value) => value.toString(16)).join(' ')
    const hasSecond = results.some((value, index) => index % 2 === 1 && value !== 0n)
    const line: Line = hasSecond ? [key, operands, hex(0), hex(1)] : [key, operands, hex(0)]
    return JSON.stringify(line)
  })
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
  writeFileSync(file, brotliCompressSync([JSON.stringify(header), ...lines].join('\n'), { params }))
}

export function load(file: string): { readonly header: Header; readonly cases: ReadonlyMap<string, RecordedCase> } {
  const [head = '', ...lines] = brotliDecompressSync(readFileSync(file)).toString().split('\n')
  const header = JSON.parse(head) as Header
  const cases = lines.map((text): [string, RecordedCase] => {
    const [key, operands, first, second] = JSON.parse(text) as Line
    const results = new BigUint64Array(2 * header.count)
    const fill = (hex: string, word: number): void => {
      for (const [thread, value] of hex.split(' ').entries()) results[2 * thread + word] = BigInt(`0x${value}`)
    }
    fill(first, 0)
    if (second !== undefined) fill(second, 1)
    return [key, { key, operands, results }]
  })
  return { header, cases: new Map(cases) }
}
