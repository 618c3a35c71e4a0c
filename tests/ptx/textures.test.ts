/**
 * Textures and surfaces against what an H200 gave: kernels/textures.jsonl.br has the elements, how they are read, the coordinates of each thread, and the
 * words that it got. The same PTX was run there by cuLaunchKernel. What the simulator gives otherwise is in docs/internals/ptx.md.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { brotliDecompressSync } from 'node:zlib'
import type { BoundTexture, TexelType, TextureObjects } from '../../src/ptx/textures.js'
import { root } from '../helpers/root.js'
import { Machine } from './machine.js'

/** A texture or surface, an instruction on it, and what threads got. Undefined are what most cases have. */
interface RecordedCase {
  readonly group: string
  readonly kind?: 'linear' | 'pitch2d'
  readonly size: readonly [number, number, number]
  readonly format: string
  readonly channels?: 1 | 2 | 4
  /** The elements in base 64. Default: floats that count from 0. */
  readonly data?: string
  /** The index of the instruction. */
  readonly body: number
  /** CUaddress_mode of each direction. */
  readonly address?: readonly [number, number, number]
  readonly filter?: 0 | 1
  /** CU_TRSF_READ_AS_INTEGER and the others. */
  readonly flags?: number
  readonly border?: readonly [number, number, number, number]
  readonly surface?: true
  /** CUDA_ARRAY3D_LAYERED and the others. */
  readonly arrayFlags?: number
  readonly pitch?: number
  /** The words that each thread was given, and those of its results that are not 0. */
  readonly words: number
  readonly inputs: string
  readonly results: number
  readonly outputs: string
  /** The elements after the launch. */
  readonly after?: string
}

const lines = brotliDecompressSync(readFileSync(join(root, 'tests/ptx/kernels/textures.jsonl.br')))
  .toString()
  .trim()
  .split('\n')
const { bodies } = JSON.parse(lines[0] ?? '{}') as { readonly bodies: readonly string[] }
const cases = lines.slice(1).map((line) => JSON.parse(line) as RecordedCase)

const MODES = ['wrap', 'clamp', 'mirror', 'border'] as const
const BYTES: Readonly<Record<string, number>> = { u8: 1, s8: 1, u16: 2, s16: 2, u32: 4, s32: 4, f16: 2, f32: 4 }
const HANDLE = 1

/** A kernel whose threads read eight words, carry out an instruction on c0 to c7, and write r0 to r3. */
const kernelOf = (body: string): string => `.version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 object, .param .u64 input, .param .u64 output, .param .u32 count) {
  .reg .pred %p;
  .reg .b32 %i<4>, c0, c1, c2, c3, c4, c5, c6, c7, r0, r1, r2, r3;
  .reg .b64 %d<8>, w0, w1, w2, w3, t;
  .reg .b16 h0, h1, h2, h3;
  mov.u32 %i0, %ctaid.x;
  mov.u32 %i1, %ntid.x;
  mov.u32 %i2, %tid.x;
  mad.lo.u32 %i0, %i0, %i1, %i2;
  ld.param.u32 %i3, [count];
  setp.ge.u32 %p, %i0, %i3;
  @%p bra done;
  ld.param.u64 t, [object];
  ld.param.u64 %d0, [input];
  ld.param.u64 %d1, [output];
  mul.wide.u32 %d2, %i0, 32;
  add.u64 %d2, %d2, %d0;
  mul.wide.u32 %d3, %i0, 16;
  add.u64 %d3, %d3, %d1;
  ld.global.v4.b32 {c0, c1, c2, c3}, [%d2];
  ld.global.v4.b32 {c4, c5, c6, c7}, [%d2+16];
  mov.b32 r0, 0;
  mov.b32 r1, 0;
  mov.b32 r2, 0;
  mov.b32 r3, 0;
  ${body}
  st.global.v4.b32 [%d3], {r0, r1, r2, r3};
done:
  ret;
}
`

const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'))
const wordsOf = (text: string): Uint32Array => new Uint32Array(bytesOf(text).slice().buffer)

function elementsOf({ data, size }: RecordedCase): Uint8Array {
  if (data !== undefined) return bytesOf(data)
  const count = size.reduce((product, each) => product * Math.max(1, each), 1)
  return new Uint8Array(Float32Array.from({ length: count }, (_, index) => index).buffer)
}

function boundTo(given: RecordedCase, pointer: number): BoundTexture {
  const { kind, size, format, channels = 1, arrayFlags = 0, flags = 0, pitch } = given
  const [width, height, depth] = size
  const isLayered = (arrayFlags & 1) !== 0
  const image = height === 0 ? '1d' : depth === 0 || isLayered ? '2d' : '3d'
  const rowPitch = pitch ?? width * channels * (BYTES[format] ?? 1)
  const { address = [1, 1, 1], filter = 0, border = [0, 0, 0, 0] } = given
  const mode = (index: 0 | 1 | 2) => MODES[address[index]] ?? 'clamp'
  return {
    kind: kind === 'linear' ? 'buffer' : (arrayFlags & 4) !== 0 ? 'cube' : image,
    ...{ pointer, width, height, depth, channels, isLayered, rowPitch },
    format: format.replace('s', 'i') as TexelType,
    planePitch: rowPitch * Math.max(1, height),
    sampling:
      given.surface === true
        ? undefined
        : {
            addressModes: [mode(0), mode(1), mode(2)],
            isLinear: filter === 1,
            isNormalized: (flags & 2) !== 0,
            readsIntegers: (flags & 1) !== 0,
            isSrgb: (flags & 16) !== 0,
            borderColor: border,
          },
  }
}

/** The words that threads of the engine get for a case, as many of each as the GPU's are, and the elements after that. */
function played(given: RecordedCase): { readonly words: Uint32Array; readonly after: Uint8Array } {
  const machine = new Machine()
  const elements = elementsOf(given)
  const pointer = machine.put(elements)
  const texture = boundTo(given, pointer)
  const textures: TextureObjects = { object: (handle) => (handle === HANDLE ? texture : undefined) }
  const from = wordsOf(given.inputs)
  const count = from.length / given.words
  const inputs = new Uint32Array(8 * count)
  for (const [index, word] of from.entries()) inputs[8 * Math.floor(index / given.words) + (index % given.words)] = word
  const [input, output] = [machine.put(inputs), machine.put(new Uint32Array(4 * count))]
  const parameters = new Uint8Array(28)
  const view = new DataView(parameters.buffer)
  for (const [index, value] of [HANDLE, input, output].entries()) view.setBigUint64(8 * index, BigInt(value), true)
  view.setUint32(24, count, true)
  const module = machine.load(kernelOf(bodies[given.body] ?? ''))
  const grid = [Math.ceil(count / 128), 1, 1] as const
  const launch = module.launch('k', { grid, block: [128, 1, 1], parameters }, { textures })
  while (launch.run() === 'more') {}
  const all = machine.get(output, new Uint32Array(4 * count))
  const words = all.filter((_, index) => index % 4 < given.results)
  return { words, after: machine.get(pointer, elements) }
}

for (const group of new Set(cases.map((each) => each.group))) {
  const own = cases.filter((each) => each.group === group)
  test(`${group}: ${own.length} textures or surfaces give each thread the bits that a GPU gave`, () => {
    assert.ok(own.length > 0)
    for (const given of own) {
      const { words, after } = played(given)
      const { size, format, channels = 1, address = [1, 1, 1], filter = 0, flags = 0 } = given
      const what = `${bodies[given.body]} of ${size.join('×')} ${channels} ${format}, modes ${address.join()}, filter ${filter}, flags ${flags}`
      assert.deepEqual([...words], [...wordsOf(given.outputs)], what)
      if (given.after !== undefined)
        assert.deepEqual([...after], [...bytesOf(given.after)], `the elements after ${what}`)
    }
  })
}
