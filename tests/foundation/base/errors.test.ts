/** How messages show what was passed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CudaError, describe, explained, reportedWhileWaiting } from '../../../src/foundation/base/errors.js'

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

test('what reports a fault has not failed itself: the message begins with what has faulted, also in copies of the error', () => {
  const code = 'CUDA_ERROR_ILLEGAL_ADDRESS'
  const known = new CudaError('cuMemcpyAsync', 700, code, 'Why', "Kernel 'axpy'")
  const begins = /^Kernel 'axpy' faulted: CUDA_ERROR_ILLEGAL_ADDRESS \(700\), which cuMemcpyAsync reports\. /
  const copies = [known, explained(known, 'Something else'), reportedWhileWaiting(known, 'a stream')]
  for (const error of copies) {
    assert.ok(error instanceof CudaError)
    assert.match(error.message, begins)
    assert.deepEqual([error.call, error.code, error.number], ['cuMemcpyAsync', code, 700])
  }
  assert.match(
    new CudaError('cuMemcpyAsync', 700, code).message,
    /^Earlier work faulted: .* \(700\), which cuMemcpyAsync/,
  )
  assert.equal(new CudaError('cuInit', 1, 'X').message, 'cuInit failed: X (1)')
})
