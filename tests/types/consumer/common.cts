/** A program of CommonJS, as TypeScript 5.8 and later take it under `module: nodenext`, which knows that Node can require() ES modules. */
import cuda = require('cuda-streams')
import cublas = require('cuda-streams/cublas')

const axpy: cuda.DefinedKernel<readonly ['f32', 'in f32*', 'inout f32*', 'i32']> = cuda.defineKernel({
  name: 'axpy',
  source: 'extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {}',
  signature: ['f32', 'in f32*', 'inout f32*', 'i32'],
})

function program(stream: cuda.Stream, x: cuda.DeviceBuffer, y: cuda.DeviceBuffer): Promise<Float32Array> {
  const library: cublas.Cublas = new cublas.Cublas({ device: stream.device })
  library.gemm(stream, x, y, y, { type: 'f32', m: 1, n: 1, k: 1 })
  return stream.launch(axpy, { threads: 1 }, 2, x, y, 1).download(y, Float32Array)
}

export = program
