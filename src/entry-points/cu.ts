/** Kernels of CUDA C++ and of Triton as modules of a TypeScript project. */
import '../foundation/base/node-version.js'

export { compileCu, compileCuNow } from '../cu/compile-cu.js'
export type { CompiledCu, CuKernel, CuStruct } from '../cu/compiled-cu.js'
export type { CuOptions } from '../cu/cu-options.js'
export type { CuDiagnostic, CuError } from '../cu/diagnostics.js'
export {
  type CuEsbuildModule,
  type CuEsbuildPlugin,
  type CuPluginOptions,
  type CuRollupContext,
  type CuRollupPlugin,
  cuEsbuild,
  cuRollup,
} from '../cu/plugins.js'
export { compileTriton, compileTritonNow } from '../cu/triton/compile-triton.js'
export type { CompiledTriton, CompiledTritonKernel, TritonConfig, TritonOptions } from '../cu/triton/compiled-triton.js'
