/** Memory that processes share: what is refused leaves nothing open. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { Contents, MemoryFile } from '../../../src/foundation/native/memory-file.js'

const skip = process.platform === 'linux' ? false : 'open files are counted in /proc'

test('memory that the system does not give, or cannot map, leaves no file open', { skip }, () => {
  MemoryFile.make(4096, Contents.MEMORY).close()
  const before = readdirSync('/proc/self/fd').length
  // No file may be so long, and none of the second length fits into the address space.
  for (const byteLength of [2 ** 63, 2 ** 56])
    assert.throws(() => MemoryFile.make(byteLength, Contents.MEMORY), RangeError)
  assert.equal(readdirSync('/proc/self/fd').length, before)
})

test('a file is opened as what it is, and as nothing else', { skip }, () => {
  for (const made of Object.values(Contents)) {
    const file = MemoryFile.make(4096, made)
    const before = readdirSync('/proc/self/fd').length
    for (const wanted of Object.values(Contents)) {
      const opened = MemoryFile.open(file.handle, wanted)
      assert.equal(opened === undefined, wanted !== made, `${made} as ${wanted}`)
      opened?.close()
    }
    assert.equal(readdirSync('/proc/self/fd').length, before)
    file.close()
  }
})
