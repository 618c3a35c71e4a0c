/**
 * The source map of compiled code: a module of WebAssembly is one line, whose columns are the offsets of its bytes, and the inspectors of run times
 * find the lines of files by it.
 */
import type { Place, SourceLine } from './syntax.js'
import type { CodeMark } from './wasm-encoder.js'

/** A file that the code was made from. */
export interface SourceFile {
  readonly url: string
  readonly text: string
}

/** Finds the files that `.loc` names. Code for which one is given is made for stepping: one thread after the other, each instruction at its place. */
export type FindSource = (file: string) => SourceFile | undefined

/** The texts in which an inspector shows a kernel. */
export interface SourceTexts {
  readonly find: FindSource
  /** The PTX, which stands in for files that are not found. */
  readonly ptx: SourceFile
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** The URL of the source map for code with these marks. If none of the files that they name is found, lines are those of the PTX. */
export function sourceMapUrl(marks: readonly CodeMark[], { find, ptx }: SourceTexts): string {
  const found = new Map<string, SourceFile | undefined>()
  for (const { place } of marks) {
    const file = place?.source?.file
    if (file !== undefined && !found.has(file)) found.set(file, find(file))
  }
  const files = [...found.values()].filter((each) => each !== undefined)
  const inPtx: SourceLine = { file: ptx.url, line: 0 }
  const lineOf = (place: Place | undefined): SourceLine | undefined => {
    if (place === undefined) return undefined
    if (files.length === 0) return { ...inPtx, line: place.line }
    const url = found.get(place.source?.file ?? '')?.url
    return url === undefined || place.source === undefined ? undefined : { file: url, line: place.source.line }
  }
  const sources = files.length === 0 ? [ptx] : [...new Map(files.map((each) => [each.url, each])).values()]
  const urls = sources.map(({ url }) => url)
  const map = {
    version: 3,
    sources: urls,
    sourcesContent: sources.map(({ text }) => text),
    names: [],
    mappings: mappings(marks, lineOf, urls),
  }
  return `data:application/json;base64,${base64(JSON.stringify(map))}`
}

function mappings(
  marks: readonly CodeMark[],
  lineOf: (place: Place | undefined) => SourceLine | undefined,
  urls: readonly string[],
): string {
  const segments: string[] = []
  const last = { column: 0, source: 0, line: 0 }
  let before = ''
  for (const [index, { at, place }] of marks.entries()) {
    // Of several marks at one byte the last one counts.
    if (marks[index + 1]?.at === at) continue
    const line = lineOf(place)
    const key = line === undefined ? '' : `${line.file}:${line.line}`
    if (key === before) continue
    before = key
    let segment = variableLength(at - last.column)
    last.column = at
    if (line !== undefined) {
      const [source, number] = [urls.indexOf(line.file), line.line - 1]
      segment += `${variableLength(source - last.source)}${variableLength(number - last.line)}${variableLength(0)}`
      last.source = source
      last.line = number
    }
    segments.push(segment)
  }
  return segments.join(',')
}

/** A number in the digits of source maps: five bits each, the sign in the least one, the least digits first. */
function variableLength(value: number): string {
  let rest = value < 0 ? (-value << 1) | 1 : value << 1
  let text = ''
  do {
    const digit = rest & 31
    rest >>>= 5
    text += BASE64[rest > 0 ? digit | 32 : digit] ?? ''
  } while (rest > 0)
  return text
}

/** Text as base64 of its UTF-8. */
function base64(text: string): string {
  const bytes = utf8(text)
  const parts: string[] = []
  for (let at = 0; at < bytes.length; at += 3) {
    const [first = 0, second = 0, third = 0] = bytes.slice(at, at + 3)
    const word = (first << 16) | (second << 8) | third
    const digits = [18, 12, 6, 0].map((shift) => BASE64[(word >> shift) & 63] ?? '')
    const missing = Math.max(0, at + 3 - bytes.length)
    parts.push(digits.slice(0, 4 - missing).join('') + '='.repeat(missing))
  }
  return parts.join('')
}

function utf8(text: string): readonly number[] {
  const bytes: number[] = []
  for (const part of encodeURIComponent(text.replace(/[\ud800-\udfff]/gu, '\ufffd')).split(/(%..)/)) {
    if (part.startsWith('%')) bytes.push(Number.parseInt(part.slice(1), 16))
    else for (let index = 0; index < part.length; index++) bytes.push(part.charCodeAt(index))
  }
  return bytes
}
