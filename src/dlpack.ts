/** The door of DLPack: memory that is handed to other libraries of the process, and taken in from them. */
import './shortcuts.js'

export {
  type CudaArray,
  type CudaArrayInterface,
  type FromCudaArrayInterfaceOptions,
  fromCudaArrayInterface,
  type ToCudaArrayInterfaceOptions,
  toCudaArrayInterface,
} from './libraries/dlpack/array-interface.js'
export type { ProtocolStream } from './libraries/dlpack/consumer-stream.js'
export {
  type DLPackCapsule,
  type DLPackProducer,
  type DLPackRequest,
  DLPackTensor,
  type FromDLPackOptions,
  fromDLPack,
  type ToDLPackOptions,
  toDLPack,
} from './libraries/dlpack/dlpack.js'
export type { DType, ScalarDType } from './libraries/dlpack/dtype.js'
export type { ElementOptions, Tensor } from './libraries/dlpack/tensor.js'
