/** Makes a function of a program's text: TypeScript with imports and `await`, each line where it was. */
import { transform } from 'sucrase'

export type Require = (name: string) => unknown
export type Name = (name: string, value: unknown) => unknown
export type Body = (
  require: Require,
  exports: Record<string, unknown>,
  console: object,
  named: Name,
) => Promise<undefined>

export const FILE = 'program.ts'

/** Where stacks say that the program is: the library tells what lies there without the folder. */
const folder = (): string => {
  if (typeof location === 'object') return location.origin
  const { cwd }: { cwd: () => string } = Reflect.get(globalThis, 'process')
  return cwd()
}

export class NoProgram extends Error {
  constructor(
    message: string,
    readonly line: number | undefined,
  ) {
    super(message)
  }
}

export function compile(code: string): Body {
  let script: string
  try {
    script = transform(withNames(code), { transforms: ['typescript', 'imports'], disableESTransforms: true }).code
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    const line = /\((\d+):\d+\)/.exec(text)?.[1]
    throw new NoProgram(text, line === undefined ? undefined : Number(line))
  }
  const wrapped = `(async (require, exports, console, $named) => {${script}\n})\n//# sourceURL=${folder()}/${FILE}`
  try {
    // biome-ignore lint/security/noGlobalEval: this is what a playground is for, in a worker that can be ended
    return globalThis.eval(wrapped)
  } catch (error) {
    throw new NoProgram(String(error), undefined)
  }
}

/** What a module exports that imports no more than `require` has. */
export function load(text: string, file: string, require: Require): Record<string, unknown> {
  const { code } = transform(text, { transforms: ['imports'], disableESTransforms: true })
  const exports: Record<string, unknown> = {}
  // biome-ignore lint/security/noGlobalEval: the text is made by the library
  const body: (require: Require, exports: Record<string, unknown>) => void = globalThis.eval(
    `((require, exports) => {${code}\n})\n//# sourceURL=${folder()}/${file}`,
  )
  body(require, exports)
  return exports
}

/** The program's line in a frame of a stack, or in a place as reports have it. */
export function lineIn(text: string | undefined): number | undefined {
  const found = new RegExp(`${FILE.replace('.', '\\.')}:(\\d+)`).exec(text ?? '')?.[1]
  return found === undefined ? undefined : Number(found)
}

/** Places without the folder, and without those that are none of the program's. */
export const brief = (text: string): string =>
  text.replaceAll(`${folder()}/${FILE}`, FILE).replaceAll(/ \(from (?!program\.ts)[^\s():]+:\d+\)/g, '')

const MAKES = String.raw`(?:await\s+)?(?:new\s+(?:Stream|ExternalStream)\b|[\w$.[\]!?]+\.(?:createStream|alloc|allocPinned|bufferFrom|subarray)\b|(?:Stream|DeviceBuffer)\.from\b)[^(\n]*`
const VARIABLE = String.raw`([A-Za-z_$][\w$]*)(?:\s*:\s*[\w<>[\]| ]+)?\s*=\s*`
const ONE = new RegExp(`${VARIABLE}(?=${MAKES}\\()`, 'g')
const SEVERAL = new RegExp(`${VARIABLE}(?=\\[\\s*${MAKES}\\(|\\[[^\\]\\n]*\\]\\.map\\(|Array\\.from\\()`, 'g')
const PATTERN = new RegExp(String.raw`\[\s*([\w$]+(?:\s*,\s*[\w$]+)*)\s*\]\s*=\s*(?=\[\s*${MAKES}\()`, 'g')

/** Streams and buffers get the names of the variables that they are made for, so that findings and pictures can tell of them. */
function withNames(code: string): string {
  const wraps: { at: number; end: number; name: string }[] = []
  for (const pattern of [PATTERN, SEVERAL, ONE]) {
    for (const match of code.matchAll(pattern)) {
      const at = match.index + match[0].length
      const end = endOfCalls(code, at)
      if (end > at && !wraps.some((other) => at >= other.at && at < other.end))
        wraps.push({ at, end, name: match[1] ?? '' })
    }
  }
  wraps.sort((a, b) => b.at - a.at)
  let result = code
  for (const { at, end, name } of wraps)
    result = `${result.slice(0, at)}$named(${JSON.stringify(name)}, ${result.slice(at, end)})${result.slice(end)}`
  return result
}

const OPEN = '([{'
const CLOSE = ')]}'

/** Behind the brackets that begin somewhere here, and those that follow at once, with names and dots between. */
function endOfCalls(code: string, from: number): number {
  let depth = 0
  let end = from
  for (let at = from; at < code.length; at += 1) {
    const letter = code[at] ?? ''
    if (letter === "'" || letter === '"' || letter === '`') {
      const close = code.indexOf(letter, at + 1)
      if (close < 0) return from
      at = close
    } else if (code.startsWith('//', at)) at = (code.indexOf('\n', at) + code.length) % code.length
    else if (OPEN.includes(letter)) depth += 1
    else if (CLOSE.includes(letter)) {
      depth -= 1
      if (depth < 0) return end
      if (depth === 0) {
        end = at + 1
        if (!/^\s*\.\w+\(|^\(/.test(code.slice(end, end + 60))) return end
      }
    } else if (depth === 0 && (letter === ';' || letter === ',')) return end
  }
  return from
}
