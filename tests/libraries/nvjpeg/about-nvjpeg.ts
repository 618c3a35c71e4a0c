/** What tests of all of the package know of cuda-streams/nvjpeg. */
import assert from 'node:assert/strict'
import type { DeviceBuffer } from 'cuda-streams'
import * as module from 'cuda-streams/nvjpeg'
import {
  type DecodeBatchOptions,
  type DecodeOptions,
  type ImageToEncode,
  JpegCodec,
  readJpegInfo,
} from 'cuda-streams/nvjpeg'
import { encodeOnHost } from '../../../src/libraries/nvjpeg/host-jpeg.js'
import { type Call, onlySimulated, withOptions } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import { type AboutLibrary, lackOf, nodes } from '../about-library.js'

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('nvJPEG', () => lackOf(() => new JpegCodec({ device: lab.device }).close()))

const refuses = ({ situation: { capture } }: Pick<Scene, 'situation'>): readonly string[] =>
  capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : []

/** A file of one row of gray, all of one value, which survives the coding exactly. */
function grayFile(width: number, value: number): Uint8Array {
  const layout = { width, height: 1, channels: 1, format: 'gray', layout: 'interleaved' } as const
  return encodeOnHost(new Uint8Array(width).fill(value), layout, 100)
}

const GRAY = 128
const WORD = 0x80808080
const wholeFile = grayFile(BYTES, GRAY)
/** The encoder takes a megabyte and some milliseconds, which programs that run many times would spend each time. */
const files = new Map<number, Uint8Array>()

function wordFile(value: number): Uint8Array {
  const known = files.get(value) ?? grayFile(4, value)
  files.set(value, known)
  return known
}

const gray = (buffer: DeviceBuffer): ImageToEncode => ({
  buffer,
  width: buffer.byteLength,
  height: 1,
  format: 'gray',
})

const PIXELS = { format: () => 'gray' as const, layout: () => 'planar' as const }

function codecOf(scene: Scene): JpegCodec {
  const codec = scene.keep(new JpegCodec({ device: scene.device }))
  scene.closers.set('the codec', () => codec.close())
  return codec
}

const shared = { act: 'queues by a library', uses: ['the codec'], nodes, lacks, refuses } as const

const calls: readonly Call[] = [
  withOptions({
    ...shared,
    name: 'codec.decode()',
    members: ['JpegCodec#decode'],
    waits: 'loading',
    memory: [{ name: 'image', takes: 'of the device', becomes: () => WORD }],
    takesRoom: 'on both drivers',
    options: {
      values: { ...PIXELS, into: (scene) => scene.buffer(0) as DeviceBuffer },
      lacks: onlySimulated,
    },
    prepare: (scene) => {
      const [codec, into] = [codecOf(scene), scene.buffer(0) as DeviceBuffer]
      return (options: DecodeOptions = { format: 'gray', into }) => codec.decode(scene.stream, wholeFile, options)
    },
  }),
  withOptions({
    ...shared,
    name: 'codec.decodeBatch()',
    members: ['JpegCodec#decodeBatch'],
    waits: 'loading',
    memory: [{ name: 'image', takes: 'of the device', becomes: () => WORD }],
    takesRoom: 'on both drivers',
    slow: true,
    options: {
      values: { ...PIXELS, into: (scene) => [scene.buffer(0) as DeviceBuffer] },
      lacks: onlySimulated,
    },
    prepare: (scene) => {
      const [codec, into] = [codecOf(scene), [scene.buffer(0) as DeviceBuffer]]
      return (options: DecodeBatchOptions = { format: 'gray', into }) =>
        codec.decodeBatch(scene.stream, [wholeFile], options)
    },
  }),
  withOptions({
    ...shared,
    name: 'codec.encode()',
    members: ['JpegCodec#encode'],
    waits: 'loading',
    memory: [{ name: 'image', takes: 'of the device' }],
    takesRoom: 'on both drivers',
    // A simulated encoder makes its tables anew for each image.
    slow: true,
    // It is refused while the stream captures, which its promise says later.
    nodes: () => undefined,
    options: { values: { quality: () => 80, subsampling: () => '444' as const }, lacks: onlySimulated },
    prepare: (scene) => {
      const codec = codecOf(scene)
      const image = gray(scene.buffer(0) as DeviceBuffer)
      return (options) => codec.encode(scene.stream, image, options)
    },
    answers: (_, file) => assert.equal(readJpegInfo(file as Uint8Array).width, BYTES),
  }),
  withOptions({
    ...shared,
    name: 'codec.encode(stream, image)',
    members: ['JpegCodec#encode'],
    apart: 'its row is that of encode()',
    memory: [{ name: 'image', takes: 'of the device' }],
    options: {
      values: {
        ...PIXELS,
        buffer: (scene) => scene.buffer(0) as DeviceBuffer,
        width: () => BYTES,
        height: () => 1,
      },
      lacks: onlySimulated,
      isOpen: true,
    },
    prepare: (scene) => {
      const codec = codecOf(scene)
      return (image: ImageToEncode = gray(scene.buffer(0) as DeviceBuffer)) => codec.encode(scene.stream, image)
    },
  }),
  withOptions({
    name: 'new JpegCodec() and codec.close()',
    members: ['new JpegCodec', 'JpegCodec#close', 'JpegCodec#[Symbol.dispose]'],
    act: 'makes',
    waits: 'loading',
    lacks,
    options: { values: { device: ({ device }) => device }, lacks: onlySimulated },
    prepare:
      ({ device }) =>
      (options = { device }) => {
        using codec = new JpegCodec(options)
        codec.close()
      },
  }),
]

export const about: AboutLibrary = {
  module,
  objects: ({ device }) => [new JpegCodec({ device })],
  calls,
  accesses: ({ dataOf, numberOf }) => [
    {
      name: 'decoded image',
      writes: true,
      on: 'device',
      run: (stage, side, stream) => {
        using codec = new JpegCodec({ device: stream.device })
        codec.decode(stream, wordFile(64 + numberOf(side)), { format: 'gray', into: dataOf(stage) as DeviceBuffer })
      },
    },
  ],
}
