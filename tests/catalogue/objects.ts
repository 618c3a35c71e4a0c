/** An object of each public class that a program gets without waiting: for tests of what holds on any object. */
import {
  type Condition,
  CudaError,
  defineKernel,
  ExternalStream,
  LibraryError,
  MemoryPool,
  Module,
  type Stream,
  StreamPool,
} from 'cuda-streams'
import { toDLPack } from 'cuda-streams/dlpack'
import { PythonError } from 'cuda-streams/python'
import { SanitizerError } from 'cuda-streams/sanitizer'
import { defineTritonKernel } from 'cuda-streams/triton'
import { aboutLibraries } from '../libraries/about-libraries.js'
import { PTX, SIGNATURE } from './adding.js'

/** Of libraries those that are here. */
export function objectsOf(stream: Stream): readonly object[] {
  const { device } = stream
  const buffer = device.alloc(64, { stream })
  const array = device.createArray({ shape: [8], format: 'f32', surface: true })
  const conditions: Condition[] = []
  stream.capture(() => void conditions.push(stream.createCondition()))
  const graph = stream.capture(() => stream.fill(buffer, 1))
  const module = Module.load(PTX, { device })
  // So many that a program which takes lanes as it likes waits for none.
  const pool = new StreamPool({ device, size: 10_000 })
  return [
    ...[device, stream, new ExternalStream(stream), device.createEvent({ timing: true }), buffer],
    ...[array, device.createTexture(array), device.createSurface(array)],
    buffer.tensorMap({ type: 'u8', shape: [64], box: [16] }),
    ...[device.allocPinned(64), new MemoryPool({ device }), device.split({ multiprocessors: [8] })[0]],
    ...[pool, pool.tryTake()].filter((object) => object !== undefined),
    ...[...conditions, graph, graph.instantiate(), module, module.kernel('add', SIGNATURE)],
    defineKernel({ name: 'k', source: '', signature: ['inout u8*', 'i32'], simulateGrid() {} }),
    defineTritonKernel({
      name: 'add',
      signature: SIGNATURE,
      configs: [{ meta: {}, variants: [{ ptx: PTX, warps: 1 }] }],
    }),
    toDLPack(device.alloc(64, { stream }), { dtype: 'u8', shape: [64], stream }),
    new CudaError('cuInit', 1, 'CUDA_ERROR_INVALID_VALUE'),
    new LibraryError('ncclAllReduce', 1, 'ncclUnhandledCudaError'),
    new PythonError('ValueError', 'wrong', ''),
    new SanitizerError([]),
    ...aboutLibraries.flatMap(({ objects }) => objects(stream)),
  ]
}
