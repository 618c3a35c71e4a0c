/** Structs, vectors and floats of 16 bits in memory: where each part lies, which values are taken, and what messages call the others. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { elements, type FieldType, type Struct, struct } from 'cuda-streams'
import { fieldOffsets, namedLayout } from '../../../src/foundation/base/element-layout.js'
import { ELEMENT_TYPES, elementType, SCALAR_ACCESS, SCALAR_TYPES } from '../../../src/foundation/base/element-types.js'
import { refused } from '../../conformance/expect.js'

describe('the layout of elements', () => {
  it('vectors have the sizes and alignments of CUDA C++', () => {
    const sizes: Readonly<Record<string, readonly [bytes: number, alignment: number]>> = {
      i8x2: [2, 2],
      i8x3: [3, 1],
      u8x4: [4, 4],
      i16x3: [6, 2],
      u16x4: [8, 8],
      f16x2: [4, 4],
      bf16x2: [4, 4],
      i32x2: [8, 8],
      f32x3: [12, 4],
      f32x4: [16, 16],
      i64x2: [16, 16],
      f64x3: [24, 8],
    }
    for (const [name, size] of Object.entries(sizes)) {
      const { byteLength, alignment } = namedLayout(name) ?? {}
      assert.deepEqual([byteLength, alignment], size, name)
    }
    for (const name of ['f32x1', 'f32x5', 'f16x4', 'boolx2', 'float4', 'c64', 'f32x', '', 'toString']) {
      assert.equal(namedLayout(name), undefined, name)
    }
  })

  it('each type has the bytes of its row, and reads what it writes', () => {
    for (const type of SCALAR_TYPES) {
      const view = new DataView(new ArrayBuffer(24))
      const value = elementType(type).range?.[1] ?? 1
      SCALAR_ACCESS[type].set(view, 8, value)
      assert.equal(SCALAR_ACCESS[type].get(view, 8), value, type)
      const touched = [...new Uint8Array(view.buffer)].flatMap((byte, at) => (byte === 0 ? [] : [at]))
      assert.ok(
        touched.every((at) => at >= 8 && at < 8 + ELEMENT_TYPES[type].bytes),
        type,
      )
    }
  })

  it('members lie where C lays them, with padding between and behind them', () => {
    const Inner = struct({ a: 'i8', b: 'f64', c: 'i8' })
    assert.deepEqual([Inner.byteLength, Inner.alignment, ...fieldOffsets(Inner)], [24, 8, 0, 8, 16])
    const Outer = struct({ on: 'bool', v: 'f32x3', inner: Inner, m: [['f32', 3], 2], half: 'f16', last: [Inner, 2] })
    assert.deepEqual([...fieldOffsets(Outer), Outer.byteLength], [0, 4, 16, 40, 64, 72, 120])
    const wide = struct({ v: 'f32x3' }, { alignment: 16 })
    assert.deepEqual([wide.byteLength, wide.alignment], [16, 16])
    const inWide = struct({ n: 'i32', wide })
    assert.deepEqual([...fieldOffsets(inWide), inWide.byteLength], [0, 16, 32])
  })

  it('values come back as they went, and padding is 0', () => {
    const Inner = struct({ id: 'u64', colour: 'u8x4' })
    const All = struct({ on: 'bool', h: 'f16', b: 'bf16', inner: [Inner, 2], m: [['i16', 2], 2], at: 'f64x2' })
    const values = [
      {
        on: true,
        h: -0.5,
        b: 3,
        inner: [
          { id: 2n ** 63n, colour: [1, 2, 3, 255] },
          { id: 0n, colour: [0, 0, 0, 0] },
        ],
        m: [
          [1, -2],
          [32767, -32768],
        ],
        at: [Math.PI, -0],
      },
      {
        on: false,
        h: Number.POSITIVE_INFINITY,
        b: 0,
        inner: [
          { id: 7n, colour: [9, 9, 9, 9] },
          { id: 8n, colour: [8, 8, 8, 8] },
        ],
        m: [
          [0, 0],
          [0, 0],
        ],
        at: [0, 1],
      },
    ] as const
    const bytes = All.pack(values)
    assert.equal(bytes.length, 2 * All.byteLength)
    assert.deepEqual(All.unpack(bytes), values)
    assert.deepEqual(All.unpack(bytes.buffer), values)
    assert.deepEqual([bytes[1], bytes[6], bytes[7], bytes[20], bytes[23]], [0, 0, 0, 0, 0])
    assert.deepEqual(All.unpack(new Uint8Array(0)), [])
    // Typed arrays for vectors and arrays, and numbers for integers of 64 bits, if they are safe.
    const loose = [{ ...values[0], m: [Int16Array.of(1, -2), Int16Array.of(32767, -32768)], at: Float64Array.of(3, 4) }]
    const [first] = All.unpack(Reflect.apply(All.pack, All, [loose]))
    assert.deepEqual(first, { ...values[0], at: [3, 4] })
  })

  it('floats of 16 bits are rounded to the nearest, ties to even', () => {
    const f16 = elements('f16')
    assert.deepEqual(f16.unpack(f16.pack([0.1, 2049, 2051, 65520, 1e-8, -0])), [
      0.0999755859375,
      2048,
      2052,
      Number.POSITIVE_INFINITY,
      0,
      -0,
    ])
    const bf16 = elements('bf16')
    assert.deepEqual(bf16.unpack(bf16.pack(Float32Array.of(257, 259, 1e38))), [256, 260, 9.969209968386869e37])
    assert.ok(Number.isNaN(bf16.unpack(bf16.pack([Number.NaN]))[0]))
    const pairs = elements('f16x2')
    assert.deepEqual(pairs.unpack(pairs.pack([[1, 2], Float32Array.of(3, 4) as unknown as [number, number]])), [
      [1, 2],
      [3, 4],
    ])
  })

  it('a value that does not fit is refused by its place', () => {
    const Inner = struct({ v: 'f32x3', n: ['u8', 2] })
    const Item = struct({ id: 'i32', inner: Inner, on: 'bool', big: 'i64' })
    const right = { id: 1, inner: { v: [1, 2, 3], n: [4, 5] }, on: true, big: 6n }
    const rows: readonly (readonly [change: object | null, code: string, message: RegExp])[] = [
      [{ id: 1.5 }, 'ERR_INVALID_ARG_TYPE', /^values\[1\]\.id \(i32\) must be an integer, not 1\.5$/],
      [{ id: 2 ** 31 }, 'ERR_OUT_OF_RANGE', /^values\[1\]\.id \(i32\) must be from -2147483648 to 2147483647/],
      [{ on: 1 }, 'ERR_INVALID_ARG_TYPE', /^values\[1\]\.on \(bool\) must be true or false, not 1$/],
      [{ big: 2 ** 60 }, 'ERR_OUT_OF_RANGE', /^values\[1\]\.big \(i64\) must be .* a bigint where it is not a safe/],
      [{ big: 2n ** 63n }, 'ERR_OUT_OF_RANGE', /^values\[1\]\.big \(i64\) must be from -9223372036854775808 to/],
      [
        { inner: [] },
        'ERR_INVALID_ARG_TYPE',
        /^values\[1\]\.inner\.v \(f32x3\) must be an array of 3 .*, not undefined/,
      ],
      [
        { inner: 5 },
        'ERR_INVALID_ARG_TYPE',
        /^values\[1\]\.inner \(struct\) must be an object such as \{ v, n \}, not 5/,
      ],
      [
        { inner: { v: [1, 2], n: [0, 0] } },
        'ERR_INVALID_ARG_VALUE',
        /inner\.v \(f32x3\) must be .*, and 2 were given$/,
      ],
      [{ inner: { v: [1, 2, 3], n: [0, 256] } }, 'ERR_OUT_OF_RANGE', /^values\[1\]\.inner\.n\[1\] \(u8\) must be/],
      [
        { on: undefined, onn: true },
        'ERR_INVALID_ARG_VALUE',
        /^values\[1\]\.on \(bool\) is missing: the object has 'onn'$/,
      ],
      [null, 'ERR_INVALID_ARG_TYPE', /^values\[1\] must be an object such as \{ id, inner, on, big \}, not null$/],
    ]
    const pack = (values: unknown): unknown => Reflect.apply(Item.pack, Item, [values])
    for (const [change, code, message] of rows) {
      refused(() => pack([right, change === null ? null : { ...right, ...change }]), code, message)
    }
    refused(() => pack(right), 'ERR_INVALID_ARG_TYPE', /^values must be an array of values \(struct\)/)
    refused(
      () => Item.unpack(new Uint8Array(41)),
      'ERR_INVALID_ARG_VALUE',
      /^bytes must be whole elements of 32 \(struct\), and are 41$/,
    )
    refused(() => Reflect.apply(Item.unpack, Item, ['text']), 'ERR_INVALID_ARG_TYPE', /^bytes must be a typed array/)
  })

  it('a description that no compiler could have is refused', () => {
    const make = (fields: unknown, options?: unknown): Struct => Reflect.apply(struct, undefined, [fields, options])
    refused(() => make({ x: 'float' }), 'ERR_INVALID_ARG_VALUE', /^fields\.x is 'float': it must be bool, i8, .*f32x4/)
    refused(
      () => make({ x: 'in f32*' }),
      'ERR_INVALID_ARG_VALUE',
      /A pointer is 'u64', an address .* a parameter of its own is tracked$/,
    )
    refused(() => make({ x: { y: 'f32' } }), 'ERR_INVALID_ARG_VALUE', /^fields\.x is no type: .* a struct/)
    refused(() => make({ x: ['f32', 0] }), 'ERR_OUT_OF_RANGE', /^fields\.x\[1\]/)
    refused(() => make({ x: [['f33', 2], 2] }), 'ERR_INVALID_ARG_VALUE', /^fields\.x\[0\]\[0\] is 'f33'/)
    refused(() => make({ 'a-b': 'f32' }), 'ERR_INVALID_ARG_VALUE', /'a-b', which is no name of a member/)
    refused(() => make({ 0: 'f32' }), 'ERR_INVALID_ARG_VALUE', /'0', which is no name of a member/)
    refused(() => make({}), 'ERR_INVALID_ARG_VALUE', /at least one member/)
    refused(() => make(['f32']), 'ERR_INVALID_ARG_TYPE', /^fields must be an object such as/)
    refused(() => make({ x: 'f32' }, { alignment: 12 }), 'ERR_INVALID_ARG_VALUE', /power of two, not 12/)
    refused(() => make({ x: 'f32' }, { alignment: 256 }), 'ERR_OUT_OF_RANGE', /^options\.alignment/)
    refused(() => elements('f33' as 'f32'), 'ERR_INVALID_ARG_VALUE', /^type is 'f33'/)
  })

  it('is read once: what becomes of the fields later changes nothing', () => {
    const fields: { x: FieldType } = { x: 'f32' }
    const One = struct(fields)
    fields.x = 'f64'
    assert.equal(One.byteLength, 4)
    assert.deepEqual(One.fields, { x: 'f32' })
    assert.throws(() => Object.assign(One, { byteLength: 8 }), TypeError)
    assert.throws(() => Object.assign(One.fields, { x: 'f64' }), TypeError)
  })
})
