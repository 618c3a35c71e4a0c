/** What people can do about a mistake that the compiler finds. */
import type { CuDiagnostic } from './diagnostics.js'

/** The packages of headers that CUDA's compiler does not bring. */
const PACKAGES: readonly (readonly [RegExp, string])[] = [
  [/^curand\w*\.h$/, 'cuRAND: pip install nvidia-curand, or -I with the folder include of the CUDA toolkit'],
  [/^(?:torch|ATen|c10)\//, 'PyTorch: what kernels use of it cannot be compiled without it'],
  [/^(?:cutlass|cute)\//, 'CUTLASS: -I with its folder include'],
  [/^(?:cub|thrust|cuda\/std|cuda)\//, 'CCCL: pip install nvidia-cuda-cccl'],
  [/^(?:helper_|exception)\w*\.h$/, "the samples' folder Common, named by -I"],
]

/** A header that is missing, with the package that has it. */
export function withPackage(header: string): string {
  const [, from] = PACKAGES.find(([pattern]) => pattern.test(header)) ?? []
  return from === undefined ? header : `${header} (of ${from})`
}

const VOTES = /^__(shfl|shfl_up|shfl_down|shfl_xor|any|all|ballot)$/

/** The mistake with the way out, if there is one. */
export function withWayOut(found: CuDiagnostic, texts: ReadonlyMap<string, string>): CuDiagnostic {
  const way = wayOut(found.message, texts)
  return way === undefined ? found : { ...found, message: `${found.message}: ${way}` }
}

function wayOut(message: string, texts: ReadonlyMap<string, string>): string | undefined {
  if (/^device-side kernel launch could not be processed/.test(message))
    return 'a kernel that launches a kernel needs the runtime of CUDA on the GPU, which PTX of one file has not: launch the other from JavaScript, behind this one in the same stream'
  const [, name] = /^(?:identifier|namespace "std" has no member) "(\w+)"(?: is undefined)?$/.exec(message) ?? []
  if (name === undefined) return undefined
  const [, vote] = VOTES.exec(name) ?? []
  if (vote !== undefined)
    return `CUDA has removed it: write __${vote}_sync(mask, …), with the mask of the lanes that take part, such as 0xffffffff`
  const all = [...texts.values()]
  if (
    /^(?:texture|surface)$/.test(name) ||
    all.some((text) => new RegExp(`\\b(?:texture|surface)\\s*<[^;]*>\\s*${name}\\b`).test(text))
  )
    return `texture and surface references were removed by CUDA 12: give the kernel a texture object (cudaTextureObject_t), or a pointer to the memory`
  if (/^curand/.test(name)) return `it is declared in curand_kernel.h, of ${PACKAGES[0]?.[1]}`
  if (all.some((text) => new RegExp(`\\b${name}\\s*\\([^;{}]*\\)\\s*\\{`).test(text)))
    return `'${name}' is a function of the host, which the compiler does not get: mark it __device__`
  if (/^(?:__)?half2?$/.test(name)) return 'it is declared in cuda_fp16.h: include it'
  if (/^(?:__)?nv_bfloat16\d?$/.test(name)) return 'it is declared in cuda_bf16.h: include it'
  if (/^[A-Z][A-Z0-9_]+$/.test(name)) return `if it is a macro of the build, give it by the option -D${name}=…`
  return undefined
}
