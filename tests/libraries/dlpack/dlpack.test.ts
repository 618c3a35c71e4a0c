/** Memory exported and imported by DLPack: its struct, the order of streams, and who keeps what for how long. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { DeviceBuffer, type PinnedBuffer, type Stream } from 'cuda-streams'
import {
  type DLPackProducer,
  DLPackTensor,
  type DType,
  fromCudaArrayInterface,
  fromDLPack,
  type ToDLPackOptions,
  toCudaArrayInterface,
  toDLPack,
} from 'cuda-streams/dlpack'
import { Sanitizer } from 'cuda-streams/sanitizer'
import koffi from 'koffi'
import { collected, collectUntil, refused } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'
import type { Workbench } from '../../helpers/workbench.js'

const BYTES = 4096
const WORDS: ToDLPackOptions = { dtype: 'i32', shape: [BYTES / 4] }

/** Looked for again and again by a timer of the library's. */
async function until(isSo: () => boolean): Promise<void> {
  const end = performance.now() + 5000
  while (!isSo()) {
    assert.ok(performance.now() < end, 'it did not come to be')
    await sleep(5)
  }
}

onEveryBackend('DLPack', (bench: Workbench) => {
  const { device } = bench
  const [allocationStream, other] = [bench.stream(), bench.stream()]
  after(() => {
    allocationStream.close()
    other.close()
  })

  /** Memory of the allocation stream with one value in it. */
  async function filled(value: number): Promise<DeviceBuffer> {
    const buffer = device.alloc(BYTES, { stream: allocationStream })
    await allocationStream.fill(buffer, value).finished()
    return buffer
  }

  async function firstByte(stream: Stream, buffer: DeviceBuffer | PinnedBuffer): Promise<number | undefined> {
    return (await stream.download(buffer.subarray(0, 1)))[0]
  }

  it('memory of the host that is lent is emptied for JavaScript at its close, and stays for the consumer', () => {
    const pinned = device.allocPinned(64)
    const { bytes } = pinned
    bytes.fill(7)
    const tensor = toDLPack(pinned, { dtype: 'u8', shape: [64] })
    pinned.close()
    assert.equal(bytes.length, 0)
    const address = new DataView(koffi.view(tensor.pointer, 8)).getBigUint64(0, true)
    assert.deepEqual([...new Set(new Uint8Array(koffi.view(address, 64)))], [7])
    tensor.release()
    assert.equal(tensor.released, true)
    refused(() => pinned.bytes, 'ERR_CLOSED')
  })

  it('the consumer’s stream is checked for memory of the host, too, though nothing waits', () => {
    using pinned = device.allocPinned(64)
    const lend = (stream: unknown): void => {
      toDLPack(pinned, { dtype: 'u8', shape: [64], stream: stream as Stream }).release()
    }
    for (const stream of [undefined, null, -1, -1n, 1, 2, allocationStream]) lend(stream)
    for (const stream of ['x', {}, true]) refused(() => lend(stream), 'ERR_INVALID_ARG_TYPE', /options\.stream/)
    refused(() => lend(0), 'ERR_INVALID_ARG_VALUE', /options\.stream must not be 0/)
  })

  it('a producer that returns no capsule is told so', () => {
    for (const capsule of [undefined, null, 1, 'x']) {
      const producer = { __dlpack__: () => capsule, __dlpack_device__: () => [2, device.ordinal] }
      refused(() => fromDLPack(producer as never), 'ERR_INVALID_ARG_TYPE', /__dlpack__\(\) must be a capsule/)
    }
  })

  it('writes the structs of dlpack.h', () => {
    using buffer = device.alloc(BYTES, { stream: allocationStream })
    const given = { dtype: 'f32x4', shape: [3, 5], strides: [32, 2] } as const
    const layouts = [
      { versioned: false, tensor: 0, context: 48, deleter: 56, options: given },
      {
        versioned: true,
        tensor: 32,
        context: 8,
        deleter: 16,
        options: { ...given, maxVersion: [1, 0], readOnly: true },
      },
    ] as const
    for (const { versioned, tensor: at, context, deleter, options } of layouts) {
      const tensor = toDLPack(buffer, { ...options, stream: allocationStream })
      assert.equal(tensor.versioned, versioned)
      const view = new DataView(koffi.view(tensor.pointer, 128))
      const word = (offset: number): bigint => view.getBigUint64(offset, true)
      if (versioned) assert.deepEqual([word(0), word(24)], [(1n << 32n) | 1n, 1n], 'version 1.1, read-only')
      assert.equal(word(context), 0n)
      assert.notEqual(word(deleter), 0n)
      assert.equal(word(at), buffer.pointer, 'data')
      assert.deepEqual([view.getInt32(at + 8, true), view.getInt32(at + 12, true)], [2, device.ordinal], 'kDLCUDA')
      assert.equal(view.getInt32(at + 16, true), 2, 'ndim')
      const dtype = [view.getUint8(at + 20), view.getUint8(at + 21), view.getUint16(at + 22, true)]
      assert.deepEqual(dtype, [2, 32, 4], 'code, bits, lanes')
      const numbers = (address: bigint): bigint[] => [...new BigInt64Array(koffi.view(address, 16))]
      assert.deepEqual(numbers(word(at + 24)), [3n, 5n], 'shape')
      assert.deepEqual(numbers(word(at + 32)), [32n, 2n], 'strides')
      assert.equal(word(at + 40), 0n, 'byte_offset')
      tensor.release()
      assert.equal(tensor.released, true)
    }
  })

  it('brings types, shapes and strides there and back', () => {
    using buffer = device.alloc(BYTES, { stream: allocationStream })
    const types: DType[] = ['bool', 'i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'u64', 'f16', 'f32', 'f64', 'bf16']
    const layouts: readonly Pick<ToDLPackOptions, 'shape' | 'strides'>[] = [
      { shape: [] },
      { shape: [7] },
      { shape: [2, 3, 4], strides: [12, 4, 1] },
      { shape: [4, 3], strides: [1, 4] },
      { shape: [3, 1, 2], strides: [0, 5, 9] },
    ]
    for (const dtype of [...types, 'c64', 'c128', 'f8e4m3fn', 'f8e5m2', 'u8x16', 'f64x2'] as DType[]) {
      for (const layout of layouts) {
        for (const maxVersion of [undefined, [1, 0], [1, 3], [2, 0]] as const) {
          const source = toDLPack(buffer.subarray(512, 1536), {
            dtype,
            ...layout,
            maxVersion,
            stream: allocationStream,
          })
          const tensor = fromDLPack(source, { stream: allocationStream })
          assert.equal(tensor.dtype, dtype)
          assert.deepEqual([tensor.shape, tensor.readOnly, tensor.byteOffset], [layout.shape, false, 0])
          assert.equal(tensor.buffer.pointer, buffer.pointer + 512n)
          if (layout.strides !== undefined) assert.deepEqual(tensor.strides, layout.strides)
          tensor.buffer.close()
        }
      }
    }
  })

  it('lets the consumer’s stream come after all work with the memory', async () => {
    for (const who of ['the allocation stream', 'another user'] as const) {
      for (const how of ['a Stream', 'a number', 'null'] as const) {
        using buffer = await filled(1)
        using consumer = bench.stream()
        const writer = who === 'the allocation stream' ? allocationStream : other
        using latch = bench.latch(writer)
        writer.fill(buffer, 2)
        const stream = how === 'a Stream' ? consumer : how === 'a number' ? consumer.handle : null
        const lent = toDLPack(buffer, { ...WORDS, stream })
        const tensor = fromDLPack(lent, { stream: consumer })
        const early = await Promise.race([firstByte(consumer, tensor.buffer), sleep(60)])
        assert.equal(early, how === 'null' ? 1 : undefined, `${who}, ${how}: what it reads while the writer stands`)
        latch.open()
        assert.equal(await firstByte(consumer.wait(writer), tensor.buffer), 2)
        tensor.buffer.close()
      }
    }
  })

  it('waits for work of a stream that was closed since', async () => {
    const gone = bench.stream()
    using buffer = device.alloc(BYTES, { stream: gone })
    await gone.fill(buffer, 1).finished()
    using latch = bench.latch(gone)
    gone.fill(buffer, 2)
    gone.close()
    const lent = toDLPack(buffer, { ...WORDS, stream: other })
    const read = firstByte(other, fromDLPack(lent, { stream: other }).buffer)
    latch.open()
    assert.equal(await read, 2)
  })

  it('asks the producer for the stream that will use it first, and other streams wait for that one', async () => {
    using buffer = await filled(1)
    const asked: unknown[] = []
    const producer: DLPackProducer = {
      __dlpack_device__: () => [2, device.ordinal],
      __dlpack__: (request) => {
        asked.push(request)
        return toDLPack(buffer, { ...WORDS, stream: request.stream, maxVersion: request.max_version })
      },
    }
    using consumer = bench.stream()
    using latch = bench.latch(allocationStream)
    allocationStream.fill(buffer, 2)
    const tensor = fromDLPack(producer, { stream: consumer })
    assert.deepEqual(asked, [{ stream: Number(consumer.handle), max_version: [1, 1] }])
    const early = await Promise.race([firstByte(other, tensor.buffer), sleep(60)])
    assert.equal(early, undefined, 'another stream has not waited')
    latch.open()
    assert.equal(await firstByte(other, tensor.buffer), 2)
    assert.notEqual(tensor.buffer.share().ready, 0n, 'other threads wait, too')
    tensor.buffer.close()

    device.run(() => fromDLPack(producer, { stream: null })).buffer.close()
    device.run(() => fromDLPack(producer, { stream: device.defaultStream })).buffer.close()
    device.run(() => fromDLPack(producer)).buffer.close()
    assert.deepEqual(
      asked.slice(1).map((request) => (request as { stream: number }).stream),
      [-1, 1, 1],
    )
  })

  it('keeps the memory until the consumer lets go, and then until its work is done', async () => {
    const buffer = await filled(1)
    const { pointer } = buffer
    const lent = toDLPack(buffer, { ...WORDS, stream: other })
    buffer.close()
    assert.equal(buffer.closed, true)
    using another = await filled(9)
    assert.notEqual(another.pointer, pointer, 'the memory was given to another buffer')
    using latch = bench.latch(other)
    const seen = other.download(DeviceBuffer.from(pointer, BYTES, { device }))
    lent.release()
    // The memory may be had again now, but in the order of the allocation stream, which waits for the consumer's.
    const next = device.alloc(BYTES, { stream: allocationStream })
    allocationStream.fill(next, 7)
    latch.open()
    assert.equal((await seen)[0], 1, 'the memory was written while the consumer read it')
    assert.equal(await firstByte(allocationStream, next), 7)
    next.close()
  })

  it('keeps memory that JavaScript has lost', async () => {
    let lost: WeakRef<object> | undefined
    const lent = await (async () => {
      const buffer = await filled(5)
      lost = new WeakRef(buffer)
      return toDLPack(buffer, { ...WORDS, stream: allocationStream })
    })()
    assert.equal(await collected(() => lost?.deref() === undefined), false)
    const tensor = fromDLPack(lent, { stream: allocationStream })
    assert.equal(await firstByte(allocationStream, tensor.buffer), 5)
    tensor.buffer.close()
    await until(() => lent.released)
    assert.equal(await collectUntil(() => lost?.deref() === undefined), true)
  })

  it('tells the owner when all work is done that was queued with the memory, and not before', async () => {
    using buffer = await filled(1)
    const lent = toDLPack(buffer, { ...WORDS, stream: allocationStream })
    const tensor = fromDLPack(lent, { stream: allocationStream })
    using latch = bench.latch(other)
    other.fill(tensor.buffer, 3)
    tensor.buffer.close()
    await sleep(60)
    assert.equal(lent.released, false)
    latch.open()
    await until(() => lent.released)
    assert.equal(await firstByte(allocationStream.wait(other), buffer), 3)
  })

  it('takes a tensor without elements, whatever its pointer, and gives it back', async () => {
    using none = device.alloc(0, { stream: allocationStream })
    using some = device.alloc(16, { stream: allocationStream })
    using pinned = device.allocPinned(0)
    for (const [buffer, shape] of [
      [none, [0]],
      [none, [0, 3]],
      [some, [4, 0]],
      [some.subarray(3, 3), [0]],
      [some.subarray(16, 16), [2, 0, 2]],
      [pinned, [0]],
    ] as const) {
      for (const stream of [allocationStream, null]) {
        // A null pointer says of no device that it is its own.
        for (const isNull of stream === null ? [false] : [false, true]) {
          const lent = toDLPack(buffer, { dtype: 'f32', shape, stream })
          if (isNull) new BigUint64Array(koffi.view(lent.pointer, 8))[0] = 0n
          const tensor = fromDLPack(lent, { stream })
          assert.deepEqual([tensor.shape, tensor.buffer.byteLength], [shape, 0])
          allocationStream.fill(tensor.buffer, 1).copy(tensor.buffer, none)
          assert.equal((await allocationStream.download(tensor.buffer)).length, 0)
          const again = toDLPack(tensor.buffer, { dtype: 'f32', shape, stream })
          assert.ok(!again.released)
          again.release()
          tensor.buffer.close()
          await until(() => lent.released)
        }
      }
    }
    const { data, ...array } = toCudaArrayInterface(some, { dtype: 'f32', shape: [0, 4] })
    using taken = fromCudaArrayInterface({ ...array, data: [0n, data[1]] }, { stream: allocationStream }).buffer
    assert.equal(taken.byteLength, 0)
  })

  it('gives back what it refuses', () => {
    using buffer = device.alloc(BYTES, { stream: allocationStream })
    const later = toDLPack(buffer, { ...WORDS, stream: allocationStream, maxVersion: [1, 0] })
    new Uint32Array(koffi.view(later.pointer, 8))[0] = 2
    refused(() => fromDLPack(later, { stream: allocationStream }), 'ERR_UNSUPPORTED', /DLPack 2\.1/)
    assert.equal(later.released, true)
    for (const [type, says] of [
      [10, /device of type 10/],
      [8, /device of type 8/],
    ] as const) {
      const wrong = toDLPack(buffer, { ...WORDS, stream: allocationStream })
      new Int32Array(koffi.view(wrong.pointer, 16))[2] = type
      refused(() => fromDLPack(wrong, { stream: allocationStream }), 'ERR_UNSUPPORTED', says)
      assert.equal(wrong.released, true)
    }
    const opaque = toDLPack(buffer, { ...WORDS, stream: allocationStream })
    new Uint8Array(koffi.view(opaque.pointer, 64))[20] = 3
    refused(() => fromDLPack(opaque, { stream: allocationStream }), 'ERR_UNSUPPORTED', /type code 3, 32 bits/)
    assert.equal(opaque.released, true)
  })

  it('refuses what cannot be exported, with the reason', () => {
    using buffer = device.alloc(BYTES, { stream: allocationStream })
    const out = (options: object) => () => toDLPack(buffer, { ...WORDS, stream: allocationStream, ...options })
    refused(out({ shape: [1025] }), 'ERR_OUT_OF_RANGE', /\(1025\).*at most 4096.*4100/)
    refused(out({ shape: [2, 2], strides: [1023, 1] }), 'ERR_OUT_OF_RANGE', /4100/)
    refused(out({ shape: [-1] }), 'ERR_OUT_OF_RANGE', /shape\[0\]/)
    refused(out({ shape: [1.5] }), 'ERR_INVALID_ARG_TYPE')
    refused(out({ shape: [1], strides: [-1] }), 'ERR_OUT_OF_RANGE', /strides\[0\]/)
    refused(out({ shape: [1], strides: [1, 1] }), 'ERR_INVALID_ARG_VALUE', /as many/)
    refused(out({ shape: Array(65).fill(1) }), 'ERR_OUT_OF_RANGE', /64/)
    refused(out({ shape: undefined }), 'ERR_INVALID_ARG_TYPE', /options\.shape/)
    for (const dtype of ['f33', 'f32x0', 'f32x70000', 'x', '', 32, undefined, 'constructor'])
      refused(out({ dtype }), 'ERR_INVALID_ARG_VALUE', /options\.dtype/)
    refused(out({ readOnly: true }), 'ERR_INVALID_ARG_VALUE', /maxVersion/)
    refused(out({ maxVersion: [1] }), 'ERR_INVALID_ARG_TYPE', /maxVersion/)
    refused(out({ maxVersion: 1 }), 'ERR_INVALID_ARG_TYPE', /maxVersion/)
    refused(out({ stream: 0 }), 'ERR_INVALID_ARG_VALUE', /null stream is 1/)
    refused(out({ stream: 'x' }), 'ERR_INVALID_ARG_TYPE', /options\.stream/)
    refused(out({ stream: 77 }), 'ERR_INVALID_HANDLE')
    refused(() => toDLPack({} as DeviceBuffer, WORDS), 'ERR_INVALID_ARG_TYPE', /a DeviceBuffer or a PinnedBuffer/)
    const odd = buffer.subarray(1, 65)
    refused(
      () => toDLPack(odd, { dtype: 'i16', shape: [4], stream: allocationStream }),
      'ERR_INVALID_ARG_VALUE',
      /middle/,
    )
    toDLPack(odd, { dtype: 'i8', shape: [4], stream: allocationStream }).release()
    const closed = device.alloc(16, { stream: allocationStream })
    closed.close()
    refused(() => toDLPack(closed, { dtype: 'i8', shape: [4] }), 'ERR_CLOSED')
    const gone = bench.stream()
    gone.close()
    refused(out({ stream: gone }), 'ERR_CLOSED')
    allocationStream.beginCapture()
    try {
      refused(out({}), 'ERR_UNSUPPORTED', /captures/)
      refused(out({ stream: other }), 'ERR_UNSUPPORTED', /captures/)
      const lent = toDLPack(buffer, { ...WORDS, stream: null })
      refused(() => fromDLPack(lent, { stream: allocationStream }), 'ERR_UNSUPPORTED', /captures/)
      assert.equal(allocationStream.isCapturing, true)
    } finally {
      allocationStream.endCapture().close()
    }
  })

  it('refuses what cannot be taken in, in words', async () => {
    for (const wrong of [undefined, null, 7, 7n, 'x', {}, { __dlpack__: () => 0 }])
      refused(() => fromDLPack(wrong as never), 'ERR_INVALID_ARG_TYPE', /a capsule/)
    refused(() => fromDLPack({ pointer: 'x' as never, versioned: true }), 'ERR_INVALID_ARG_TYPE', /capsule\.pointer/)
    refused(
      () => fromDLPack({ pointer: 8n, versioned: true }),
      'ERR_INVALID_HANDLE',
      /No DLManagedTensorVersioned lies at 0x8/,
    )
    refused(() => fromDLPack({ pointer: 8n, versioned: 1 as never }), 'ERR_INVALID_ARG_TYPE', /versioned/)
    refused(
      () => fromDLPack({ pointer: 8n, versioned: true }, { stream: 7 as never }),
      'ERR_INVALID_ARG_TYPE',
      /stream/,
    )
    using pinned = device.allocPinned(4096)
    pinned.bytes.fill(0x41)
    const notOne = { pointer: BigInt(koffi.address(pinned.bytes.buffer)), versioned: true }
    refused(() => fromDLPack(notOne), 'ERR_INVALID_HANDLE', /No DLManagedTensorVersioned/)
    refused(() => fromDLPack({ ...notOne, versioned: false }), 'ERR_INVALID_HANDLE', /No DLManagedTensor lies/)
    using buffer = device.alloc(BYTES, { stream: allocationStream })
    refused(() => fromDLPack(buffer as never), 'ERR_INVALID_ARG_TYPE', /a capsule/)
    const once = toDLPack(buffer, { ...WORDS, stream: allocationStream })
    const taken = fromDLPack(once, { stream: allocationStream })
    once.release()
    assert.equal(once.released, false, 'taken back from our own buffer')
    refused(() => fromDLPack(once, { stream: allocationStream }), 'ERR_CLOSED', /imported before/)
    taken.buffer.close()
    await until(() => once.released)
    refused(() => Reflect.construct(DLPackTensor, []), 'ERR_INVALID_ARG_TYPE', /toDLPack/)
    const boom = new Error('boom')
    const throws = {
      __dlpack_device__: () => [2, device.ordinal] as const,
      __dlpack__: () => {
        throw boom
      },
    }
    assert.throws(() => fromDLPack(throws, { stream: allocationStream }), boom)
    const onNone = { ...throws, __dlpack_device__: () => [2, 99] as const }
    refused(() => fromDLPack(onNone, { stream: allocationStream }), 'ERR_OUT_OF_RANGE', /99/)
    const shapeless = { ...throws, __dlpack_device__: () => 2 as never }
    refused(() => fromDLPack(shapeless, { stream: allocationStream }), 'ERR_INVALID_ARG_TYPE', /__dlpack_device__/)
  })

  it('imports pinned memory again that it exported', async () => {
    using stream = bench.stream()
    const pinned = device.allocPinned(256)
    const lent = toDLPack(pinned.subarray(64, 192), { dtype: 'u8', shape: [128] })
    const { buffer } = fromDLPack(lent, { stream })
    assert.deepEqual([buffer.pointer, buffer.byteLength], [pinned.pointer + 64n, 128])
    await stream.fill(buffer, 7).finished()
    assert.deepEqual([pinned.bytes.indexOf(7), pinned.bytes.lastIndexOf(7)], [64, 191])
    buffer.close()
    pinned.close()
  })

  it('hands pinned memory out as memory of the host', () => {
    using pinned = device.allocPinned(256)
    pinned.bytes[64] = 77
    const tensor = toDLPack(pinned.subarray(64, 128), { dtype: 'u8', shape: [64] })
    assert.deepEqual(tensor.device, [1, 0])
    const view = new DataView(koffi.view(tensor.pointer, 64))
    assert.equal(new Uint8Array(koffi.view(view.getBigUint64(0, true), 64))[0], 77)
    pinned.close()
    assert.equal(new Uint8Array(koffi.view(view.getBigUint64(0, true), 64))[0], 77, 'kept')
    tensor.release()
  })

  it('is a wait that the sanitizer sees, and misses', async () => {
    for (const waits of [true, false]) {
      using sanitizer = Sanitizer.start({ device })
      using buffer = device.alloc(BYTES, { stream: allocationStream })
      allocationStream.fill(buffer, 1)
      const lent = toDLPack(buffer, { ...WORDS, stream: waits ? other : null })
      const tensor = fromDLPack(lent, { stream: other })
      other.fill(tensor.buffer, 2)
      tensor.buffer.close()
      await device.finished()
      assert.equal(sanitizer.reports.length, waits ? 0 : 1)
    }
  })
})
