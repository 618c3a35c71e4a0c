// What a visitor loads, compressed, stays within its budget: what is added to the library is added to the page's worker.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { dist } from './serve.mjs'

/**
 * Each file's budget in kB, gzip. The compiler of PTX is 122 kB of the worker's, with lanes of SIMD, the races within a launch, the table of a GPU's special function unit
 * (10) and what each version and target has, what sanitizers of several threads exchange 8, and what predicts the gains of a timeline's advice 13: neither `Module.load()` nor an
 * access of memory nor a summary nor the way out of an error can wait until it is fetched.
 */
const BUDGETS = {
  'index.html': 4,
  'playground.css': 5,
  'playground.js': 195,
  'library/foundation/base/stack.js': 582,
  // From here on what is loaded when somebody begins to write, or asks for it.
  'types.js': 1100,
  'declarations.json': 234,
  'licences.txt': 10,
}

describe('the sizes of the playground', () => {
  for (const [file, budget] of Object.entries(BUDGETS)) {
    it(`${file}: at most ${budget} kB, compressed`, () => {
      const size = gzipSync(readFileSync(join(dist, file))).length / 1000
      assert.ok(size <= budget, `${Math.ceil(size)} kB: what has it grown by, and could that be loaded late?`)
    })
  }

  it('there is no file without a budget', () => {
    const files = readdirSync(dist, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) =>
        join(parentPath, name)
          .slice(dist.length + 1)
          .replaceAll('\\', '/'),
      )
    assert.deepEqual(files.sort(), Object.keys(BUDGETS).sort())
  })
})
