// Stores PTX of tests/ptx/kernels, as scripts/ptx-kernels.mjs and the programs in Python wrote it: `node scripts/ptx-store.mjs`. Each `.ptx` becomes a
// `.ptx.br`; of two architectures for which the compiler wrote the same code only the lower one is kept, and with it what a GPU made of that one.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { root } from './test-files.mjs'

const folder = join(root, 'tests', 'ptx', 'kernels')
const recorded = join(folder, 'recorded.jsonl')
const SUFFIX = '.ptx.br'
/** A variable of NVRTC's headers that it declares for sm_90, and that nothing uses. */
const UNUSED = /^\.global \.align 1 \.u8 _ZN26__nv_atomic_triv_cp_helper\w+;\n/gm
/** The part of Numba's names that counts what it has compiled. */
const COUNT = /B\d+v\d+B92\w+/g
const options = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } }

/** The code: all that is not about which architecture it is for, or what else was compiled. */
const codeOf = (text) =>
  text
    .replace(/^\.(version|target) .*\n/gm, '')
    .replace(/\/\/.*/g, '')
    .replace(UNUSED, '')
    .replace(COUNT, '')

for (const name of readdirSync(folder).filter((each) => each.endsWith('.ptx'))) {
  const path = join(folder, name)
  writeFileSync(`${path}.br`, brotliCompressSync(readFileSync(path), options))
  rmSync(path)
}

const kept = new Map()
const names = readdirSync(folder).filter((each) => each.endsWith(SUFFIX))
for (const name of names.sort()) {
  const [file] = name.split('.')
  const code = codeOf(brotliDecompressSync(readFileSync(join(folder, name))).toString())
  if (kept.get(file) === code) {
    rmSync(join(folder, name))
    console.log(`${name} has no code of its own`)
  }
  kept.set(file, code)
}
const stored = new Set(readdirSync(folder).map((name) => name.replace(SUFFIX, '')))
const rows = readFileSync(recorded, 'utf8').split('\n').filter(Boolean)
const isStored = (row) => stored.has(JSON.parse(row).key.split(' ')[0])
writeFileSync(recorded, `${rows.filter(isStored).join('\n')}\n`)
