// The same model behind the same files in two ways: all of it on the GPU, and as it is mostly written, with sharp and onnxruntime-node.
import { spawnSync } from 'node:child_process'
import { Device } from 'cuda-streams'
import { Classifier } from './classifier.js'
import { MODEL, measure } from './measure.js'

console.log(String(Device.get()))
const classifier = await Classifier.load(MODEL)
await measure('cuda-streams', (files) => classifier.classify(files))
// A process has one ONNX Runtime.
const usual = new URL('usual.js', import.meta.url).pathname
spawnSync(process.execPath, [usual, ...process.argv.slice(2)], { stdio: 'inherit' })
