/** The files that a file of CUDA C++ includes: its own ones, CUDA's, and those that stand-ins replace. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { tokensOf } from './source-text.js'
import { isAlwaysReplaced, MISSING_HEADER, standardHeaders } from './standard-headers.js'

export interface OwnHeader {
  /** The name of the header as it is written between the quotes. */
  readonly name: string
  readonly file: string
  readonly text: string
}

export interface Includes {
  /** The project's own, each behind those that it includes. */
  readonly own: readonly OwnHeader[]
  readonly standIns: ReadonlyMap<string, string>
  /** Names of headers that are not here. Something empty stands for each. */
  readonly missing: readonly string[]
}

const INCLUDE = /^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)/

/** The folders that options such as '-I include' or '--include-path=include' name. */
export function foldersIn(options: readonly string[], base: string): readonly string[] {
  return options.flatMap((option, index) => {
    const [, joined] = /^(?:-I|--include-path=)(.+)$/.exec(option) ?? []
    const named = /^(?:-I|--include-path)$/.test(options[index - 1] ?? '') ? option : joined
    return named === undefined ? [] : [resolve(base, named.trim())]
  })
}

/**
 * @param folders Where the project's headers are, besides the folder of the file that includes them.
 * @param cudaFolders Where CUDA's headers are.
 */
export function includesOf(
  file: string,
  text: string,
  folders: readonly string[],
  cudaFolders: readonly string[],
): Includes {
  const own = new Map<string, OwnHeader>()
  const others = new Set<string>()
  const missing = new Set<string>()
  const begun = new Set<string>()
  const read = (from: string, source: string): void => {
    for (const { text: directive } of tokensOf(source).directives) {
      const [, quoted, angled] = INCLUDE.exec(directive) ?? []
      const name = quoted ?? angled
      if (name === undefined || begun.has(name)) continue
      begun.add(name)
      const near = quoted === undefined ? folders : [dirname(from), ...folders]
      const found = near.map((folder) => join(folder, name)).find(isFile)
      if (found !== undefined) {
        const header = readFileSync(found, 'utf8')
        read(found, header)
        own.set(name, { name, file: found, text: header })
      } else if (isAlwaysReplaced(name) || cudaFolders.every((folder) => !existsSync(join(folder, name)))) {
        others.add(name)
      }
    }
  }
  read(file, text)
  const standIns = new Map(standardHeaders(others))
  for (const name of others) {
    if (standIns.has(name)) continue
    missing.add(name)
    standIns.set(name, MISSING_HEADER)
  }
  return { own: [...own.values()], standIns, missing: [...missing] }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
