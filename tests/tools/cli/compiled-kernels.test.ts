/** Which kernels the doctor finds in a file: PTX and cubins, in each form that bundlers make of a module of CUDA C++. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compileCu } from 'cuda-streams/cu'
import { Random } from '../../../src/simulator/machine/random.js'
import { kernelsIn } from '../../../src/tools/cli/compiled-kernels.js'
import { readCubin } from '../../../src/tools/cli/cubin-elf.js'
import { smallCubin } from '../../helpers/cubin.js'
import { runs } from '../../helpers/effort.js'
import { lacksNvrtc } from '../../helpers/nvrtc.js'
import { scratchFolder } from '../../helpers/scratch.js'

const ptx = (...kernels: readonly string[]): string =>
  `.version 8.5\n.target sm_75\n.address_size 64\n${kernels.map((name) => `.visible .entry ${name}()\n{\n\tret;\n}\n`).join('')}\t.file\t1 "own.cu"\n`
const base64 = (architecture: number, ...kernels: readonly string[]): string =>
  smallCubin({ architecture, kernels }).toString('base64')
const found = (text: string | Uint8Array): readonly string[] =>
  kernelsIn(typeof text === 'string' ? Buffer.from(text) : text).map(({ kernels, arch, cubins }) => {
    const code = [...cubins].map(([key, { architecture }]) => (key === architecture ? key : `${key}=${architecture}`))
    return [kernels.join('+'), arch ?? 'no PTX', ...code].join(' ')
  })

/** As `compile` and the plug-ins write it: one file with two kernels, one without cubins, one of the same name as the first. */
const AS_WRITTEN = `
const ptx = \`
${ptx('axpy', 'plain')}\`
const cubins = {
  sm_80: '${base64(80, '_Z4axpyPf', 'plain')}',
  sm_90a: '${base64(90, '_Z4axpyPf', 'plain')}',
}
export const axpy = defineKernel({ name: 'axpy', ptx, cubins, mangledName: '_Z4axpyPf', signature: ['in f32*'] })
export const plain = defineKernel({ name: 'plain', ptx, cubins, signature: ['in f32*'] })
const ptx$1 = \`
${ptx('bare')}\`
const bare = defineKernel({ name: 'bare', ptx: ptx$1, signature: [] })
const ptx$2 = \`
${ptx('axpy')}\`
const cubins$2 = {
  sm_90: '${base64(90, '_Z4axpyPd')}',
}
const axpy$2 = defineKernel({ name: 'axpy', ptx: ptx$2, cubins: cubins$2, mangledName: '_Z4axpyPd', signature: ['in f64*'] })
`
const ALL = ['axpy+plain sm_75 sm_80 sm_90a=sm_90', 'bare sm_75', 'axpy sm_75 sm_90']

test('each cubin is found with the PTX of its kernels, whatever a bundler makes of them', () => {
  const quoted = (text: string): string => `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')}'`
  const minified = `var g=${quoted(ptx('axpy', 'plain'))},B={sm_80:"${base64(80, '_Z4axpyPf', 'plain')}",sm_90a:"${base64(90, '_Z4axpyPf', 'plain')}"},A=k({name:"axpy",ptx:g,cubins:B,mangledName:"_Z4axpyPf",signature:["in f32*"]}),Q=k({name:"plain",ptx:g,cubins:B}),I=k({name:"bare",ptx:${quoted(ptx('bare'))}}),R=k({name:"axpy",ptx:${quoted(ptx('axpy'))},cubins:{sm_90:"${base64(90, '_Z4axpyPd')}"},mangledName:"_Z4axpyPd"});`
  const forms = {
    'as it is written': AS_WRITTEN,
    'names in quotes': AS_WRITTEN.replace(/\b(sm_\d+a?|name|mangledName):/g, '"$1":'),
    minified,
    'within eval("…")': `eval(${JSON.stringify(`${AS_WRITTEN}\n//# sourceURL=webpack-internal:///./own.cu`)})`,
    'with double quotes within eval("…")': `eval(${JSON.stringify(minified.replaceAll("'", '"').replaceAll('"own.cu"', "'own.cu'"))})`,
    'minified within eval("…")': `eval(${JSON.stringify(minified)})`,
  }
  for (const [form, text] of Object.entries(forms)) assert.deepEqual(found(text), ALL, form)
})

test('a cubin that no PTX belongs to stands alone', () => {
  assert.deepEqual(found(smallCubin({ architecture: 90, kernels: ['_Z1kPf'] })), ['_Z1kPf no PTX sm_90'])
  const loaded = `Module.load(Buffer.from('${base64(86, 'k')}', 'base64')); const other = \`${ptx('k')}\``
  assert.deepEqual(found(loaded), ['k sm_75', 'k no PTX sm_86'])
  assert.deepEqual(found(`const ptx = \`${ptx('k')}\`, cubins = { sm_90: '${base64(90, 'other')}' }`), [
    'k sm_75',
    'other no PTX sm_90',
  ])
})

test('a cubin says its architecture and its kernels, those of CUDA 12, too', () => {
  for (const abi of [7, 8] as const) {
    const cubin = smallCubin({ architecture: 103, kernels: ['_Z1aPf', 'b'], abi })
    assert.deepEqual(readCubin(cubin), { architecture: 'sm_103', kernels: ['_Z1aPf', 'b'] })
    assert.throws(() => readCubin(cubin.subarray(0, cubin.length - 70)), /ends early/)
  }
  assert.throws(() => readCubin(smallCubin({ architecture: 0, kernels: [], machine: 62 })), /of another machine/)
})

const MUTANTS = runs({ quick: 300, normal: 2000, nightly: 100_000 })

/** Numbers that a damaged file has where others are expected. */
const NUMBERS = [0, 1, 2, 63, 64, 240, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff]

/** Changes a file in one to four places: a byte, a number of any width, a part that is lost, doubled or moved, an early end. */
function damaged(whole: Uint8Array, seed: number): Buffer {
  const random = new Random(seed)
  const below = (count: number): number => Math.floor(random.next() * count)
  let code = Buffer.from(whole)
  for (let left = 1 + below(4); left > 0; left -= 1) {
    const at = below(code.length)
    const end = Math.min(code.length, at + 1 + below(64))
    const number = NUMBERS[below(NUMBERS.length)] ?? 0
    const change = [
      () => code.writeUInt8(below(256), at),
      () => at + 4 <= code.length && code.writeUInt32LE(number, at),
      () => at + 2 <= code.length && code.writeUInt16LE(number & 0xffff, at),
      () => at + 8 <= code.length && code.writeBigUInt64LE(BigInt(number) << BigInt(below(33)), at),
      () => (code = Buffer.concat([code.subarray(0, at), code.subarray(end)])),
      () => (code = Buffer.concat([code.subarray(0, end), code.subarray(at)])),
      () => (code = Buffer.concat([code.subarray(at, end), code.subarray(0, at), code.subarray(end)])),
      () => (code = code.subarray(0, at + 1)),
    ]
    change[below(change.length)]?.()
  }
  return code
}

/** Returns undefined for an error of the library. */
function readOrRefused<R>(read: () => R, what: string): R | undefined {
  try {
    return read()
  } catch (error) {
    const isRefused = error instanceof Error && Reflect.get(error, 'code') === 'ERR_INVALID_ARG_VALUE'
    assert.ok(isRefused, `${what}: ${error instanceof Error ? error.stack : error}`)
    return undefined
  }
}

test('a damaged cubin is read, or an error with a code, and has no more kernels than its bytes could name', () => {
  const names = Array.from({ length: 6 }, (_, index) => `_Z${index}kernelPf`)
  let refused = 0
  for (let seed = 0; seed < MUTANTS; seed += 1) {
    const code = damaged(smallCubin({ architecture: 90, kernels: names.slice(0, 1 + (seed % 6)) }), seed)
    const facts = readOrRefused(() => readCubin(code), `mutant ${seed}`)
    if (facts === undefined) refused += 1
    else assert.ok(facts.kernels.join(' ').length < code.length, `mutant ${seed} has ${facts.kernels.length} kernels`)
  }
  assert.ok(refused > MUTANTS / 10 && refused < MUTANTS, `${refused} of ${MUTANTS}`)
})

test('the headers of sections say how long they are, and tables of symbols do not overlap: 240 bytes have no 65 535 tables', () => {
  const whole = smallCubin({ architecture: 90, kernels: ['a'] })
  const refuses = (change: (code: Buffer) => void, says: RegExp): void => {
    const code = Buffer.from(whole)
    change(code)
    assert.throws(() => readCubin(code), { code: 'ERR_INVALID_ARG_VALUE', message: says })
  }
  const sections = Number(whole.readBigUInt64LE(40))
  refuses((code) => code.writeUInt16LE(0, 58), /damaged cubin: .*the header of a section has 0 bytes, which has 64/)
  refuses((code) => code.writeUInt16LE(0xffff, 60), /ends early, or a damaged one/)
  refuses((code) => code.writeUInt32LE(7, sections + 128 + 40), /the names of its symbols are in section 7 of 3/)
  refuses(
    (code) => code.writeBigUInt64LE(10n ** 6n, sections + 128 + 32),
    /tables of symbols are longer than its \d+ bytes/,
  )
  refuses((code) => code.writeBigUInt64LE(0n, sections + 64 + 32), /a name of its symbols begins at byte 65/)
  refuses((code) => code.fill(0x61, 64, 64 + 10), /the name of its symbols at byte 65 has no end/)
  refuses((code) => code.writeUInt8(1, 4), /an ELF file of another machine/)
})

test('a damaged file of a program is read, or an error with a code', () => {
  const whole = Buffer.from(AS_WRITTEN)
  for (let seed = 0; seed < MUTANTS; seed += 1) {
    readOrRefused(() => kernelsIn(damaged(whole, seed)), `mutant ${seed}`)
  }
})

test('a file is read in a time that grows with its length', () => {
  const header = '.version 8.5\\n.target sm_75\\n'
  // Each of these took minutes, or did not end.
  assert.deepEqual(found(`.version 8.5 ${'/'.repeat(10_000)}\\x`), [])
  assert.deepEqual(found(`.version 8.5 ${'// '.repeat(10_000)}`), [])
  for (const quote of ['', '"', '\\"']) assert.equal(found(quote + header.repeat(40_000) + quote).length, 40_000)
})

test("NVRTC's own cubins are read", { skip: lacksNvrtc() }, async () => {
  const file = join(scratchFolder('cubins'), 'own.cu')
  const helper = '__device__ __noinline__ float helper(float x) { return x * x; }'
  writeFileSync(
    file,
    `${helper}\n__global__ void k(float *x) { x[0] = helper(x[1]); }\nextern "C" __global__ void c() {}`,
  )
  const { module } = await compileCu(file, { cubins: ['sm_80', 'sm_90a'] })
  assert.deepEqual(found(module), ['k+c sm_75 sm_80 sm_90a=sm_90'])
})
