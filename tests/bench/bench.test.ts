/** The benchmark runs without a GPU, says what is lacking, and what it stores is what it shows. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { groups } from '../../bench/catalogue.js'
import { Child } from '../../bench/line-process.js'
import { type Result, readResult } from '../../bench/result.js'
import { resultTables } from '../../bench/table.js'
import { root } from '../helpers/root.js'

const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-bench-test-'))
const hasCompiler = spawnSync('cc', ['--version']).status === 0
const keysOf = (start: (title: string) => boolean): string[] =>
  groups.filter(({ title }) => start(title)).flatMap(({ rows }) => rows.map(({ key }) => key))
const ofSimulator = keysOf((title) => title.startsWith('the simulator'))

function bench(name: string, args: readonly string[]): { readonly text: string; readonly result: Result } {
  const json = join(scratch, `${name}.json`)
  const all = [join(root, 'dist', 'bench', 'main.js'), '--quick', '--json', json, ...args]
  const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim' }
  const { status, stdout, stderr } = spawnSync(process.execPath, all, { encoding: 'utf8', env })
  assert.equal(status, 0, stderr)
  return { text: stdout, result: readResult(json) }
}

/** A package that is as this one, but for the simulator of its own. */
function packageWith(name: string, simulator: string): string {
  const folder = join(scratch, name)
  mkdirSync(folder)
  const exports = { '.': './index.js', './sim': './sim.js' }
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'cuda-streams', version: '0.0.9', type: 'module', exports }),
  )
  writeFileSync(
    join(folder, 'index.js'),
    `export * from ${JSON.stringify(join(root, 'dist/src/entry-points/index.js'))}\n`,
  )
  writeFileSync(join(folder, 'sim.js'), simulator)
  return folder
}

describe('npm run bench', () => {
  after(() => rmSync(scratch, { recursive: true, force: true }))

  it('measures each row of the simulator, and prints what it stores', () => {
    const { text, result } = bench('sim', ['--svg', join(scratch, 'sim.svg')])
    assert.deepEqual(
      result.rows.map(({ key }) => key),
      ofSimulator,
    )
    assert.deepEqual(result.failures, [])
    for (const { samples, key } of result.rows) assert.equal(samples['cuda-streams']?.length, 1, key)
    assert.ok(text.trimEnd().endsWith(resultTables(result)))
    for (const fact of ['GPU', 'driver', 'CPU', 'load']) assert.ok(result.machine[fact], fact)
    assert.match(result.commit, /^[0-9a-f]{7}/)
    assert.match(readFileSync(join(scratch, 'sim.svg'), 'utf8'), /^<svg .*<\/svg>\n$/s)
  })

  it('takes turns with another version, compares, and says what that lacks', () => {
    const sim = `export { simulate } from ${JSON.stringify(join(root, 'dist/src/entry-points/sim.js'))}\nexport const busy = undefined\n`
    const { text, result } = bench('against', [
      '--rows',
      'sim-record,sim-busy',
      '--against',
      packageWith('before', sim),
    ])
    assert.deepEqual(result.contestants.map(({ name, facts: { version } }) => [name, version])[1], ['0.0.9', '0.0.9'])
    assert.match(text, /ours \/ 0\.0\.9/)
    assert.equal(result.command, 'npm run bench -- --quick --rows sim-record,sim-busy --against before')
    assert.match(text, /failed +0\.0\.9, sim-busy: sim\.busy is not a function/)
    const [record, busy] = result.rows
    assert.equal(record?.samples['0.0.9']?.length, 1)
    assert.equal(busy?.samples['0.0.9'], undefined)
    assert.equal(busy?.samples['cuda-streams']?.length, 1)
  })

  it('measures each call over a libcuda that does nothing, and C', {
    skip: hasCompiler ? false : 'no C compiler here',
  }, () => {
    const { result } = bench('no-op', ['--no-op'])
    assert.deepEqual(result.failures, [])
    assert.deepEqual(
      result.rows.map(({ key }) => key),
      groups[0]?.rows.map(({ key }) => key),
    )
    assert.deepEqual(
      result.contestants.map(({ name }) => name),
      ['cuda-streams', 'C', 'C, 8 queues'],
    )
    const withoutC = result.rows.filter(({ samples }) => samples['C'] === undefined).map(({ key }) => key)
    assert.deepEqual(withoutC, ['record-dropped', 'wrap'])
    const besideC = result.rows.filter((row) => row.besideC?.['cuda-streams'] !== undefined)
    assert.equal(besideC.length, result.rows.length - withoutC.length, 'C plays each in the process of cuda-streams')
  })

  it('goes on without a child that gives no answer or does not end, and names it', async () => {
    const child = (): Child => new Child(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], process.env)
    assert.match((await child().leave(100)) ?? '', /^it did not end within 0\.1 s$/)
    const silent = child()
    await assert.rejects(silent.line(100), /^Error: no answer within 0\.1 s$/)
    await assert.rejects(silent.line(60_000), /^Error: no answer within 0\.1 s$/)
    assert.equal(await silent.leave(60_000), undefined)
  })

  it('refuses what it does not know', () => {
    for (const [args, message] of [
      [['--rounds', '0'], /--rounds must be 1 or more/],
      [['--node', '7'], /--node 7: neither a program nor a version/],
      [['--against', `${root},${root}`], /two are called/],
    ] as const) {
      const { status, stderr } = spawnSync(process.execPath, [join(root, 'dist', 'bench', 'main.js'), ...args], {
        encoding: 'utf8',
      })
      assert.notEqual(status, 0)
      assert.match(stderr, message)
    }
  })
})
