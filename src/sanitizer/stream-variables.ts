/** The variables of the program that have its streams, as read from the lines where these were made: advice names streams by them. */
import { process } from '../base/node-modules.js'
import { placeOf } from '../base/stack.js'

/** What compilers write around the value of a `using`. */
const USING = String.raw`(?:(?:__addDisposableResource|__using)\((?:\w+,\s*)?)?`
/** What stands before `new Stream()`, or before the name of a method that returns a stream. */
const ASSIGNED = new RegExp(
  String.raw`(?:^|[\s({;,])((?:this\.)?#?[A-Za-z_$][\w$]*)\s*(?::[^=]*)?=\s*(?:await\s+)?${USING}(?:[\w$.#]+\.)?$`,
)
const DESTRUCTURED = /\[([\w$,\s]+)\]\s*=\s*\[([^[\]]*)$/

/**
 * The variable to which a line assigns what is made there, such as 'upload' for `const upload = new Stream()`.
 * @param line A line of a stack, such as 'at open (file:///app/video.js:12:18)'
 * @returns undefined if the source is not there, or assigns it to no variable
 */
export function variableMadeAt(line: string | undefined): string | undefined {
  const place = line === undefined ? undefined : placeOf(line)
  return place && variableIn(sourceLine(place.path, place.row)?.slice(0, place.column - 1) ?? '')
}

/** @param before A line of the source up to where the object is made */
export function variableIn(before: string): string | undefined {
  const [, names = '', values = ''] = DESTRUCTURED.exec(before) ?? []
  if (names !== '') return names.split(',')[argumentsIn(values)]?.trim() || undefined
  return ASSIGNED.exec(before)?.[1]
}

/** How many values are complete in the beginning of a list of them. */
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

function sourceLine(path: string, row: number): string | undefined {
  try {
    return process.getBuiltinModule('node:fs').readFileSync(path, 'utf8').split('\n')[row - 1]
  } catch {
    return undefined // Code that was never in a file, or is no longer there.
  }
}
