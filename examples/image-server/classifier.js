// JPEG files to scores, all of it on the GPU: only the files go there, and only the scores come back.
import { Device, Stream } from 'cuda-streams'
import { JpegCodec } from 'cuda-streams/nvjpeg'
import { Session } from 'cuda-streams/onnx'
import { prepare } from './prepare.cu'

const SIDE = 224
const FLOATS = 3 * SIDE * SIDE
/** What the model tells apart. */
export const LABELS = ['red', 'green', 'blue']

export class Classifier {
  static async load(model, device = Device.get()) {
    await prepare.prepare(device)
    const stream = new Stream({ device })
    return new Classifier(device, stream, await Session.load(model, { device, stream }))
  }

  constructor(device, stream, session) {
    this.device = device
    this.stream = stream
    this.session = session
    this.codec = new JpegCodec({ device })
  }

  /** The scores of each file, once they are there. Calls may be made while others are under way. */
  async classify(files) {
    const { device, stream, codec, session } = this
    const images = codec.decodeBatch(stream, files)
    const batch = device.alloc(4 * FLOATS * files.length, { stream })
    const scores = device.alloc(4 * LABELS.length * files.length, { stream })
    try {
      for (const [index, { buffer, width, height }] of images.entries()) {
        const out = batch.subarray(4 * FLOATS * index, 4 * FLOATS * (index + 1))
        stream.launch(prepare, { threads: [SIDE, SIDE] }, buffer, width, height, out, SIDE)
      }
      session.run(stream, { images: { buffer: batch, shape: [files.length, 3, SIDE, SIDE] } }, { scores })
      const all = await stream.download(scores, Float32Array)
      return files.map((_, index) => [...all.subarray(LABELS.length * index, LABELS.length * (index + 1))])
    } finally {
      // In the order of the stream: what is queued still uses them.
      for (const each of [...images.map(({ buffer }) => buffer), batch, scores]) each.close()
    }
  }
}
