/** The names of kernels in reports: from names that C++ compilers have mangled, and short enough for a line. */

/** The most letters of a name in a report. */
const MOST = 72
/** The letters at the end of a shortened name: there is what tells one kernel of a library from another. */
const AT_END = 30

/** A name with its middle left out, if it is long: libraries begin all their kernels alike, and end them alike. */
export const shortened = (name: string): string =>
  name.length <= MOST ? name : `${name.slice(0, MOST - AT_END - 1)}…${name.slice(-AT_END)}`

/**
 * The name of a function with its namespaces and without types, such as 'ns::scale' of '_ZN2ns5scaleIfEEvPKfPfi', for a process without the demangler
 * of C++. What cannot be read is returned as it is.
 */
export function nameOfMangled(mangled: string): string {
  if (!mangled.startsWith('_Z')) return mangled
  const path: string[] = []
  let at = 2
  const isNested = mangled[at] === 'N'
  if (isNested) at += 1
  while (at < mangled.length) {
    const rest = mangled.slice(at)
    const [letters, digits] = /^(?:L|St|[KVrRO])*(\d+)/.exec(rest) ?? []
    if (letters !== undefined && digits !== undefined) {
      const name = rest.slice(letters.length, letters.length + Number(digits))
      path.push(name.startsWith('_GLOBAL__N') ? 'anonymous' : name)
      at += letters.length + Number(digits)
    } else if (rest.startsWith('I')) {
      const end = endOfArguments(mangled, at)
      if (end === undefined) return mangled
      at = end
    } else break
    if (!isNested) break
  }
  const isWhole = path.length > 0 && !path.includes('') && at <= mangled.length
  // A nested name ends in E; behind it are the types of its parameters.
  return isWhole && (!isNested || mangled[at] === 'E') ? path.join('::') : mangled
}

/** What template arguments are made of: numbers, what ends in E, its end, the length of a name, and what stands for itself. */
const PART =
  /(?<literal>L[a-z]n?[0-9a-f]*E)|(?<open>Ul|D[tT]|[NIJXFZ])|(?<close>E)|(?<length>\d+)|(?:S[0-9A-Z]*_|S[a-z]|T[0-9A-Z]*_|A\d+_|D[a-z]|[PROKVa-z])/y

/** The place behind a list of template arguments, `I…E`; undefined if it has what is not known here. */
function endOfArguments(mangled: string, begin: number): number | undefined {
  const open: string[] = []
  let at = begin
  while (at < mangled.length) {
    PART.lastIndex = at
    const { 0: text = '', groups } = PART.exec(mangled) ?? {}
    if (text === '') return undefined
    at += text.length + Number(groups?.['length'] ?? 0)
    if (groups?.['open'] !== undefined) open.push(text)
    if (groups?.['close'] === undefined) continue
    // The number of a lambda follows its types.
    if (open.pop() === 'Ul') at += /^\d*_/.exec(mangled.slice(at))?.[0].length ?? 0
    if (open.length === 0) return at
  }
  return undefined
}
