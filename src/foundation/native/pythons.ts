/** The Pythons of this machine, and the folders into which pip puts their packages. */
import { accessSync, closeSync, constants, existsSync, openSync, readdirSync, readSync, realpathSync } from 'node:fs'
import { basename, delimiter, dirname, isAbsolute, join } from 'node:path'

/** The folders that PATH names, without those that depend on the current one. */
export const foldersOnPath = (): readonly string[] =>
  (process.env['PATH'] ?? '').split(delimiter).filter((folder) => isAbsolute(folder))

/** The entries of a folder with these names, the newest version first; none when there is no such folder. */
export function inside(folder: string, names: RegExp): string[] {
  try {
    const found = readdirSync(folder).filter((name) => names.test(name))
    return found.sort((a, b) => b.localeCompare(a, 'en', { numeric: true })).map((name) => join(folder, name))
  } catch {
    return []
  }
}

/**
 * The Pythons that a shell would start, the first one first, and behind them pyenv's, whose folder is not always on the PATH. Each `python3`
 * comes before each `python`, which may be another version.
 */
export function executablePythons(
  names: readonly string[],
): readonly { readonly source: string; readonly executable: string }[] {
  const { PYENV_ROOT, HOME } = process.env
  const roots = [PYENV_ROOT, HOME && join(HOME, '.pyenv')].flatMap((root) => (root ? [root] : []))
  const onPath = names.flatMap((name) => foldersOnPath().map((folder) => join(folder, name)))
  return [
    ...onPath.map((executable) => ({ source: 'the PATH', executable })),
    ...roots.map((root) => ({ source: 'pyenv', executable: join(root, 'shims', 'python3') })),
  ].filter(({ executable }) => isExecutable(executable))
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * Virtual environments that are not active, by the names that the tools which make them give: beside the program, or above it, where Node looks
 * for its packages. The current folder may be a stranger's.
 */
function inactiveEnvironments(): readonly string[] {
  const [, program] = process.argv
  if (program === undefined || !existsSync(program)) return []
  const folders = [dirname(realpathSync(program))]
  for (let folder = dirname(folders[0] ?? ''); folder !== folders.at(-1); folder = dirname(folder)) folders.push(folder)
  return folders
    .flatMap((folder) => ['.venv', 'venv'].map((name) => join(folder, name)))
    .filter((path) => existsSync(path))
}

/** The folders, there or not, in which pip puts packages: for the active environment, the Pythons on the path, and the program's environments. */
export function pythonPackages(): readonly string[] {
  const { VIRTUAL_ENV, CONDA_PREFIX, HOME } = process.env
  const active = [VIRTUAL_ENV, CONDA_PREFIX].flatMap((prefix) => (prefix ? [prefix] : []))
  const inactive = inactiveEnvironments()
  if (process.platform === 'win32') return packagesOnWindows(active, inactive)
  const others = executablePythons(['python3']).flatMap(({ executable }) => prefixesOf(executable))
  // Packages that pip installed for this user alone.
  const ofUser = HOME ? [join(HOME, '.local')] : []
  return [...new Set([...active, ...others, ...ofUser, ...inactive])]
    .flatMap((prefix) => [prefix, join(prefix, 'local')])
    .flatMap((prefix) => inside(join(prefix, 'lib'), /^python3/))
    .flatMap((python) => [join(python, 'site-packages'), join(python, 'dist-packages')])
}

/** A Python has its program in its own folder; that of a virtual environment is in `Scripts`. */
function packagesOnWindows(active: readonly string[], inactive: readonly string[]): readonly string[] {
  const { APPDATA } = process.env
  const pythons = foldersOnPath().filter((folder) => existsSync(join(folder, 'python.exe')))
  const prefixes = pythons.map((folder) => (basename(folder).toLowerCase() === 'scripts' ? dirname(folder) : folder))
  const ofUser = APPDATA ? inside(join(APPDATA, 'Python'), /^Python3/) : []
  return [
    ...[...active, ...prefixes].map((prefix) => join(prefix, 'Lib', 'site-packages')),
    ...ofUser.map((python) => join(python, 'site-packages')),
    ...inactive.map((prefix) => join(prefix, 'Lib', 'site-packages')),
  ]
}

/** The folders that Pythons which are scripts have said, by their paths. */
const said = new Map<string, readonly string[]>()

/** The folder that a Python is installed in, and that of the Python that its virtual environment was made from. */
function prefixesOf(python: string): readonly string[] {
  const file = realpathSync(python)
  if (!isScript(file)) return [dirname(dirname(python)), dirname(dirname(file))]
  const prefixes = said.get(python) ?? askForPrefixes(python)
  said.set(python, prefixes)
  return prefixes
}

/** Is the file a script that starts a Python elsewhere, as those in pyenv's folder of shims are? */
function isScript(path: string): boolean {
  const start = Buffer.alloc(2)
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    readSync(file, start)
  } catch {
    // A program may be executable and not readable, and a folder is executable.
  } finally {
    if (file !== undefined) closeSync(file)
  }
  return start.toString() === '#!'
}

const PATIENCE_MS = 10_000
const PREFIXES = 'import json, sys; print(json.dumps([sys.prefix, sys.base_prefix]))'

/** A script that starts no Python, as pyenv's where none is chosen, has none. */
function askForPrefixes(python: string): readonly string[] {
  // Few programs need it, and it takes milliseconds to load. Isolated, Python imports nothing from the current folder.
  const { execFileSync } = process.getBuiltinModule('node:child_process')
  try {
    const text = execFileSync(python, ['-I', '-c', PREFIXES], {
      encoding: 'utf8',
      timeout: PATIENCE_MS,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    // A sitecustomize may print before.
    const prefixes: unknown = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')
    return Array.isArray(prefixes) ? prefixes.filter((prefix) => typeof prefix === 'string') : []
  } catch {
    return []
  }
}
