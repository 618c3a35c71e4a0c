/** JPEG files: what they decode to and are encoded as, in the order of which other work, and what is refused. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DeviceBuffer } from 'cuda-streams'
import { JpegCodec, LibraryError, readJpegInfo } from 'cuda-streams/nvjpeg'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { Timeline } from 'cuda-streams/timeline'
import { jpegJs } from '../../../src/libraries/nvjpeg/host-jpeg.js'
import { insideHostFunction, refused, rejected } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench } from '../../helpers/workbench.js'
import { lackOf } from '../about-library.js'
import { FILES, HEIGHT, PIXELS, WIDTH } from './files.js'

const SIZE = WIDTH * HEIGHT

/** How far decoders may differ by rounding. */
const ROUNDING = 3

function assertNear(got: Uint8Array, expected: ArrayLike<number>, allowed: number, what = ''): void {
  assert.equal(got.length, expected.length, what)
  for (const [index, value] of got.entries())
    assert.ok(Math.abs(value - (expected[index] ?? 0)) <= allowed, `${what} ${index}: ${value}, not ${expected[index]}`)
}

/** The numbers of RGB pixels in another order. */
const reordered = (pixels: Uint8Array, where: (pixel: number, channel: number) => number): Uint8Array => {
  const other = new Uint8Array(pixels.length)
  for (const [index, value] of pixels.entries()) other[where(Math.floor(index / 3), index % 3)] = value
  return other
}

/** A gray file whose every block takes the least bits that a code can have: one for its mean, and one for the end of the block. */
function least(width: number, height: number): Uint8Array {
  const segment = (marker: number, ...bytes: readonly number[]): readonly number[] => [
    ...[0xff, marker, (bytes.length + 2) >> 8, (bytes.length + 2) & 255],
    ...bytes,
  ]
  const oneCode = [1, ...Array<number>(15).fill(0), 0]
  const blocks = Math.ceil(width / 8) * Math.ceil(height / 8)
  return Uint8Array.from([
    ...[0xff, 0xd8],
    ...segment(0xdb, 0, ...Array<number>(64).fill(1)),
    ...segment(0xc0, 8, height >> 8, height & 255, width >> 8, width & 255, 1, 1, 0x11, 0),
    ...segment(0xc4, 0x00, ...oneCode, 0x10, ...oneCode),
    ...segment(0xda, 1, 1, 0, 0, 63, 0),
    ...Array<number>(Math.ceil((2 * blocks) / 8)).fill(0),
    ...[0xff, 0xd9],
  ])
}

describe('JPEG files', () => {
  onEveryBackend('on a device', async (bench) => {
    const { device } = bench
    const lack = await lackOf(() => new JpegCodec({ device }).close())
    const skip = lack ?? false

    for (const name of ['baseline', 'progressive', 'sampled', 'gray'] as const) {
      it(`${name}: the pixels are those of libjpeg-turbo, but for rounding`, { skip }, async () => {
        const stream = bench.stream()
        using codec = new JpegCodec({ device })
        const image = codec.decode(stream, FILES[name], { format: name === 'gray' ? 'gray' : 'rgb' })
        assertNear(await stream.download(image.buffer), PIXELS[name], ROUNDING)
        image.buffer.close()
        stream.close()
      })
    }

    it('a large image of one colour, in the fewest bytes that it can have', { skip }, async () => {
      const stream = bench.stream()
      using codec = new JpegCodec({ device })
      const image = codec.decode(stream, least(2048, 1024), { format: 'gray' })
      assert.deepEqual(new Set(await stream.download(image.buffer)), new Set([128]))
      image.buffer.close()
      stream.close()
    })

    it('formats and layouts: bgr, planar, and gray of colours', { skip }, async () => {
      const stream = bench.stream()
      using codec = new JpegCodec({ device })
      const rgb = PIXELS.baseline
      const pixelsOf = async (options: Parameters<JpegCodec['decode']>[2]): Promise<Uint8Array> => {
        const { buffer } = codec.decode(stream, FILES.baseline, options)
        const pixels = await stream.download(buffer)
        buffer.close()
        return pixels
      }
      const cases: readonly [Parameters<JpegCodec['decode']>[2], Uint8Array][] = [
        [{ format: 'bgr' }, reordered(rgb, (pixel, channel) => 3 * pixel + 2 - channel)],
        [{ layout: 'planar' }, reordered(rgb, (pixel, channel) => pixel + channel * SIZE)],
        [{ format: 'bgr', layout: 'planar' }, reordered(rgb, (pixel, channel) => pixel + (2 - channel) * SIZE)],
        [{ format: 'gray' }, PIXELS.gray],
      ]
      // The file in gray was made of other numbers before it was coded.
      for (const [options, expected] of cases)
        assertNear(
          await pixelsOf(options),
          expected,
          options?.format === 'gray' ? 6 : ROUNDING,
          JSON.stringify(options),
        )
      stream.close()
    })

    it('a batch: images of different sizes, each as it would be alone', { skip }, async () => {
      const stream = bench.stream()
      using codec = new JpegCodec({ device })
      const wide = await codec.encode(stream, filled(device.alloc(3 * 32 * 8, { stream }), 32, 8, 90))
      const images = codec.decodeBatch(stream, [FILES.baseline, wide, FILES.gray])
      assert.deepEqual(
        images.map(({ shape }) => shape),
        [
          [HEIGHT, WIDTH, 3],
          [8, 32, 3],
          [HEIGHT, WIDTH, 3],
        ],
      )
      const [one, two, three] = await Promise.all(images.map(({ buffer }) => stream.download(buffer)))
      assert.ok(one && two && three)
      assertNear(one, PIXELS.baseline, ROUNDING)
      assertNear(two, new Uint8Array(3 * 32 * 8).fill(90), ROUNDING)
      assertNear(
        three.filter((_, index) => index % 3 === 0),
        PIXELS.gray,
        ROUNDING,
      )
      for (const { buffer } of images) buffer.close()
      stream.close()

      function filled(buffer: DeviceBuffer, width: number, height: number, value: number) {
        stream.fill(buffer, value)
        return { buffer, width, height }
      }
    })

    it('what is encoded decodes to nearly the same, in each format and layout', { skip }, async () => {
      const stream = bench.stream()
      using codec = new JpegCodec({ device })
      for (const format of ['rgb', 'bgr', 'gray'] as const) {
        for (const layout of ['interleaved', 'planar'] as const) {
          const image = codec.decode(stream, FILES.baseline, { format, layout })
          const file = await codec.encode(stream, image, { quality: 100 })
          const { width, height } = readJpegInfo(file)
          assert.deepEqual([width, height], [WIDTH, HEIGHT])
          const again = codec.decode(stream, file, { format, layout })
          const [before, after] = await Promise.all([stream.download(image.buffer), stream.download(again.buffer)])
          assertNear(after, before, 5, `${format} ${layout}`)
          for (const { buffer } of [image, again]) buffer.close()
        }
      }
      stream.close()
    })

    it('decoding and encoding are work of the stream, and buffers and codec may be closed at once', {
      skip,
    }, async () => {
      const stream = bench.stream()
      const codec = new JpegCodec({ device })
      using copy = device.alloc(3 * SIZE, { stream })
      const file = new Uint8Array(FILES.baseline)
      const image = codec.decode(stream, file)
      file.fill(0)
      const encoded = codec.encode(stream, image, { quality: 100 })
      stream.copy(copy, image.buffer)
      stream.fill(image.buffer, 0)
      image.buffer.close()
      codec.close()
      assertNear(await stream.download(copy), PIXELS.baseline, ROUNDING)
      const back = new JpegCodec({ device })
      const again = back.decode(stream, await encoded)
      assertNear(await stream.download(again.buffer), PIXELS.baseline, 6)
      refused(() => codec.decode(stream, FILES.gray), 'ERR_CLOSED', /JpegCodec/)
      await rejected(() => codec.encode(stream, again), 'ERR_CLOSED', /JpegCodec/)
      again.buffer.close()
      back.close()
      stream.close()
    })
  })

  describe('on the simulator', () => {
    const bench = simWorkbench()
    const { device } = bench
    const stream = bench.stream()
    const codec = new JpegCodec({ device })

    it('the header says size, components, subsampling and coding, without a codec', () => {
      const common = { width: WIDTH, height: HEIGHT, bits: 8 }
      assert.deepEqual(readJpegInfo(FILES.baseline), {
        ...common,
        components: 3,
        subsampling: '444',
        coding: 'sequential',
        orientation: 1,
      })
      assert.equal(readJpegInfo(FILES.progressive).coding, 'progressive')
      assert.equal(readJpegInfo(FILES.sampled).subsampling, '420')
      assert.deepEqual([readJpegInfo(FILES.gray).components, readJpegInfo(FILES.gray).subsampling], [1, 'gray'])
      assert.equal(readJpegInfo(FILES.cmyk).components, 4)
      // The beginning of a file is enough.
      const scan = FILES.baseline.findIndex((byte, at) => byte === 0xff && FILES.baseline[at + 1] === 0xda)
      assert.equal(readJpegInfo(FILES.baseline.subarray(0, scan + 14)).width, WIDTH)
    })

    it('what is no JPEG file, a truncated one, and what is not decoded, is refused by its name, and nothing is queued', async () => {
      const own = bench.stream()
      const says = (file: unknown, code: string, pattern: RegExp): void => {
        refused(() => codec.decode(own, file as never), code, pattern)
        refused(() => codec.decodeBatch(own, [FILES.gray, file as never]), code, pattern, /files\[1\]/)
      }
      says('photo.jpg', 'ERR_INVALID_ARG_TYPE', /must be a Uint8Array with the bytes of a JPEG file/)
      says(new Uint8Array(), 'ERR_INVALID_ARG_VALUE', /is no JPEG file: it does not begin with ff d8/)
      says(Uint8Array.of(0x89, 0x50, 0x4e, 0x47), 'ERR_INVALID_ARG_VALUE', /is no JPEG file/)
      for (const length of [2, 3, 4, 20, 200]) {
        says(FILES.baseline.subarray(0, length), 'ERR_INVALID_ARG_VALUE', /is truncated: its header ends/)
      }
      for (const less of [1, 30]) {
        says(FILES.baseline.subarray(0, FILES.baseline.length - less), 'ERR_INVALID_ARG_VALUE', /truncated: the pixels/)
      }
      for (const name of ['baseline', 'progressive', 'sampled', 'gray'] as const) {
        const large = new Uint8Array(FILES[name])
        const at = large.findIndex((byte, index) => byte === 0xff && [0xc0, 0xc2].includes(large[index + 1] ?? 0))
        // Heights and widths in the frame: 8000 x 8000, and 20 000 x 20 000.
        for (const size of [8000, 20_000]) {
          large.set([size >> 8, size & 255, size >> 8, size & 255], at + 5)
          const claims = new RegExp(`truncated: the \\d+ bytes of its pixels cannot hold ${size} x ${size} pixels`)
          says(large, 'ERR_INVALID_ARG_VALUE', claims)
        }
      }
      says(FILES.cmyk, 'ERR_UNSUPPORTED', /has 4 components \(CMYK\).*save it as an ordinary JPEG file/)
      const frame = FILES.baseline.findIndex((byte, at) => byte === 0xff && FILES.baseline[at + 1] === 0xc0)
      const changed = (at: number, ...bytes: readonly number[]): Uint8Array => {
        const file = new Uint8Array(FILES.baseline)
        file.set(bytes, frame + at)
        return file
      }
      says(changed(1, 0xc3), 'ERR_UNSUPPORTED', /is lossless/)
      says(changed(1, 0xc5), 'ERR_UNSUPPORTED', /is hierarchical/)
      says(changed(1, 0xc9), 'ERR_UNSUPPORTED', /is arithmetic/)
      says(changed(4, 12), 'ERR_UNSUPPORTED', /has 12 bits/)
      says(changed(5, 0, 0), 'ERR_UNSUPPORTED', /behind the pixels how many rows/)
      const twice = Buffer.concat([
        FILES.baseline.subarray(0, frame),
        FILES.baseline.subarray(frame, frame + 19),
        FILES.baseline.subarray(frame),
      ])
      says(twice, 'ERR_INVALID_ARG_VALUE', /two frames/)
      says(changed(7, 0, 0), 'ERR_INVALID_ARG_VALUE', /its frame is damaged/)
      const rgb = changed(10, 0x52)
      rgb.set([0x47], frame + 13)
      rgb.set([0x42], frame + 16)
      says(rgb, 'ERR_UNSUPPORTED', /coded in RGB/)
      assert.equal(own.query(), true)
      own.close()
    })

    it('a damaged file is what nvJPEG would call it, and leaves no memory behind', async () => {
      const damaged = new Uint8Array(FILES.baseline)
      const scan = damaged.findIndex((byte, at) => byte === 0xff && damaged[at + 1] === 0xda)
      damaged.fill(0xff, scan + 14, damaged.length - 2)
      const bad = (error: unknown): boolean =>
        error instanceof LibraryError && error.code === 'NVJPEG_STATUS_BAD_JPEG' && error.number === 3
      assert.throws(() => codec.decode(stream, damaged), bad)
      assert.throws(() => codec.decodeBatch(stream, [FILES.gray, damaged]), bad)
      await stream.finished()
    })

    it('buffers, sizes, devices and options that do not fit are refused by name', async () => {
      using buffer = device.alloc(3 * SIZE, { stream })
      const image = { buffer, width: WIDTH, height: HEIGHT }
      const decode = (options: object) => () => codec.decode(stream, FILES.baseline, options)
      const short = buffer.subarray(0, 100)
      refused(decode({ into: short }), 'ERR_OUT_OF_RANGE', /options\.into must be 234 bytes.*13 x 6 pixels of rgb/)
      refused(decode({ into: {} }), 'ERR_INVALID_ARG_TYPE', /options\.into/)
      refused(decode({ format: 'rgba' }), 'ERR_INVALID_ARG_VALUE', /options\.format/)
      refused(decode({ layout: 'nchw' }), 'ERR_INVALID_ARG_VALUE', /options\.layout/)
      const batch = (into: unknown) => () =>
        codec.decodeBatch(stream, [FILES.gray, FILES.gray], { format: 'gray', into: into as never })
      refused(batch([buffer]), 'ERR_INVALID_ARG_VALUE', /1 buffers for 2 files/)
      refused(batch([buffer, buffer.subarray(SIZE - 1, SIZE - 1 + SIZE)]), 'ERR_INVALID_ARG_VALUE', /overlap/)
      refused(batch(buffer), 'ERR_INVALID_ARG_TYPE', /options\.into/)
      batch([buffer, buffer.subarray(SIZE, 2 * SIZE)])()
      assert.deepEqual(codec.decodeBatch(stream, []), [])
      const encode = (given: object, options?: object) => () => codec.encode(stream, { ...image, ...given }, options)
      await rejected(encode({ buffer: short }), 'ERR_OUT_OF_RANGE', /image\.buffer must be 234 bytes/)
      await rejected(encode({ width: 0 }), 'ERR_OUT_OF_RANGE', /image\.width/)
      await rejected(encode({ height: 65_536 }), 'ERR_OUT_OF_RANGE', /image\.height/)
      await rejected(encode({}, { quality: 101 }), 'ERR_OUT_OF_RANGE', /options\.quality/)
      await rejected(encode({}, { subsampling: 'gray' }), 'ERR_INVALID_ARG_VALUE', /options\.subsampling/)
      const [, second] = bench.devices
      assert.ok(second)
      const far = second.createStream()
      refused(() => codec.decode(far, FILES.gray), 'ERR_DEVICE_MISMATCH')
      await rejected(() => codec.encode(far, image), 'ERR_DEVICE_MISMATCH')
      refused(() => codec.decode({} as never, FILES.gray), 'ERR_INVALID_ARG_TYPE', /stream must be a Stream/)
      far.close()
    })

    it('in a capture all is refused, and the capture goes on; inside a host function it is ERR_DEADLOCK', async () => {
      using buffer = device.alloc(3 * SIZE, { stream })
      const image = { buffer, width: WIDTH, height: HEIGHT }
      const own = bench.stream()
      own.beginCapture()
      refused(() => codec.decode(own, FILES.gray), 'ERR_UNSUPPORTED', /captures.*before the capture begins/)
      await rejected(() => codec.encode(own, image), 'ERR_UNSUPPORTED', /captures/)
      own.endCapture().close()
      own.close()
      insideHostFunction(stream, () => void refused(() => codec.decode(stream, FILES.gray), 'ERR_DEADLOCK'))
    })

    it('a planted missing wait is a race for the sanitizer and shows as wrong pixels; with the wait there is none', async () => {
      const other = bench.stream()
      using image = device.alloc(SIZE, { stream })
      using copy = device.alloc(SIZE, { stream })
      for (const waits of [false, true]) {
        stream.fill(image, 0)
        other.wait(stream)
        await device.finished()
        const sanitizer = Sanitizer.start({ device, mode: 'collect' })
        codec.decode(stream, FILES.gray, { format: 'gray', into: image })
        if (waits) other.wait(stream)
        other.copy(copy, image)
        const read = await other.download(copy)
        sanitizer.stop()
        const found = sanitizer.reports.map(({ message }) => message)
        assert.equal(found.length, waits ? 0 : 1, found.join('\n'))
        if (!waits) assert.match(found.join(), /nvjpegDecode/)
        assert.equal(
          read.some((value) => value !== 0),
          waits,
        )
        stream.wait(other)
      }
      other.close()
    })

    it('what is encoded too early is a race as well', async () => {
      const other = bench.stream()
      using image = device.alloc(SIZE, { stream })
      stream.fill(image, 0)
      other.wait(stream)
      await device.finished()
      const sanitizer = Sanitizer.start({ device, mode: 'collect' })
      stream.fill(image, 200)
      await codec.encode(other, { buffer: image, width: WIDTH, height: HEIGHT, format: 'gray' })
      sanitizer.stop()
      assert.deepEqual(
        sanitizer.reports.map(({ message }) => /nvjpegEncodeYUV/.test(message)),
        [true],
      )
      other.close()
    })

    it('the timeline has each call by its name, with a duration', async () => {
      const timeline = await Timeline.record(
        async () => {
          const image = codec.decode(stream, FILES.baseline)
          const [one] = codec.decodeBatch(stream, [FILES.gray])
          await codec.encode(stream, image)
          image.buffer.close()
          one?.buffer.close()
        },
        { device },
      )
      const found = timeline.operations.filter(({ name }) => name?.startsWith('nvjpeg'))
      assert.deepEqual(
        found.map(({ name }) => name),
        ['nvjpegDecode', 'nvjpegDecodeBatched', 'nvjpegEncodeImage'],
      )
      for (const { start = 0, end = 0 } of found) assert.ok(end > start)
    })

    it('without jpeg-js the way out is said', () => {
      const missing = (): never => {
        throw Object.assign(new Error("Cannot find module 'jpeg-js'"), { code: 'MODULE_NOT_FOUND' })
      }
      refused(() => jpegJs(missing), 'ERR_UNSUPPORTED', /simulator.*jpeg-js.*npm install/)
    })
  })
})
