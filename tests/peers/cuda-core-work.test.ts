/** What cuda.core’s tests ask of launches and buffers, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Device, DeviceBuffer, defineKernel, type FillOptions } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, refused, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

const scalars = defineKernel({
  name: 'scalars',
  source: `extern "C" __global__ void scalars(
    char* out, bool a, signed char b, unsigned char c, short d, unsigned short e, int f, unsigned g,
    long long h, unsigned long long i, float j, double k
  ) {
    *(bool*)out = a; *(signed char*)(out + 1) = b; *(unsigned char*)(out + 2) = c; *(short*)(out + 4) = d;
    *(unsigned short*)(out + 6) = e; *(int*)(out + 8) = f; *(unsigned*)(out + 12) = g;
    *(long long*)(out + 16) = h; *(unsigned long long*)(out + 24) = i; *(float*)(out + 32) = j;
    *(double*)(out + 40) = k;
  }`,
  signature: ['out u8*', 'bool', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f32', 'f64'],
  simulateGrid(_grid, out, a, b, c, d, e, f, g, h, i, j, k) {
    const view = new DataView(out.buffer, out.byteOffset, out.byteLength)
    view.setUint8(0, a ? 1 : 0)
    view.setInt8(1, b)
    view.setUint8(2, c)
    view.setInt16(4, d, true)
    view.setUint16(6, e, true)
    view.setInt32(8, f, true)
    view.setUint32(12, g, true)
    view.setBigInt64(16, h, true)
    view.setBigUint64(24, i, true)
    view.setFloat32(32, j, true)
    view.setFloat64(40, k, true)
  },
})

onEveryBackend('cuda.core launches', (bench) => {
  const { device } = bench
  const values = [true, -42, 42, -1234, 1234, -123456, 123456, -123456789n, 123456789n, 3.5, 2.75] as const

  test('scalars of each type arrive as they were given', async () => {
    using stream = bench.stream()
    using out = device.allocPinned(48)
    await scalars.prepare(device)
    stream.launch(scalars, { grid: 1, block: 1 }, out, ...values)
    await stream.finished()
    const view = new DataView(out.bytes.buffer, out.bytes.byteOffset, 48)
    const arrived = [
      view.getUint8(0) === 1,
      view.getInt8(1),
      view.getUint8(2),
      view.getInt16(4, true),
      view.getUint16(6, true),
      view.getInt32(8, true),
      view.getUint32(12, true),
      view.getBigInt64(16, true),
      view.getBigUint64(24, true),
      view.getFloat32(32, true),
      view.getFloat64(40, true),
    ]
    assert.deepEqual(arrived, values)
  })

  test('extents that are none are refused, and nothing is launched', async () => {
    using stream = bench.stream()
    using out = device.allocPinned(48)
    out.bytes.fill(0)
    await scalars.prepare(device)
    for (const wrong of [
      { grid: 0, block: 1 },
      { grid: [0, 1], block: 1 },
      { grid: 1, block: 0 },
      { grid: 1, block: [0, 1] },
      { grid: -1, block: 1 },
      { grid: 1, block: 1, sharedMemory: -1 },
    ] as const) {
      refused(() => stream.launch(scalars, wrong, out, ...values), 'ERR_OUT_OF_RANGE', /grid|block|sharedMemory/)
    }
    const launch = (...args: unknown[]): unknown => Reflect.apply(stream.launch, stream, args)
    refused(() => launch(undefined, { grid: 1, block: 1 }), 'ERR_INVALID_ARG_TYPE')
    refused(() => launch(scalars, undefined, out, ...values), 'ERR_INVALID_ARG_TYPE')
    refused(() => launch(scalars, { grid: 'x', block: 1 }, out, ...values), 'ERR_INVALID_ARG_TYPE')
    refused(() => launch({}, { grid: 1, block: 1 }), 'ERR_INVALID_ARG_TYPE')
    stream.synchronize()
    assert.deepEqual(new Set(out.bytes), new Set([0]))
  })
})

onEveryBackend('cuda.core buffers', (bench) => {
  const { device } = bench

  test('copies go both ways between device and pinned memory', async () => {
    using stream = bench.stream()
    using from = device.allocPinned(1024)
    using there = device.alloc(1024, { stream })
    using further = device.alloc(1024, { stream })
    using back = device.allocPinned(1024)
    for (const [index] of from.bytes.entries()) from.bytes[index] = index
    stream.copy(there, from).copy(further, there).copy(back, further)
    await device.finished()
    assert.deepEqual(back.bytes, from.bytes)
  })

  test('fills of 1, 2 and 4 bytes, on either kind of memory', async () => {
    using stream = bench.stream()
    for (const [value, width, wanted] of [
      [0x42, 1, [0x42, 0x42, 0x42, 0x42]],
      [0x1234, 2, [0x34, 0x12, 0x34, 0x12]],
      [0xdeadbeef, 4, [0xef, 0xbe, 0xad, 0xde]],
      [-1, 4, [255, 255, 255, 255]],
    ] as const) {
      using buffer = device.alloc(1024, { stream })
      using pinned = device.allocPinned(1024)
      stream.fill(buffer, value, { width }).fill(pinned, value, { width })
      const bytes = await stream.download(buffer)
      assert.deepEqual([...bytes.subarray(1020)], wanted)
      assert.deepEqual([...pinned.bytes.subarray(0, 4)], wanted)
      assert.deepEqual([...bytes], [...pinned.bytes])
    }
  })

  test('fills of another width, of values too large, or of lengths that do not divide are refused', () => {
    using stream = bench.stream()
    using buffer = device.alloc(1024, { stream })
    using odd = device.alloc(1030, { stream })
    using odder = device.alloc(1025, { stream })
    for (const width of [-4, -1, 0, 3, 5, 8, 1.5]) {
      refused(() => stream.fill(buffer, 1, { width } as unknown as FillOptions), 'ERR_INVALID_ARG_VALUE', /width/)
    }
    for (const [width, wrong] of [
      [1, [-129, 256]],
      [2, [-32769, 65536, 100_000]],
      [4, [-(2 ** 31) - 1, 2 ** 32, 5e9]],
    ] as const) {
      for (const value of wrong) refused(() => stream.fill(buffer, value, { width }), 'ERR_OUT_OF_RANGE', /value/)
    }
    refused(() => stream.fill(odd, 1, { width: 4 }), 'ERR_INVALID_ARG_VALUE')
    refused(() => stream.fill(odder, 1, { width: 2 }), 'ERR_INVALID_ARG_VALUE')
    stream.fill(odd, 1, { width: 2 }).fill(odder, 1)
    stillWorks(bench, stream)
  })

  test('the device of wrapped memory is that of the memory, whatever is current', async (context) => {
    const on = secondDevice(bench)
    if (on === undefined) return context.skip(ONE_DEVICE)
    using stream = on.createStream()
    using theirs = on.alloc(32, { stream })
    await stream.finished()
    for (const current of [device, on]) {
      const wrapped = current.run(() => DeviceBuffer.from(theirs.pointer, 32))
      assert.equal(wrapped.device, on)
      wrapped.close()
    }
    assert.ok(Device.count() >= 1)
  })

  test('the owner of wrapped memory is let go by close()', async () => {
    using theirs = device.alloc(32)
    let wrapped: DeviceBuffer | undefined
    const weak = (() => {
      const owner = { theirs: true }
      wrapped = DeviceBuffer.from(theirs.pointer, 32, { device, owner })
      return new WeakRef(owner)
    })()
    assert.equal(await collectUntil(() => weak.deref() === undefined), false)
    assert.equal(wrapped?.owner, weak.deref())
    wrapped?.close()
    assert.equal(await collectUntil(() => weak.deref() === undefined), true)
  })
})
