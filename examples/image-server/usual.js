// The usual way: sharp decodes and resizes on the host, JavaScript normalises, and onnxruntime-node copies what it gets.
import { MODEL, measure } from './measure.js'

const SIDE = 224
const MEAN = [0.485, 0.456, 0.406]
const DEVIATION = [0.229, 0.224, 0.225]

async function usual() {
  const packages = ['sharp', 'onnxruntime-node'].map((name) => import(name))
  const [{ default: sharp }, { InferenceSession, Tensor }] = await Promise.all(packages)
  const session = await InferenceSession.create(MODEL)
  return async (files) => {
    const images = new Float32Array(files.length * 3 * SIDE * SIDE)
    const prepared = files.map(async (each, index) => {
      const pixels = await sharp(each)
        .resize(SIDE, SIDE, { fit: 'fill', kernel: 'linear' })
        .removeAlpha()
        .raw()
        .toBuffer()
      for (let at = 0; at < SIDE * SIDE; at += 1) {
        for (let channel = 0; channel < 3; channel += 1) {
          const value = (pixels[3 * at + channel] / 255 - MEAN[channel]) / DEVIATION[channel]
          images[(3 * index + channel) * SIDE * SIDE + at] = value
        }
      }
    })
    await Promise.all(prepared)
    const { scores } = await session.run({ images: new Tensor('float32', images, [files.length, 3, SIDE, SIDE]) })
    return files.map((_, index) => [...scores.data.subarray(3 * index, 3 * index + 3)])
  }
}

try {
  await measure('sharp and onnxruntime-node', await usual())
} catch (error) {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  console.log(
    `skipped: sharp and onnxruntime-node (${error.message.split('\n')[0]}): npm install --no-save sharp onnxruntime-node`,
  )
}
