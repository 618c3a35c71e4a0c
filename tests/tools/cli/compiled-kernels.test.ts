/** Which kernels the doctor finds in a file: PTX and cubins, in each form that bundlers make of a module of CUDA C++. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compileCu } from 'cuda-streams/cu'
import { kernelsIn } from '../../../src/tools/cli/compiled-kernels.js'
import { readCubin } from '../../../src/tools/cli/cubin-elf.js'
import { smallCubin } from '../../helpers/cubin.js'
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
