// Which of the compiled tests are meant: all, or those whose path below tests/ contains one of the words. Of the set `quick` those
// for between two edits: the folders that mirror the core of src, without the files that take seconds each. Of the set `run-time`
// those about what each run time does in its own way: native code, the event loop, promises, threads, the collector, call sites, how modules
// are loaded, how values print. The rest of the library is JavaScript as the language defines it, which one run time tries for all. Of the
// set `gpu` those that use a GPU where there is one.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
export const tests = join(root, 'dist', 'tests')
const QUICK_FOLDERS = 'conformance core cuda docs foundation libraries package'.split(' ')
const SLOW_FILES = [
  ...['conformance/driver-choice', 'conformance/foreign-streams', 'conformance/large-file', 'conformance/matrix'],
  ...[
    'conformance/process-life',
    'conformance/silent-waits',
    'core/default-driver',
    'foundation/native/signals',
    'package/import',
    'package/package',
    'package/declarations',
    'package/quickstart',
    'package/tarball',
  ],
]
const isQuick = (name) =>
  QUICK_FOLDERS.includes(name.split('/')[0]) && !SLOW_FILES.some((file) => name === `${file}.test.js`)

const RUN_TIME_FOLDERS = ['cuda/libcuda', 'cuda/waiting', 'foundation/native']
const RUN_TIME_FILES = [
  // The waits on a GPU play all files of the conformance suite that pass through the event loop.
  'fake-driver/waiting',
  ...['callers', 'closing', 'host-functions', 'identity', 'memory', 'promises', 'sharing'].map(
    (name) => `conformance/${name}`,
  ),
  ...['foundation/base/errors', 'foundation/base/stack', 'cuda/memory/host-memory', 'core/environment-interceptors'],
  ...['foundation/driver/immediates', 'core/memory/messages'],
  ...['libraries/dlpack/dlpack', 'libraries/language-border', 'core/memory/registered-memory', 'core/memory/staging'],
  ...['package/import', 'package/receivers', 'tools/sanitizer/kinds', 'core/streams/shared'],
]
const isOfRunTime = (name) =>
  (RUN_TIME_FOLDERS.some((folder) => name.startsWith(`${folder}/`)) && isQuick(name)) ||
  RUN_TIME_FILES.some((file) => name === `${file}.test.js`)

/** Do the modules that this one loads, or those that they load, open the NVIDIA driver? */
function usesGpu(name, seen = new Set()) {
  if (name === 'helpers/cuda-workbench.js') return true
  if (seen.has(name) || !existsSync(join(tests, name))) return false
  seen.add(name)
  const paths = readFileSync(join(tests, name), 'utf8').matchAll(/(?:from|import|URL)\s*\(?\s*'(\.[^']+\.js)'/g)
  return [...paths].some(([, path]) => usesGpu(join(dirname(name), path), seen))
}

/** The simulator's own laws are not about a GPU, though they make their calls by the same catalogue. */
const isOnGpu = (name) => !name.startsWith('simulator/') && usesGpu(name)

const SETS = { all: () => true, quick: isQuick, 'run-time': isOfRunTime, gpu: isOnGpu }

/** Files that take longest begin first; not on a GPU, where they would hold each other up. */
const LONGEST_FIRST = [
  'conformance/matrix',
  'torture/torture',
  'torture/faults',
  'soak/soak',
  'fake-driver/fake-driver',
  'simulator/leaks',
  'simulator/refusals',
  'fake-driver/waiting',
  'tools/timeline/page',
  'site/site',
]

/**
 * Files that take more than four seconds of a core, the longest first, but for those that play a part of a table each day as it is. With
 * `ofTheDay` each is played on one day of DAYS, and on the others left out.
 */
const LONG_FILES = [
  ...['soak/soak', 'tools/cli/doctor', 'fake-driver/waiting', 'simulator/what-lives', 'ptx/forms/forms'],
  ...['docs/guides', 'core/default-driver', 'tools/explore/explore', 'conformance/silent-waits', 'ptx/rows'],
  ...['bench/server', 'tools/timeline/page', 'tools/sanitizer/modes', 'package/tarball', 'tools/recording/check'],
  ...['ptx/fuzz', 'ptx/cores', 'core/memory/forgotten', 'package/own-lines', 'differential/replay'],
  ...['simulator/random-faults', 'conformance/driver-choice', 'tools/explore/turns', 'tools/sanitizer/ranks'],
  ...['properties/exploration', 'tools/timeline/outputs', 'tools/recording/what-if', 'processes/ranks'],
  ...['tools/timeline/cupti/everything', 'ptx/endless', 'differential/corpus', 'tools/sanitizer/random'],
  ...['tools/sanitizer/causal', 'tools/recording/recording', 'simulator/refused-frees'],
  ...['libraries/nccl/communicator', 'tools/explore/native-jobs', 'tools/sanitizer/random-threads'],
  ...['simulator/missing-waits', 'foundation/native/timer', 'python/pairings', 'package/declarations'],
  ...['tools/sanitizer/bounded', 'processes/simulated-threads', 'tools/sanitizer/kernel-code'],
  ...['tools/recording/damaged', 'simulator/scale', 'properties/anything', 'package/quickstart'],
  ...['differential/forced', 'package/package', 'differential/fake-driver', 'conformance/process-life'],
  ...['processes/ipc', 'tools/sanitizer/explored', 'simulator/names', 'bench/bench'],
  ...['tools/process-trace/process-trace'],
]
const DAYS = 3

const rankOf = (name) =>
  (LONGEST_FIRST.indexOf(name.replace('.test.js', '')) + LONGEST_FIRST.length + 1) % (LONGEST_FIRST.length + 1)

/**
 * Folders whose files are played several in one process: to start one takes a third of a second, and on a GPU, where one process at a time
 * makes its context, more than one. Tests in them leave nothing behind that another one sees.
 */
const SHARING_FOLDERS = [
  ...['conformance', 'core/kernels', 'core/memory', 'core/streams', 'foundation/base', 'properties'],
  ...['tools/explore', 'tools/sanitizer', 'tools/timeline'],
]
/** They make a context unusable, count what the process has, or are long. */
const ALONE_FILES = ['conformance/graph-keeps', 'tools/sanitizer/pairs/', 'tools/timeline/page']
const AT_ONCE = 8
const sharesProcess = (name) =>
  SHARING_FOLDERS.some((folder) => name.startsWith(`${folder}/`)) &&
  ![...SLOW_FILES, ...LONGEST_FIRST, ...ALONE_FILES].some((file) => name.startsWith(file))

/** Calls `use` with a module for each process, in the order in which they should begin: it loads some of the files. */
export function inProcesses(files, use) {
  const groups = []
  for (const file of files) {
    const folder = SHARING_FOLDERS.find((each) => file.startsWith(`${each}/`)) ?? file.split('/')[0]
    const last = groups.findLast((group) => group.folder === folder && group.isShared)
    if (last !== undefined && last.files.length < AT_ONCE && sharesProcess(file)) last.files.push(file)
    else groups.push({ folder, isShared: sharesProcess(file), files: [file] })
  }
  const home = mkdtempSync(join(tmpdir(), 'cuda-streams-tests-'))
  try {
    // `node --test` begins with what comes first in the alphabet.
    const modules = groups.map(({ files: loaded }, at) => {
      const name = loaded[0].replaceAll('/', '-').replace('.test.js', '.mjs')
      const path = join(home, `${String(at).padStart(3, '0')}-${name}`)
      writeFileSync(
        path,
        loaded.map((file) => `import ${JSON.stringify(pathToFileURL(join(tests, file)).href)}`).join('\n'),
      )
      return path
    })
    return use(modules)
  } finally {
    rmSync(home, { recursive: true })
  }
}

/** The long files that are left to other days, of all paths of test files. */
export async function leftToOtherDays() {
  const { ofTheDay } = await import(pathToFileURL(join(tests, 'helpers', 'of-the-day.js')).href)
  const today = ofTheDay(LONG_FILES, DAYS)
  return LONG_FILES.filter((file) => !today.includes(file)).map((file) => `${file}.test.js`)
}

/** Paths below dist/tests, with `/`, in the order in which they should begin. The set is `all`, `quick`, `run-time` or `gpu`. */
export function testFiles({ words, without, set }) {
  const named = [...SLOW_FILES, ...RUN_TIME_FILES, ...LONGEST_FIRST, ...LONG_FILES]
  const gone = named.filter((file) => !existsSync(join(tests, `${file}.test.js`)))
  if (gone.length > 0) throw new Error(`${import.meta.url} names what is not there: ${gone.join(', ')}`)
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.test.js') && (words.length === 0 || words.some((word) => name.includes(word))))
    .filter((name) => without === undefined || !name.includes(without))
    .filter(SETS[set])
    .sort((a, b) => (set === 'gpu' ? 0 : rankOf(a) - rankOf(b)) || (a < b ? -1 : 1))
  if (files.length === 0) throw new Error(`No test file has ${words.join(' or ')} in its path`)
  return files
}
