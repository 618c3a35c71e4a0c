/** Copies, fills, uploads and downloads: the bytes they leave, their order, and what is refused before anything is queued. */
import assert from 'node:assert/strict'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import type { ReadableStream as WebReadable } from 'node:stream/web'
import { test } from 'node:test'
import { type Bytes, DeviceBuffer, ExternalStream, Stream, type ViewConstructor } from 'cuda-streams'
import { fault, latch, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import { beginCapture, endQuietly, follow, ONE_DEVICE, refused, rejected, secondDevice, turns } from './expect.js'

const MIB = 1024 * 1024

/** What ES2024 calls an ArrayBuffer with `maxByteLength`. */
interface Resizable extends ArrayBuffer {
  resize(byteLength: number): void
}

const resizable = (byteLength: number, maxByteLength = byteLength): Resizable =>
  Reflect.construct(ArrayBuffer, [byteLength, { maxByteLength }]) as Resizable

/** Float16Array is one since Node 24. */
const TYPED_ARRAYS: readonly ViewConstructor<ArrayBufferView>[] = [
  ...[Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array],
  ...[Float32Array, Float64Array, BigInt64Array, BigUint64Array],
  ...[Reflect.get(globalThis, 'Float16Array') as ViewConstructor<ArrayBufferView> | undefined].filter(
    (type) => type !== undefined,
  ),
]

const bytesIn = (array: Bytes): Uint8Array =>
  ArrayBuffer.isView(array) ? new Uint8Array(array.buffer, array.byteOffset, array.byteLength) : new Uint8Array(array)

/** Bytes that tell where they belong. */
function pattern(length: number, seed = 1): Uint8Array {
  const words = new Uint32Array(Math.ceil(length / 4))
  for (let at = 0; at < words.length; at += 1) words[at] = Math.imul(at + seed, 0x9e3779b1)
  return new Uint8Array(words.buffer, 0, length)
}

function assertSame(actual: Uint8Array, expected: Uint8Array): void {
  assert.equal(actual.length, expected.length)
  assert.equal(Buffer.compare(actual, expected), 0, 'the bytes differ')
}

/** The longest time that the event loop did not turn, in milliseconds. */
function watchLoop(): { stop(): number } {
  let longest = 0
  let last = performance.now()
  let running = true
  const look = (): void => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    if (running) setImmediate(look)
  }
  setImmediate(look)
  return {
    stop() {
      running = false
      return longest
    },
  }
}

onEveryBackend('transfers', (bench) => {
  const { device } = bench

  test('T1 copy goes in every direction', async () => {
    using stream = bench.stream()
    using from = device.allocPinned(1000)
    using first = device.alloc(1000)
    using second = device.alloc(1000)
    using to = device.allocPinned(1000)
    using last = device.allocPinned(1000)
    from.bytes.set(pattern(1000))
    assert.equal(stream.copy(first, from), stream)
    stream.copy(second, first).copy(to, second).copy(last, to)
    await stream.finished()
    assertSame(last.bytes, pattern(1000))
  })

  test('T1 copy between two devices', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.skip(ONE_DEVICE)
    using stream = bench.stream()
    using here = device.alloc(5000)
    using there = second.alloc(5000)
    using back = device.alloc(5000)
    stream.upload(here, pattern(5000))
    stream.copy(there, here).copy(back, there)
    assertSame(await stream.download(back), pattern(5000))
  })

  test('M10 a stream uses memory of another device: fills it, copies it from and to the host, in a graph too', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.skip(ONE_DEVICE)
    for (const [near, far] of [[device, second] as const, [second, device] as const]) {
      using stream = bench.stream({ device: near })
      using there = far.alloc(4096)
      using here = near.alloc(4096, { stream })
      using plain = far.alloc(4096, { interprocess: true })
      using pinned = near.allocPinned(4096)
      for (const buffer of [there, plain]) {
        stream.fill(buffer, 3).fill(buffer.subarray(1024, 2048), 4).copy(pinned, buffer)
        await stream.finished()
        assert.deepEqual([pinned.bytes[0], pinned.bytes[1024], pinned.bytes[2048]], [3, 4, 3])
        void stream.upload(buffer, pattern(4096, 7))
        assertSame(await stream.download(buffer), pattern(4096, 7))
        const exec = stream.capture(() => void stream.fill(buffer, 5).copy(here, buffer)).instantiate()
        stream.launch(exec)
        assertSame(await stream.download(here), new Uint8Array(4096).fill(5))
        exec.close()
      }
    }
  })

  test('T1 slices are copied where they lie', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(100)
    using pinned = device.allocPinned(10)
    pinned.bytes.set(pattern(10))
    stream.fill(buffer, 0xff).copy(buffer.subarray(50, 60), pinned).copy(buffer.subarray(0, 5), pinned.subarray(5, 10))
    const expected = new Uint8Array(100).fill(0xff)
    expected.set(pattern(10), 50)
    expected.set(pattern(10).subarray(5), 0)
    assertSame(await stream.download(buffer), expected)
    stream.copy(buffer.subarray(100, 100), pinned.subarray(0, 0))
    assertSame(await stream.download(buffer.subarray(7, 7)), new Uint8Array(0))
  })

  test('T1 copies run in the order of the stream, and after what it waits for', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(4096)
    using one = device.allocPinned(4096)
    using two = device.allocPinned(4096)
    using result = device.allocPinned(4096)
    one.bytes.fill(1)
    two.bytes.fill(2)
    result.bytes.fill(0)
    using latch = bench.latch(stream)
    stream.copy(buffer, one).copy(buffer, two)
    other.wait(stream).copy(result, buffer)
    await turns()
    assert.equal(result.bytes[0], 0)
    latch.open()
    await other.finished()
    assertSame(result.bytes, new Uint8Array(4096).fill(2))
  })

  // CUDA itself reads so little at the call where the stream is idle: docs/internals/cuda-facts.md.
  test('N1 a small copy reads pinned memory after what the null stream puts in front of it', async () => {
    const handle = bench.foreignStream(device, { nonBlocking: false })
    using foreign = new ExternalStream(handle, { device })
    using blocking = bench.stream({ nonBlocking: false })
    const { defaultStream } = device
    const pairs: readonly (readonly [Stream, Stream])[] = [
      [defaultStream, blocking],
      [defaultStream, foreign],
      [defaultStream, device.run(() => Stream.perThread)],
      [blocking, defaultStream],
      [foreign, defaultStream],
    ]
    for (const [before, stream] of pairs) {
      for (const byteLength of [16, 24 * 1024]) {
        using buffer = device.alloc(byteLength)
        using pinned = device.allocPinned(byteLength)
        pinned.bytes.fill(0)
        await device.finished()
        before.launchHostFunc(() => pinned.bytes.fill(7))
        stream.copy(buffer, pinned)
        assertSame(await stream.download(buffer), new Uint8Array(byteLength).fill(7))
      }
    }
    foreign.close()
    bench.destroyForeignStream(handle)
  })

  test('T2 fill writes bytes, half words and words', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(16)
    assert.equal(stream.fill(buffer, 0xab), stream)
    assertSame(await stream.download(buffer), new Uint8Array(16).fill(0xab))
    stream.fill(buffer, -2, { width: 2 })
    assert.deepEqual(new Int16Array((await stream.download(buffer)).buffer), new Int16Array(8).fill(-2))
    stream.fill(buffer.subarray(4, 12), 0xdeadbeef, { width: 4 })
    const words = new Uint32Array((await stream.download(buffer)).buffer)
    assert.deepEqual([...words], [0xfffefffe, 0xdeadbeef, 0xdeadbeef, 0xfffefffe])
    using pinned = device.allocPinned(8)
    stream.fill(pinned, 1)
    await stream.finished()
    assertSame(pinned.bytes, new Uint8Array(8).fill(1))
  })

  test('T2 fill writes integers by their types, and refuses those beyond', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(8)
    for (const [type, array, least, most] of [
      ['i32', Int32Array, -(2 ** 31), 2 ** 31 - 1],
      ['u32', Uint32Array, 0, 2 ** 32 - 1],
      ['i16', Int16Array, -(2 ** 15), 2 ** 15 - 1],
      ['u16', Uint16Array, 0, 2 ** 16 - 1],
      ['i8', Int8Array, -128, 127],
      ['u8', Uint8Array, 0, 255],
    ] as const) {
      for (const value of [least, most, 1]) {
        stream.fill(buffer, value, { type })
        const got = await stream.download<Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array>(
          buffer,
          array,
        )
        assert.deepEqual(new Set(got), new Set([value]), type)
      }
      for (const beyond of [least - 1, most + 1]) {
        refused(() => stream.fill(buffer, beyond, { type }), 'ERR_OUT_OF_RANGE', new RegExp(`'${type}'`))
      }
      refused(() => stream.fill(buffer, 0.5, { type }), 'ERR_INVALID_ARG_TYPE')
      refused(() => stream.fill(buffer, 1, { type, width: 1 }), 'ERR_INVALID_ARG_VALUE', /exclude/)
    }
    for (const type of ['i64', 'u64', 'f64']) {
      refused(() => stream.fill(buffer, 1, { type: type as never }), 'ERR_UNSUPPORTED', new RegExp(type))
    }
  })

  for (const byteLength of [64, 24 * MIB]) {
    test(`T5 a signal gives up the download of ${byteLength} bytes, and its array is not written any more`, async () => {
      using stream = bench.stream()
      using buffer = device.alloc(byteLength)
      stream.fill(buffer, 7)
      const reason = new Error('enough')
      const latch = bench.latch(stream)
      const into = new Uint8Array(byteLength)
      const stops = new AbortController()
      const given = [
        stream.download(buffer, into, { signal: stops.signal }),
        stream.download(buffer, Uint16Array, { signal: stops.signal }),
        stream.download(buffer, { signal: stops.signal }),
      ]
      const kept = stream.download(buffer, { signal: new AbortController().signal })
      stops.abort(reason)
      for (const each of given) await assert.rejects(each, reason)
      await assert.rejects(stream.download(buffer, { signal: AbortSignal.abort(reason) }), reason)
      latch.open()
      assertSame(await kept, new Uint8Array(byteLength).fill(7))
      await stream.finished()
      assertSame(into, new Uint8Array(byteLength))
    })
  }

  test('T5 options of a download are checked', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(8)
    for (const signal of ['x', 1, null, {}] as never[]) {
      await rejected(() => stream.download(buffer, { signal }), 'ERR_INVALID_ARG_TYPE', /signal/)
      await rejected(() => stream.download(buffer, Uint8Array, { signal }), 'ERR_INVALID_ARG_TYPE', /signal/)
    }
    await rejected(() => stream.download(buffer, { sginal: 1 } as never), 'ERR_INVALID_ARG_VALUE', /sginal/)
    await rejected(() => stream.download(buffer, Uint8Array, 1 as never), 'ERR_INVALID_ARG_TYPE', /options/)
  })

  test('T2 fill writes floats of 4 and 2 bytes, also in a graph', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(16)
    for (const value of [1.5, -0, 1e-40, Number.POSITIVE_INFINITY, Number.NaN]) {
      stream.fill(buffer, value, { type: 'f32' })
      assert.deepEqual(await stream.download(buffer, Float32Array), new Float32Array(4).fill(value))
    }
    for (const [value, type, bits] of [
      [1.5, 'f16', 0x3e00],
      [-2, 'f16', 0xc000],
      [1.5, 'bf16', 0x3fc0],
      [-(2 ** 100), 'bf16', 0xf180],
    ] as const) {
      stream.fill(buffer, value, { type })
      assert.deepEqual(await stream.download(buffer, Uint16Array), new Uint16Array(8).fill(bits))
    }
    using graph = stream.capture(() => void stream.fill(buffer, 1.5, { type: 'f32' }))
    using exec = graph.instantiate()
    const [node] = graph.nodes
    assert.ok(node?.kind === 'fill')
    exec.update(node, buffer, 0.25, { type: 'f32' }).launch(stream)
    assert.deepEqual(await stream.download(buffer, Float32Array), new Float32Array(4).fill(0.25))
  })

  test('T2 a float that no fill can write is refused, with the way out', () => {
    using stream = bench.stream()
    using buffer = device.alloc(16)
    const fill = (value: unknown, options?: object): unknown => stream.fill(buffer, value as number, options)
    refused(() => fill(1.5), 'ERR_INVALID_ARG_TYPE', /an integer, not 1.5: .*fill\(buffer, 1\.5, \{ type: 'f32' \}\)/)
    refused(() => fill(1.5, { type: 'f64' }), 'ERR_UNSUPPORTED', /at most 4 bytes: upload an array, or launch a kernel/)
    refused(
      () => fill(1.5, { type: 'tf32' }),
      'ERR_INVALID_ARG_VALUE',
      /options\.type must be 'f32', 'f16', 'bf16', 'i32'/,
    )
    refused(() => fill(1.5, { type: 'i32' }), 'ERR_INVALID_ARG_TYPE', /an integer, not 1.5/)
    refused(() => fill(1.5, { type: 'f32', width: 4 }), 'ERR_INVALID_ARG_VALUE', /exclude each other/)
    refused(() => fill('1', { type: 'f32' }), 'ERR_INVALID_ARG_TYPE', /value must be a number/)
    refused(() => fill(1e39, { type: 'f32' }), 'ERR_OUT_OF_RANGE', /one that 'f32' can represent, or Infinity/)
    refused(() => fill(70_000, { type: 'f16' }), 'ERR_OUT_OF_RANGE', /'f16'/)
    const odd = (): unknown => stream.fill(buffer.subarray(2, 10), 1, { type: 'f32' })
    refused(odd, 'ERR_INVALID_ARG_VALUE', /no whole number of values of 4 bytes, or begins in the middle/)
  })

  test('T4 bufferFrom makes a buffer of the array as it is at the call', async () => {
    using stream = bench.stream()
    const array = Float32Array.of(1, 2, 3)
    using buffer = stream.bufferFrom(array)
    array.fill(0)
    assert.equal(buffer.byteLength, 12)
    assert.equal(buffer.device, stream.device)
    assert.deepEqual(await stream.download(buffer, Float32Array), Float32Array.of(1, 2, 3))
    for (const same of [
      new DataView(new ArrayBuffer(8)),
      new SharedArrayBuffer(8),
      Buffer.alloc(8),
      new ArrayBuffer(8),
    ]) {
      using made = stream.bufferFrom(same)
      assertSame(await stream.download(made), new Uint8Array(8))
    }
    // Freed in the order of the stream, behind the upload.
    stream.bufferFrom(new Uint8Array(100)).close()
    await stream.finished()
  })

  test('T4 bufferFrom refuses what cannot be uploaded, and keeps no memory', async () => {
    using stream = bench.stream()
    const { used } = device.memoryPool
    refused(
      () => stream.bufferFrom([1, 2] as never),
      'ERR_INVALID_ARG_TYPE',
      /^source must be a typed array, .* not \[ 1, 2 \]: an array of numbers has no type: Float32Array.from\(numbers\)/,
    )
    const gone = new Uint8Array(4)
    structuredClone(gone.buffer, { transfer: [gone.buffer] })
    refused(() => stream.bufferFrom(gone), 'ERR_INVALID_ARG_VALUE', /detached/)
    stream.beginCapture()
    refused(() => stream.bufferFrom(new Uint8Array(4)), 'ERR_UNSUPPORTED')
    stream.endCapture().close()
    const closed = bench.stream()
    closed.close()
    refused(() => closed.bufferFrom(new Uint8Array(4)), 'ERR_CLOSED')
    await stream.finished()
    assert.equal(device.memoryPool.used, used)
  })

  test('T3 what does not fit is refused before anything is queued', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(16)
    using small = device.allocPinned(8)
    using latch = bench.latch(stream)
    const event = stream.record()
    refused(() => stream.copy(buffer, small), 'ERR_OUT_OF_RANGE', /16 bytes/)
    refused(() => stream.copy(small, buffer), 'ERR_OUT_OF_RANGE', /8 bytes/)
    refused(() => stream.copy(buffer, {} as never), 'ERR_INVALID_ARG_TYPE', /source/)
    refused(() => stream.copy(new Uint8Array(16) as never, buffer), 'ERR_INVALID_ARG_TYPE', /destination/)
    refused(() => stream.fill(buffer, 256), 'ERR_OUT_OF_RANGE', /value/)
    refused(() => stream.fill(buffer, -129), 'ERR_OUT_OF_RANGE', /value/)
    refused(() => stream.fill(buffer, 2 ** 32, { width: 4 }), 'ERR_OUT_OF_RANGE', /value/)
    refused(() => stream.fill(buffer, 0.5), 'ERR_INVALID_ARG_TYPE', /value/)
    refused(() => stream.fill(buffer, 0, { width: 3 as never }), 'ERR_INVALID_ARG_VALUE', /width/)
    refused(() => stream.fill(buffer.subarray(0, 6), 0, { width: 4 }), 'ERR_INVALID_ARG_VALUE', /4 bytes/)
    refused(() => stream.fill(buffer.subarray(1, 5), 0, { width: 4 }), 'ERR_INVALID_ARG_VALUE', /4 bytes/)
    refused(() => stream.upload(buffer, new Uint8Array(15)), 'ERR_OUT_OF_RANGE', /16 bytes/)
    refused(() => stream.upload(buffer, 'x' as never), 'ERR_INVALID_ARG_TYPE', /source/)
    refused(() => stream.downloader(buffer, { chunkBytes: 0 }), 'ERR_OUT_OF_RANGE', /chunkBytes/)
    await rejected(() => stream.download('x' as never), 'ERR_INVALID_ARG_TYPE', /buffer/)
    latch.open()
    await stream.finished()
    assert.equal(event.query(), true)
  })

  test('T4 upload takes every kind of array, which may be reused at once', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(32)
    const floats = Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8])
    using latch = bench.latch(stream)
    const staged = stream.upload(buffer, floats)
    floats.fill(0)
    const download = stream.download(buffer)
    latch.open()
    await staged
    assert.deepEqual([...new Float32Array((await download).buffer)], [1, 2, 3, 4, 5, 6, 7, 8])
    const whole = pattern(32).slice().buffer
    const kinds: Bytes[] = [whole, new DataView(whole), Buffer.from(whole), new BigInt64Array(whole)]
    for (const source of kinds) {
      stream.fill(buffer, 0)
      stream.upload(buffer, source)
      assertSame(await stream.download(buffer), pattern(32))
    }
  })

  test('T5 uploads and downloads larger than the ring keep the order of the stream', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(40 * MIB + 123)
    const source = pattern(buffer.byteLength)
    using latch = bench.latch(stream)
    const staged = stream.upload(buffer, source)
    const first = stream.download(buffer)
    stream.fill(buffer, 0x11)
    const second = stream.download(buffer.subarray(MIB, 31 * MIB))
    source.fill(0)
    const progress = follow(staged)
    await turns()
    assert.equal(progress.settled, false)
    latch.open()
    await staged
    assertSame(await first, pattern(buffer.byteLength))
    assertSame(await second, new Uint8Array(30 * MIB).fill(0x11))
  })

  test('T5 a ring that JavaScript does not empty is not written over', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(32 * MIB)
    await stream.upload(buffer, pattern(buffer.byteLength))
    await stream.finished()
    const download = stream.download(buffer)
    // Time passes, on the GPU too, but the event loop does not turn, and a query runs no host function.
    for (let left = 50_000; left > 0; left -= 1) other.query()
    assertSame(await download, pattern(buffer.byteLength))
  })

  test('T5 a stream that stands still holds up no other stream', async () => {
    using still = bench.stream()
    using stream = bench.stream()
    using large = device.alloc(24 * MIB)
    using small = device.alloc(1000)
    using latch = bench.latch(still)
    const held = [still.upload(large, new Uint8Array(24 * MIB)), still.download(large)]
    stream.upload(small, pattern(1000))
    assertSame(await stream.download(small), pattern(1000))
    latch.open()
    await Promise.all(held)
  })

  test('T5 a blocking wait passes large uploads on', () => {
    using stream = bench.stream()
    using buffer = device.alloc(24 * MIB)
    using pinned = device.allocPinned(24 * MIB)
    stream.upload(buffer, pattern(24 * MIB))
    stream.copy(pinned, buffer)
    stream.synchronize()
    assertSame(pinned.bytes, pattern(24 * MIB))
  })

  test('T5 many small uploads and downloads', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(1000 * 16)
    for (let at = 0; at < 1000; at += 1) stream.upload(buffer.subarray(at * 16, (at + 1) * 16), pattern(16, at))
    const parts = await Promise.all(
      Array.from({ length: 100 }, (_, at) => stream.download(buffer.subarray(at * 160, (at + 1) * 160))),
    )
    for (const [at, part] of parts.entries()) assertSame(part.subarray(0, 16), pattern(16, at * 10))
  })

  test('T6 64 MiB through web streams and back, and the event loop turns meanwhile', async (context) => {
    using stream = bench.stream()
    using buffer = device.alloc(64 * MIB)
    const source = pattern(64 * MIB)
    let at = 0
    const readable = new ReadableStream<Bytes>({
      pull(controller) {
        const length = Math.min(1_000_003, source.length - at)
        controller.enqueue(source.subarray(at, at + length))
        at += length
        if (at === source.length) controller.close()
      },
    })
    await stream.fill(buffer, 0).finished()
    const watch = watchLoop()
    const start = performance.now()
    await readable.pipeTo(stream.uploader(buffer))
    const result = new Uint8Array(source.length)
    let filled = 0
    const writable = new WritableStream<Uint8Array>({
      write(chunk) {
        assert.ok(chunk.length <= 3_000_000)
        result.set(chunk, filled)
        filled += chunk.length
      },
    })
    await stream.downloader(buffer, { chunkBytes: 3_000_000 }).pipeTo(writable)
    const took = performance.now() - start
    context.diagnostic(`${took.toFixed(0)} ms; longest pause of the event loop ${watch.stop().toFixed(1)} ms`)
    assertSame(result, source)
  })

  test('T6 a file is piped to the GPU and back', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(9 * MIB + 1)
    const folder = await mkdtemp(join(tmpdir(), 'cuda-streams-'))
    try {
      const [from, to] = [join(folder, 'from'), join(folder, 'to')]
      await writeFile(from, pattern(buffer.byteLength))
      await (Readable.toWeb(createReadStream(from)) as WebReadable<Uint8Array>).pipeTo(stream.uploader(buffer))
      await stream.downloader(buffer).pipeTo(Writable.toWeb(createWriteStream(to)))
      assertSame(await readFile(to), pattern(buffer.byteLength))
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('T6 a chunk is downloaded when it is read, and none ahead: it has what the buffer holds then', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(30)
    stream.fill(buffer, 1)
    const reader = stream.downloader(buffer, { chunkBytes: 10 }).getReader()
    const bytesOf = async (): Promise<readonly number[]> => [...new Set((await reader.read()).value)]
    await turns()
    stream.fill(buffer, 2)
    assert.deepEqual(await bytesOf(), [2])
    await turns()
    stream.fill(buffer, 3)
    assert.deepEqual(await bytesOf(), [3])
    await turns()
    stream.fill(buffer, 4)
    const last = bytesOf()
    stream.fill(buffer, 5)
    assert.deepEqual(await last, [4])
    assert.equal((await reader.read()).done, true)
  })

  test('T7 a buffer that is closed in the middle of a pipe ends it with ERR_CLOSED', async () => {
    using stream = bench.stream()
    const buffer = device.alloc(100)
    const reader = stream.downloader(buffer, { chunkBytes: 10 }).getReader()
    const writer = stream.uploader(buffer).getWriter()
    writer.closed.catch(() => {})
    assert.equal((await reader.read()).value?.length, 10)
    await writer.write(new Uint8Array(10))
    buffer.close()
    await rejected(() => writer.write(new Uint8Array(10)), 'ERR_CLOSED', /DeviceBuffer/)
    await rejected(
      async () => {
        while (!(await reader.read()).done);
      },
      'ERR_CLOSED',
      /DeviceBuffer/,
    )
  })

  test('T3 a closed stream is ERR_CLOSED', async () => {
    const stream = bench.stream()
    using buffer = device.alloc(8)
    using pinned = device.allocPinned(8)
    stream.close()
    refused(() => stream.copy(buffer, pinned), 'ERR_CLOSED', /Stream\(/)
    refused(() => stream.fill(buffer, 0), 'ERR_CLOSED', /Stream\(/)
    refused(() => stream.upload(buffer, new Uint8Array(8)), 'ERR_CLOSED', /Stream\(/)
    refused(() => stream.uploader(buffer), 'ERR_CLOSED', /Stream\(/)
    refused(() => stream.downloader(buffer), 'ERR_CLOSED', /Stream\(/)
    await rejected(() => stream.download(buffer), 'ERR_CLOSED', /Stream\(/)
  })

  test('T5 the null stream and host functions transfer as any', async () => {
    const stream = device.defaultStream
    using own = bench.stream()
    using buffer = device.alloc(64)
    const seen: number[] = []
    using pinned = device.allocPinned(64)
    own.launchHostFunc(() => {
      pinned.bytes.fill(3)
      stream.copy(buffer, pinned)
    })
    await own.finished()
    own.wait(stream).launchHostFunc(() => seen.push(pinned.bytes[0] ?? 0))
    assertSame(await stream.download(buffer), new Uint8Array(64).fill(3))
    await own.finished()
    assert.deepEqual(seen, [3])
  })

  test('T9 download makes an array of each constructor, over memory of its own', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(64)
    using pinned = device.allocPinned(64)
    class Samples extends Float32Array {}
    const types: readonly ViewConstructor<ArrayBufferView>[] = [...TYPED_ARRAYS, Samples]
    stream.upload(buffer, pattern(64))
    stream.copy(pinned, buffer)
    for (const source of [buffer, pinned, buffer.subarray(0, 64)]) {
      for (const type of types) {
        const array = await stream.download(source, type)
        assert.ok(array instanceof type, type.name)
        assert.ok(array.buffer instanceof ArrayBuffer)
        assert.deepEqual([array.byteOffset, array.buffer.byteLength], [0, 64], type.name)
        assertSame(bytesIn(array), pattern(64))
      }
    }
    assert.equal((await stream.download(buffer.subarray(8, 8), Float64Array)).length, 0)
    assert.equal((await stream.download(buffer, undefined as never)) instanceof Uint8Array, true)
  })

  test('T9 download fills the array that it is given, and resolves with it', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(64)
    stream.upload(buffer, pattern(64))
    const within = new Uint8Array(128).fill(9)
    const arrays: readonly Bytes[] = [
      ...TYPED_ARRAYS.map((type) => new type(new ArrayBuffer(64), 0, 64 / type.BYTES_PER_ELEMENT)),
      new DataView(new ArrayBuffer(64)),
      new ArrayBuffer(64),
      new SharedArrayBuffer(64),
      new Int32Array(new SharedArrayBuffer(64)),
      Buffer.alloc(64),
      within.subarray(32, 96),
      new DataView(within.buffer, 32, 64),
      resizable(64),
      new Uint16Array(resizable(64)),
      device.allocPinned(64).view(Float32Array),
    ]
    for (const into of arrays) {
      assert.equal(await stream.download(buffer, into), into)
      assertSame(bytesIn(into), pattern(64))
    }
    assert.deepEqual([...within.subarray(0, 32), ...within.subarray(96)], Array(64).fill(9), 'what lies beside')
    const none = new Float32Array(0)
    assert.equal(await stream.download(buffer.subarray(0, 0), none), none)
  })

  test('T9 an array that the bytes do not fit is refused before anything is queued', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(20)
    const detached = new Uint8Array(20)
    structuredClone(detached.buffer, { transfer: [detached.buffer] })
    const far = new Uint8Array(resizable(20), 4, 8)
    const shrunk = far.buffer as Resizable
    shrunk.resize(4)
    using latch = bench.latch(stream)
    const event = stream.record()
    const wrong: readonly (readonly [unknown, code: string, says: RegExp])[] = [
      [new Uint8Array(19), 'ERR_OUT_OF_RANGE', /into must be 20 bytes long, as the buffer is .*, not 19/],
      [new Float32Array(6), 'ERR_OUT_OF_RANGE', /not 24/],
      [new SharedArrayBuffer(0), 'ERR_OUT_OF_RANGE', /not 0/],
      [far, 'ERR_INVALID_ARG_VALUE', /shortened/],
      [Float64Array, 'ERR_INVALID_ARG_VALUE', /no whole number of elements of 8 bytes/],
      [detached, 'ERR_INVALID_ARG_VALUE', /detached/],
      [detached.buffer, 'ERR_INVALID_ARG_VALUE', /detached/],
      [DataView, 'ERR_INVALID_ARG_TYPE', /a constructor of typed arrays such as Float32Array/],
      [Array, 'ERR_INVALID_ARG_TYPE', /a constructor of typed arrays/],
      [() => new Uint8Array(20), 'ERR_INVALID_ARG_TYPE', /a constructor of typed arrays/],
      [Object.assign(() => {}, { BYTES_PER_ELEMENT: 1 }), 'ERR_INVALID_ARG_TYPE', /a constructor of typed arrays/],
      [null, 'ERR_INVALID_ARG_TYPE', /an array to fill, or a constructor such as Float32Array, not null/],
      [[], 'ERR_INVALID_ARG_TYPE', /an array to fill/],
      [{ type: Float32Array }, 'ERR_INVALID_ARG_VALUE', /unknown option 'type'.*'signal'/],
      [new Date(0), 'ERR_INVALID_ARG_TYPE', /an array to fill/],
      [buffer, 'ERR_INVALID_ARG_TYPE', /an array to fill/],
      ['f32', 'ERR_INVALID_ARG_TYPE', /an array to fill/],
    ]
    for (const [into, code, says] of wrong) await rejected(() => stream.download(buffer, into as never), code, says)
    latch.open()
    await stream.finished()
    assert.equal(event.query(), true)
  })

  test('T9 a constructor that makes another array, or closes what the download uses, does no harm', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(16)
    const closed = device.alloc(16)
    stream.fill(buffer, 3)
    const making = (make: (...given: ConstructorParameters<typeof Uint8Array>) => unknown): never =>
      class extends Uint8Array {
        constructor(...given: ConstructorParameters<typeof Uint8Array>) {
          super(0)
          // biome-ignore lint/correctness/noConstructorReturn: a program may do so
          return make(...given) as never
        }
      } as never
    const longer = making(() => new Uint8Array(17))
    await rejected(() => stream.download(buffer, longer), 'ERR_OUT_OF_RANGE', /not 17/)
    await rejected(
      () =>
        stream.download(
          buffer,
          making(() => ({})),
        ),
      'ERR_INVALID_ARG_TYPE',
      /constructor/,
    )
    const own = new Float32Array(4)
    assert.equal(
      await stream.download(
        buffer,
        making(() => own),
      ),
      own,
    )
    assertSame(bytesIn(own), new Uint8Array(16).fill(3))
    const closing = (what: Disposable): never =>
      making((...given) => {
        what[Symbol.dispose]()
        return new Uint8Array(...given)
      })
    await rejected(() => stream.download(closed, closing(closed)), 'ERR_CLOSED')
    await rejected(() => other.download(buffer, closing(other)), 'ERR_CLOSED')
  })

  test('T9 an array that is lost or shortened during its download is left alone, and the promise rejects', async () => {
    for (const byteLength of [64, 20 * MIB]) {
      using buffer = device.alloc(byteLength)
      using stream = bench.stream()
      stream.fill(buffer, 7)
      const losses: Readonly<Record<string, (memory: Resizable) => void>> = {
        transferred: (memory) => void structuredClone(memory, { transfer: [memory] }),
        shortened: (memory) => memory.resize(byteLength - 1),
        emptied: (memory) => memory.resize(0),
      }
      const kinds: readonly ((memory: Resizable) => Bytes)[] = [
        (memory) => memory,
        (memory) => new Uint8Array(memory),
        (memory) => new DataView(memory, 0, byteLength),
      ]
      for (const [how, lose] of Object.entries(losses)) {
        for (const kind of kinds) {
          const memory = resizable(byteLength)
          using latch = bench.latch(stream)
          const download = stream.download(buffer, kind(memory))
          lose(memory)
          latch.open()
          await rejected(() => download, 'ERR_INVALID_ARG_VALUE', /detached or shortened/)
          if (memory.byteLength > 0) assert.equal(new Uint8Array(memory).indexOf(7), -1, how)
        }
      }
      const pinned = device.allocPinned(byteLength)
      using latch = bench.latch(stream)
      const download = stream.download(buffer, pinned.bytes)
      pinned.close()
      latch.open()
      await rejected(() => download, 'ERR_INVALID_ARG_VALUE', /detached or shortened/)
      const grown = resizable(byteLength, byteLength + 8)
      const whole = stream.download(buffer, new Uint8Array(grown, 0, byteLength))
      grown.resize(byteLength + 8)
      assertSame(await whole, new Uint8Array(byteLength).fill(7))
      assertSame(new Uint8Array(grown, byteLength), new Uint8Array(8))
    }
  })

  test('T9 of two downloads of one stream to one array the later one stays', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(20 * MIB)
    const into = new Uint8Array(20 * MIB)
    stream.fill(buffer, 1)
    const first = stream.download(buffer, into)
    stream.fill(buffer, 2)
    const second = stream.download(buffer, into)
    assert.deepEqual([await first, await second], [into, into])
    assertSame(into, new Uint8Array(20 * MIB).fill(2))
  })

  test('T3 an array whose bytes are elsewhere is refused', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(8)
    const bytes = new Uint8Array(8)
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
    refused(() => stream.upload(buffer, bytes), 'ERR_INVALID_ARG_VALUE', /detached/)
    const view = new DataView(new ArrayBuffer(8))
    structuredClone(view.buffer, { transfer: [view.buffer] })
    const wrong: readonly [unknown, string][] = [
      [view, 'ERR_INVALID_ARG_VALUE'],
      ['text', 'ERR_INVALID_ARG_TYPE'],
      [{ byteLength: -1 }, 'ERR_INVALID_ARG_TYPE'],
    ]
    for (const [chunk, code] of wrong) {
      const writer = stream.uploader(buffer).getWriter()
      writer.closed.catch(() => {})
      await rejected(() => writer.write(chunk as DataView), code, /The chunk/)
    }
  })

  test('T3 an array that gets shorter while its upload waits for room is refused, and nothing of that is queued', async () => {
    const sources: readonly ((bytes: ArrayBuffer) => Bytes)[] = [(bytes) => bytes, (bytes) => new Uint8Array(bytes)]
    for (const sourceOf of sources) {
      using stream = bench.stream()
      using buffer = device.alloc(64, { stream })
      const bytes = resizable(64)
      new Uint8Array(bytes).fill(5)
      const source = sourceOf(bytes)
      stream.launchHostFunc(() => bytes.resize(16))
      const uploads: Promise<void>[] = []
      const untilFull = (): void => {
        for (let left = 2500; left > 0; left -= 1) uploads.push(stream.upload(buffer, source))
      }
      refused(untilFull, 'ERR_INVALID_ARG_VALUE', /shortened/)
      await Promise.all(uploads)
      assertSame(await stream.download(buffer), new Uint8Array(64).fill(5))
    }
  })

  test('T6 an uploader takes no more than there is room for, and less', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(10)
    stream.fill(buffer, 9)
    const writer = stream.uploader(buffer).getWriter()
    await writer.write(Uint8Array.of(1, 2, 3))
    await writer.write(Uint8Array.of(4))
    await writer.close()
    assert.deepEqual([...(await stream.download(buffer))], [1, 2, 3, 4, 9, 9, 9, 9, 9, 9])
    const second = stream.uploader(buffer).getWriter()
    second.closed.catch(() => {})
    await rejected(() => second.write(new Uint8Array(11)), 'ERR_OUT_OF_RANGE', /10/)
  })

  test('T8 nothing that is staged can be captured', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(8)
    using pinned = device.allocPinned(8)
    const capture = beginCapture(stream, 1)
    try {
      refused(() => stream.upload(buffer, new Uint8Array(8)), 'ERR_UNSUPPORTED', /captured/)
      await rejected(() => stream.download(buffer), 'ERR_UNSUPPORTED', /captured/)
      stream.copy(pinned, buffer).fill(buffer, 1)
      assert.equal(stream.isCapturing, true)
    } finally {
      endQuietly(stream, capture)
    }
    await stream.finished()
  })

  test('T8 transfers of others invalidate no capture', async () => {
    using capturing = bench.stream()
    using stream = bench.stream()
    using buffer = device.alloc(20 * MIB)
    const capture = beginCapture(capturing, 0)
    try {
      stream.upload(buffer, pattern(20 * MIB))
      assertSame(await stream.download(buffer), pattern(20 * MIB))
      device.allocPinned(100).close()
      assert.notEqual(capture.end(), 0n)
    } finally {
      endQuietly(capturing, capture)
    }
  })
})

test('V1 a missing wait shows as wrong bytes', async () => {
  const run = async (waits: boolean): Promise<Uint8Array> => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using writer = new Stream({ device })
    using reader = new Stream({ device })
    using buffer = device.alloc(MIB)
    using pinned = device.allocPinned(MIB)
    using result = device.allocPinned(MIB)
    await writer.fill(buffer, 0).finished()
    pinned.bytes.set(pattern(MIB))
    for (let round = 0; round < 10; round += 1) writer.copy(buffer, pinned)
    writer.fill(buffer, 0x55)
    if (waits) reader.wait(writer)
    reader.copy(result, buffer)
    await reader.finished()
    const bytes = result.bytes.slice()
    await writer.finished()
    return bytes
  }
  assertSame(await run(true), new Uint8Array(MIB).fill(0x55))
  assert.notEqual(Buffer.compare(await run(false), new Uint8Array(MIB).fill(0x55)), 0)
})

test('V2 freed memory that another stream still reads is poison', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using stream = new Stream({ device })
  using other = new Stream({ device })
  const buffer = device.alloc(64, { stream })
  stream.fill(buffer, 1)
  await stream.finished()
  using alias = DeviceBuffer.from(buffer.pointer, 64, { device })
  buffer.close()
  assert.deepEqual([...(await other.download(alias))], Array(64).fill(0xdd))
})

test('T7 a fault rejects what is under way', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using stream = new Stream({ device })
  using other = new Stream({ device })
  const buffer = device.alloc(20 * MIB)
  const pinned = device.allocPinned(8)
  latch(stream)
  const staged = stream.upload(buffer, new Uint8Array(20 * MIB))
  const download = stream.download(buffer)
  stream.copy(pinned, buffer.subarray(0, 8))
  fault(other)
  await assert.rejects(staged, { number: 700, call: 'cuMemcpyAsync' })
  await assert.rejects(download, { number: 700 })
  assert.throws(() => stream.fill(buffer, 1), { number: 700 })
  assert.throws(() => device.alloc(1), { number: 700 })
  buffer.close()
  pinned.close()
  assert.equal(pinned.closed, true)
})

test('V3 a device has as much memory as was asked for, and what is freed can be had again', async () => {
  using simulation = simulate({ devices: 2, memory: 141e9 })
  const [device, second] = simulation.devices
  assert.ok(device && second)
  const large = device.alloc(100e9)
  assert.throws(() => device.alloc(50e9), { code: 'CUDA_ERROR_OUT_OF_MEMORY' })
  second.alloc(140e9).close()
  large.close()
  using again = device.alloc(140e9)
  assert.equal(again.byteLength, 140e9)
})

test('V3 one copy engine each way, 50 GB/s', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const streams = [0, 1, 2].map(() => new Stream({ device }))
  const buffers = streams.map(() => device.alloc(MIB))
  const pinned = streams.map(() => device.allocPinned(MIB))
  const start = simulation.now
  for (const [at, stream] of streams.entries()) {
    const [buffer, host] = [buffers[at], pinned[at]]
    assert.ok(buffer && host)
    if (at < 2) stream.copy(buffer, host)
    else stream.copy(host, buffer)
  }
  await device.finished()
  const copies = (simulation.now - start) / (MIB / 50)
  assert.ok(copies > 1.9 && copies < 2.3, `${copies} copies one after the other`)
})
