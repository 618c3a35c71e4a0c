/**
 * Finds and loads the shared libraries that come with CUDA, wherever they were installed: by the toolkit, by a package
 * of the system, or by pip for a Python that is on the path.
 */
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { messageOf, stateError } from '../../../base/errors.js'
import { layer } from './layer.js'
import { SharedLibrary } from './shared-library.js'

export interface WantedLibrary {
  /** As people know it, such as 'cuBLAS'. */
  readonly title: string
  /** File names, the one wanted most first. */
  readonly names: readonly string[]
  /** The environment variable that names the file or the folder that it is in. */
  readonly variable: string
  /** What to do without it. */
  readonly wayOut: string
}

const TOOLKIT_FOLDERS = ['lib64', 'lib', 'targets/x86_64-linux/lib', 'targets/sbsa-linux/lib']

/**
 * Loads it from the first place that has it. A place that the user named is the only one.
 * @throws ERR_UNSUPPORTED, with the places tried
 */
export function loadLibrary(wanted: WantedLibrary): SharedLibrary {
  try {
    layer()
  } catch (cause) {
    throw stateError('ERR_UNSUPPORTED', `${wanted.title} cannot be used: ${messageOf(cause)}`, cause)
  }
  const tried: string[] = []
  const reasons: string[] = []
  const named = process.env[wanted.variable]
  for (const path of named ? namedPaths(named, wanted) : likelyPaths(wanted)) {
    tried.push(path)
    try {
      return SharedLibrary.open(path)
    } catch (error) {
      // That a file is not there needs no telling twice.
      if (existsSync(path)) reasons.push(messageOf(error))
    }
  }
  const where = named ? `${wanted.variable} names ${named}` : `set ${wanted.variable} to the file or to its folder`
  const why = reasons.length === 0 ? '' : ` (${reasons.join('; ')})`
  throw stateError(
    'ERR_UNSUPPORTED',
    `${wanted.title} was not found: tried ${tried.join(', ')}${why}. ${wanted.wayOut}; ${where}`,
  )
}

/** The file that a loaded library, which exports this symbol, comes from; undefined where that is not told. */
export function fileOf(library: SharedLibrary, symbol: string): string | undefined {
  try {
    const address = library.find(symbol) ?? 0
    const lines = readFileSync('/proc/self/maps', 'utf8').matchAll(/^(\w+)-(\w+) .*?(\/.*)$/gm)
    return [...lines].find(([, from, to]) => Number(`0x${from}`) <= address && address < Number(`0x${to}`))?.[3]
  } catch {
    return undefined
  }
}

/** The folders in which pip puts CUDA's libraries for the Pythons on the path: each has `lib` and `include` in it. */
export function pythonFolders(): readonly string[] {
  const { VIRTUAL_ENV, CONDA_PREFIX, HOME, PATH } = process.env
  const prefixes = new Set<string>()
  for (const prefix of [VIRTUAL_ENV, CONDA_PREFIX]) if (prefix) prefixes.add(prefix)
  for (const folder of (PATH ?? '').split(delimiter)) {
    const python = join(folder, 'python3')
    if (folder === '' || !existsSync(python)) continue
    prefixes.add(dirname(folder))
    // Of a virtual environment, the Python that it was made from.
    prefixes.add(dirname(dirname(realpathSync(python))))
  }
  // What pip installs for the user alone.
  if (HOME) prefixes.add(join(HOME, '.local'))
  return [...prefixes]
    .flatMap((prefix) => [prefix, join(prefix, 'local')])
    .flatMap((prefix) => inside(join(prefix, 'lib'), /^python3/))
    .flatMap((python) => [join(python, 'site-packages'), join(python, 'dist-packages')])
    .flatMap((packages) => inside(join(packages, 'nvidia'), /./))
}

/** Where CUDA toolkits are. */
export function toolkitFolders(): readonly string[] {
  const { CUDA_HOME, CUDA_PATH } = process.env
  const named = [CUDA_HOME, CUDA_PATH].filter((home) => home !== undefined && home !== '') as string[]
  return [...new Set([...named, ...inside('/usr/local', /^cuda(-|$)/)])]
}

function namedPaths(named: string, { names }: WantedLibrary): readonly string[] {
  const isFolder = statSync(named, { throwIfNoEntry: false })?.isDirectory() ?? false
  return isFolder ? names.map((name) => join(named, name)) : [named]
}

/**
 * By name alone first: the loader then gives a library that is loaded already, such as PyTorch's own, and never a
 * second one.
 */
function* likelyPaths({ names }: WantedLibrary): Iterable<string> {
  yield* names
  for (const root of toolkitFolders()) for (const folder of TOOLKIT_FOLDERS) yield* inFolder(join(root, folder), names)
  for (const root of pythonFolders()) yield* inFolder(join(root, 'lib'), names)
}

/** A folder that is there: one that is not need not be named five times over. */
function inFolder(folder: string, names: readonly string[]): readonly string[] {
  return existsSync(folder) ? names.map((name) => join(folder, name)) : []
}

/** The files of a folder with these names, newest version first; none where there is no folder. */
function inside(folder: string, names: RegExp): string[] {
  try {
    const found = readdirSync(folder).filter((name) => names.test(name))
    return found.sort((a, b) => b.localeCompare(a, 'en', { numeric: true })).map((name) => join(folder, name))
  } catch {
    return []
  }
}
