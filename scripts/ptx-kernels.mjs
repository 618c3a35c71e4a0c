// Compiles tests/ptx/kernels/*.cu to PTX for sm_75 and sm_90, by NVRTC: `npm run build && node scripts/cuda-toolkit.mjs && node
// scripts/ptx-kernels.mjs [names]`. The PTX is checked in, so that tests need no NVRTC. cooperative_groups.h includes
// <nv/target>, which `pip install nvidia-cuda-cccl` brings: name its include folder in CCCL_INCLUDE.
// PTX of Triton and Numba: `python tests/ptx/kernels/python/triton_kernels.py tests/ptx/kernels`, too numba_kernels.py.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const folder = join(root, 'tests', 'ptx', 'kernels')
const toolkit = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13')
if (existsSync(join(toolkit, 'lib'))) process.env['CUDA_STREAMS_NVRTC'] ??= join(toolkit, 'lib')

const libcuda = join(root, 'dist', 'src', 'driver', 'cuda', 'libcuda')
const { loadLibrary } = await import(join(libcuda, 'find-library.js'))
const { NativeMemory } = await import(join(libcuda, 'native.js'))
const { NVRTC } = await import(join(libcuda, 'nvrtc.js'))
const nvrtc = loadLibrary(NVRTC).functions({
  nvrtcCreateProgram:
    'nvrtcProgram *prog, const char *src, const char *name, int numHeaders, const char *const *headers, const char *const *includeNames',
  nvrtcCompileProgram: 'nvrtcProgram prog, int numOptions, const char *const *options',
  nvrtcDestroyProgram: 'nvrtcProgram *prog',
  nvrtcGetPTX: 'nvrtcProgram prog, char *ptx',
  nvrtcGetPTXSize: 'nvrtcProgram prog, size_t *ptxSizeRet',
  nvrtcGetProgramLog: 'nvrtcProgram prog, char *log',
  nvrtcGetProgramLogSize: 'nvrtcProgram prog, size_t *logSizeRet',
})

function compile(source, name, options) {
  const memory = new NativeMemory(16)
  const texts = [source, name, ...options].map((text) => NativeMemory.ofText(text))
  const list = new NativeMemory(8 * options.length)
  list.uint64.set(texts.slice(2).map(({ address }) => BigInt(address)))
  nvrtc.nvrtcCreateProgram(memory.address, texts[0].address, texts[1].address, 0, 0, 0)
  const program = memory.pointerAt(0)
  const read = (size, get) => {
    size(program, memory.address + 8)
    const length = memory.pointerAt(8)
    const target = new NativeMemory(Math.ceil(length / 8) * 8 + 8)
    get(program, target.address)
    // The closing zero is no part of the text.
    return Buffer.from(target.bytes.slice(0, length - 1)).toString('utf8')
  }
  if (nvrtc.nvrtcCompileProgram(program, options.length, list.address) !== 0) {
    throw new Error(read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog))
  }
  const ptx = read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
  nvrtc.nvrtcDestroyProgram(memory.address)
  return ptx
}

const includes = [join(toolkit, 'include'), process.env['CCCL_INCLUDE']].filter((each) => each !== undefined)
const wanted = process.argv.slice(2)
for (const file of readdirSync(folder).filter((each) => each.endsWith('.cu'))) {
  const name = file.slice(0, -3)
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const source = readFileSync(join(folder, file), 'utf8')
  // Line tables of the headers would be most of that file.
  const lines = name === 'waiting' ? [] : ['-lineinfo']
  for (const architecture of [75, 90]) {
    const options = [
      `--gpu-architecture=compute_${architecture}`,
      '--device-int128',
      ...lines,
      ...includes.map((each) => `-I${each}`),
    ]
    // Where the headers lie on this machine is nobody's affair.
    const ptx = includes
      .reduce((text, each) => text.replaceAll(`${each}/`, ''), compile(source, file, options))
      .replaceAll(`${process.cwd()}/`, '')
    writeFileSync(join(folder, `${name}.sm_${architecture}.ptx`), ptx)
    console.log(`${name}.sm_${architecture}.ptx: ${ptx.length} bytes`)
  }
}
