/** CUDA C++ as text, compiled at run time. */
import { checkArray, checkText, readOptions } from '../base/arguments.js'
import { type Device, driverOf, resolveDevice } from '../device.js'
import { loadModule, type Module } from './kernel.js'

/** The options of `Program.compile()`. */
export interface CompileOptions {
  /** The architecture to compile for, such as 'sm_90', for NVRTC's `--gpu-architecture`. Default: the device's own. */
  readonly arch?: string | undefined
  /** More options for NVRTC, such as '--use_fast_math'. */
  readonly options?: readonly string[] | undefined
  /** The device to load the module on. Default: the current device. */
  readonly device?: Device | number | undefined
  /** The name of the source in the compiler's messages. Default 'program.cu'. */
  readonly name?: string | undefined
}

/**
 * Compiles CUDA C++ with NVRTC, on a thread of its own, and loads the result; only the loading blocks, as that of
 * `Module.load()`. Kernels that are to be found by name need `extern "C"`.
 * @param source CUDA C++ as text.
 * @param options `arch` (default: the device's own), more `options` for NVRTC, `device` (default: the current device)
 * and `name` of the source in messages (default 'program.cu')
 * @throws {Error} (as a rejection) ERR_COMPILATION, with the compiler's log in the message; ERR_UNSUPPORTED without
 * NVRTC (CUDA_STREAMS_NVRTC names the file or its folder) and on the simulator; ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE
 * for a device that does not exist
 * @throws {CudaError} (as a rejection) for code that the device cannot run
 * @example
 * ```ts
 * const module = await Program.compile('extern "C" __global__ void one(int* x) { x[threadIdx.x] = 1; }')
 * stream.launch(module.kernel('one', ['out i32*']), { grid: 1, block: 32 }, x)
 * ```
 */
async function compile(source: string, options?: CompileOptions): Promise<Module> {
  const given = readOptions(options, ['arch', 'options', 'device', 'name'])
  checkText(source, 'source', 'CUDA C++ as text')
  const { options: texts = [], name = 'program.cu' } = given
  const more = checkArray(texts, 'options.options', 'an array of texts').map((text, index) =>
    checkText(text, `options.options[${index}]`, 'a text'),
  )
  checkText(name, 'options.name', 'a text')
  const device = resolveDevice(given.device)
  const { major, minor } = device.computeCapability
  const { arch = `sm_${major}${minor}` } = given
  checkText(arch, 'options.arch', "a text such as 'sm_90'")
  const nvrtc = [`--gpu-architecture=${arch}`, ...more]
  const code = { text: source, file: name, options: nvrtc, host: undefined }
  return loadModule(await driverOf(device).kernels.compile(code), device)
}

/** CUDA C++ as text: `Program.compile(source, options)` compiles it and loads the result as a Module. */
export const Program = { compile } as const
