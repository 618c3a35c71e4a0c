/** The files that a file of CUDA C++ includes: its own ones, CUDA's, and those that stand-ins replace. */
import { readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { tokensOf } from './source-text.js'
import { isAlwaysReplaced } from './standard-headers.js'

export interface OwnHeader {
  /** The name that the compiler has for the header, whichever name an #include has for it: a file has one, for its `#pragma once`. */
  readonly name: string
  readonly file: string
  readonly text: string
}

export interface Includes {
  /** The project's own, each behind those that it includes. */
  readonly own: readonly OwnHeader[]
  /** The compiler's names of the headers that a file includes, by the file and by the name that it has for them. */
  readonly names: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Names of headers that stand-ins replace. */
  readonly replaced: readonly string[]
  /** Names of headers of CUDA's, such as 'cub/cub.cuh'. */
  readonly cuda: readonly string[]
  /** Folders of CUDA's libraries that the compiler has to know besides its own. */
  readonly folders: readonly string[]
  /** Names of headers that are not here. Something empty stands for each. */
  readonly missing: readonly string[]
}

/** The folders in which headers are looked for. */
export interface HeaderFolders {
  /** The folders of the project's headers, besides the folder of the file that includes them. */
  readonly project: readonly string[]
  /** The folders of CUDA's headers. */
  readonly cuda: readonly string[]
  /** The folders that may have headers of CUDA's libraries, such as cuRAND's. */
  readonly libraries: () => readonly string[]
}

export const INCLUDE = /^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)/
/** Headers of CUDA's own by which its folder is told from those of a project. */
const OF_CUDA = ['cuda_runtime_api.h', 'cuda_fp16.h', 'curand_kernel.h', 'cub/version.cuh', 'cuda/std/version']

/** The folders that options such as '-I include' or '--include-path=include' name. */
export function foldersIn(options: readonly string[], base: string): readonly string[] {
  return options.flatMap((option, index) => {
    const [, joined] = /^(?:-I|--include-path=)(.+)$/.exec(option) ?? []
    const named = /^(?:-I|--include-path)$/.test(options[index - 1] ?? '') ? option : joined
    return named === undefined ? [] : [resolve(base, named.trim())]
  })
}

export function includesOf(file: string, text: string, given: HeaderFolders): Includes {
  const ofCuda = given.project.filter((folder) => OF_CUDA.some((name) => isFile(join(folder, name))))
  const project = given.project.filter((folder) => !ofCuda.includes(folder))
  const own = new Map<string, OwnHeader>()
  const names = new Map<string, Map<string, string>>()
  const replaced = new Set<string>()
  const kept = new Set<string>()
  const cuda = new Set<string>()
  const missing = new Set<string>()
  const folders = new Set<string>()
  const begun = new Set<string>([file])
  const read = (from: string, source: string): void => {
    const named = new Map<string, string>()
    names.set(from, named)
    for (const { text: directive } of tokensOf(source).directives) {
      const [, quoted, angled] = INCLUDE.exec(directive) ?? []
      const name = quoted ?? angled
      if (name === undefined) continue
      const near = quoted === undefined ? project : [dirname(from), ...project]
      const found = near.map((folder) => resolve(folder, name)).find(isFile)
      if (found === undefined) foreign(name)
      else if (found !== file) {
        named.set(name, nameOf(found))
        if (begun.has(found)) continue
        begun.add(found)
        const header = readFileSync(found, 'utf8')
        read(found, header)
        own.set(found, { name: nameOf(found), file: found, text: header })
      }
    }
  }
  const nameOf = (path: string): string =>
    relative(dirname(file), path)
      .replaceAll(sep, '/')
      .replace(/(?:^|\/)\.\.(?=\/)/g, '/up')
      .replace(/^\//, '')
  const foreign = (name: string): void => {
    if (isAlwaysReplaced(name)) {
      replaced.add(name)
      return
    }
    if (missing.has(name) || cuda.has(name)) return
    if (given.cuda.some((folder) => isFile(join(folder, name)))) {
      cuda.add(name)
      return
    }
    const folder = [...ofCuda, ...given.libraries()].find((each) => isFile(join(each, name)))
    if (folder === undefined) {
      missing.add(name)
      return
    }
    cuda.add(name)
    if (!ofCuda.includes(folder)) folders.add(folder)
    library(join(folder, name))
  }
  /** What headers of CUDA's libraries include of their own folder is not replaced. */
  const library = (path: string): void => {
    if (begun.has(path)) return
    begun.add(path)
    for (const { text: directive } of tokensOf(readFileSync(path, 'utf8')).directives) {
      const [, quoted, angled] = INCLUDE.exec(directive) ?? []
      const beside = quoted === undefined ? undefined : join(dirname(path), quoted)
      if (quoted !== undefined && beside !== undefined && isFile(beside) && !/^(?:cuda|driver|vector)/.test(quoted)) {
        kept.add(quoted)
        library(beside)
      } else if (isAlwaysReplaced(quoted ?? angled ?? '')) replaced.add(quoted ?? angled ?? '')
    }
  }
  read(file, text)
  return {
    own: [...own.values()],
    names,
    replaced: [...replaced].filter((name) => !kept.has(name)),
    cuda: [...cuda],
    folders: [...folders],
    missing: [...missing],
  }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
