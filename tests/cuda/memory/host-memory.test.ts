/** Large downloads and uploads get their new arrays in large pages. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { newArrayBuffer } from '../../../src/cuda/memory/host-memory.js'
import { layer } from '../../../src/foundation/native/layer.js'

const MEBIBYTE = 2 ** 20
const hasPages = existsSync('/sys/kernel/mm/transparent_hugepage/enabled')
const skip = hasPages && process.platform === 'linux' ? false : 'this system has no transparent large pages'
if (skip !== false) console.log(`skipped: ${skip}`)

/** The flags of the mapping in which an address lies. */
function flagsAt(address: number): string {
  let isIn = false
  for (const line of readFileSync('/proc/self/smaps', 'latin1').split('\n')) {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line) ?? []
    if (from !== undefined && to !== undefined) isIn = Number(`0x${from}`) <= address && address < Number(`0x${to}`)
    else if (isIn && line.startsWith('VmFlags:')) return line
  }
  return ''
}

/** Where an array lies. */
const addressOf = (buffer: ArrayBuffer): number => layer().addressOf(new Uint8Array(buffer))

test('an array of any length is zeros, and all of it can be written', () => {
  for (const length of [0, 1, 8 * MEBIBYTE - 1, 8 * MEBIBYTE, 8 * MEBIBYTE + 1, 20 * MEBIBYTE + 3]) {
    const bytes = new Uint8Array(newArrayBuffer(length))
    assert.equal(bytes.length, length)
    assert.equal(
      bytes.findIndex((byte) => byte !== 0),
      -1,
    )
    bytes.fill(0xa5)
    assert.ok(bytes.every((byte) => byte === 0xa5))
  }
})

test('a large array is allocated in large pages, and a smaller one is not', { skip }, () => {
  const [large, small] = [newArrayBuffer(64 * MEBIBYTE), newArrayBuffer(4 * MEBIBYTE)]
  assert.match(flagsAt(addressOf(large) + 32 * MEBIBYTE), / hg /)
  assert.doesNotMatch(flagsAt(addressOf(small) + 2 * MEBIBYTE), / hg /)
  assert.deepEqual([large.byteLength, small.byteLength], [64 * MEBIBYTE, 4 * MEBIBYTE])
})
