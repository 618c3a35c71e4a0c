/** In a page messages show values as on Node. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect as onNode } from 'node:util'
import { inspect } from '../../../src/foundation/base/inspect-in-page.js'

class Point {
  x = 1
}
const circular: { self?: unknown } = {}
circular.self = { inner: circular }

const VALUES: readonly unknown[] = [
  ...["it's", 'a\n"b"', 1.5, -0, 10n, Number.NaN, true, null, undefined, Symbol('s')],
  ...[[], [1, [2, [3]]], {}, { a: 1, 'b c': { d: {} } }, new Point(), Object.create(null)],
  ...[new Map([['a', { b: 1 }]]), new Set([1, 'x']), new Float32Array(3), new Date(0), /x/g],
]

test('a value is one line, as Node has it', () => {
  for (const value of VALUES) {
    for (const depth of [0, Number.POSITIVE_INFINITY]) {
      const settings = { depth, breakLength: Number.POSITIVE_INFINITY, compact: 1000, customInspect: false }
      assert.equal(inspect(value, settings), onNode(value, settings))
    }
  }
})

test('what Node has in a way of its own ends, and is told apart', () => {
  assert.equal(inspect(circular, { depth: Number.POSITIVE_INFINITY }), '{ self: { inner: [Circular *1] } }')
  assert.equal(inspect(new Uint8Array(200), { maxArrayLength: 2 }), 'Uint8Array(200) [ 0, 0, ... 198 more items ]')
  assert.equal(inspect(Uint8Array.of(1, 2).buffer), 'ArrayBuffer [ 1, 2 ]')
  assert.equal(inspect({ b: 1, a: 2 }, { sorted: true }), '{ a: 2, b: 1 }')
})
