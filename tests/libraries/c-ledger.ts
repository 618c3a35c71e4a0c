/** How the rows of a C library's functions are tested: by themselves, and against its header. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { shapeOf } from '../../src/foundation/native/c-functions.js'
import { parametersOf } from '../../src/libraries/library-call.js'
import { findHeader } from '../helpers/cuda-toolkit.js'
import { CHeader, writtenTypes } from './c-header.js'

/** Tests of rows of functions by themselves. */
export function ledger(signatures: Readonly<Record<string, string>>): void {
  for (const [key, prototype] of Object.entries(signatures)) {
    it(`${key}: named by its key, with a call of the native layer`, () => {
      assert.equal(writtenTypes(prototype).name, key)
      const parameters = parametersOf(prototype)
      const struct = parameters.split(', ').some((parameter) => /^ncclUniqueId \w/.test(parameter))
      assert.equal(shapeOf(parameters) === 'uniqueId', struct)
    })
  }
}

/** Tests against a header, where one is installed. */
export function against(name: string, define: (header: CHeader) => void): void {
  const found = findHeader(name)
  const skip = typeof found === 'string' ? false : `no ${name} here: tried ${found.tried.join(', ')}`
  if (typeof skip === 'string') console.log(`skipped: ${skip}`)
  describe(`against ${name}`, { skip }, () => {
    if (typeof found !== 'string') return
    console.log(found)
    define(new CHeader(found))
  })
}

/** Tests of rows of functions against the header. */
export function rows(header: CHeader, signatures: Readonly<Record<string, string>>): void {
  for (const [name, c] of Object.entries(signatures)) {
    it(name, () => assert.equal(header.prototype(name), writtenTypes(c).types))
  }
}
