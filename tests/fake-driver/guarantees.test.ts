/** The guarantees of the conformance suite on the CUDA driver, over a fake GPU: all of them in one process, and each of its tests is one here. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runsTestFile } from '../helpers/run-time.js'
import { howItEnded } from '../helpers/test-output.js'
import { fileOf, run, skip } from './play.js'

/** A test, or the suite of a file, in the output of a process. */
const RESULT = /^ *(?<fails>not )?ok \d+ - (?<name>.*?)(?: # .*)?$/gm

test('the guarantees, on a fake GPU', { skip }, async (t) => {
  const ended = await run(runsTestFile(fileOf('../conformance/guarantees/all.js')))
  assert.match(ended.output, /Fake GPU/)
  const results = [...ended.output.matchAll(RESULT)]
  assert.ok(results.length > 0, howItEnded(ended))
  for (const { groups } of results) {
    await t.test(groups?.['name'] ?? '', () => assert.equal(groups?.['fails'], undefined, howItEnded(ended)))
  }
  assert.equal(ended.code, 0, howItEnded(ended))
})
