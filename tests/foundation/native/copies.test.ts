/** Copies of memory by several threads at a time. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { own } from '../../../src/foundation/native/c-functions.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { skip } from './compile.js'

const MIB = 2 ** 20
/** Bytes around what is copied, which no copy may touch. */
const AROUND = 64
const UNTOUCHED = 0xee
/** About a piece of 256 KiB, and about what is copied by one thread alone. */
const LENGTHS = [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB + 262_143, 5 * MIB + 7, 8 * MIB]
const ROUNDS = 10

/** Returns how many copies came out wrong. */
function wrongCopies(first: number): number {
  const most = Math.max(...LENGTHS)
  const [from, to] = [new NativeMemory(most + 64), new NativeMemory(most + 2 * AROUND)]
  for (let at = 0; at < from.uint32.length; at += 1) from.uint32[at] = Math.imul(at + first, 2_654_435_761)
  let wrong = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const length of LENGTHS) {
      to.bytes.fill(UNTOUCHED, 0, length + 2 * AROUND)
      own().copy(to.address + AROUND, from.address + round, length)
      const [before, copied, after] = [0, AROUND, AROUND + length].map((at, part) =>
        Buffer.from(to.bytes.buffer, at, part === 1 ? length : AROUND),
      )
      const isRight =
        copied?.equals(Buffer.from(from.bytes.buffer, round, length)) &&
        before?.every((byte) => byte === UNTOUCHED) &&
        after?.every((byte) => byte === UNTOUCHED)
      if (!isRight) wrong += 1
    }
  }
  // Within itself, as memmove.
  const expected = Buffer.from(from.bytes.buffer, 0, 3 * MIB).toString('latin1')
  own().copy(from.address + 5, from.address, 3 * MIB)
  if (Buffer.from(from.bytes.buffer, 5, 3 * MIB).toString('latin1') !== expected) wrong += 1
  for (const memory of [from, to]) memory.free()
  return wrong
}

if (!isMainThread) parentPort?.postMessage(wrongCopies(7))
else {
  test('a copy of any length copies its bytes and no others, also where threads copy at the same time', {
    skip,
  }, async () => {
    const workers = [1, 2, 3].map(() => new Worker(new URL(import.meta.url)))
    const answers = Promise.all(workers.map((worker) => once(worker, 'message')))
    assert.equal(wrongCopies(1), 0)
    assert.deepEqual(await answers, [[0], [0], [0]])
  })
}
