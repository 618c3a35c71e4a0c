// `npm run house`: how large the house is, counted the same way each time. `npm run house -- REVISION` counts an earlier state
// too, and prints both. A row that can only be measured by doing it (how many files a change touches) counts the commits that are
// named after `--change`, such as `--change "driver function=1a2b3c4"`.
import { execFileSync } from 'node:child_process'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './test-files.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { change: { type: 'string', multiple: true, default: [] } },
})
const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })

/** A file of fewer lines is short. */
const SHORT = 40
/** A file of more lines is long. */
const LONG = 1000
/** A function with so many positional parameters is called by counting. */
const MANY = 7
/** What somebody has to know who changes streams. */
const MAIN_WINGS = ['foundation', 'core', 'cuda', 'simulator']
/** Wings, and those of their rooms that have a layer of their own (tests/package/layers.test.ts). */
const ROOM = /^src\/((?:foundation|tools)\/[^/.]+|[^/.]+)/
/** A doc comment that begins so has no subject, mostly: tests/docs/comment-subjects.test.ts has the whole rule. */
const WITHOUT_SUBJECT = String.raw`/\*\* (Of|By|Where|Those|It|They|Which|With|From|Both) `
/** A generator of random programs draws numbers and makes steps of them: as records, whose kind is drawn as well, or as text. */
const GENERATOR =
  '(what: (fc\\.constant(From)?|of|kind|kindOf)(<[^>]*>)?\\()|fc\\.record\\(\\{ what: fc|function randomProgram\\('
/** What is tried with random steps there is a table of ours, and no program. */
const NO_PROGRAMS = ['tests/foundation/driver/handle-tables.test.ts']

/** Paths and texts of a state: of the working tree, or of a revision. */
function filesOf(revision) {
  const names = git('ls-tree', '-r', '--name-only', revision)
    .split('\n')
    .filter((name) => /^(src|tests|native|site|scripts|bench|docs)\/.*\.(ts|mjs|c|h|md|css|html)$/.test(name))
  const texts = git('grep', '-c', '', revision, '--', ...new Set(names.map((name) => name.split('/')[0])))
  const lines = new Map()
  for (const line of texts.split('\n')) {
    const [, name, count] = /^[^:]*:(.*):(\d+)$/.exec(line) ?? []
    if (name !== undefined) lines.set(name, Number(count))
  }
  return names.map((name) => ({ name, lines: lines.get(name) ?? 0 }))
}

const grep = (revision, pattern, ...paths) => {
  try {
    return git('grep', '-l', '-E', pattern, revision, '--', ...paths)
      .split('\n')
      .filter(Boolean)
  } catch {
    return []
  }
}

/** The lines that match, in all files. */
const lines = (revision, pattern, ...paths) => {
  try {
    return git('grep', '-h', '-E', pattern, revision, '--', ...paths)
      .trimEnd()
      .split('\n').length
  } catch {
    return 0
  }
}

/** Parameters of a declaration as Biome writes it: each in a line of its own, or all in one. */
const PARAMETERS = [
  /\(\n((?: +(?:(?:private|readonly|protected) )*\w+\??(?:: .+| = .+),\n)+) *\)/g,
  /\w\(((?:\w+\??: [^(){}=;]+, )+\w+\??: [^(){}=;]+)\)[:{ ]/g,
]

/** What files of src import of other rooms, and functions with many parameters. */
function importsAndParameters(revision, names) {
  const rooms = new Set()
  const arrows = new Set()
  let many = 0
  for (const name of names) {
    const text = git('show', `${revision}:${name}`)
    const room = ROOM.exec(name)?.[1]
    rooms.add(room)
    for (const [, path] of text.matchAll(/^(?:import|export)[^'"]*? from '(\.[^']*)'|^import '(\.[^']*)'/gm)) {
      const other = path && ROOM.exec(join(name, '..', path))?.[1]
      if (other && other !== room) arrows.add(`${room} ${other}`)
    }
    for (const pattern of PARAMETERS)
      for (const [, list] of text.matchAll(pattern))
        if ((list.match(/(^|\n|, ) *(?:\w+ )*\w+\??(?=: | = )/g) ?? []).length >= MANY) many += 1
  }
  return { rooms: rooms.size, arrows: arrows.size, many }
}

function count(revision) {
  const all = filesOf(revision)
  const of = (test) => all.filter(({ name }) => test(name))
  const sum = (files) => files.reduce((total, { lines }) => total + lines, 0)
  const isKernels = (name) => name.startsWith('src/ptx/')
  const src = of((name) => /^src\/.*\.ts$/.test(name) && !isKernels(name))
  const kernels = of((name) => /\.ts$/.test(name) && isKernels(name))
  const tests = of((name) => /^tests\/.*\.ts$/.test(name))
  const names = new Map()
  for (const { name } of src) names.set(basename(name), (names.get(basename(name)) ?? 0) + 1)
  const lock = JSON.parse(git('show', `${revision}:package-lock.json`))
  const scripts = Object.entries(lock.packages).filter(([, { hasInstallScript }]) => hasInstallScript)
  const words = git('grep', '-h', '', revision, '--', 'README.md', 'docs/*.md').split(/\s+/).length
  const entries = new Set(of((name) => name.startsWith('src/')).map(({ name }) => name.split('/')[1]))
  const typescript = of((name) => /^src\/.*\.ts$/.test(name))
  const { rooms, arrows, many } = importsAndParameters(
    revision,
    typescript.map(({ name }) => name),
  )
  const main = typescript.filter(({ name }) => MAIN_WINGS.includes(name.split('/')[1]))
  return {
    'entries at the top of src': entries.size,
    'wings, and rooms of those that have some': rooms,
    'arrows between them': arrows,
    'lines to know to change streams': sum(main),
    [`functions of ${MANY} and more parameters`]: many,
    'doc comments that begin without a subject': lines(revision, WITHOUT_SUBJECT, 'src'),
    'lines of the largest file of src': Math.max(...[...src, ...kernels].map(({ lines }) => lines)),
    [`files of src of more than ${LONG} lines`]: [...src, ...kernels].filter(({ lines }) => lines > LONG).length,
    'lines of src, without kernels': sum(src),
    'files of src, without kernels': src.length,
    'lines of a file, on average': Math.round(sum(src) / src.length),
    [`files of fewer than ${SHORT} lines`]: src.filter(({ lines }) => lines < SHORT).length,
    'names that two files of src share': [...names.values()].filter((times) => times > 1).length,
    'lines of src/ptx (kernels)': sum(kernels),
    'lines of C': sum(of((name) => /^native\/.*\.[ch]$/.test(name))),
    'lines of tests': sum(tests),
    'files of tests': tests.length,
    'generators of random programs': grep(revision, GENERATOR, 'tests', 'site').filter(
      (name) => !NO_PROGRAMS.some((other) => name.endsWith(other)),
    ).length,
    'files that call C by koffi': grep(revision, "from 'koffi'|require\\('koffi'\\)", 'src').length,
    'packages with an install script that a user installs': scripts.filter(([, { dev }]) => dev !== true).length,
    'packages with an install script that a developer installs': scripts.length,
    'words of README and docs': words,
  }
}

const states = [...positionals, 'HEAD'].map((revision) => [revision, count(revision)])
const rows = Object.keys(states[0][1])
const width = Math.max(...rows.map((row) => row.length))
console.log([' '.repeat(width), ...states.map(([revision]) => revision.slice(0, 10).padStart(10))].join('  '))
for (const row of rows)
  console.log([row.padEnd(width), ...states.map(([, state]) => String(state[row]).padStart(10))].join('  '))
for (const change of values.change) {
  const [what, commit] = change.split('=')
  const files = git('show', '--format=', '--name-only', commit).split('\n').filter(Boolean)
  console.log(`files that a ${what} touches: ${files.length}`)
}
