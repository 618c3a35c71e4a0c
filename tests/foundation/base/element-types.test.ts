/** The table of element types: its rows agree with JavaScript's arrays, and values are read and written as GPUs do. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  dataViewOf,
  ELEMENT_TYPES,
  elementType,
  elementTypesWith,
  FLOAT_ACCESS,
  fromBf16,
  fromF16,
  integerAccess,
  toBf16,
  toF16,
} from '../../../src/foundation/base/element-types.js'

describe('element types', () => {
  it('an element of an array has the bytes of the type, and its limits are those of the integer', () => {
    for (const name of elementTypesWith('array')) {
      const { array: View, bytes, range } = elementType(name)
      assert.ok(View !== undefined)
      const memory = new ArrayBuffer(16)
      assert.equal(new View(memory, 0, 1).byteLength, bytes, name)
      for (const limit of range ?? []) {
        const { get, set } = integerAccess(name as Parameters<typeof integerAccess>[0])
        const view = new DataView(memory)
        set(view, 0, BigInt(limit))
        assert.equal(get(view, 0), BigInt(limit), name)
        assert.equal(
          BigInt(String((new View(memory, 0, 1) as unknown as ArrayLike<number | bigint>)[0])),
          BigInt(limit),
        )
      }
    }
  })

  it('the name of a type says its bits, and no two types have one number in a library', () => {
    for (const [name, { bytes }] of Object.entries(ELEMENT_TYPES)) {
      const [, bits = '8'] = /^[a-z]+(\d+)/.exec(name) ?? []
      assert.equal(8 * bytes, Number(bits), name)
    }
    for (const key of ['nccl', 'numpy'] as const) {
      const numbers = elementTypesWith(key).map((name) => elementType(name)[key])
      assert.equal(new Set(numbers).size, numbers.length, key)
    }
    const inDLPack = Object.values(ELEMENT_TYPES).map(({ dlpack, bytes }) => `${dlpack} ${bytes}`)
    assert.equal(new Set(inDLPack).size, inDLPack.length)
  })

  it('integers wrap around at the width of their type', () => {
    const view = dataViewOf(new Uint8Array(8))
    const wrapped = (type: 'i8' | 'u8' | 'i64' | 'u64', value: bigint): bigint => {
      integerAccess(type).set(view, 0, value)
      return integerAccess(type).get(view, 0)
    }
    assert.equal(wrapped('i8', 128n), -128n)
    assert.equal(wrapped('u8', -1n), 255n)
    assert.equal(wrapped('i64', 2n ** 63n), -(2n ** 63n))
    assert.equal(wrapped('u64', -1n), 2n ** 64n - 1n)
  })

  it('every number of 16 bits is read and written as itself', () => {
    for (let word = 0; word < 2 ** 16; word += 1) {
      const [half, brain] = [fromF16(word), fromBf16(word)]
      if (Number.isNaN(half)) assert.ok(Number.isNaN(fromF16(toF16(half))))
      else assert.equal(toF16(half), word)
      if (Number.isNaN(brain)) assert.ok(Number.isNaN(fromBf16(toBf16(brain))))
      else assert.equal(toBf16(brain), word)
    }
  })

  it('between two numbers the nearest is written, the even one in the middle, and infinity beyond the largest', () => {
    for (let word = 0; word < 0x7bff; word += 1) {
      const [below, above] = [fromF16(word), fromF16(word + 1)]
      const middle = (below + above) / 2
      assert.equal(toF16(middle), word % 2 === 0 ? word : word + 1)
      assert.equal(toF16(middle + (above - below) / 8), word + 1)
      assert.equal(toF16(-(middle - (above - below) / 8)), word | 0x8000)
    }
    assert.equal(toF16(65519), 0x7bff)
    assert.equal(toF16(65520), 0x7c00)
    assert.equal(toBf16(1 + 2 ** -8), 0x3f80)
    assert.equal(toBf16(1 + 3 * 2 ** -8), 0x3f82)
    assert.equal(toBf16(Number.MAX_VALUE), 0x7f80)
  })

  it('floats are little-endian in memory', () => {
    const bytes = new Uint8Array(8)
    const written = (type: keyof typeof FLOAT_ACCESS): number[] => {
      bytes.fill(0)
      FLOAT_ACCESS[type].set(dataViewOf(bytes), 0, -2)
      return [...bytes.subarray(0, ELEMENT_TYPES[type].bytes)]
    }
    assert.deepEqual(written('f16'), [0x00, 0xc0])
    assert.deepEqual(written('bf16'), [0x00, 0xc0])
    assert.deepEqual(written('f32'), [0, 0, 0, 0xc0])
    assert.deepEqual(written('f64'), [0, 0, 0, 0, 0, 0, 0, 0xc0])
  })
})
