// Runs the compiled tests on each run time that the library is for, and prints a table. Words choose run times (`node22`,
// `bun`) and files (a part of their paths); `--run-time` those about what differs between run times, with few combinations, as CI
// does; `--quick` as in test.mjs. What a run time is known to lack stands in
// run-time-gaps.mjs: it is printed with the reason, and is a failure once it passes.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ProgressLine } from '../dist/src/foundation/base/standard-error.js'
import { gapsOf } from './run-time-gaps.mjs'
import { BETWEEN, programOf, RUN_TIMES } from './run-times.mjs'
import { testFiles, tests } from './test-files.mjs'

/** Files at a time, and milliseconds that one may take. */
const AT_ONCE = 2
const LONGEST_FILE = 600_000
/** What is of the native interface and of the event loop: with `--run-time`, all that those of BETWEEN play. */
const OF_EVERY_NODE = /^(foundation\/native|cuda\/waiting|fake-driver)\//
const COUNTS = ['passed', 'failed', 'skipped', 'lacking']

const given = process.argv.slice(2)
const set = ['quick', 'run-time'].find((name) => given.includes(`--${name}`)) ?? 'all'
const named = RUN_TIMES.filter(({ name }) => given.includes(name))
const words = given.filter((word) => !word.startsWith('--') && !named.some(({ name }) => name === word))
const files = testFiles({ words, set })
for (const file of files) {
  const text = readFileSync(join(tests, file), 'utf8')
  if (/^\s*describe\(.*async .*\{$/m.test(text)) throw new Error(`Deno runs no test of an async describe(): ${file}`)
}
const reports = mkdtempSync(join(tmpdir(), 'cuda-streams-matrix-'))
const progress = new ProgressLine()

const rows = []
for (const runTime of named.length > 0 ? named : RUN_TIMES) rows.push(await runAll(runTime))
rmSync(reports, { recursive: true })
printTable(rows)
const [passed, failed, skipped] = COUNTS.map((key) => rows.reduce((sum, row) => sum + row[key], 0))
console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`)
process.exitCode = failed > 0 ? 1 : 0

async function runAll(runTime) {
  const { name, version } = runTime
  progress.show(() => `${name}: installs ${version}`)
  const program = programOf(runTime)
  const began = performance.now()
  const gaps = gapsOf(name)
  const isGap = (file) => gaps.some((gap) => gap.file === file && gap.test === undefined)
  const isLeftToOthers = (file) => set === 'run-time' && BETWEEN.includes(name) && !OF_EVERY_NODE.test(file)
  const left = files.filter((file) => !isGap(file) && !isLeftToOthers(file))
  const row = { name, version, leftOut: files.length - left.length, files: left.length }
  for (const key of COUNTS) row[key] = 0
  const complain = (file, complaints, output = '') => {
    progress.erase()
    console.log(`${name}: ${file}\n  ${complaints.join('\n  ')}\n${output.slice(-6000)}`)
  }
  const worker = async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) {
      progress.show(() => `${name}: ${row.files - left.length} of ${row.files} files, ${row.failed} failed; ${file}`)
      const { cases, trouble, output } = await runFile(runTime, program, file)
      const complaints = trouble === undefined ? [] : [trouble]
      for (const { title, outcome } of cases) {
        const gap = gaps.find((one) => one.file === file && title.includes(one.test))
        if (gap !== undefined && gap.seen !== 'failed') gap.seen = outcome
        if (gap !== undefined && outcome === 'failed') row.lacking += 1
        else if (outcome === 'failed') complaints.push(title)
        else row[outcome] += 1
      }
      for (const { test, seen, sometimes } of gaps.filter((gap) => gap.file === file)) {
        if (seen === undefined || (seen === 'passed' && !sometimes))
          complaints.push(`${test}: ${seen ?? 'not there'}; take it off the list in run-time-gaps.mjs`)
      }
      row.failed += complaints.length
      if (complaints.length > 0) complain(file, complaints, output)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  row.seconds = Math.round((performance.now() - began) / 1000)
  progress.erase()
  for (const { file, test, reason } of gaps.filter((gap) => files.includes(gap.file))) {
    console.log(`${name} ${test === undefined ? `leaves out ${file}` : `lacks "${test}" (${file})`}: ${reason}`)
  }
  console.log(`${name}: ${COUNTS.map((key) => `${row[key]} ${key}`).join(', ')} in ${row.seconds} s`)
  return row
}

/** The tests of the file, with how each ended; and what is wrong besides. */
async function runFile({ name, testArguments, report }, program, file) {
  const path = join(reports, `${name}-${file.replaceAll('/', '-')}.xml`)
  const env = {
    ...process.env,
    ...(set === 'all' ? {} : { CUDA_STREAMS_TEST_EFFORT: 'quick' }),
    CUDA_STREAMS_TEST_ARGUMENTS: JSON.stringify(testArguments),
    NO_COLOR: '1',
  }
  const { code, output } = await run(program, [...testArguments, ...report(path), join(tests, file)], env)
  const cases = casesOf(path)
  const failed = cases.some(({ outcome }) => outcome === 'failed')
  return { cases, output, trouble: code === 0 || failed ? undefined : `ended with ${code}, though no test failed` }
}

function run(program, args, env) {
  const child = spawn(program, args, {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LONGEST_FILE,
    killSignal: 'SIGKILL',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text))
  return new Promise((resolve) => {
    child.on('error', ({ message }) => resolve({ code: message, output }))
    child.on('close', (code, signal) => resolve({ code: signal ?? code, output }))
  })
}

/** Of a JUnit report, which all of them write. None where the process was lost. */
function casesOf(path) {
  let text
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return []
  }
  const cases = [...text.matchAll(/<testcase name="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs)].map(
    ([, title, inside = '']) => ({
      title: plain(title),
      outcome: /<(failure|error)\b/.test(inside) ? 'failed' : /<skipped\b/.test(inside) ? 'skipped' : 'passed',
    }),
  )
  // Deno counts a group as a test too.
  return cases.filter(({ title }) => !cases.some((other) => other.title.startsWith(`${title} > `)))
}

function plain(text) {
  const names = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' }
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (_, name) => names[name])
}

function printTable(rows) {
  const lines = [
    ['run time', 'version', 'files', 'left out', ...COUNTS, 'seconds'],
    ...rows.map((row) => [
      row.name,
      row.version,
      row.files,
      row.leftOut,
      ...COUNTS.map((key) => row[key]),
      row.seconds,
    ]),
  ]
  const widths = lines[0].map((_, at) => Math.max(...lines.map((line) => String(line[at]).length)))
  console.log()
  for (const line of lines) {
    console.log(
      line.map((cell, at) => (at < 2 ? String(cell).padEnd(widths[at]) : String(cell).padStart(widths[at]))).join('  '),
    )
  }
}
