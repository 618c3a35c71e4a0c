/** Runs a model whose computation fails on the simulator, and prints what comes of it. */
import { LibraryError, Session } from 'cuda-streams/onnx'
import { simulate } from 'cuda-streams/sim'
import { writeModel } from '../onnx-model.js'
import { preferCachedOnnxRuntime } from '../runtime.js'

preferCachedOnnxRuntime()
process.on('uncaughtException', (error) => {
  if (error instanceof LibraryError) console.log(error.code, error.call, error.message)
  else throw error
})
const [device] = simulate().devices
if (device === undefined) throw new Error('no device was simulated')
const stream = device.createStream()
const model = writeModel({
  name: 'gather',
  inputs: [
    { name: 'data', type: 'f32', dims: [4] },
    { name: 'indices', type: 'i64', dims: [1] },
  ],
  outputs: [{ name: 'picked', type: 'f32', dims: [1] }],
  nodes: [{ op: 'Gather', inputs: ['data', 'indices'], outputs: ['picked'] }],
})
using session = await Session.load(model, { device })
const [data, indices, picked] = [device.alloc(16, { stream }), device.alloc(8, { stream }), device.alloc(4, { stream })]
void stream.upload(data, Float32Array.of(1, 2, 3, 4))
for (const index of [9n, 2n]) {
  void stream.upload(indices, BigInt64Array.of(index))
  session.run(stream, { data, indices }, { picked })
  const [value] = await stream.download(picked, Float32Array)
  if (value === 3) console.log('and goes on')
}
