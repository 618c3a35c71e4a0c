/** How messages show what was passed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describe } from '../../../src/foundation/base/errors.js'

class Several extends Error {
  readonly code = 'SOME'
}

test('a value stands in one line, without the stack of an error', () => {
  assert.equal(describe(new Error('boom')), 'Error: boom')
  assert.equal(describe(new TypeError('two\nlines')), 'TypeError: two lines')
  assert.equal(describe(new Several('more')), 'Error: more')
  assert.equal(describe('a\nb'), "'a\\nb'")
  const { signal } = new AbortController()
  signal.addEventListener('abort', () => {})
  for (const value of [signal, new EventTarget(), { a: { b: [1, 2] } }, new Map([['a\nb', signal]]), Symbol('x\ny')]) {
    const text = describe(value)
    assert.doesNotMatch(text, /\n/)
    assert.ok(text.length <= 80, text)
  }
})
