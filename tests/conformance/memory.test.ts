/** Device memory and pinned memory: making, slicing, wrapping and closing them, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CopyNode, DeviceBuffer, type Graph, MemoryPool, Module, PinnedBuffer, Stream } from 'cuda-streams'
import { toDLPack } from 'cuda-streams/dlpack'
import { simulate } from 'cuda-streams/sim'
import { PTX, SIGNATURE } from '../catalogue/adding.js'
import { onEveryBackend } from '../helpers/suite.js'
import {
  beginCapture,
  collected,
  collectUntil,
  endQuietly,
  ONE_DEVICE,
  refused,
  refusedByDriver,
  secondDevice,
} from './expect.js'

onEveryBackend('memory', (bench) => {
  const { device } = bench

  test('M1 a device buffer says what it is', () => {
    using buffer = device.alloc(1000)
    assert.ok(buffer instanceof DeviceBuffer)
    assert.equal(buffer.byteLength, 1000)
    assert.equal(buffer.device, device)
    assert.equal(buffer.closed, false)
    assert.equal(typeof buffer.pointer, 'bigint')
    assert.notEqual(buffer.pointer, 0n)
    assert.equal(buffer.owner, undefined)
    assert.match(String(buffer), /^DeviceBuffer\(0x[0-9a-f]+, 1000 bytes, Device\(0, \w+\)\)$/)
  })

  test('M1 a pinned buffer is bytes of this process', () => {
    using buffer = device.allocPinned(64)
    assert.ok(buffer instanceof PinnedBuffer)
    assert.equal(buffer.bytes.length, 64)
    assert.equal(buffer.bytes, buffer.bytes)
    buffer.bytes.fill(0)
    buffer.view(Float32Array)[1] = 1.5
    assert.equal(new DataView(buffer.bytes.buffer, buffer.bytes.byteOffset + 4).getFloat32(0, true), 1.5)
    assert.equal(buffer.view(BigInt64Array).length, 8)
    assert.equal(buffer.subarray(8, 16).view(Uint16Array).length, 4)
    buffer.subarray(8, 16).bytes.fill(7)
    assert.deepEqual([...buffer.bytes.subarray(7, 17)], [0x3f, 7, 7, 7, 7, 7, 7, 7, 7, 0])
  })

  test('M2 slices share the memory and end with it', () => {
    const buffer = device.alloc(100)
    const slice = buffer.subarray(10, 60)
    const inner = slice.subarray(5, 10)
    assert.equal(slice.byteLength, 50)
    assert.equal(inner.pointer, buffer.pointer + 15n)
    inner.close()
    assert.deepEqual([buffer.closed, slice.closed, inner.closed], [false, false, true])
    assert.equal(buffer.subarray(100, 100).byteLength, 0)
    buffer.close()
    buffer.close()
    assert.equal(slice.closed, true)
    refused(() => slice.subarray(0, 1), 'ERR_CLOSED', /closed/)
    refused(() => buffer.subarray(0, 1), 'ERR_CLOSED', /closed/)
  })

  test('M2 a slice has the bytes that TypedArray.subarray() has', () => {
    const array = new Uint8Array(100)
    for (const alloc of [(n: number) => device.alloc(n), (n: number) => device.allocPinned(n)]) {
      using buffer = alloc(100)
      const offsets = [0, 1, 50, 99, 100, -1, -50, -99, -100]
      for (const begin of offsets) {
        for (const end of [undefined, ...offsets]) {
          const expected = array.subarray(begin, end)
          const isBackwards = end !== undefined && array.subarray(begin).byteOffset > array.subarray(end).byteOffset
          if (isBackwards) refused(() => buffer.subarray(begin, end), 'ERR_OUT_OF_RANGE', /end must be/)
          else {
            const slice = buffer.subarray(begin, end)
            const from = Number(slice.pointer - buffer.pointer)
            assert.deepEqual([from, slice.byteLength], [expected.byteOffset, expected.byteLength])
          }
        }
      }
    }
  })

  test('M3 wrong lengths and slices are refused', () => {
    for (const alloc of [(n: number) => device.alloc(n), (n: number) => device.allocPinned(n)]) {
      for (const wrong of [-1, 2 ** 47, 2 ** 53, 1e300, -(2 ** 60)]) {
        refused(() => alloc(wrong), 'ERR_OUT_OF_RANGE', /byteLength must be from 0/)
      }
      for (const wrong of [1.5, Number.NaN, '8', undefined, 8n]) {
        refused(() => alloc(wrong as number), 'ERR_INVALID_ARG_TYPE', /byteLength/)
      }
      using buffer = alloc(100)
      refused(() => buffer.subarray(-101), 'ERR_OUT_OF_RANGE', /begin/)
      refused(() => buffer.subarray(101), 'ERR_OUT_OF_RANGE', /begin/)
      refused(() => buffer.subarray(2 ** 60), 'ERR_OUT_OF_RANGE', /begin must be from 0 to 100/)
      refused(() => buffer.subarray(50, 101), 'ERR_OUT_OF_RANGE', /end/)
      refused(() => buffer.subarray(50, -101), 'ERR_OUT_OF_RANGE', /end/)
      refused(() => buffer.subarray(50, 49), 'ERR_OUT_OF_RANGE', /end must be 50 or more/)
      refused(() => buffer.subarray(50, -51), 'ERR_OUT_OF_RANGE', /end must be 50 or more/)
      refused(() => buffer.subarray(0, 1.5), 'ERR_INVALID_ARG_TYPE', /end/)
    }
    refused(() => Reflect.construct(DeviceBuffer, [{}]), 'ERR_INVALID_ARG_TYPE', /device\.alloc/)
    refused(() => Reflect.construct(PinnedBuffer, []), 'ERR_INVALID_ARG_TYPE', /allocPinned/)
  })

  test('M5 a launch that the driver refuses has not used the memory: closing it waits for nothing of that stream', () => {
    using other = bench.stream()
    using stream = bench.stream()
    using module = Module.load(PTX, { device })
    const kernel = module.kernel('add', SIGNATURE)
    for (let round = 0; round < 3; round += 1) {
      const buffer = device.alloc(64, { stream })
      // An event that the library may use again was recorded in a capture, which is over.
      other.beginCapture()
      other.record().close()
      other.endCapture().close()
      refusedByDriver(() => other.launch(kernel, { grid: 1, block: 2048 }, buffer, 16, 1), 1)
      buffer.close()
    }
  })

  test('M3 views that do not fit are refused', () => {
    using buffer = device.allocPinned(10)
    refused(() => buffer.view(Float32Array), 'ERR_INVALID_ARG_VALUE', /4 bytes/)
    refused(() => buffer.subarray(1, 5).view(Float32Array), 'ERR_INVALID_ARG_VALUE', /4 bytes/)
    refused(() => buffer.view(Array as never), 'ERR_INVALID_ARG_TYPE', /Float32Array/)
    const noConstructor = Object.assign(() => {}, { BYTES_PER_ELEMENT: 1 }) as never
    refused(() => buffer.view(noConstructor), 'ERR_INVALID_ARG_TYPE', /^type must be a constructor of typed arrays/)
    refused(() => buffer.view(undefined as never), 'ERR_INVALID_ARG_TYPE', /Float32Array/)
    const makesNone: readonly unknown[] = [
      Object.assign(class {}, { BYTES_PER_ELEMENT: 1 }),
      ...[0, -1, 0.5, Number.NaN, '1', undefined].map(
        (width) =>
          class extends Uint8Array {
            static override readonly BYTES_PER_ELEMENT = width as never
          },
      ),
    ]
    for (const type of makesNone) refused(() => buffer.view(type as never), 'ERR_INVALID_ARG_TYPE', /Float32Array/)
    class Ours extends Uint8Array {}
    assert.ok(buffer.view(Ours) instanceof Ours)
  })

  test('M4 allocating takes place on the stream given, which must be of the device', (context) => {
    using stream = bench.stream()
    using buffer = device.alloc(8, { stream })
    assert.equal(buffer.device, device)
    refused(() => device.alloc(8, { stream: {} as never }), 'ERR_INVALID_ARG_TYPE', /options\.stream/)
    const closed = bench.stream()
    closed.close()
    refused(() => device.alloc(8, { stream: closed }), 'ERR_CLOSED', /closed/)
    const second = secondDevice(bench)
    if (second === undefined) return context.diagnostic(ONE_DEVICE)
    using other = bench.stream({ device: second })
    refused(() => device.alloc(8, { stream: other }), 'ERR_DEVICE_MISMATCH', /Device\(1/)
  })

  for (const mode of ['threadLocal', 'relaxed', 'global'] as const) {
    test(`M4 allocating on a stream that captures takes memory which every instance of the graph uses: ${mode}`, () => {
      using stream = bench.stream()
      using joined = bench.stream()
      using pool = new MemoryPool({ device })
      using out = device.alloc(64, { stream })
      using result = device.allocPinned(64)
      stream.fill(out, 0).synchronize()
      stream.beginCapture(mode)
      joined.wait(stream)
      using own = device.alloc(64, { stream })
      using ofJoined = device.alloc(64, { stream: joined })
      using ofPool = device.alloc(64, { stream, pool })
      joined.fill(ofJoined, 2)
      stream.wait(joined).fill(own, 1).copy(ofPool, ofJoined).copy(out, ofPool)
      using graph = stream.endCapture()
      assert.deepEqual(graph.nodes.map(({ kind }) => kind).sort(), ['copy', 'copy', 'fill', 'fill'])
      using one = graph.instantiate()
      using two = graph.instantiate()
      using third = bench.stream()
      stream.launch(one)
      third.wait(stream).launch(two)
      // The memory is ordinary memory, which is used outside as well.
      third.fill(own.subarray(0, 32), 3)
      stream
        .wait(third)
        .copy(result.subarray(0, 32), own.subarray(16, 48))
        .copy(result.subarray(32, 64), out.subarray(0, 32))
      stream.synchronize()
      const expected = [3, 1, 2, 2].flatMap((value) => Array.from({ length: 16 }, () => value))
      assert.deepEqual([...result.bytes], expected)
    })
  }

  test('M4 memory that a capture allocates is 0 until something is written there, on a stream or by a launch', () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device })
    using result = device.allocPinned(32)
    for (const given of [{}, { pool }]) {
      // What is allocated next may be the same memory.
      for (const value of [7, 9]) {
        using before = device.alloc(64, { stream, ...given })
        stream.fill(before, value).synchronize()
      }
      stream.beginCapture()
      using own = device.alloc(64, { stream, ...given })
      stream.fill(own.subarray(16, 32), 1)
      using graph = stream.endCapture()
      using exec = graph.instantiate()
      for (const launched of [false, true]) {
        if (launched) stream.launch(exec)
        stream.copy(result, own.subarray(0, 32)).synchronize()
        const ends = launched ? 1 : 0
        assert.deepEqual([...result.bytes], [...new Array(16).fill(0), ...new Array(16).fill(ends)])
      }
    }
  })

  test('M4 a capture whose graph would not keep the memory is no place to allocate: ERR_UNSUPPORTED', () => {
    using stream = bench.stream()
    const capture = beginCapture(stream, 2)
    try {
      refused(() => device.alloc(8, { stream }), 'ERR_UNSUPPORTED', /did not begin/)
    } finally {
      endQuietly(stream, capture)
    }
    stream.beginCapture()
    assert.throws(() => stream.query(), { number: 900 })
    refused(() => device.alloc(8, { stream }), 'ERR_UNSUPPORTED', /invalidated/)
    assert.throws(() => stream.endCapture(), { number: 901 })
    device.alloc(8, { stream }).close()
  })

  test('M4 the first launch waits for the allocations of what its graph uses, and so does one after an update', async () => {
    using busy = bench.stream()
    using stream = bench.stream()
    using other = bench.stream()
    using probe = bench.stream()
    using out = device.alloc(8, { stream })
    using result = device.allocPinned(8)
    stream.fill(out, 0).synchronize()
    /** Uses memory of a stream with work before it, that nothing else waits for. */
    const captured = (value: number) => {
      using late = device.alloc(8, { stream: busy })
      return stream.capture(() => void stream.fill(late, value).copy(out, late))
    }
    const waits = async (on: Stream, value: number, launch: () => void): Promise<void> => {
      using latch = bench.latch(busy)
      launch()
      // Time for the launch to run, if it does not wait.
      bench.busy(probe, 1e6)
      probe.synchronize()
      assert.equal(on.query(), false, 'the launch has not waited')
      latch.open()
      await on.copy(result, out).finished()
      assert.deepEqual(
        [...result.bytes],
        Array.from({ length: 8 }, () => value),
      )
    }
    let graph: Graph | undefined
    await waits(stream, 3, () => {
      graph = captured(3)
      stream.launch(graph.instantiate())
    })
    using exec = graph?.instantiate()
    assert.ok(graph && exec)
    other.wait(stream).launch(exec).synchronize()
    await waits(stream, 4, () => {
      using next = captured(4)
      stream.launch(exec.update(next))
    })
    using source = device.allocPinned(8)
    source.bytes.fill(5)
    await waits(stream, 5, () => {
      const late = device.alloc(8, { stream: busy })
      using next = stream.capture(() => void stream.copy(late, source).copy(out, late))
      const switched = next.instantiate()
      for (const node of next.nodes) switched.setEnabled(node as CopyNode, false)
      // Does nothing, so that the next one is not ordered after it.
      other.launch(switched)
      for (const node of next.nodes) switched.setEnabled(node as CopyNode, true)
      stream.launch(switched)
      late.close()
    })
    graph.close()
  })

  test('M4 more memory than there is, is CUDA_ERROR_OUT_OF_MEMORY', () => {
    const error = refusedByDriver(() => device.alloc(2 ** 46), 2)
    assert.equal(error.code, 'CUDA_ERROR_OUT_OF_MEMORY')
    assert.equal(error.call, 'cuMemAllocAsync')
    device.alloc(16).close()
  })

  test('M5 what is closed is ERR_CLOSED, and views of it are empty', async () => {
    using stream = bench.stream()
    const buffer = device.alloc(16)
    const pinned = device.allocPinned(16)
    const { bytes } = pinned
    const words = pinned.subarray(8, 16).view(Uint32Array)
    const slice = pinned.subarray(0, 16)
    buffer.close()
    pinned.close()
    assert.equal(bytes.length, 0)
    assert.equal(words.length, 0)
    assert.equal(bytes[0], undefined)
    using other = device.alloc(16)
    refused(() => pinned.bytes, 'ERR_CLOSED', /PinnedBuffer/)
    refused(() => slice.bytes, 'ERR_CLOSED', /closed/)
    refused(() => slice.view(Uint8Array), 'ERR_CLOSED', /closed/)
    for (const closed of [buffer, pinned, slice]) {
      refused(() => stream.copy(closed, other), 'ERR_CLOSED', /closed/)
      refused(() => stream.copy(other, closed), 'ERR_CLOSED', /closed/)
      refused(() => stream.fill(closed, 0), 'ERR_CLOSED', /closed/)
      refused(() => stream.upload(closed, new Uint8Array(16)), 'ERR_CLOSED', /closed/)
      refused(() => stream.uploader(closed), 'ERR_CLOSED', /closed/)
      refused(() => stream.downloader(closed), 'ERR_CLOSED', /closed/)
      await assert.rejects(stream.download(closed), { code: 'ERR_CLOSED' })
    }
    assert.equal(stream.query(), true)
  })

  test('M6 memory of another library is wrapped with its owner, and never freed', async () => {
    using stream = bench.stream()
    using theirs = device.alloc(256)
    stream.fill(theirs, 3)
    const owner = {}
    const wrapped = DeviceBuffer.from(theirs.pointer + 16n, 100, { device, owner })
    assert.equal(wrapped.device, device)
    assert.equal(wrapped.owner, owner)
    assert.equal(wrapped.subarray(1, 2).owner, owner)
    assert.deepEqual(await stream.download(wrapped), new Uint8Array(100).fill(3))
    wrapped.close()
    assert.equal(wrapped.owner, undefined)
    assert.deepEqual(await stream.download(theirs), new Uint8Array(256).fill(3))
    const unsaid = device.run(() => DeviceBuffer.from(Number(theirs.pointer), 8, { device: -1 }))
    assert.equal(unsaid.byteLength, 8)
  })

  test('M6 a pointer that cannot be wrapped is refused', (context) => {
    using buffer = device.alloc(64)
    const { pointer } = buffer
    refused(() => DeviceBuffer.from('0x10' as never, 8), 'ERR_INVALID_ARG_TYPE', /pointer/)
    refused(() => DeviceBuffer.from(-1n, 8), 'ERR_OUT_OF_RANGE', /pointer/)
    refused(() => DeviceBuffer.from(pointer, -1), 'ERR_OUT_OF_RANGE', /byteLength/)
    refused(() => DeviceBuffer.from(pointer, 8, { owner: 1 as never }), 'ERR_INVALID_ARG_TYPE', /owner/)
    refused(() => DeviceBuffer.from(4096n, 8, { device }), 'ERR_INVALID_HANDLE', /0x1000/)
    const second = secondDevice(bench)
    if (second === undefined) return context.diagnostic(ONE_DEVICE)
    refused(() => DeviceBuffer.from(pointer, 8, { device: second }), 'ERR_DEVICE_MISMATCH', /Device\(1/)
  })

  test('M6 the owner lives as long as a slice does', async () => {
    using theirs = device.alloc(64)
    let gone = false
    const registry = new FinalizationRegistry(() => {
      gone = true
    })
    const slice = (() => {
      const owner = {}
      registry.register(owner, undefined)
      return DeviceBuffer.from(theirs.pointer, 64, { owner, device }).subarray(0, 8)
    })()
    assert.equal(await collected(() => gone), false)
    assert.equal(slice.closed, false)
  })

  test('M7 views keep an unreachable pinned buffer alive', async () => {
    const bytes = (() => {
      const buffer = device.allocPinned(4096)
      buffer.bytes.fill(9)
      return buffer.bytes
    })()
    assert.equal(await collected(() => bytes.length === 0), false)
    assert.equal(bytes[4095], 9)
  })

  test('M5 pinned memory whose ArrayBuffer the program has transferred is refused to JavaScript, in words', () => {
    using pinned = device.allocPinned(64)
    const { buffer } = pinned.bytes
    try {
      structuredClone(buffer, { transfer: [buffer] })
    } catch {
      // Node refuses for memory of the driver, or copies it.
    }
    if (buffer.byteLength > 0) return assert.equal(pinned.bytes.buffer, buffer)
    for (const [what, look] of Object.entries({
      bytes: () => pinned.bytes,
      'bytes of a slice': () => pinned.subarray(0, 8).bytes,
      view: () => pinned.view(Float32Array),
      toDLPack: () => toDLPack(pinned, { dtype: 'u8', shape: [64] }),
    })) {
      const { message } = refused(look, 'ERR_INVALID_ARG_VALUE', /detached/)
      assert.match(message, /PinnedBuffer/, what)
    }
    return undefined
  })

  test('M8 closing while work is queued takes nothing away from it', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using result = device.allocPinned(1024)
    result.bytes.fill(0)
    const pinned = device.allocPinned(1024)
    const buffer = device.alloc(1024, { stream })
    pinned.bytes.fill(5)
    stream.synchronize()
    using latch = bench.latch(other)
    other.copy(buffer, pinned)
    other.copy(result, buffer)
    pinned.close()
    buffer.close()
    // What is allocated now must not be that memory, or comes after its last use.
    using newPinned = device.allocPinned(1024)
    newPinned.bytes.fill(6)
    using next = device.alloc(1024, { stream })
    stream.copy(next, newPinned)
    latch.open()
    await other.finished()
    await stream.finished()
    assert.deepEqual(Buffer.compare(result.bytes, Buffer.alloc(1024, 5)), 0)
  })

  test('M8 closing after the stream it was allocated on is fine', async () => {
    const allocationStream = bench.stream()
    using stream = bench.stream()
    const buffer = device.alloc(512, { stream: allocationStream })
    using latch = bench.latch(allocationStream)
    allocationStream.fill(buffer, 1)
    allocationStream.close()
    stream.fill(buffer.subarray(0, 256), 2)
    buffer.close()
    latch.open()
    await device.finished()
    device.alloc(512).close()
  })

  test('M8 many streams may use one buffer', async () => {
    const buffer = device.alloc(64)
    for (let left = 40; left > 0; left -= 1) {
      using stream = bench.stream()
      stream.fill(buffer, left)
    }
    buffer.close()
    await device.finished()
  })

  test('M7 an unreachable device buffer is freed', async (context) => {
    if (bench.name !== 'sim') return context.diagnostic('only the simulator tells how much memory there is')
    using simulation = simulate({ memory: 141e9 })
    const [own] = simulation.devices
    assert.ok(own)
    void (() => own.alloc(100e9))()
    const isFree = (): boolean => {
      try {
        own.alloc(100e9).close()
        return true
      } catch {
        return false
      }
    }
    assert.equal(await collectUntil(isFree), true)
  })

  test('M5 using closes at the end of the block', () => {
    let buffer: DeviceBuffer
    let pinned: PinnedBuffer
    {
      using inner = device.alloc(8)
      using innerPinned = device.allocPinned(8)
      buffer = inner
      pinned = innerPinned
    }
    assert.deepEqual([buffer.closed, pinned.closed], [true, true])
  })

  test('M19 memory without bytes can be used as any, of each kind', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using pool = new MemoryPool({ device })
    using module = Module.load(PTX, { device })
    const kernel = module.kernel('add', SIGNATURE)
    using words = device.alloc(64, { stream })
    using pinned = device.allocPinned(64)
    const kinds: Readonly<Record<string, () => DeviceBuffer | PinnedBuffer>> = {
      'of a stream': () => device.alloc(0, { stream }),
      'of the current stream': () => device.alloc(0),
      'of a pool': () => device.alloc(0, { stream, pool }),
      interprocess: () => device.alloc(0, { interprocess: true }),
      'of an array': () => stream.bufferFrom(new Float32Array(0)),
      pinned: () => device.allocPinned(0),
      registered: () => PinnedBuffer.from(new Float64Array(0), { device }),
      'a registered part': () => PinnedBuffer.from(new Uint8Array(8).subarray(4, 4), { device }),
      foreign: () => DeviceBuffer.from(words.pointer, 0, { device }),
      'foreign, and nowhere': () => DeviceBuffer.from(0n, 0, { device }),
      'a part': () => words.subarray(4, 4),
      'a part of no whole number of words': () => words.subarray(3, 3),
      'the end': () => words.subarray(64, 64),
      'the end of pinned memory': () => pinned.subarray(64, 64),
    }
    await stream.fill(words, 1).fill(pinned, 1).finished()
    for (const [kind, make] of Object.entries(kinds)) {
      using none = make()
      assert.deepEqual([none.byteLength, none.device, none.closed], [0, device, false], kind)
      assert.match(String(none), / 0 bytes/)
      using empty = device.alloc(0, { stream: other })
      const all = (on: Stream): void => {
        on.copy(none, empty).copy(empty, none).copy(none, none)
        on.copy([
          [none, empty],
          [words.subarray(0, 0), none],
        ])
        on.copy(none, empty, { shape: [0, 8] }).copy(words, none, { shape: [2, 0, 8], sourceStrides: [0, 16] })
        on.fill(none, 7).fill(none, 7, { width: 4 }).fill(none, 1.5, { type: 'f32' })
        on.fill(none, 7, { shape: [0, 8], strides: [16] })
      }
      all(stream)
      all(other)
      for (const on of [stream, other]) {
        await on.upload(none, new Uint16Array(0))
        assert.equal((await on.download(none, Uint8Array)).length, 0, kind)
        const writer = on.uploader(none).getWriter()
        await writer.write(new Uint8Array(0))
        await writer.close()
        for await (const chunk of on.downloader(none)) assert.fail(`${chunk.length} bytes of ${kind}`)
      }
      assert.equal(none.subarray(0, 0).byteLength, 0)
      refused(() => none.subarray(0, 1), 'ERR_OUT_OF_RANGE')
      refused(() => stream.copy(words, none), 'ERR_OUT_OF_RANGE')
      using graph = stream.capture(() => {
        all(stream)
        if (none.pointer % 4n === 0n) stream.launch(kernel, { threads: 0 }, none, 0, 0)
        stream.fill(words.subarray(0, 4), 1)
      })
      assert.equal(graph.nodeCount, 1, kind)
      using exec = graph.instantiate()
      stream.launch(exec)
      if (none instanceof PinnedBuffer) {
        assert.deepEqual([none.bytes.length, none.view(Float64Array).length], [0, 0])
      } else if (none.pointer !== 0n) {
        const again = DeviceBuffer.from(structuredClone(none.share()))
        assert.deepEqual([again.byteLength, again.pointer], [0, none.pointer])
      }
      none.close()
      assert.equal(none.closed, true)
      refused(() => stream.fill(none, 1), 'ERR_CLOSED')
    }
    assert.deepEqual([...new Set(await stream.download(words))], [1])
    device.synchronize()
  })

  test('M10 memory of one driver is not for streams of another', () => {
    using simulation = simulate()
    const [foreign] = simulation.devices
    assert.ok(foreign)
    using stream = new Stream({ device: foreign })
    using buffer = device.alloc(8)
    using theirs = foreign.alloc(8)
    const another = bench.name === 'sim' ? /another simulation/ : /another driver/
    refused(() => stream.copy(theirs, buffer), 'ERR_DEVICE_MISMATCH', another)
    refused(() => stream.fill(buffer, 1), 'ERR_DEVICE_MISMATCH', another)
    refused(() => stream.upload(buffer, new Uint8Array(8)), 'ERR_DEVICE_MISMATCH', another)
  })
})
