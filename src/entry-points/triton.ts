/** cuda-streams/triton: kernels of Triton, which modules of compiled files of Python define. */
import '../core/shortcuts.js'

export {
  defineTritonKernel,
  type TritonChoice,
  TritonKernel,
  type TritonKernelDefinition,
  type TritonLaunchConfig,
  type TritonMeta,
  type TritonVariant,
  type TunedStream,
} from '../core/kernels/triton-kernel.js'
