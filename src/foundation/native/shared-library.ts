/**
 * Shared libraries: loading them and calling their functions; and finding those that come with CUDA, which the toolkit, a package of the
 * system, or pip may have installed.
 */
import { existsSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { KnownLibrary, LibraryVariable } from '../base/environment-variables.js'
import { messageOf, stateError } from '../base/errors.js'
import { bindAll, type CFunction, declaration, own } from './c-functions.js'
import { layer } from './layer.js'
import { NativeMemory } from './native-memory.js'
import { bindOwning, type Owning } from './owned-handles.js'
import { foldersOnPath, inside, pythonPackages } from './pythons.js'

const NONE: ReadonlyMap<string, Owning> = new Map()

export class SharedLibrary {
  /** The program itself and the libraries it started with, among them the C library. */
  static readonly ofProcess = new SharedLibrary(0)

  private constructor(private readonly handle: number) {}

  /** Loads a library, which is never unloaded since its own threads may run in it. Throws an Error with the loader's message. */
  static open(path: string): SharedLibrary {
    return new SharedLibrary(layer().open(path))
  }

  /** Loads a library whose symbols the libraries that it loads itself look for in the process, as Python's modules do. */
  static openForAll(path: string): SharedLibrary {
    const library = SharedLibrary.open(path)
    const name = NativeMemory.ofText(path)
    const failed = own().lendSymbols(name.address)
    name.free()
    if (failed !== 0) throw new Error(`The symbols of ${path} cannot be made visible to other libraries`)
    return library
  }

  /** The address of a symbol, or undefined. */
  find(name: string): number | undefined {
    return layer().symbol(this.handle, name) || undefined
  }

  /** Declares functions that return an int, with their parameters as C writes them, and what some of them make or destroy. Throws an Error when one is missing. */
  functions<N extends string>(
    parameters: Readonly<Record<N, string>>,
    owning: ReadonlyMap<string, Owning> = NONE,
  ): Readonly<Record<N, CFunction>> {
    const names = Object.keys(parameters) as N[]
    return bindAll(
      names.map((name) => {
        const owns = owning.get(name)
        if (owns === undefined) return declaration(name, this.addressOf(name), parameters[name])
        const bind = (buffer: ArrayBuffer, offset: number): (() => void) => bindOwning(buffer, offset, owns)
        return { ...declaration(name, this.addressOf(name), parameters[name], 'call8'), bind }
      }),
    )
  }

  /** Declares functions of up to four arguments that return an address. Throws an Error when one is missing. */
  addresses<N extends string>(parameters: Readonly<Record<N, string>>): Readonly<Record<N, CFunction>> {
    const names = Object.keys(parameters) as N[]
    return bindAll(names.map((name) => declaration(name, this.addressOf(name), parameters[name], 'address4')))
  }

  /** Declares functions of one argument that return text, which the library keeps. */
  texts<N extends string>(parameters: Readonly<Record<N, string>>): Readonly<Record<N, (argument: number) => string>> {
    const { text } = layer()
    const names = Object.keys(parameters) as N[]
    const functions = this.addresses(parameters)
    const made = names.map((name) => [name, (argument: number) => text(functions[name](argument))] as const)
    return Object.fromEntries(made) as Record<N, (argument: number) => string>
  }

  /** The address of a symbol. Throws an Error when there is none. */
  addressOf(name: string): number {
    const address = this.find(name)
    if (address === undefined) throw new Error(`There is no function ${name}`)
    return address
  }
}

const onWindows = process.platform === 'win32'

/** The folders of libraries in a toolkit, and in a folder of NVIDIA's among the packages of a Python. */
const [TOOLKIT_FOLDERS, WHEEL_FOLDERS] = onWindows
  ? [
      ['bin/x64', 'bin', 'extras/CUPTI/lib64'],
      ['bin/x86_64', 'bin'],
    ]
  : [['lib64', 'lib', 'targets/x86_64-linux/lib', 'targets/sbsa-linux/lib'], ['lib']]

const namesOf = ({ names }: KnownLibrary): readonly string[] => (onWindows ? names.windows : names.linux)

/**
 * Loads the library from the first place that has it, or from the place that the user named, and no other.
 * @param more Files that are tried after the loader's own places and before those of CUDA's libraries.
 * @throws ERR_UNSUPPORTED, with the places that were tried
 */
export function loadLibrary(variable: LibraryVariable, more: () => Iterable<string> = () => []): SharedLibrary {
  const wanted = variable.library
  if (namesOf(wanted).length === 0) throw stateError('ERR_UNSUPPORTED', `There is no ${wanted.title} for Windows`)
  try {
    layer()
  } catch (cause) {
    throw stateError('ERR_UNSUPPORTED', `${wanted.title} cannot be used: ${messageOf(cause)}`, cause)
  }
  const tried: string[] = []
  const reasons: string[] = []
  const named = variable.read()
  for (const path of named ? namedPaths(named, wanted) : likelyPaths(wanted, more)) {
    tried.push(path)
    try {
      return SharedLibrary.open(path)
    } catch (error) {
      // A missing file is reported by the list of places.
      if (existsSync(path)) reasons.push(messageOf(error))
    }
  }
  const where = named
    ? `${variable.name} names ${named}, and must name the file or its folder`
    : `if pip has put it into another environment, activate that; or set ${variable.name} to the file or to its folder`
  const why = reasons.length === 0 ? '' : ` (${reasons.join('; ')})`
  const error = stateError(
    'ERR_UNSUPPORTED',
    `${wanted.title} was not found: tried ${tried.join(', ')}${why}${named ? '' : searchedPackages()}. ${wanted.wayOut}; ${where}`,
  )
  if (!named && reasons.length === 0) absences.set(error, `not found. ${wanted.wayOut}`)
  throw error
}

const absences = new WeakMap<Error, string>()

/** What an error says of a library that is nowhere, in a line; undefined for any other error, such as of a file that cannot be loaded. */
export const absenceInBrief = (error: unknown): string | undefined =>
  error instanceof Error ? absences.get(error) : undefined

/** The folders of pip for the end of an error: those without packages of NVIDIA are not among the files that were tried. */
function searchedPackages(): string {
  const folders = pythonPackages().filter((folder) => existsSync(folder))
  return folders.length === 0 ? '; no Python was found' : `; searched the packages of pip in ${folders.join(', ')}`
}

/** The file that a loaded library comes from, found by a symbol that it exports; undefined when that cannot be found out. */
export const fileOf = (library: SharedLibrary, symbol: string): string | undefined =>
  layer().fileAt(library.find(symbol) ?? 0) || undefined

/** The folders in which pip puts CUDA's libraries for the Pythons on the path. Each has a folder of libraries, and `include`. */
export const pythonFolders = (): readonly string[] =>
  pythonPackages().flatMap((packages) => inside(join(packages, 'nvidia'), /./))

/** The folders of CUDA toolkits. */
export function toolkitFolders(): readonly string[] {
  const { CUDA_HOME, CUDA_PATH, ProgramFiles } = process.env
  const named = [CUDA_HOME, CUDA_PATH].flatMap((path) => (path ? [path] : []))
  const ofWindows = ProgramFiles ? inside(join(ProgramFiles, 'NVIDIA GPU Computing Toolkit', 'CUDA'), /^v\d/) : []
  const installed = onWindows ? ofWindows : inside('/usr/local', /^cuda(-|$)/)
  return [...new Set([...named, ...installed])]
}

function namedPaths(named: string, wanted: KnownLibrary): readonly string[] {
  const isFolder = statSync(named, { throwIfNoEntry: false })?.isDirectory() ?? false
  if (!isFolder) return [named]
  const names = namesOf(wanted)
  // A wheel has the file with its whole version, which is no name that the loader looks for.
  const versions = inside(named, /\.so\.[\d.]+$/).filter((path) => names.some((name) => path.includes(`/${name}.`)))
  return [...pathsIn(named, names), ...versions]
}

/**
 * The names alone come first: the loader then returns a library that is loaded already, such as PyTorch's, instead of a second copy. The loader
 * of Windows does not look in the folders of PATH for them, and has an ONNX Runtime of its own, which is too old.
 */
function* likelyPaths(wanted: KnownLibrary, more: () => Iterable<string>): Iterable<string> {
  const names = namesOf(wanted)
  if (onWindows) yield* more()
  yield* names.filter((name) => !name.includes('*'))
  if (onWindows) for (const folder of foldersOnPath()) yield* pathsIn(folder, names).filter((path) => existsSync(path))
  else yield* more()
  for (const root of toolkitFolders()) for (const folder of TOOLKIT_FOLDERS) yield* inFolder(join(root, folder), names)
  for (const root of pythonFolders()) for (const folder of WHEEL_FOLDERS) yield* inFolder(join(root, folder), names)
}

/** The file of a library that comes with CUDA, cuDNN or TensorRT, where the loader does not know it; undefined if there is none. */
export function fileOfCuda(name: string): string | undefined {
  const folders = [
    ...pythonFolders().flatMap((root) => WHEEL_FOLDERS.map((folder) => join(root, folder))),
    ...pythonPackages().map((packages) => join(packages, 'tensorrt_libs')),
    ...toolkitFolders().flatMap((root) => TOOLKIT_FOLDERS.map((folder) => join(root, folder))),
  ]
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

/**
 * The paths of the names in a folder; none if the folder does not exist, so that errors do not name it once for each file.
 */
function inFolder(folder: string, names: readonly string[]): readonly string[] {
  return existsSync(folder) ? pathsIn(folder, names) : []
}

/** A name with a `*` is that of each file that has a version there, the newest first. */
function pathsIn(folder: string, names: readonly string[]): readonly string[] {
  return names.flatMap((name) => {
    const [before, after] = name.split('*')
    if (after === undefined) return [join(folder, name)]
    return inside(folder, /./).filter((path) => basename(path).startsWith(before ?? '') && path.endsWith(after))
  })
}
