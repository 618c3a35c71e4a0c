/** Memory that processes share: what is refused leaves nothing open. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { MemoryFile } from '../../src/native/memory-file.js'

const skip = process.platform === 'linux' ? false : 'open files are counted in /proc'

test('memory that the system does not give, or cannot map, leaves no file open', { skip }, () => {
  MemoryFile.make(4096).close()
  const before = readdirSync('/proc/self/fd').length
  // No file may be so long, and none of the second length fits into the address space.
  for (const byteLength of [2 ** 63, 2 ** 56]) assert.throws(() => MemoryFile.make(byteLength), RangeError)
  assert.equal(readdirSync('/proc/self/fd').length, before)
})
