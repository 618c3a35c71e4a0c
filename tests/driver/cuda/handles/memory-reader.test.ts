/** Memory that is not there is an answer, not a crash: by the kernel's copy, and where that is forbidden by its map. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryCheck } from '../../../../src/driver/cuda/handles/memory-check.js'
import { mappingReader, Reader, safeReader } from '../../../../src/driver/cuda/libcuda/memory-reader.js'
import { NativeMemory } from '../../../../src/driver/cuda/libcuda/native.js'

const skip = process.platform === 'linux' ? false : 'reads memory as Linux does'
const UNMAPPED = [8, 0x1000, 0x1000_0000_0000, 0x7fff_ffff_f000]

test('a way that is forbidden reads nothing, in the heap either: that is how it is found out', { skip }, () => {
  const memory = new NativeMemory(8)
  assert.equal(new Reader(memory, () => false).pointerAt(memory.address), undefined)
  memory.free()
})

for (const [name, make] of [
  ['the kernel copies', safeReader],
  ['the map is asked', mappingReader],
] as const) {
  test(`${name}: what is mapped is read, and what is not is undefined`, { skip }, () => {
    const reader = make()
    const memory = new NativeMemory(16)
    memory.uint64[1] = 0x5a5a5a5a5a5an
    assert.equal(reader.pointerAt(memory.address + 8), 0x5a5a5a5a5a5a)
    for (const address of UNMAPPED) assert.equal(reader.pointerAt(address), undefined)
    memory.free()
  })

  test(`${name}: several words are read at once, all or none`, { skip }, () => {
    const reader = make()
    const memory = new NativeMemory(64)
    memory.uint64.set([1n, 2n, 3n, 4n, 5n, 6n, 7n, 0x5a5a_5a5a_5a5a_5a5an])
    assert.deepEqual([...(reader.wordsAt(memory.address, 8) ?? [])], [...memory.uint64])
    assert.deepEqual([...(reader.wordsAt(memory.address + 8, 2) ?? [])], [2n, 3n])
    for (const address of UNMAPPED) assert.equal(reader.wordsAt(address, 8), undefined)
    memory.free()
  })

  test(`${name}: something that looks like a stream is told from what does not`, { skip }, () => {
    const check = new MemoryCheck(make())
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
}
