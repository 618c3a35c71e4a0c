/** What tests of all of the package know of cuda-streams/nvjpeg. */
import assert from 'node:assert/strict'
import type { DeviceBuffer } from 'cuda-streams'
import * as module from 'cuda-streams/nvjpeg'
import { type ImageToEncode, JpegCodec, readJpegInfo } from 'cuda-streams/nvjpeg'
import { encodeOnHost } from '../../../src/libraries/nvjpeg/host-jpeg.js'
import type { Call } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import { type AboutLibrary, lackOf, nodes, onlySimulated } from '../about-library.js'

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('nvJPEG', () => lackOf(() => new JpegCodec({ device: lab.device }).close()))

const refuses = ({ situation: { capture } }: Scene): readonly string[] =>
  capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : []

/** A file of one row of gray, all of one value, which survives the coding exactly. */
function grayFile(width: number, value: number): Uint8Array {
  const layout = { width, height: 1, channels: 1, format: 'gray', layout: 'interleaved' } as const
  return encodeOnHost(new Uint8Array(width).fill(value), layout, 100)
}

const GRAY = 128
const WORD = 0x80808080
const wholeFile = grayFile(BYTES, GRAY)
const smallFile = grayFile(64, GRAY)

const gray = (buffer: DeviceBuffer): ImageToEncode => ({
  buffer,
  width: buffer.byteLength,
  height: 1,
  format: 'gray',
})

function codecOf(scene: Scene): JpegCodec {
  const codec = scene.keep(new JpegCodec({ device: scene.device }))
  scene.closers.set('the codec', () => codec.close())
  return codec
}

const shared = { act: 'queues by a library', uses: ['the codec'], nodes, lacks, refuses } as const

const decoding = (member: 'decode' | 'decodeBatch'): Call => ({
  ...shared,
  name: `codec.${member}()`,
  members: [`JpegCodec#${member}`],
  waits: 'loading',
  memory: [{ name: 'image', takes: 'of the device', becomes: () => WORD }],
  takesRoom: 'on both drivers',
  slow: member === 'decodeBatch',
  prepare: (scene) => {
    const codec = codecOf(scene)
    const [into] = [scene.buffer(0) as DeviceBuffer]
    const { stream } = scene
    return member === 'decode'
      ? () => codec.decode(stream, wholeFile, { format: 'gray', into })
      : () => codec.decodeBatch(stream, [wholeFile], { format: 'gray', into: [into] })
  },
})

const calls: readonly Call[] = [
  decoding('decode'),
  decoding('decodeBatch'),
  {
    ...shared,
    name: 'codec.encode()',
    members: ['JpegCodec#encode'],
    waits: 'loading',
    memory: [{ name: 'image', takes: 'of the device' }],
    takesRoom: 'on both drivers',
    // It is refused while the stream captures, which its promise says later.
    nodes: () => undefined,
    prepare: (scene) => {
      const codec = codecOf(scene)
      const image = gray(scene.buffer(0) as DeviceBuffer)
      return () => codec.encode(scene.stream, image)
    },
    answers: (_, file) => assert.equal(readJpegInfo(file as Uint8Array).width, BYTES),
  },
  {
    name: 'new JpegCodec() and codec.close()',
    members: ['new JpegCodec', 'JpegCodec#close', 'JpegCodec#[Symbol.dispose]'],
    act: 'makes',
    waits: 'loading',
    lacks,
    prepare:
      ({ device }) =>
      () => {
        using codec = new JpegCodec({ device })
        codec.close()
      },
  },
]

export const about: AboutLibrary = {
  module,
  objects: ({ device }) => [new JpegCodec({ device })],
  calls,
  userCode: (forEachOption) => [
    ...forEachOption(
      'new JpegCodec',
      'new JpegCodec(options)',
      ({ device }) => ({ device }),
      ['device'],
      { lacks: onlySimulated },
      (scene, hooked) => () => scene.keep(new JpegCodec(hooked())),
    ),
    ...(['decode', 'decodeBatch'] as const).flatMap((member) =>
      forEachOption(
        `JpegCodec#${member}`,
        `codec.${member}(stream, files, options)`,
        (scene): { format: 'gray'; layout: 'planar'; into: never } => {
          const into = scene.buffer(0) as DeviceBuffer
          return { format: 'gray', layout: 'planar', into: (member === 'decode' ? into : [into]) as never }
        },
        ['format', 'layout', 'into'],
        {
          memory: [{ name: 'image', takes: 'of the device', becomes: () => WORD }],
          uses: ['the codec'],
          also: ['ERR_INVALID_ARG_TYPE'],
          lacks: onlySimulated,
        },
        (scene, hooked) => {
          const codec = codecOf(scene)
          return member === 'decode'
            ? () => codec.decode(scene.stream, wholeFile, hooked())
            : () => codec.decodeBatch(scene.stream, [wholeFile], hooked())
        },
      ),
    ),
    ...forEachOption(
      'JpegCodec#encode',
      'codec.encode(stream, image, options)',
      () => ({ quality: 80, subsampling: '444' as const }),
      ['quality', 'subsampling'],
      {
        memory: [{ name: 'image', takes: 'of the device' }],
        uses: ['the codec'],
        also: ['ERR_INVALID_ARG_TYPE'],
        lacks: onlySimulated,
      },
      (scene, hooked) => {
        const codec = codecOf(scene)
        return () => codec.encode(scene.stream, gray(scene.buffer(0) as DeviceBuffer), hooked())
      },
    ),
    ...forEachOption(
      'JpegCodec#encode',
      'codec.encode(stream, image)',
      (scene): ImageToEncode => ({ ...gray(scene.buffer(0) as DeviceBuffer), layout: 'planar' }),
      ['buffer', 'width', 'height', 'format', 'layout'],
      {
        memory: [{ name: 'image', takes: 'of the device' }],
        uses: ['the codec'],
        also: ['ERR_INVALID_ARG_TYPE'],
        lacks: onlySimulated,
      },
      (scene, hooked) => {
        const codec = codecOf(scene)
        return () => codec.encode(scene.stream, hooked())
      },
    ),
  ],
  quietOptions: {},
  options({ stream, buffer, use }, isSimulated) {
    const file = 'libraries/nvjpeg/jpeg-codec'
    const make: ReturnType<AboutLibrary['options']> = [[file, 'new JpegCodec()', 'device', (o) => new JpegCodec(o)]]
    if (!isSimulated) return make
    const codec = use(new JpegCodec({ device: stream.device }))
    return [
      ...make,
      [file, 'codec.decode()', 'format, layout, into', (o) => codec.decode(stream, smallFile, o)],
      [file, 'codec.decodeBatch()', 'format, layout, into', (o) => codec.decodeBatch(stream, [smallFile], o)],
      [file, 'codec.encode()', 'quality, subsampling', (o) => codec.encode(stream, gray(buffer), o)],
    ]
  },
  publicCalls: {
    'codec.decode()': ({ device, stream, own }) => {
      const codec = new JpegCodec({ device })
      return {
        act: () => codec.decode(stream, smallFile, { format: 'gray', into: own }),
        check: async () => assert.deepEqual([...new Set(await stream.download(own))], [GRAY]),
        end: () => codec.close(),
      }
    },
    'codec.encode()': ({ device, other, theirs }) => {
      const codec = new JpegCodec({ device })
      let file: Uint8Array | undefined
      return {
        act: async () => {
          file = await codec.encode(other, gray(theirs))
        },
        check: () => assert.equal(file && readJpegInfo(file).width, theirs.byteLength),
        end: () => codec.close(),
      }
    },
  },
  accesses: ({ dataOf, numberOf }) => [
    {
      name: 'decoded image',
      writes: true,
      on: 'device',
      run: (stage, side, stream) => {
        using codec = new JpegCodec({ device: stream.device })
        const file = grayFile(4, 64 + numberOf(side))
        codec.decode(stream, file, { format: 'gray', into: dataOf(stage) as DeviceBuffer })
      },
    },
  ],
}
