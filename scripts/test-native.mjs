// Runs the tests of the native layer under AddressSanitizer, in a copy of dist/ whose layer gcc has compiled for it, and looks for
// memory that the layer's own C has lost. Words choose test files. `npm run test:native` builds before.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { COMPILER, compileNative, layerOf, thisTarget } from './build-native.mjs'
import { root } from './test-files.mjs'

/** What JavaScript asks for it releases itself, or keeps as long as the process: LeakSanitizer does not see the heap of V8. */
const KEPT_BY_JAVASCRIPT = / in (allocate|records_requested) /

/** Memory that the layer's own C has allocated, and not what Node does in a call of its. */
const isOurs = (part) =>
  part.split('\n').some((line) => line.includes('#1 ') && line.includes(join(root, 'native') + sep))

const words = process.argv.slice(2)
const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-sanitized-'))
try {
  const layer = layerOf(scratch, thisTarget())
  for (const name of ['package.json', 'dist/src', 'dist/tests'])
    cpSync(join(root, name), join(scratch, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(scratch, 'node_modules'))
  mkdirSync(join(scratch, 'reports'))
  compileNative(root, thisTarget(), layer, COMPILER, ['-O1', '-g', '-fno-omit-frame-pointer', '-fsanitize=address'])
  const runtime = execFileSync(COMPILER[0], ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim()
  const env = {
    ...process.env,
    LD_PRELOAD: runtime,
    // Copies of the layer have a table each, and agree on one.
    ASAN_OPTIONS: `detect_odr_violation=0:log_path=${join(scratch, 'reports', 'report')}`,
    LSAN_OPTIONS: 'exitcode=0',
  }
  const folder = join(scratch, 'dist', 'tests', 'foundation', 'native')
  const files = readdirSync(folder).filter(
    (name) => name.endsWith('.test.js') && words.every((word) => name.includes(word)),
  )
  for (const file of files) {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--expose-gc', '--test-reporter=spec', join(folder, file)],
      {
        env,
        encoding: 'utf8',
      },
    )
    console.log(`${file}: ${status === 0 ? 'passed' : `exit code ${status}\n${stdout}${stderr}`}`)
    if (status !== 0) process.exitCode = 1
  }
  const reports = readdirSync(join(scratch, 'reports')).map((name) =>
    readFileSync(join(scratch, 'reports', name), 'utf8'),
  )
  const faults = reports.filter((text) => text.includes('ERROR: AddressSanitizer'))
  const leaks = reports.flatMap((text) =>
    text.split('\n\n').filter((part) => /leak of/.test(part) && isOurs(part) && !KEPT_BY_JAVASCRIPT.test(part)),
  )
  for (const text of [...faults, ...leaks]) console.log(text)
  console.log(`${faults.length} faults, ${leaks.length} leaks, in ${reports.length} processes that reported something`)
  if (faults.length + leaks.length > 0) process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true })
}
