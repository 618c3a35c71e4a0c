/**
 * Programs and what a GPU made of them, in a file: brotli over a header and one line of JSON for each program. Programs are
 * written as data, so that a change of the generator does not change what was recorded.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { Observation } from './play.js'
import { decode, encode, type Program } from './steps.js'

export interface Header {
  /** The name of the GPU. */
  readonly machine: string
  readonly driverVersion: string
  readonly recorded: string
  readonly platform: string
}

/** What is kept of an observation. Nothing against the rules is ever saved. */
export interface Recorded {
  readonly program: Program
  readonly results: readonly string[]
  readonly promises: readonly string[]
  readonly ran: string
  readonly bytes: readonly string[]
}

type Line = readonly [
  program: unknown,
  results: readonly string[],
  promises: readonly string[],
  ran: string,
  bytes: readonly string[],
]

/** The bytes themselves would fill the file. */
function digest(bytes: string): string {
  return bytes === 'closed' || bytes === 'lost'
    ? bytes
    : `#${createHash('sha256').update(bytes).digest('base64url').slice(0, 8)}`
}

export function recordedOf(program: Program, observation: Observation): Recorded {
  const { results, promises, ran, bytes } = observation
  return {
    program,
    results: results.map(shortened),
    promises: promises.map((promise) => (promise.length > MOST_TOLD ? digest(promise) : promise)),
    ran,
    bytes: bytes.map(digest),
  }
}

/** What a promise came to is kept as it is where it is no longer than this; bytes and all that a host function did are. */
const MOST_TOLD = 60

/** The bytes that a step has seen are long too. */
const shortened = (result: string): string => (/^[0-9a-f? ]{32,}$/.test(result) ? digest(result) : result)

export function save(file: string, header: Header, recorded: readonly Recorded[]): void {
  const lines = recorded.map(({ program, results, promises, ran, bytes }) => {
    const line: Line = [encode(program), results, promises, ran, bytes]
    return JSON.stringify(line)
  })
  const text = [JSON.stringify(header), ...lines].join('\n')
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, brotliCompressSync(text, { params }))
}

export function load(file: string): { readonly header: Header; readonly recorded: readonly Recorded[] } {
  const [header = '', ...lines] = brotliDecompressSync(readFileSync(file)).toString().split('\n')
  const recorded = lines.map((text) => {
    const [program, results, promises, ran, bytes] = JSON.parse(text) as Line
    return { program: decode(program as Parameters<typeof decode>[0]), results, promises, ran, bytes }
  })
  return { header: JSON.parse(header) as Header, recorded }
}
