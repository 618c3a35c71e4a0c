// Compiles the kernels that stand here as CUDA C++ to PTX, by NVRTC: `npm run build && node scripts/cuda-toolkit.mjs && node
// scripts/ptx-kernels.mjs [names]`. The PTX is checked in, so that nobody needs NVRTC: tests/ptx/kernels/*.cu for sm_75 and sm_90; those of
// the examples (`pipeline`, `ranks`) for every GPU and driver that the library works with; those of the playground's lessons (`lessons`) as a
// bundler's plug-in makes them, with their declarations, and in kernels.json what the compiler says of each kernel.
// PTX of Triton and Numba: `python tests/ptx/kernels/python/triton_kernels.py tests/ptx/kernels`, likewise numba_kernels.py. What stands in
// tests/ptx/kernels then is stored by `node scripts/ptx-store.mjs`.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const folder = join(root, 'tests', 'ptx', 'kernels')
const toolkit = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13')
if (existsSync(join(toolkit, 'lib'))) process.env['CUDA_STREAMS_NVRTC'] ??= join(toolkit, 'lib')
const { compileCudaNow } = await import(join(root, 'dist', 'src', 'foundation', 'native', 'nvrtc.js'))
const { compileCu } = await import(join(root, 'dist', 'src', 'entry-points', 'cu.js'))

function compile(path, file, options) {
  const ptx = compileCudaNow({ text: readFileSync(path, 'utf8'), file, options }, 'ptx')
  return new TextDecoder().decode(ptx).replace(/\0$/, '')
}

const sourcesIn = (path) => readdirSync(path).filter((name) => name.endsWith('.cu'))

/** Drivers refuse PTX that is newer than they are. */
const forOldDrivers = (ptx) =>
  ptx
    .replace(/^\.version .*$/m, '.version 7.0')
    .replace(/^\/\/.*\n/gm, '')
    .trim()

/** Where the sources lie on this machine is nobody's affair. */
const withoutFolders = (ptx) => ptx.replaceAll(/"[^"]*\/(?=[\w.-]+")/g, '"')

const wanted = process.argv.slice(2)
const isWanted = (name) => wanted.length === 0 || wanted.includes(name)
for (const [name, source] of [
  ['pipeline', 'kernels'],
  ['ranks', 'train'],
]) {
  if (!isWanted(name)) continue
  const example = join(root, 'examples', name)
  const file = `${source}.cu`
  const ptx = forOldDrivers(compile(join(example, file), file, ['--gpu-architecture=compute_75']))
  writeFileSync(
    join(example, `${source}-ptx.ts`),
    `/** ${file} as PTX: \`node scripts/ptx-kernels.mjs ${name}\` makes it. */\nexport const KERNELS = \`\n${ptx}\n\`\n`,
  )
}
if (isWanted('lessons')) {
  const lessons = join(root, 'site', 'playground', 'lessons')
  const kernels = {}
  for (const file of sourcesIn(lessons)) {
    const made = await compileCu(join(lessons, file))
    writeFileSync(join(lessons, file.replace(/\.cu$/, '.ptx')), `${made.ptx.trim()}\n`)
    writeFileSync(join(lessons, file.replace(/\.cu$/, '.d.cu.ts')), made.declaration)
    kernels[file] = made.kernels.map((kernel) => ({ ...kernel, file }))
  }
  // Lists of texts stand in a line, as Biome has them.
  const json = JSON.stringify(kernels, undefined, 2).replace(
    /\[\s+("[^\]]*")\s+\]/g,
    (_, list) => `[${list.replace(/\s*\n\s*/g, ' ')}]`,
  )
  writeFileSync(join(lessons, 'kernels.json'), `${json}\n`)
}
for (const file of sourcesIn(folder)) {
  const name = file.slice(0, -'.cu'.length)
  if (!isWanted(name)) continue
  // Line tables of the headers would be most of that file.
  const lines = name === 'waiting' ? [] : ['-lineinfo']
  // Warpgroups are of one architecture alone.
  for (const arch of name === 'warpgroups' ? ['90a'] : ['75', '90']) {
    const options = [`--gpu-architecture=compute_${arch}`, '--device-int128', ...lines]
    const ptx = withoutFolders(compile(join(folder, file), file, options))
    const target = `${name}.sm_${arch.slice(0, 2)}.ptx`
    writeFileSync(join(folder, target), ptx)
    console.log(`${target}: ${ptx.length} bytes`)
  }
}
