/** The variables of the program that have its streams, as read from the lines where these were made: advice names streams by them. */
import { process } from '../../foundation/base/node-modules.js'
import { placeOf } from '../../foundation/base/stack.js'

const NAME = String.raw`[A-Za-z_$][\w$]*`
/** The calls that compilers write around the value of a `using`. */
const USING = String.raw`(?:(?:__addDisposableResource|__using)\((?:\w+,\s*)?)?`
/** The text before `new Stream()`, or before the name of a method that returns a stream. */
const VALUE = String.raw`(?:\?\?|\|\||&&)?=\s*(?:await\s+)?${USING}(?:[\w$.#]+\.)?$`
const BEGIN = String.raw`(?:^|[\s({;,])`
/** A type in TypeScript, without characters that object literals, calls and texts have, too. */
const TYPE = String.raw`(?:\s*[!?]?\s*:\s*[\w$.<>|&[\]\s]+?)?`
const MODIFIERS = 'accessor|declare|override|private|protected|public|readonly'

const DECLARED = new RegExp(String.raw`${BEGIN}(?:const|let|var|using)\s+(${NAME})${TYPE}\s*${VALUE}`)
const FIELD = new RegExp(String.raw`${BEGIN}(?:${MODIFIERS})\s+(#?${NAME})${TYPE}\s*${VALUE}`)
/** An assignment to a variable or property. Behind a colon the name may be a type, and does not count. */
const ASSIGNED = new RegExp(String.raw`${BEGIN}(?<!:\s*)((?:this\.)?#?${NAME})\s*${VALUE}`)
/** A field with a type, at the beginning of a line of a class. */
const TYPED_FIELD = new RegExp(String.raw`^\s*(#?${NAME})${TYPE}\s*${VALUE}`)
const STATIC = /(?:^|\s)static\s/
const DESTRUCTURED = /(?:^|[\s({;,])\[([\w$,\s]+)\]\s*=\s*\[([^[\]]*)$/
const TYPE_ARGUMENTS = /<[^<>;]*>/g
/** The text before the brace of a class's body, except for type arguments. */
const CLASS_HEAD = /(?:^|[\s;={}(])class\b[^{}]*$/

/**
 * The variable to which a line assigns what is made there, such as 'upload' for `const upload = new Stream()`.
 * @param line A line of a stack, such as 'at open (file:///app/video.js:12:18)'
 * @returns undefined if the source is not there, or assigns it to no variable
 */
export function variableMadeAt(line: string | undefined): string | undefined {
  const place = line === undefined ? undefined : placeOf(line)
  if (place === undefined) return undefined
  const lines = sourceLines(place.path)
  const text = lines[place.row - 1]
  if (text === undefined) return undefined
  const at = place.column - 1
  const after = [text.slice(at), ...lines.slice(place.row)].join('\n')
  return isWholeValue(after) ? variableIn(text.slice(0, at), lines.slice(0, place.row - 1)) : undefined
}

/**
 * The variable to which the source assigns an object.
 * @param before A line of the source up to where the object is made
 * @param above The lines above it
 */
export function variableIn(before: string, above: readonly string[] = []): string | undefined {
  const [, names = '', values = ''] = DESTRUCTURED.exec(before) ?? []
  if (names !== '') return /["'`]/.test(values) ? undefined : names.split(',')[argumentsIn(values)]?.trim() || undefined
  const declared = DECLARED.exec(before)?.[1]
  if (declared !== undefined) return declared
  const isInClass = isClassBody([...above, before].join('\n'))
  const field = FIELD.exec(before)?.[1] ?? (isInClass ? TYPED_FIELD.exec(before)?.[1] : undefined)
  const assigned = field ?? ASSIGNED.exec(before)?.[1]
  if (assigned === undefined || assigned.startsWith('this.')) return assigned
  // A static field belongs to the class, not to an object of it.
  if (STATIC.test(before)) return undefined
  return field !== undefined || isInClass || assigned.startsWith('#') ? `this.${assigned}` : assigned
}

/** Whether a source ends in the body of a class, and in no function of it. Braces within texts count, so the answer may be wrong. */
function isClassBody(source: string): boolean {
  let depth = 0
  for (let at = source.length - 1; at >= 0; at -= 1) {
    const character = source[at]
    if (character === '}') depth += 1
    if (character !== '{') continue
    if (depth === 0) return CLASS_HEAD.test(source.slice(Math.max(0, at - 500), at).replace(TYPE_ARGUMENTS, ''))
    depth -= 1
  }
  return false
}

/** Whether a source ends at the call that makes a stream, and the stream is assigned before anything else is done with it. */
function isWholeValue(source: string): boolean {
  let depth = 0
  for (let at = source.indexOf('('); at >= 0 && at < source.length; at += 1) {
    const character = source[at] ?? ''
    if ('([{'.includes(character)) depth += 1
    else if (')]}'.includes(character)) depth -= 1
    if (depth === 0) return !/^\s*(?:\.|\?\.|\[|\()/.test(source.slice(at + 1, at + 500))
  }
  return true
}

/** The number of values that are complete in the beginning of a list of them. */
function argumentsIn(values: string): number {
  let depth = 0
  let count = 0
  for (const character of values) {
    if ('({'.includes(character)) depth += 1
    else if (')}'.includes(character)) depth -= 1
    else if (character === ',' && depth === 0) count += 1
  }
  return count
}

function sourceLines(path: string): readonly string[] {
  try {
    return process.getBuiltinModule('node:fs').readFileSync(path, 'utf8').split('\n')
  } catch {
    return [] // The code was never in a file, or the file is gone.
  }
}
