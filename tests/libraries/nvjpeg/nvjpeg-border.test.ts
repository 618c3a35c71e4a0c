/** What crosses the border to nvJPEG: its functions as its header has them, and what is asked of a C library that pretends to be it. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Stream } from 'cuda-streams'
import { JpegCodec, LibraryError } from 'cuda-streams/nvjpeg'
import {
  HARDWARE,
  NVJPEG_FORMATS,
  NVJPEG_SIGNATURES,
  NVJPEG_STATUS,
  NVJPEG_SUBSAMPLINGS,
} from '../../../src/libraries/nvjpeg/nvjpeg-library.js'
import { insideHostFunction, refused, rejected } from '../../conformance/expect.js'
import { against, ledger, rows } from '../c-ledger.js'
import { fakeDevices, fakeLibraries } from '../fake-libraries.js'
import { FILES, HEIGHT, WIDTH } from './files.js'

describe('the ledger of nvJPEG', () => ledger(NVJPEG_SIGNATURES))

against('nvjpeg.h', (header) => {
  rows(header, NVJPEG_SIGNATURES)
  it('every status, format and subsampling has its number, and an image its members', () => {
    for (const [name, value] of Object.entries(NVJPEG_STATUS)) assert.equal(header.enumerator(name), value, name)
    for (const [name, value] of Object.entries(NVJPEG_FORMATS)) {
      const [format = '', layout] = name.toUpperCase().split(' ')
      const end = format === 'GRAY' ? 'Y' : `${format}${layout === 'INTERLEAVED' ? 'I' : ''}`
      assert.equal(header.enumerator(`NVJPEG_OUTPUT_${end}`), value, name)
      if (format !== 'GRAY') assert.equal(header.enumerator(`NVJPEG_INPUT_${end}`), value, name)
    }
    for (const [name, value] of Object.entries(NVJPEG_SUBSAMPLINGS))
      assert.equal(header.enumerator(`NVJPEG_CSS_${name.toUpperCase()}`), value, name)
    assert.equal(header.enumerator('NVJPEG_BACKEND_HARDWARE'), HARDWARE)
    assert.equal(header.macro('NVJPEG_MAX_COMPONENT'), 4)
    assert.deepEqual(header.members('nvjpegImage_t'), [
      'unsigned char * channel[NVJPEG_MAX_COMPONENT]',
      'size_t pitch[NVJPEG_MAX_COMPONENT]',
    ])
  })
})

const fake = fakeLibraries()
const skip = typeof fake === 'string' ? fake : false

describe('across the border to nvJPEG', { skip }, () => {
  if (typeof fake === 'string') return
  const { devices, driver, told } = fakeDevices(1)
  const [device] = devices
  assert.ok(device)
  const stream = new Stream({ device })
  const buffer = device.alloc(4096)
  const hex = (value: bigint | number): string => value.toString(16)
  const on = (of: Stream): string => `on ${hex(of.handle)}`
  const at = (offset: number, pitch: number): string => `${hex(buffer.pointer + BigInt(offset))}+${pitch}`
  const SIZE = WIDTH * HEIGHT
  const image = { buffer, width: WIDTH, height: HEIGHT } as const
  const length = FILES.baseline.length

  afterEach(() => {
    fake.said()
    told.length = 0
  })

  /** A codec whose states have the numbers from 2 on. */
  const codecOf = (): JpegCodec => {
    fake.call('fake_nvjpeg_again', 0)
    return new JpegCodec({ device })
  }

  it('each stream has a state of its own, and each format and layout its number, planes and lengths of rows', () => {
    using codec = codecOf()
    using other = new Stream({ device })
    const file = `${length} bytes ffd8..ffd9`
    codec.decode(stream, FILES.baseline, { into: buffer })
    codec.decode(stream, FILES.baseline, { into: buffer, format: 'bgr' })
    codec.decode(other, FILES.baseline, { into: buffer, layout: 'planar' })
    codec.decode(stream, FILES.baseline, { into: buffer.subarray(2, 2 + SIZE), format: 'gray' })
    const planes = [0, SIZE, 2 * SIZE].map((plane) => at(plane, WIDTH)).join(' ')
    const made = fake.said()
    assert.deepEqual(
      made.filter((line) => !line.startsWith('destroy')),
      [
        ...['create handle 1', 'create decoder 2'],
        `decode 1/2 ${file} as 5: ${at(0, 3 * WIDTH)} ${on(stream)}`,
        `decode 1/2 ${file} as 6: ${at(0, 3 * WIDTH)} ${on(stream)}`,
        'create decoder 3',
        `decode 1/3 ${file} as 3: ${planes} ${on(other)}`,
        `decode 1/2 ${file} as 2: ${at(2, WIDTH)} ${on(stream)}`,
      ],
    )
    assert.deepEqual(
      told.map(({ name, memory }) => [name, ...memory.map(({ byteLength, access }) => [byteLength, access])]),
      [3, 3, 3, 1].map((channels) => ['nvjpegDecode', [channels * SIZE, 'out']]),
    )
  })

  describe('a batch', () => {
    const into = [buffer.subarray(0, 3 * SIZE), buffer.subarray(512, 512 + 3 * SIZE)]
    const gray = FILES.gray.length
    const apart = [
      `decode 1/2 ${length} bytes ffd8..ffd9 as 5: ${at(0, 3 * WIDTH)} ${on(stream)}`,
      `decode 1/2 ${gray} bytes ffd8..ffd9 as 5: ${at(512, 3 * WIDTH)} ${on(stream)}`,
    ]
    const decode = (codec: JpegCodec): readonly string[] => {
      fake.said()
      codec.decodeBatch(stream, [FILES.baseline, FILES.gray], { into })
      return fake.said().filter((line) => !line.startsWith('create') && !line.startsWith('destroy'))
    }

    it('is initialized and decoded by one call, in a state of its own, where there is hardware for it', () => {
      fake.call('fake_nvjpeg_hardware', 1)
      try {
        using codec = codecOf()
        assert.deepEqual(fake.said().slice(-2), ['backend 3, flags 0', 'create handle 1'])
        codec.decode(stream, FILES.gray, { into: buffer, format: 'gray' })
        assert.deepEqual(decode(codec), [
          'batch 1/3 of 2, 1 thread, as 5',
          `decode 3 ${length} bytes ffd8..ffd9: ${at(0, 3 * WIDTH)} ${gray} bytes ffd8..ffd9: ${at(512, 3 * WIDTH)} ${on(stream)}`,
        ])
        assert.deepEqual(
          told.at(-1)?.memory.map(({ access }) => access),
          ['out', 'out'],
        )
        // What the hardware does not decode is decoded without it.
        fake.nextStatus(4)
        assert.deepEqual(decode(codec), ['batch 1/3 of 2, 1 thread, as 5', ...apart])
      } finally {
        fake.call('fake_nvjpeg_hardware', 0)
      }
    })

    it('is decoded file by file where there is none', () => {
      using codec = codecOf()
      assert.deepEqual(decode(codec), apart)
    })
  })

  it('encoding sets quality and subsampling, and takes the file out when the work is done, on another stream', async () => {
    using codec = codecOf()
    fake.said()
    const options = { quality: 75, subsampling: '420' } as const
    const first = codec.encode(stream, image, options)
    const second = codec.encode(stream, { ...image, format: 'gray' }, options)
    assert.deepEqual(fake.said(), [
      ...['create encoder 2', 'create parameters 3', 'quality 3 75', 'subsampling 3 2'],
      `encodeImage 2/3 ${at(0, 3 * WIDTH)} as 5 ${WIDTH}x${HEIGHT} ${on(stream)}`,
      ...['create encoder 4', 'create parameters 5', 'quality 5 75', 'subsampling 5 6'],
      `encodeYUV 4/5 ${at(0, WIDTH)} as 6 ${WIDTH}x${HEIGHT} ${on(stream)}`,
    ])
    const file = Uint8Array.of(0xff, 0xd8, 1, 2, 3, 0xff, 0xd9)
    assert.deepEqual(await Promise.all([first, second]), [file, file])
    assert.deepEqual(fake.said().toSorted(), [
      'retrieve 2 file',
      'retrieve 2 length',
      'retrieve 4 file',
      'retrieve 4 length',
    ])
    const retrieved = told.filter(({ name }) => name === 'nvjpegEncodeRetrieveBitstream')
    assert.equal(retrieved.length, 2)
    for (const { stream: where } of retrieved) assert.notEqual(BigInt(where), stream.handle)
    // A state that nothing is in any more is used again.
    await codec.encode(stream, image)
    assert.equal(fake.said().filter((line) => line.startsWith('create')).length, 0)
  })

  it('a later blocked stream does not keep a file back that is encoded', async () => {
    using codec = codecOf()
    const encoded = codec.encode(stream, image)
    let open = (): void => {}
    stream.wait(
      new Promise<void>((resolve) => {
        open = resolve
      }),
    )
    assert.equal((await encoded).length, 7)
    open()
    await stream.finished()
  })

  it('pending host functions run before each call, since any of them may allocate', async () => {
    using codec = codecOf()
    for (let again = 0; again < 2; again += 1) {
      const before = driver.drained
      codec.decode(stream, FILES.gray, { into: buffer })
      assert.equal(driver.drained - before, 1)
      const encoded = codec.encode(stream, image)
      assert.equal(driver.drained - before, 2)
      await encoded
    }
    insideHostFunction(stream, () => void refused(() => codec.decode(stream, FILES.gray), 'ERR_DEADLOCK'))
  })

  it('a closed codec is destroyed with its states when the next is made, but not before its files are taken out', async () => {
    const codec = codecOf()
    codec.decode(stream, FILES.gray, { into: buffer })
    const encoded = codec.encode(stream, image)
    codec.close()
    fake.said()
    new JpegCodec({ device }).close()
    assert.equal(fake.said().includes('destroy handle 1'), false)
    await encoded
    fake.said()
    new JpegCodec({ device }).close()
    assert.deepEqual(
      fake
        .said()
        .filter((line) => / [134]$/.test(line))
        .slice(0, 3),
      ['destroy parameters 4', 'destroy encoder 3', 'destroy handle 1'],
    )
  })

  it('the state of a closed stream is destroyed before the next work', () => {
    using codec = codecOf()
    const gone = new Stream({ device })
    codec.decode(gone, FILES.gray, { into: buffer })
    gone.close()
    fake.said()
    codec.decode(stream, FILES.gray, { into: buffer })
    assert.deepEqual(fake.said().slice(0, 2), ['destroy decoder 2', 'create decoder 3'])
  })

  it('a file in which nvJPEG reads another size than there is memory for is not decoded', async () => {
    using codec = codecOf()
    fake.call('fake_nvjpeg_wider', 1)
    try {
      refused(
        () => codec.decode(stream, FILES.gray, { into: buffer }),
        'ERR_INVALID_ARG_VALUE',
        /nvJPEG reads 14 x 6 pixels.*says 13 x 6/,
      )
      assert.equal(fake.said().filter((line) => line.startsWith('decode')).length, 0)
    } finally {
      fake.call('fake_nvjpeg_wider', 0)
    }
    await stream.finished()
  })

  it('what nvJPEG refuses is a LibraryError with its name, and an encoder that it refused is used again', async () => {
    using codec = codecOf()
    codec.decode(stream, FILES.gray, { into: buffer })
    fake.nextStatus(4)
    assert.throws(
      () => codec.decode(stream, FILES.gray, { into: buffer }),
      (error) =>
        error instanceof LibraryError &&
        error.call === 'nvjpegDecode' &&
        error.code === 'NVJPEG_STATUS_JPEG_NOT_SUPPORTED' &&
        /does not decode files of this kind/.test(error.message),
    )
    await codec.encode(stream, image)
    fake.nextStatus(5)
    await assert.rejects(
      codec.encode(stream, image),
      (error) => error instanceof LibraryError && error.code === 'NVJPEG_STATUS_ALLOCATOR_FAILURE',
    )
    // What it had queued may use the state until it is done.
    await stream.finished()
    fake.said()
    await codec.encode(stream, image)
    assert.equal(fake.said().filter((line) => line.startsWith('create')).length, 0)
    await rejected(() => codec.encode(stream, { ...image, width: 9999 }), 'ERR_OUT_OF_RANGE')
  })
})
