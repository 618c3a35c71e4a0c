// The same model behind the same files in two ways: all of it on the GPU, and as it is mostly written, with sharp and onnxruntime-node.
import { readFile } from 'node:fs/promises'
import { Device } from 'cuda-streams'
import { Classifier } from './classifier.js'

const [path = 'photo.jpg', count = '200'] = process.argv.slice(2)
const MODEL = new URL('colours.onnx', import.meta.url).pathname
const SIDE = 224
const BATCH = 8
const MEAN = [0.485, 0.456, 0.406]
const DEVIATION = [0.229, 0.224, 0.225]

const file = await readFile(path)
const batch = Array.from({ length: BATCH }, () => file)

/** Runs batches one after another, after one that is not counted. */
async function measure(name, classify) {
  await classify(batch)
  const begun = performance.now()
  const cpu = process.cpuUsage()
  let scores
  for (let done = 0; done < Number(count); done += BATCH) scores = await classify(batch)
  const files = Math.ceil(Number(count) / BATCH) * BATCH
  const each = (performance.now() - begun) / files
  const { user, system } = process.cpuUsage(cpu)
  const busy = (user + system) / 1000 / files
  const shown = scores[0].map((score) => score.toFixed(3))
  console.log(`${name}: ${each.toFixed(2)} ms a file, of the processor ${busy.toFixed(2)} ms, scores ${shown}`)
}

console.log(String(Device.get()))
const classifier = await Classifier.load(MODEL)
await measure('cuda-streams', (files) => classifier.classify(files))

/** sharp decodes and resizes on the host, JavaScript normalises, and the runtime copies what it gets. */
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
