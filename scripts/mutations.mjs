// Injects mistakes into src, one at a time, and checks whether the tests find them: `npm run mutations -- --count 50 --seed 1`. A mistake
// is a line of the driver, the simulator, memory, graphs or the sanitizer that is left out or turned round, drawn by the seed, so that
// the same ones are injected again after the tests have changed. It works in a copy of the checkout, in a temporary folder.
//
// Of each mistake the table says which tests found it: the first of STAGES that failed. `--only 3,17` injects some again;
// `--stages "words of test files;more words"` has other tests look for it.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './test-files.mjs'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    stages: { type: 'string' },
  },
})
/** Words of paths of test files: those that find most come first. */
const STAGES = values.stages?.split(';') ?? [
  'conformance/ordering conformance/completion conformance/memory conformance/graphs sanitizer/kinds simulator/time',
  '--quick',
  'conformance/ memory/ simulator/ streams/ differential/ sanitizer/ explore/ properties/ fake',
  '',
]
/** Minutes that a stage takes at most: a mistake that makes tests hang is found, too. */
const LONGEST = 20

const FOLDERS = [
  'src/driver',
  'src/memory',
  'src/graphs',
  'src/streams',
  'src/kernels',
  'src/sanitizer',
  'src/stream.ts',
]

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

/** All mistakes that can be made in these files. */
function possible(folder) {
  const { stdout } = spawnSync('git', ['ls-files', ...FOLDERS], { cwd: folder, encoding: 'utf8' })
  const found = []
  for (const file of stdout.split('\n').filter((name) => name.endsWith('.ts'))) {
    for (const [index, line] of readFileSync(join(folder, file), 'utf8').split('\n').entries()) {
      if (/^\s*(\*|\/[/*]|import|export (type|interface))/.test(line)) continue
      for (const [what, change] of Object.entries(OPERATORS)) {
        const changed = change(line)
        if (changed !== undefined && changed !== line) found.push({ file, index, line, changed, what })
      }
    }
  }
  return found
}

function copy() {
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-mutations-'))
  const skipped = /^(node_modules|dist|\.cache|\.gpu|\.git)$/
  cpSync(root, folder, {
    recursive: true,
    filter: (from) => from === root || !skipped.test(from.slice(root.length + 1).split('/')[0] ?? ''),
  })
  for (const shared of ['node_modules', '.cache', '.git']) symlinkSync(join(root, shared), join(folder, shared))
  // Names that a mistake leaves unused do no harm.
  const config = join(folder, 'tsconfig.json')
  writeFileSync(config, readFileSync(config, 'utf8').replace(/"noUnused(\w+)": true/g, '"noUnused$1": false'))
  return folder
}

const run = (folder, args) =>
  spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8', timeout: LONGEST * 60_000, maxBuffer: 2 ** 28 })

/** The first line that says which test failed. */
function whatFound({ stdout = '', status, signal }) {
  if (signal !== null && status === null) return 'the tests hung'
  const [, name = 'the tests ended otherwise'] = /✖ (.+?) \(\d/.exec(stdout ?? '') ?? []
  return name
}

const folder = copy()
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const all = possible(folder)
const draw = drawing(Number(values.seed))
const only = values.only?.split(',').map(Number)
const escaped = []
let injected = 0
console.log(`${all.length} mistakes can be made`)
while (injected < Number(values.count) && all.length > 0) {
  const [mistake] = all.splice(draw(all.length), 1)
  const { file, index, line, changed, what } = mistake
  const path = join(folder, file)
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, text.split('\n').with(index, changed).join('\n'))
  // What the compiler refuses nobody would commit.
  if (run(folder, ['scripts/build.mjs']).status === 0) {
    injected += 1
    if (only === undefined || only.includes(injected)) {
      const begun = performance.now()
      let found
      for (const stage of STAGES) {
        const result = run(folder, ['scripts/test.mjs', ...stage.split(' ').filter(Boolean)])
        if (result.status !== 0) {
          found = whatFound(result)
          break
        }
      }
      if (found === undefined) escaped.push(injected)
      const seconds = Math.round((performance.now() - begun) / 1000)
      console.log(`${injected}. ${file}:${index + 1} ${what}: ${line.trim()}`)
      console.log(`   ${found === undefined ? 'ESCAPED' : `found by: ${found}`} (${seconds} s)`)
    }
  }
  writeFileSync(path, text)
}
console.log(`${injected} mistakes, ${escaped.length} escaped: ${escaped.join(', ') || 'none'}`)
