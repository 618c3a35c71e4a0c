/** As much of Node's `assert` as examples use. */
import { observed } from '../../../../dist/src/tools/explore/run.js'

class AssertionError extends Error {
  readonly code = 'ERR_ASSERTION'
  static {
    AssertionError.prototype.name = 'AssertionError'
  }
}

function check(holds: boolean, message: string | undefined, otherwise: string): void {
  if (!holds) throw new AssertionError(message ?? otherwise)
}

const ok = (value: unknown, message?: string): void => check(Boolean(value), message, `${observed(value)} is not true`)
const equal = (actual: unknown, expected: unknown, message?: string): void =>
  check(Object.is(actual, expected), message, `${observed(actual)} is not ${observed(expected)}`)
const deepEqual = (actual: unknown, expected: unknown, message?: string): void =>
  check(observed(actual) === observed(expected), message, `${observed(actual)} is not ${observed(expected)}`)

export const assert = Object.assign(ok, {
  ok,
  equal,
  strictEqual: equal,
  deepEqual,
  deepStrictEqual: deepEqual,
  default: ok,
  __esModule: true,
})
Object.assign(ok, { ok, equal, strictEqual: equal, deepEqual, deepStrictEqual: deepEqual })
