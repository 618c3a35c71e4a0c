/** What is made once for an object is kept for it, and with it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoize } from '../../../src/foundation/base/memoize.js'

test('a value is made once for each object, and again if making it failed', () => {
  let calls = 0
  const of = memoize((key: { readonly name: string }) => {
    calls += 1
    if (calls === 1) throw new Error('not yet')
    return [key.name]
  })
  const [a, b] = [{ name: 'a' }, { name: 'b' }]
  assert.throws(() => of(a), /not yet/)
  assert.equal(of(a), of(a))
  assert.deepEqual(of(b), ['b'])
  assert.equal(calls, 3)
})
