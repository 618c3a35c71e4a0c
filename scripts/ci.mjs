// What .ci/run does once the tools are there: jobs side by side, as many as there are cores, the long ones first. Each job is a list
// of commands, one after the other; what it printed is shown when it is over, whole if it failed. A job that takes longer than its
// limit is ended and has failed: no job waits for ever. The ends of those that failed are shown once more, last of all.
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { root } from './test-files.mjs'

/** Minutes that a job takes at most. */
const LONGEST = 30
/** Lines that are shown of a job that went well, and again of one that failed. */
const SHOWN = 25

const given = process.env.CUDA_STREAMS_TEST_DAY
/** Days since 1970, in UTC: long tables and run times are played in parts, each on its day (tests/helpers/of-the-day.ts). */
const day = given && given !== 'all' ? Number(given) : Math.floor(Date.now() / 86_400_000)
/** Run times by the days on which they have their turn. */
const RUN_TIMES = ['node24', 'bun deno', 'node22 node26']
const runTimes = given === 'all' ? RUN_TIMES.join(' ') : RUN_TIMES[day % RUN_TIMES.length]

const JOBS = {
  // All but the long files of other days: `npm test` plays them all.
  tests: ['node scripts/test.mjs --without=site/ --of-the-day'],
  // One after the other, since both write the playground. Its tests are skipped where there is no site.
  site: ['node site/build.mjs --built', 'node scripts/test.mjs site/', 'npm --prefix site run test:playground'],
  // What each does in its own way; the tests have tried the rest on this Node. Each has its turn within three days.
  'run times': [`node scripts/test-matrix.mjs --run-time ${runTimes}`],
  // Projects with kernels in CUDA C++, bundled and run with what `npm pack` packs.
  examples: ['node scripts/examples.mjs'],
  package: [
    'npm run check',
    'node dist/examples/pipeline/main.js',
    // The quickstart in an empty folder, with what npm installs there.
    'node dist/tests/package/quickstart.js',
    'node scripts/check-package.mjs',
  ],
}

const begun = performance.now()
const took = (since) => `${Math.round((performance.now() - since) / 1000)} s`

/** The exit status, or the signal. */
function run(command, output) {
  return new Promise((resolve) => {
    const child = spawn('bash', ['-c', command], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    const limit = setTimeout(() => {
      output.push(`took longer than ${LONGEST} minutes: ${command}\n`)
      process.kill(-child.pid, 'SIGKILL')
    }, LONGEST * 60_000)
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => output.push(String(text)))
    child.on('close', (code, signal) => {
      clearTimeout(limit)
      resolve(code ?? signal)
    })
  })
}

/** Returns the last lines of the command that failed; undefined if none did. */
async function runJob([name, commands]) {
  const since = performance.now()
  for (const command of commands) {
    const output = [`$ ${command}\n`]
    const status = await run(command, output)
    const lines = output.join('').split('\n')
    const cut = status === 0 && lines.length > SHOWN
    console.log((cut ? [lines[0], `… ${lines.length - SHOWN} lines`, ...lines.slice(-SHOWN)] : lines).join('\n'))
    if (status === 0) continue
    const failure = `${name} failed: ${command} ended with ${status}`
    console.log(failure)
    return [...lines.slice(-SHOWN), failure]
  }
  console.log(`${name}: done in ${took(since)}`)
  return undefined
}

const waiting = Object.entries(JOBS)
const results = []
async function work() {
  for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) results.push([job[0], await runJob(job)])
}
await Promise.all(Array.from({ length: Math.max(1, availableParallelism()) }, work))
const failed = results.filter(([, ending]) => ending !== undefined)
for (const [, ending] of failed) console.log(ending.join('\n'))
console.log(`${took(begun)}; failed: ${failed.map(([name]) => name).join(', ') || 'none'}`)
process.exitCode = failed.length === 0 ? 0 : 1
