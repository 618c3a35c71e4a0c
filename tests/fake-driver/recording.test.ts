/** Recordings of the CUDA backend: work is timed by events. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { checkRecording } from '../../src/tools/recording/check.js'
import { Reader } from '../../src/tools/recording/reader.js'
import { whatIf } from '../../src/tools/recording/what-if.js'
import { howItEnded } from '../helpers/test-output.js'
import { fileOf, run, skip } from './play.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-recording-'))
after(() => rmSync(folder, { recursive: true }))

test('a recording has the times of all work, is checked, and gives them back when it is played', { skip }, async () => {
  const path = join(folder, 'run.rec')
  const ended = await run([fileOf('../tools/recording/children/race.js')], { CUDA_STREAMS_RECORD: path })
  assert.equal(ended.code, 0, howItEnded(ended))
  assert.match(readFileSync(path, 'utf8'), /^\{"recording":1,"driver":"cuda","clock":"host",/)
  const { reports, isComplete } = await checkRecording(new Reader(path))
  assert.ok(isComplete)
  assert.deepEqual(
    reports.map(({ kind }) => kind),
    ['race'],
  )
  const { recorded, played, operations, untimed } = await whatIf(path, [], 60)
  assert.ok(operations >= 6)
  assert.equal(untimed, 0)
  // Two streams of a fake GPU, on a machine that may be busy, run beside each other as they like.
  assert.ok(played > recorded / 2 && played < 2 * recorded, `${played} instead of ${recorded}`)
})
