/** Names that are nearly right: what was meant is said, and never what was given. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearest } from '../../../src/foundation/base/arguments.js'

test('a name with few letters changed, or the beginning of one, is found; one of the names is not misspelt', () => {
  const names = ['--default-device', '--device-debug', 'block', 'grid']
  const rows: readonly (readonly [given: string, meant: string | undefined])[] = [
    ['--default-devise', '--default-device'],
    ['-default-device', '--default-device'],
    ['gridDim', 'grid'],
    ['blok', 'block'],
    ['Block', 'block'],
    ['stream', undefined],
    ['', undefined],
    ...names.map((name) => [name, undefined] as const),
  ]
  for (const [given, meant] of rows) assert.equal(nearest(given, names), meant, given)
})
