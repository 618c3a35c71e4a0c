// Compiles the kernels that stand here as CUDA C++ to PTX, by NVRTC: `npm run build && node scripts/cuda-toolkit.mjs && node
// scripts/ptx-kernels.mjs [names]`. The PTX is checked in, so that nobody needs NVRTC: tests/ptx/kernels/*.cu for sm_75 and sm_90, and
// those of the pipeline (`pipeline`) for every GPU and driver that the library works with.
// PTX of Triton and Numba: `python tests/ptx/kernels/python/triton_kernels.py tests/ptx/kernels`, likewise numba_kernels.py.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const folder = join(root, 'tests', 'ptx', 'kernels')
const toolkit = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13')
if (existsSync(join(toolkit, 'lib'))) process.env['CUDA_STREAMS_NVRTC'] ??= join(toolkit, 'lib')
const { compileCudaNow } = await import(join(root, 'dist', 'src', 'native', 'nvrtc.js'))

function compile(path, file, options) {
  const ptx = compileCudaNow({ text: readFileSync(path, 'utf8'), file, options }, 'ptx')
  return new TextDecoder().decode(ptx).replace(/\0$/, '')
}

/** Drivers refuse PTX that is newer than they are. */
const forOldDrivers = (ptx) =>
  ptx
    .replace(/^\.version .*$/m, '.version 7.0')
    .replace(/^\/\/.*\n/gm, '')
    .trim()

const wanted = process.argv.slice(2)
const isWanted = (name) => wanted.length === 0 || wanted.includes(name)
if (isWanted('pipeline')) {
  const example = join(root, 'examples', 'pipeline')
  const ptx = forOldDrivers(compile(join(example, 'kernels.cu'), 'kernels.cu', ['--gpu-architecture=compute_75']))
  writeFileSync(
    join(example, 'kernels-ptx.ts'),
    `/** kernels.cu as PTX: \`node scripts/ptx-kernels.mjs pipeline\` makes it. */\nexport const KERNELS = \`\n${ptx}\n\`\n`,
  )
}
for (const file of readdirSync(folder).filter((name) => name.endsWith('.cu'))) {
  const name = file.slice(0, -'.cu'.length)
  if (!isWanted(name)) continue
  // Line tables of the headers would be most of that file.
  const lines = name === 'waiting' ? [] : ['-lineinfo']
  for (const arch of [75, 90]) {
    const options = [`--gpu-architecture=compute_${arch}`, '--device-int128', ...lines]
    // Where the headers lie on this machine is nobody's affair.
    const ptx = compile(join(folder, file), file, options).replaceAll(/"[^"]*\/(?=[\w.]+")/g, '"')
    writeFileSync(join(folder, `${name}.sm_${arch}.ptx`), ptx)
    console.log(`${name}.sm_${arch}.ptx: ${ptx.length} bytes`)
  }
}
