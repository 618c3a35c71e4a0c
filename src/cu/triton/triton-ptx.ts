/** What is done to the PTX that Triton makes before it goes into a module. */
import { forOldDrivers, withoutPlaces } from '../ptx-text.js'

const SECTION = /^\s*\.section\s+\.debug_\w+\s*\{[^}]*\}/gm
const COMMENT = /[ \t]*\/\/[^\n"]*$/gm
/** What Triton writes as text, on several lines: LLVM counts these as lines of the source. */
const ASSEMBLY = /\/\/ begin inline asm\n[\s\S]*?\/\/ end inline asm$/gm
/** Labels that only sections of debuggers name. */
const DEBUG_LABEL = /^\$L__(?:tmp|func_begin|func_end)\d+:\n/gm
const LOC =
  /^(?<indent>\s*)\.loc\s+(?<place>\d+ \d+ \d+)(?:, function_name \S+, inlined_at (?<from>\d+ \d+ \d+))?[ \t]*$/gm
const FILE = /^\s*\.file\s+(?<number>\d+) "(?<path>[^"]*)"\n?/gm

/**
 * The PTX without sections for debuggers, comments and folders of this machine, with another name for its kernel. Where a function of Triton's library
 * is inlined, the line is that of the project's file from which it is called.
 * @param isOwn Is the file one of the project?
 */
export function tritonPtx(ptx: string, entry: string, name: string, isOwn: (file: string) => boolean): string {
  const plain = ptx
    .replace(ASSEMBLY, withOnePlace)
    .replace(COMMENT, '')
    .replace(SECTION, '')
    .replace(DEBUG_LABEL, '')
    .replace(/\n\s*\n+/g, '\n')
  const located = withOwnLines(plain, isOwn)
  const named = located
    .replace(new RegExp(`(\\.entry\\s+)${entry}\\b`), `$1${name}`)
    .replace(new RegExp(`(?<![\\w$])${entry}(?=_param_\\d+\\b)`, 'g'), name)
  return forOldDrivers(withoutPlaces(named)).trim()
}

function withOnePlace(text: string): string {
  let isFirst = true
  return text.replace(/^\s*\.loc\s.*\n/gm, (place) => {
    const kept = isFirst ? place : ''
    isFirst = false
    return kept
  })
}

function withOwnLines(ptx: string, isOwn: (file: string) => boolean): string {
  const files = new Map(
    [...ptx.matchAll(FILE)].map(({ groups = {} }) => [groups['number'] ?? '', groups['path'] ?? '']),
  )
  const own = new Set([...files].filter(([, path]) => isOwn(path)).map(([number]) => number))
  const callers = new Map<string, string | undefined>()
  const fileOf = (place: string): string => place.slice(0, place.indexOf(' '))
  let latest = ''
  const located = ptx.replace(LOC, (text: string, ...rest: readonly unknown[]) => {
    const { indent = '', place = '', from }: { indent?: string; place?: string; from?: string } = Object(rest.at(-1))
    callers.set(place, from)
    let at: string | undefined = place
    for (let depth = 0; at !== undefined && !own.has(fileOf(at)) && depth < callers.size; depth++) at = callers.get(at)
    const found = at !== undefined && own.has(fileOf(at)) ? at : place
    // The kernel's head has a place, behind which its first instruction may have the same.
    if (found === latest) return ''
    latest = found
    return found === place && from === undefined ? text : `${indent}.loc\t${found}`
  })
  const used = new Set([...located.matchAll(/^\s*\.loc\s+(\d+)/gm)].map(([, number]) => number))
  return located
    .replace(FILE, (text: string, number: string) => (used.has(number) ? text : ''))
    .replace(/\n\s*\n+/g, '\n')
}
