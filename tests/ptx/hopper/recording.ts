/** What a GPU answered to the cases of this folder, in a file: JSON, compressed. record.ts writes it, hopper.test.ts reads it. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { root } from '../../helpers/root.js'
import { BULK_CASES } from './bulk-cases.js'
import { CLUSTER_CASES } from './cluster-cases.js'
import type { HopperCase } from './hopper-case.js'
import { KERNEL_CASES } from './kernel-cases.js'
import { TENSOR_CASES } from './tensor-cases.js'

const RECORDING = join(root, 'tests/ptx/hopper/answers.json.br')

/** All cases; their names are those of the recording. */
export const HOPPER_CASES: readonly HopperCase[] = Object.entries({
  bulk: BULK_CASES,
  cluster: CLUSTER_CASES,
  tensor: TENSOR_CASES,
  kernel: KERNEL_CASES,
}).flatMap(([group, cases]) => cases.map((each) => ({ ...each, name: `${group} ${each.name}` })))

/** The answer to a case: the buffers that it has changed, as base64, or the call that failed with its CUresult. */
export interface HopperAnswer {
  readonly name: string
  readonly buffers?: readonly (string | null)[]
  readonly where?: 'encode' | 'launch' | 'load' | 'run'
  readonly result?: number
}

/** The driver's answer to the encoding of a map: its CUresult, the bytes in hexadecimal digits, and the address that it was given. */
export type MapAnswer = readonly [name: string, result: number, bytes: string, address: number]

export interface HopperRecording {
  readonly driver: number
  readonly cases: readonly HopperAnswer[]
  readonly maps: readonly MapAnswer[]
}

export function saveRecording(recording: HopperRecording): void {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
  writeFileSync(RECORDING, brotliCompressSync(JSON.stringify(recording), { params }))
}

export function loadRecording(): HopperRecording {
  return JSON.parse(brotliDecompressSync(readFileSync(RECORDING)).toString()) as HopperRecording
}
