/** A trace that grows is checked as one that is whole, in parts: what a part begins after is no finding of it. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { watch, watchedFile, watchedFindings } from '../../../src/tools/cli/watched.js'
import { checkRecording } from '../../../src/tools/recording/check.js'
import { recordTrace } from '../../../src/tools/recording/process-trace.js'
import { Reader } from '../../../src/tools/recording/reader.js'
import { root } from '../../helpers/root.js'

const folder = mkdtempSync(join(tmpdir(), 'watched-'))
after(() => rmSync(folder, { recursive: true }))

const traced = gunzipSync(readFileSync(join(root, 'tests', 'tools', 'process-trace', 'traces', 'plain-racy.trace.gz')))

/** The places between the records of a trace. */
function ends(): readonly number[] {
  const places: number[] = []
  for (let at = 0; at + 8 <= traced.length && traced.readUInt32LE(at) > 0; ) {
    at += traced.readUInt32LE(at)
    places.push(at)
  }
  return places
}

/** Plays a watch whose process is at a place of its trace at each question. Returns the messages of each answer. */
async function watched(
  process: string,
  questions: readonly (readonly [what: 'begin' | 'end', place: number])[],
): Promise<readonly (readonly string[])[]> {
  const answers: (readonly string[])[] = []
  async function* lines(): AsyncGenerator<string> {
    for (const [what, place] of questions) {
      // A traced process makes its file longer than what it has written by then.
      const bytes = new Uint8Array(traced.length + 4096)
      bytes.set(traced.subarray(0, place))
      writeFileSync(join(folder, `${process}.trace`), bytes)
      yield what
    }
  }
  await watch(folder, process, lines(), (line) => {
    const { findings, error } = JSON.parse(line)
    assert.equal(error, undefined)
    answers.push(findings.map(({ message }: { readonly message: string }) => message))
  })
  return answers
}

async function whole(): Promise<readonly string[]> {
  const [trace, recording] = [join(folder, 'whole.trace'), join(folder, 'whole.rec')]
  writeFileSync(trace, traced)
  recordTrace(trace, recording, { possible: false })
  return (await checkRecording(new Reader(recording))).reports.map(({ message }) => message)
}

test('parts of a trace have together the findings of the whole, each where its later operation is', async () => {
  const all = await whole()
  assert.equal(all.length, 5)
  const places = ends()
  const parts = places.flatMap((place) => [['begin', place] as const, ['end', place] as const])
  // A part that is empty has none, and so has the beginning of one.
  assert.deepEqual((await watched('1', parts)).flat(), [])
  const steps = [['begin', 0] as const, ...places.map((place) => ['end', place] as const)]
  const found = await watched('2', steps)
  assert.deepEqual(new Set(found.flat()), new Set(all))
  assert.deepEqual(new Set(watchedFindings(watchedFile(folder, '2')).map(({ message }) => message)), new Set(all))
})

test('what a process did before a part is no finding of it', async () => {
  const places = ends()
  const last = places.at(-1) ?? 0
  const [, early = [], , late = []] = await watched('3', [
    ['begin', 0],
    ['end', places[Math.floor(places.length / 2)] ?? 0],
    ['begin', last],
    ['end', last],
  ])
  assert.ok(early.length > 0 && early.length < 5, String(early.length))
  assert.deepEqual(late, [])
})

test('a process without a trace has no findings; a trace that is damaged is said to be', async () => {
  const say = (process: string): Promise<readonly string[]> => {
    const answers: string[] = []
    async function* lines(): AsyncGenerator<string> {
      yield 'begin'
      yield 'end'
    }
    return watch(folder, process, lines(), (line) => answers.push(line)).then(() => answers)
  }
  assert.deepEqual(await say('4'), ['{"findings":[]}', '{"findings":[]}'])
  writeFileSync(join(folder, '5.trace'), 'something else')
  for (const line of await say('5')) assert.match(line, /"error":"\S*5\.trace is no trace, or damaged at byte 0/)
})
