/** A thread that loads a model and runs it on a simulated GPU of its own. */
import { parentPort } from 'node:worker_threads'
import { Session } from 'cuda-streams/onnx'
import { simulate } from 'cuda-streams/sim'
import { perceptron } from '../models.js'
import { writeModel } from '../onnx-model.js'

const [device] = simulate().devices
if (device === undefined) throw new Error('no device was simulated')
const stream = device.createStream()
const session = await Session.load(writeModel(perceptron.model), { device })
const x = device.alloc(perceptron.input.byteLength, { stream })
const y = device.alloc(160, { stream })
void stream.upload(x, perceptron.input)
session.run(stream, { x: { buffer: x, shape: perceptron.shape } }, { y })
parentPort?.postMessage(await stream.download(y, Float32Array))
session.close()
