// Injects mistakes into src, one at a time, and checks whether the tests find them. A mistake is a line of the core, of a backend
// or of the sanitizer that is left out or turned round. `npm run mutations -- --draw --at REVISION` draws
// fifty, by a seed, and adds them to tests/mutations.md with what finds them at that revision, as the column `before`; `--from` says of which
// files, and `--count` how many. `npm run mutations`
// injects the same ones into this checkout, and writes the column `after`. It works in a copy, in a temporary folder.
//
// A mistake is looked for by the guarantees of the conformance suite, which are what a reader would open; then by the tests that stand
// where its file stands, by STAGES, and by the suites of random programs, until something finds it; `--thorough` lets all tests look for what is left, which takes hours. With `--random`, each suite of random programs
// looks for it, and all that find it are written down: in `after`, those that found it before, which all have to find it again.
// `--only 3,17` injects some, `--open` those that nothing has found or looked for, `--all` has all suites look for them,
// `--copies 2` works in two copies side by side.
//
// With `--rules` it takes its mistakes from tests/rules.md: for each guarantee the lines of src that hold it, which were chosen by hand, and
// looks for each in that guarantee's own file alone.
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './test-files.mjs'

const FOLDERS = [
  'src/foundation/driver',
  'src/simulator',
  'src/cuda',
  'src/core/memory',
  'src/core/graphs',
  'src/core/streams',
  'src/core/kernels',
  'src/tools/sanitizer',
  'src/core/stream.ts',
  'src/core/stream-ordering.ts',
]

const { values } = parseArgs({
  options: {
    draw: { type: 'boolean', default: false },
    at: { type: 'string' },
    count: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
    from: { type: 'string', default: FOLDERS.join() },
    only: { type: 'string' },
    open: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    thorough: { type: 'boolean', default: false },
    random: { type: 'boolean', default: false },
    rules: { type: 'boolean', default: false },
    copies: { type: 'string', default: '1' },
  },
})
const TABLE = join(root, 'tests', 'mutations.md')
const RULES = join(root, 'tests', 'rules.md')

/**
 * The suites of random programs: the words of the paths of their files, and which files of src they play. Tests of one file of src
 * find more of it in less time, but it is these whose programs must not become weaker unseen.
 */
const SUITES = {
  differential: {
    words: 'differential/forced differential/fake differential/known',
    plays: /^src\/(?!tools\/sanitizer)/,
  },
  ordering: { words: 'properties/ordering', plays: /^src\/simulator/ },
  exploration: { words: 'properties/exploration', plays: /^src\/simulator/ },
  judged: { words: 'tools/sanitizer/random.test', plays: /^src\/(tools\/sanitizer|simulator)/ },
  threads: { words: 'tools/sanitizer/random-threads', plays: /^src\/tools\/sanitizer/ },
  explored: { words: 'tools/sanitizer/explored', plays: /^src\/(tools\/sanitizer|simulator)/ },
  checked: { words: 'tools/recording/check', plays: /^src\/tools\/sanitizer/ },
}
/** The guarantees: on the fake driver what only the CUDA driver plays, else on the simulator, in seconds. */
const GUARANTEES = [
  { words: 'fake-driver/guarantees', plays: /^src\/cuda/ },
  { words: 'conformance/guarantees/', plays: /^src\/(?!cuda)/ },
]
/** Words of paths of test files, for a file of src: those that find most in little time. */
const STAGES = [
  {
    words: 'tools/sanitizer/kinds tools/sanitizer/modes tools/sanitizer/threads tools/sanitizer/bounded',
    plays: /^src\/tools\/sanitizer/,
  },
  { words: 'cuda/ fake-driver/', plays: /^src\/cuda/ },
  {
    words:
      'conformance/ordering conformance/completion conformance/memory conformance/graph conformance/capture simulator/time simulator/memory core/streams/ core/memory/',
    plays: /^src\/(?!tools\/sanitizer|cuda)/,
  },
]
/** With `--thorough`, what those have not found is looked for by these. */
const ALL = [
  { words: '--quick', plays: /./ },
  { words: '', plays: /./ },
]
/** Minutes that a guarantee, a stage or a suite takes at most, and all tests: a mistake that makes tests hang is found, too. */
const LONGEST_OF_GUARANTEES = 0.5
const LONGEST = 6
const LONGEST_OF_ALL = 20

/** Each gives the line another meaning, or undefined where it does not fit. */
const OPERATORS = {
  'a statement is left out': (line) => {
    const isCall = /^\s+(this|[a-z]\w*)[.#\w?]*\([^{}]*\)$/.test(line) && !/^\s+(super|return|await)\b/.test(line)
    return isCall ? '' : undefined
  },
  'an assignment is left out': (line) => (/^\s+this\.[#\w.]+ [+-]?= [^{(]+$/.test(line) ? '' : undefined),
  'a condition is turned round': (line) =>
    replaced(line, /\bif \((.+)\) (?=return|throw|continue|break|this)/, 'if (!($1)) '),
  'a comparison takes the limit in': (line) => replaced(line, / (<|>) (?=[\w.#]+\b)(?!.*=>)/, ' $1= '),
  'a comparison leaves the limit out': (line) => replaced(line, / (<|>)= (?=[\w.#]+\b)/, ' $1 '),
  'plus is minus': (line) => replaced(line, / \+ (?=\w)(?!.*['"`])/, ' - '),
  'and is or': (line) => replaced(line, / && /, ' || '),
  'or is and': (line) => replaced(line, / \|\| /, ' && '),
  'equal is different': (line) => replaced(line, / === (?!undefined\b.*=>)/, ' !== '),
  'true is false': (line) => replaced(line, /= true\b/, '= false'),
}

const replaced = (line, pattern, by) => (pattern.test(line) ? line.replace(pattern, by) : undefined)

/** Draws whole numbers below a limit: the same for the same seed. */
function drawing(seed) {
  let state = seed >>> 0
  return (limit) => {
    state = (state + 0x9e3779b9) >>> 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) % limit
  }
}

/** All mistakes that can be made in these files. A line is named by its text, and by how many lines of the file are the same before it. */
function possible(folder) {
  const { stdout } = spawnSync('git', ['ls-files', ...values.from.split(',')], { cwd: root, encoding: 'utf8' })
  const found = []
  const isThere = (name) => name.endsWith('.ts') && existsSync(join(folder, name))
  for (const file of stdout.split('\n').filter(isThere)) {
    const lines = readFileSync(join(folder, file), 'utf8').split('\n')
    for (const [index, line] of lines.entries()) {
      if (/^\s*(\*|\/[/*]|import|export (type|interface))/.test(line)) continue
      for (const [what, change] of Object.entries(OPERATORS)) {
        const changed = change(line)
        if (changed === undefined || changed === line) continue
        const nth = lines.slice(0, index).filter((other) => other.trim() === line.trim()).length
        found.push({ file, nth, what, line: line.trim(), before: '', after: '', suitesBefore: [], suitesAfter: [] })
      }
    }
  }
  return found
}

/** A copy of this checkout, or of a revision, to make mistakes in. */
function copy(revision) {
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-mutations-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  if (revision === undefined) {
    const skipped = /^(node_modules|dist|\.cache|\.gpu|\.git)$/
    cpSync(root, folder, {
      recursive: true,
      filter: (from) => from === root || !skipped.test(relative(root, from).split('/')[0] ?? ''),
    })
  } else spawnSync('bash', ['-c', `git archive ${revision} | tar -x -C ${folder}`], { cwd: root, stdio: 'inherit' })
  for (const shared of ['node_modules', '.cache', '.git']) symlinkSync(join(root, shared), join(folder, shared))
  // The tests of a revision are run as this script expects it.
  for (const name of ['test.mjs', 'failures.mjs']) cpSync(join(root, 'scripts', name), join(folder, 'scripts', name))
  // Names that a mistake leaves unused do no harm.
  const config = join(folder, 'tsconfig.json')
  writeFileSync(config, readFileSync(config, 'utf8').replace(/"noUnused(\w+)": true/g, '"noUnused$1": false'))
  // A random program that fails is not made shorter, which takes longer than all else.
  const preload = join(folder, 'as-found.mjs')
  writeFileSync(preload, "import fc from 'fast-check'\nfc.configureGlobal({ endOnFailure: true })\n")
  return { folder, env: { NODE_OPTIONS: `--import=file://${preload}` } }
}

/** The first test that fails, as `file: name`, or undefined: what is still running then is ended. */
function firstFailure({ folder, env }, stage, minutes, isRandom) {
  const args = ['scripts/test.mjs', '--reporter=failures', ...stage.split(' ').filter(Boolean)]
  return new Promise((resolve) => {
    // Any row of any table may be the one that finds the mistake.
    const whole = { ...process.env, CUDA_STREAMS_TEST_DAY: 'all', ...(isRandom ? env : {}) }
    const options = { cwd: folder, detached: true, stdio: ['ignore', 'pipe', 'ignore'], env: whole }
    const child = spawn(process.execPath, args, options)
    let found
    const end = (what) => {
      found ??= what
      try {
        process.kill(-child.pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    const limit = setTimeout(() => end(`${stage}: the tests hung`), minutes * 60_000)
    let printed = ''
    child.stdout.on('data', (text) => {
      printed += text
      const [line, ...more] = printed.split('\n')
      if (more.length === 0) return
      const { file, name } = JSON.parse(line)
      const path = file.startsWith('/') ? relative(join(folder, 'dist', 'tests'), file) : file
      end(`${path.startsWith('..') ? stage : path.replace('.test.js', '')}: ${name}`)
    })
    child.on('close', (status) => {
      clearTimeout(limit)
      resolve(found ?? (status === 0 ? undefined : `${stage}: the tests ended otherwise`))
    })
  })
}

const compile = (folder, ...args) => spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).status === 0
const build = (folder) => compile(folder, 'scripts/build.mjs')
const ONE_FILE = ['--ignoreConfig', '--noResolve', '--noCheck', '--target', 'es2022', '--module', 'nodenext']
/** What a whole build would write of one file. */
const buildFile = (folder, file) =>
  compile(
    folder,
    'node_modules/typescript/bin/tsc',
    ...ONE_FILE,
    '--verbatimModuleSyntax',
    '--outDir',
    'dist',
    '--rootDir',
    '.',
    file,
  )

/** Calls `use` while a mistake is in the copy, if its line is there and the compiler takes it. */
async function inject({ folder }, { file, nth, line, what, instead }, compiles, use) {
  const path = join(folder, file)
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const lines = text.split('\n')
  const found = [...lines.entries()].filter(([, other]) => other.trim() === line).map(([index]) => index)
  const index = found[Math.min(nth, found.length - 1)]
  if (index === undefined) return 'the line is gone'
  writeFileSync(path, lines.with(index, instead ?? OPERATORS[what](lines[index])).join('\n'))
  try {
    return compiles(folder, file) ? await use() : 'the compiler'
  } finally {
    writeFileSync(path, text)
    if (compiles === buildFile) buildFile(folder, file)
  }
}

const ofFile = (list, file) => list.filter(({ plays }) => plays.test(file))

/** The tests that stand where the file stands: of itself, and of the innermost folder that has any. */
function* testsOf({ folder }, file) {
  const own = file.replace(/^src\/|\.ts$/g, '')
  const stands = (path) => existsSync(join(folder, 'dist', 'tests', path))
  if (stands(`${own}.test.js`)) yield `${own}.test`
  let above = dirname(own)
  while (above !== '.' && !stands(above)) above = dirname(above)
  if (above !== '.') yield `${above}/`
}

/** What finds it first. */
async function find(place, mistake) {
  const suites = ofFile(Object.values(SUITES), mistake.file).map(({ words }) => words)
  const stages = ofFile(values.thorough ? [...STAGES, ...ALL] : STAGES, mistake.file).map(({ words }) => words)
  const [file] = mistake.before.split(': ')
  // A test may be told of by a module that several files share.
  const isOfBefore = column === 'after' && existsSync(join(place.folder, 'dist', 'tests', `${file}.test.js`))
  for (const { words } of ofFile(GUARANTEES, mistake.file)) {
    const found = await firstFailure(place, words, LONGEST_OF_GUARANTEES, false)
    if (found !== undefined) return found
  }
  const near = [...testsOf(place, mistake.file)]
  const all = new Set([...(isOfBefore ? [file] : []), ...near.slice(0, -1), ...stages, ...near, ...suites])
  for (const words of all) {
    const isRandom = suites.some((suite) => suite.includes(words))
    const found = await firstFailure(
      place,
      words,
      ALL.some((all) => all.words === words) ? LONGEST_OF_ALL : LONGEST,
      isRandom,
    )
    if (found !== undefined) return found
  }
  return values.thorough ? 'ESCAPED' : NOT_FOUND
}

/** The suites of random programs that find it. */
async function suitesThatFind(place, mistake) {
  const able = Object.keys(SUITES).filter((name) => SUITES[name].plays.test(mistake.file))
  const suites = []
  for (const name of column === 'after' && !values.all ? mistake.suitesBefore : able)
    if ((await firstFailure(place, SUITES[name].words, LONGEST, true)) !== undefined) suites.push(name)
  return suites
}

async function look(place, mistake) {
  if (!values.random) mistake[column] = await find(place, mistake)
  else mistake[column === 'after' ? 'suitesAfter' : 'suitesBefore'] = await suitesThatFind(place, mistake)
}

/** By the tests that have looked for it. */
const NOT_FOUND = 'not found'
const cell = (text) => text.replaceAll('|', '\\|')
const cellsOf = (row) => row.split(/(?<!\\)\|/).map((text) => text.trim().replaceAll('\\|', '|'))
function write(mistakes, revision) {
  const rows = mistakes.map(({ file, nth, what, line, before, after, suitesBefore, suitesAfter }, index) => {
    const cells = [String(index + 1), file, String(nth + 1), what, `\`${line}\``, before, after]
    return `| ${[...cells, suitesBefore.join(', '), suitesAfter.join(', ')].map(cell).join(' | ')} |`
  })
  const text = [
    '# What the tests find',
    '',
    'Written by `npm run mutations`: mistakes that were injected into src, one at a time, and the first test that found each. "n" is which of',
    `the lines of a file that have this text. "before" is revision ${revision}, "after" the checkout that the script ran in last. The`,
    'last two columns have the suites of random programs that found it. Where a cell is empty, nothing has looked yet; "not found" is by the',
    'tests that stand where the file stands, a few others of its subject, and the suites of random programs, or by these alone, where the cell',
    'says so; by all tests, as `--thorough` has it, it is "ESCAPED".',
    '',
    '| | file | n | mistake | line | before | after | random before | random after |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ]
  writeFileSync(TABLE, text.join('\n'))
}

function read() {
  const text = readFileSync(TABLE, 'utf8')
  const [, revision] = /is revision (\w+)/.exec(text) ?? []
  const mistakes = text
    .split('\n')
    .filter((line) => /^\| \d/.test(line))
    .map((row) => {
      const [, , file, nth, what, line, before, after, suitesBefore, suitesAfter] = cellsOf(row)
      const names = (list) => list.split(', ').filter(Boolean)
      const suites = { suitesBefore: names(suitesBefore), suitesAfter: names(suitesAfter) }
      return { file, nth: Number(nth) - 1, what, line: line.slice(1, -1), before, after, ...suites }
    })
  return { revision, mistakes }
}

/** Mistakes that the compiler takes, since nobody would commit the others. */
async function drawn(place) {
  const all = possible(place.folder)
  console.log(`${all.length} mistakes can be made`)
  const draw = drawing(Number(values.seed))
  const mistakes = []
  while (mistakes.length < Number(values.count) && all.length > 0) {
    const [mistake] = all.splice(draw(all.length), 1)
    if ((await inject(place, mistake, build, () => 'taken')) === 'taken') mistakes.push(mistake)
  }
  return mistakes
}

/** Injects the mistakes of tests/rules.md, and writes down the test that finds each. Returns false if one is not found where it belongs. */
async function playRules(place) {
  const lines = readFileSync(RULES, 'utf8').split('\n')
  const rows = [...lines.entries()].filter(([, line]) => /^\| [a-z-]+ \| .+\.ts \| \d/.test(line))
  const only = values.only?.split(',').map(Number)
  let areFound = true
  for (const [nth, [index, row]] of rows.entries()) {
    if (only?.includes(nth + 1) === false) continue
    const [, guarantee, rule, file, n, line, instead] = cellsOf(row)
    const words = `conformance/guarantees/${guarantee}.test`
    const mistake = { file, nth: Number(n) - 1, line: line.slice(1, -1), instead: instead.slice(1, -1) }
    const found = await inject(place, mistake, buildFile, () =>
      firstFailure(place, words, LONGEST_OF_GUARANTEES, false),
    )
    const isFound = found?.startsWith('conformance/guarantees/') === true
    areFound &&= isFound
    const said = isFound
      ? found.replace(`${words.replace('.test', '')}: `, '').replace(/^.*: the tests hung$/, HANGS)
      : found
    lines[index] = `| ${[guarantee, rule, file, n, line, instead, said ?? NOT_FOUND].map(cell).join(' | ')} |`
    writeFileSync(RULES, lines.join('\n'))
    console.log(`${nth + 1}. ${guarantee}, ${rule}: ${said ?? NOT_FOUND}`)
  }
  return areFound
}
const HANGS = 'its tests do not end'

if (values.rules) {
  const place = copy(undefined)
  if (!build(place.folder)) throw new Error('The copy does not compile')
  process.exit((await playRules(place)) ? 0 : 1)
}
const column = values.at === undefined ? 'after' : 'before'
const places = Array.from({ length: Number(values.copies) }, () => copy(values.at))
const { revision = values.at, mistakes } = existsSync(TABLE) ? read() : { mistakes: [] }
const first = values.draw ? mistakes.length : 0
if (values.draw) mistakes.push(...(await drawn(places[0])))
write(mistakes, revision)
for (const { folder } of places) if (!build(folder)) throw new Error('The copy does not compile')
const only = values.only?.split(',').map(Number)
const isOpen = (found) => found === 'ESCAPED' || found.startsWith(NOT_FOUND)
const waiting = (only ?? mistakes.slice(first).map((_, index) => first + index + 1))
  .map((nth) => [nth - 1, mistakes[nth - 1]])
  .filter(([, mistake]) => !values.open || mistake[column] === '' || isOpen(mistake[column]))
async function work(place) {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const [index, mistake] = next
    const begun = performance.now()
    const hindrance = await inject(place, mistake, buildFile, () => look(place, mistake))
    if (hindrance !== undefined) mistake[column] = hindrance
    write(mistakes, revision)
    const seconds = Math.round((performance.now() - begun) / 1000)
    const found = values.random
      ? mistake[`suites${column === 'after' ? 'After' : 'Before'}`].join(', ')
      : mistake[column]
    console.log(`${index + 1}. ${mistake.file} ${mistake.what}: ${mistake.line}\n   ${found} (${seconds} s)`)
  }
}
await Promise.all(places.map(work))
const numbers = (isMeant) => mistakes.flatMap((mistake, index) => (isMeant(mistake) ? [index + 1] : []))
const lost = numbers(({ after, before, suitesBefore, suitesAfter }) => {
  if (after === '' || after === 'the line is gone') return false
  if (values.random) return suitesBefore.some((suite) => !suitesAfter.includes(suite))
  return isOpen(after) && before !== '' && !isOpen(before)
})
const escaped = numbers((mistake) => isOpen(mistake[column]))
console.log(
  `${mistakes.length} mistakes; not found: ${escaped.join(', ') || 'none'}; found less than before: ${lost.join(', ') || 'none'}`,
)
process.exitCode = column === 'after' && lost.length > 0 ? 1 : 0
