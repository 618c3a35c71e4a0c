/** cuda-streams/dlpack: memory that is exported to other libraries of the process, and imported from them. */
import '../core/shortcuts.js'

export {
  type CudaArray,
  type CudaArrayInterface,
  type FromCudaArrayInterfaceOptions,
  fromCudaArrayInterface,
  type ToCudaArrayInterfaceOptions,
  toCudaArrayInterface,
} from '../libraries/dlpack/array-interface.js'
export {
  type DLPackCapsule,
  type DLPackProducer,
  type DLPackRequest,
  DLPackTensor,
  type FromDLPackOptions,
  fromDLPack,
  type ToDLPackOptions,
  toDLPack,
} from '../libraries/dlpack/exchange.js'
export type { DType, ElementOptions, ProtocolStream, ScalarDType, Tensor } from '../libraries/dlpack/tensor.js'
