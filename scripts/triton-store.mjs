// Stores what Triton makes of tests/cu/triton/files, for tests on machines without Triton: `node scripts/triton-store.mjs`, after a build.
// With a folder, `node scripts/triton-store.mjs FOLDER`, it writes there the code and arguments of the tests' launches and a program in
// Python, which runs them on a GPU and writes recorded.json; `--recorded FILE` stores that.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { root } from './test-files.mjs'

const tests = join(root, 'tests', 'cu', 'triton')
const options = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } }
const { compileTriton } = await import('../dist/src/entry-points/cu.js')
const { CASES } = await import('../dist/tests/cu/triton/cases.js')
const [, , first, second] = process.argv

if (first === '--recorded') {
  writeFileSync(join(tests, 'recorded.json.br'), brotliCompressSync(readFileSync(second), options))
  process.exit()
}

const compiled = new Map()
const folder = join(tests, 'compiled')
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder)
for (const name of readdirSync(join(tests, 'files'))) {
  const made = await compileTriton(join(tests, 'files', name))
  compiled.set(name, made)
  writeFileSync(join(folder, `${name}.js.br`), brotliCompressSync(made.module, options))
}

if (first !== undefined) {
  mkdirSync(first, { recursive: true })
  const launches = CASES.map((each, number) => {
    const kernel = compiled.get(each.file).kernels.find(({ name }) => name === each.kernel)
    const { variants } = kernel.configs[each.config ?? 0]
    const { ptx, warps, ones = [], sharedMemory = 0 } = variants[Math.min(each.variant, variants.length - 1)]
    writeFileSync(join(first, `${number}.ptx`), ptx)
    const args = each.arguments.flatMap((value, index) => {
      if (ones.includes(index)) return []
      if (typeof value === 'number') return [{ type: kernel.signature[index], value }]
      writeFileSync(join(first, `${number}.${index}.bin`), value)
      return [{ file: `${number}.${index}.bin`, out: each.expected.has(index) }]
    })
    return { name: each.name, kernel: each.kernel, ptx: `${number}.ptx`, grid: each.grid, warps, sharedMemory, args }
  })
  writeFileSync(join(first, 'launches.json'), JSON.stringify(launches))
  cpSync(join(tests, 'record.py'), join(first, 'record.py'))
}
