/**
 * The variables of a program in Python that have its streams, as read from its source: advice names streams by them. A name is returned only where
 * one line binds it, to a stream that is made there, outside of loops.
 */
import { process } from '../../foundation/base/node-modules.js'
import { placeInPython } from '../../foundation/base/stack.js'

/** A variable of Python, or an attribute of `self`. */
export interface PythonVariable {
  readonly name: string
  readonly path: string
  /** The row of the line that binds it, from 1. */
  readonly row: number
  /** The row of the function or, for an attribute, of the class that has it; 0 for a variable of the module. */
  readonly owner: number
}

const NAME = String.raw`(?:self\.)?[A-Za-z_]\w*`
/** `with torch.cuda.stream(side), torch.no_grad():`. */
const STREAM_OF_PYTORCH = new RegExp(String.raw`^\s*(?:async\s+)?with\s.*\bstream\(\s*(${NAME})\s*\)`)
/** `with side:`. */
const STREAM_OF_CUPY = new RegExp(String.raw`^\s*with\s+(${NAME})\s*(?:as\s+\w+\s*)?[,:]`)
const STREAM_ARGUMENT = new RegExp(String.raw`\bstream\s*=\s*(${NAME})\s*[,)]`)
const ARGUMENTS = String.raw`\((?!.*\bpriority\b)(?:[^()]|\([^()]*\))*\)`
const MADE = String.raw`(?:\w+\.)*(?:External)?Stream${ARGUMENTS}`
/** Streams that are made, and nothing else. What a priority asks for is of another part of PyTorch's pool than its first stream. */
const MAKES_STREAMS = new RegExp(String.raw`=\s*${MADE}(?:\s*,\s*${MADE})*\s*(?:#.*)?$`)
const FUNCTION = /^\s*(?:async\s+)?def\s+(\w+)/
const CLASS = /^\s*class\s/
const LOOP = /^\s*(?:(?:async\s+)?for|while)\b/
/** The most lines of a call that are read. */
const MOST_LINES = 20

/**
 * The variable that has the stream on which a line queued work: the stream of the `with` around it, or of its argument `stream`.
 * @param line A line of a stack, such as 'at load (/app/train.py:19)'
 * @param made The line of the stack that made the stream, if it is known
 */
export function variableUsedAt(line: string | undefined, made: string | undefined): PythonVariable | undefined {
  const source = sourceAt(line)
  if (source === undefined) return undefined
  const { lines, path, row } = source
  const call = callAt(lines, row)
  const name = STREAM_ARGUMENT.exec(call)?.[1] ?? streamAround(lines, row)
  const bound = name === undefined ? undefined : bindingOf(lines, name, row)
  if (name === undefined || bound === undefined) return undefined
  const madeAt = made === undefined ? undefined : placeInPython(made)
  if (madeAt !== undefined && (madeAt.path !== path || madeAt.row !== bound.row)) return undefined
  // Several streams that one line makes are told apart by the names in the call alone.
  const others = bound.names.filter((other) => other !== name)
  if (others.some((other) => mentions(call, other))) return undefined
  return { name, path, row: bound.row, owner: bound.owner }
}

/**
 * The variable to which a line of Python assigns the one stream that it makes, such as 'side' for `side = torch.cuda.Stream()`.
 * @param line A line of a stack, such as 'at load (/app/train.py:12)'
 */
export function pythonVariableMadeAt(line: string | undefined): PythonVariable | undefined {
  const source = sourceAt(line)
  if (source === undefined) return undefined
  const { lines, path, row } = source
  const [name, ...others] = namesBoundBy(lines[row - 1] ?? '')
  const bound = name === undefined || others.length > 0 ? undefined : bindingOf(lines, name, row)
  return name === undefined || bound?.row !== row ? undefined : { name, path, row, owner: bound.owner }
}

/** Whether a variable can be named at a line of a stack: it is one of the module, or of a function or class around that line. */
export function isVisibleAt({ path, owner }: PythonVariable, line: string | undefined): boolean {
  const source = sourceAt(line)
  if (source === undefined || source.path !== path) return false
  return owner === 0 || around(source.lines, source.row).some(({ row }) => row === owner)
}

/** The stream of the innermost `with` around a line, within its function. */
function streamAround(lines: readonly string[], row: number): string | undefined {
  for (const { row: at, text } of around(lines, row)) {
    if (FUNCTION.test(text) || CLASS.test(text)) return undefined
    const name = (STREAM_OF_PYTORCH.exec(text) ?? STREAM_OF_CUPY.exec(text))?.[1]
    if (name === undefined || bindingOf(lines, name, row) === undefined) continue
    return lines.slice(at, row).some((line) => line.includes('set_stream')) ? undefined : name
  }
  return undefined
}

interface Binding {
  readonly row: number
  readonly owner: number
  /** All names that the line binds. */
  readonly names: readonly string[]
}

/**
 * The line that binds a name to a stream, as it is seen at a row: in the innermost function that binds it. Undefined if there are several, if it
 * is another thing, or if a loop has it.
 */
function bindingOf(lines: readonly string[], name: string, seenAt: number): Binding | undefined {
  const word = name.replace('.', String.raw`\.`)
  const isAttribute = name.startsWith('self.')
  const elsewhere = new RegExp(
    String.raw`^\s*(?:global|nonlocal)\b.*\b${word}\b|\bfor\b.*(?<![\w.])${word}\b.*\bin\b|\bas\s+${word}\b|(?<![\w.])${word}\s*(?::=|[-+*/|&]=)|^\s*(?:async\s+)?def\b.*[(,\s*]${word}\s*[,):=]`,
  )
  if (lines.some((line) => elsewhere.test(line))) return undefined
  const visible = new Set(around(lines, seenAt).map((block) => block.row))
  const bindings = lines.flatMap((text, at) => {
    const names = namesBoundBy(text)
    if (!names.includes(name)) return []
    const blocks = around(lines, at + 1)
    const owner = blocks.find((block) => (isAttribute ? CLASS : FUNCTION).test(block.text))
    if (owner !== undefined && !visible.has(owner.row)) return []
    const own = owner === undefined ? blocks : blocks.slice(0, blocks.indexOf(owner))
    // What the body of a class binds is no variable, but an attribute.
    if (own.some((block) => CLASS.test(block.text))) return []
    const isGood = MAKES_STREAMS.test(text) && !own.some((block) => LOOP.test(block.text))
    return [{ row: at + 1, owner: owner?.row ?? 0, names, isGood }]
  })
  const innermost = Math.max(...bindings.map(({ owner }) => owner))
  const [bound, ...others] = bindings.filter(({ owner }) => owner === innermost)
  return bound?.isGood === true && others.length === 0 ? bound : undefined
}

const TARGETS = new RegExp(String.raw`^\s*(${NAME}(?:\s*,\s*${NAME})*)\s*(?::[^=()]+)?=(?!=)`)

/** The names to which a line assigns. */
const namesBoundBy = (line: string): readonly string[] =>
  TARGETS.exec(line)?.[1]
    ?.split(',')
    .map((name) => name.trim()) ?? []

const mentions = (text: string, name: string): boolean =>
  new RegExp(String.raw`(?<![\w.])${name.replace('.', String.raw`\.`)}\b`).test(text)

/** The headers of the blocks around a line, innermost first, with their rows. */
function around(lines: readonly string[], row: number): readonly { readonly row: number; readonly text: string }[] {
  const headers: { readonly row: number; readonly text: string }[] = []
  let depth = indentOf(lines[row - 1] ?? '')
  for (let at = row - 1; at > 0 && depth > 0; at -= 1) {
    const text = lines[at - 1] ?? ''
    if (/^\s*(?:#|$)/.test(text) || indentOf(text) >= depth) continue
    depth = indentOf(text)
    headers.push({ row: at, text })
  }
  return headers
}

const indentOf = (line: string): number => line.length - line.trimStart().length

/** The text of the call that begins at a line, until its parentheses are closed. */
function callAt(lines: readonly string[], row: number): string {
  let depth = 0
  let text = ''
  for (const line of lines.slice(row - 1, row - 1 + MOST_LINES)) {
    text += `${line}\n`
    for (const letter of line) depth += '([{'.includes(letter) ? 1 : ')]}'.includes(letter) ? -1 : 0
    if (depth <= 0) break
  }
  return text
}

/** The text of the source at a line of a stack; empty if it is not there. */
export function sourceOf(line: string | undefined): string {
  const source = sourceAt(line)
  return source?.lines[source.row - 1] ?? ''
}

interface Source {
  readonly lines: readonly string[]
  readonly path: string
  readonly row: number
}

function sourceAt(line: string | undefined): Source | undefined {
  const place = line === undefined ? undefined : placeInPython(line)
  if (place === undefined) return undefined
  try {
    const lines = process.getBuiltinModule('node:fs').readFileSync(place.path, 'utf8').split('\n')
    return place.row > lines.length ? undefined : { ...place, lines }
  } catch {
    return undefined // The code was never in a file, or the file is gone.
  }
}
