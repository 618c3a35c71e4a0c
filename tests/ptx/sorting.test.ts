/** Sorting, searching, hashing and long integers, against Node's own. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { kernelTest } from './kernel-test.js'
import { integers, randomNumbers } from './machine.js'

kernelTest('sorting', 'bitonic', ({ launch }) => {
  const data = integers(512, 1000)
  const expected = data.slice().sort()
  launch({ block: 256 }, data)
  assert.deepEqual(data, expected)
})

kernelTest('sorting', 'radix', ({ launch }) => {
  const random = randomNumbers(5)
  const data = Uint32Array.from({ length: 256 }, () => random() * 2 ** 32)
  const expected = data.slice().sort()
  launch({ block: 256 }, data)
  assert.deepEqual(data, expected)
})

kernelTest('sorting', 'merge_ranks', ({ launch }) => {
  const [a, b, out] = [integers(200, 100, 1).sort(), integers(200, 100, 2).sort(), new Int32Array(400)]
  launch({ grid: 4, block: 128 }, a, b, out, 200)
  assert.deepEqual(out, Int32Array.from([...a, ...b]).sort())
})

kernelTest('sorting', 'sha256', ({ launch }) => {
  const length = 37
  const [messages, out] = [Uint8Array.from(integers(40 * length, 256)), new Uint32Array(320)]
  launch({ block: 40 }, messages, out, length)
  for (let i = 0; i < 40; i++) {
    const digest = createHash('sha256')
      .update(messages.slice(i * length, (i + 1) * length))
      .digest('hex')
    const words = [...out.slice(8 * i, 8 * i + 8)].map((word) => word.toString(16).padStart(8, '0'))
    assert.equal(words.join(''), digest)
  }
})

/** By the definition: division of polynomials, from the highest bit. */
function checksum(bytes: Uint8Array): number {
  let rest = 0xffffffffn
  for (const byte of bytes) {
    rest ^= BigInt(byte)
    for (let bit = 0; bit < 8; bit++) rest = rest & 1n ? (rest >> 1n) ^ 0xedb88320n : rest >> 1n
  }
  return Number(rest ^ 0xffffffffn)
}

kernelTest('sorting', 'crc32', ({ launch }) => {
  const [data, out] = [Uint8Array.from(integers(32 * 20, 256)), new Uint32Array(32)]
  launch({ block: 32 }, data, out, 20)
  for (let i = 0; i < 32; i++) {
    const part = data.slice(20 * i, 20 * i + 20)
    assert.equal(out[i], typeof crc32 === 'function' ? crc32(part) : checksum(part))
  }
})

kernelTest(
  'sorting',
  'hash_insert',
  ({ launch }) => {
    const [keys, table] = [Uint32Array.from(integers(300, 200), (value) => value + 1), new BigUint64Array(1024)]
    launch({ grid: 3, block: 128 }, keys, table, 300, 1023)
    const found = [...table].filter((each) => each !== 0n)
    assert.deepEqual([...new Set(found.map((each) => Number(each >> 32n)))].sort(), [...new Set(keys)].sort())
    for (const each of found) assert.equal(keys[Number(each & 0xffffffffn) - 1], Number(each >> 32n))
  },
  { gpu: 'any order' },
)

function longs(count: number, seed: number): BigInt64Array {
  const random = randomNumbers(seed)
  return BigInt64Array.from({ length: count }, (_, index) => {
    const value = (BigInt(Math.floor(random() * 2 ** 32)) << 32n) | BigInt(Math.floor(random() * 2 ** 32))
    return BigInt.asIntN(64, value >> BigInt((index % 7) * 8)) || 3n
  })
}

kernelTest('sorting', 'mul128', ({ launch }) => {
  const [a, b] = [BigUint64Array.from(longs(64, 1)), BigUint64Array.from(longs(64, 2))]
  const out = new BigUint64Array(128)
  launch({ block: 64 }, a, b, out)
  for (let i = 0; i < 64; i++) {
    const expected = BigInt.asUintN(128, (a[i] ?? 0n) * (b[i] ?? 0n) + (b[i] ?? 0n))
    assert.equal((out[2 * i + 1] ?? 0n) * 2n ** 64n + (out[2 * i] ?? 0n), expected)
  }
})

kernelTest('sorting', 'divisions', ({ launch }) => {
  const [a, b, out] = [longs(64, 3), longs(64, 4), new BigInt64Array(384)]
  launch({ block: 64 }, a, b, out)
  for (let i = 0; i < 64; i++) {
    const [x, y] = [a[i] ?? 0n, b[i] ?? 0n]
    const [x32, y32] = [BigInt.asIntN(32, x), BigInt.asIntN(32, y) | 1n]
    const [ux, uy] = [BigInt.asUintN(32, x), BigInt.asUintN(32, y) | 1n]
    const expected = [
      x / y,
      x % y,
      BigInt.asUintN(64, x) / BigInt.asUintN(64, y),
      x32 / y32,
      ux % uy,
      x / 1000003n + ux / 7n,
    ]
    assert.deepEqual(
      [...out.slice(6 * i, 6 * i + 6)],
      expected.map((value) => BigInt.asIntN(64, value)),
    )
  }
})
