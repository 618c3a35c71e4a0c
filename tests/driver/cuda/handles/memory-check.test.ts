/** What looks like a stream or an event in memory is known from what does not, and memory that is not there is an answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryCheck } from '../../../../src/driver/cuda/handles/handle-check.js'
import { NativeMemory } from '../../../../src/driver/cuda/libcuda/native-memory.js'

const skip = process.platform === 'linux' ? false : 'the native layer is for Linux'
const UNMAPPED = [8, 0x1000, 0x1000_0000_0000, 0x7fff_ffff_f000]

test('something that looks like a stream is known from what does not', { skip }, () => {
  const check = new MemoryCheck()
  const made = [7, 9].map((id) => {
    const [outer, inner] = [new NativeMemory(16), new NativeMemory(1024)]
    outer.uint64[0] = BigInt(inner.address)
    inner.uint64[10] = BigInt(outer.address)
    inner.uint64[3] = BigInt(id)
    return { handle: outer.address, id, inner }
  })
  const event = new NativeMemory(64)
  event.uint64[0] = 0x1230n
  check.learn(made, event.address, 0x1230)
  const [first] = made
  assert.ok(first)
  assert.equal(check.stream(first.handle), 'alive')
  assert.equal(check.idOfStream(first.handle), 7)
  assert.deepEqual(check.event(event.address, [0x1230]), { verdict: 'alive', context: 0x1230 })
  assert.equal(check.stream(event.address), 'wrong')
  first.inner.uint64[10] = 0n
  assert.equal(check.stream(first.handle), 'unknown')
  for (const address of UNMAPPED) assert.equal(check.stream(address), 'wrong')
  event.uint64[0] = 0n
  assert.equal(check.event(event.address, [0x1230]).verdict, 'wrong')
})
