/** Structs, vectors and floats of 16 bits as arguments: each byte arrives where the code of the kernel looks for it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel, type KernelNode, Module, struct } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { refused } from './expect.js'

/**
 * `struct Params { float scale; int2 size; double bias; bool on; half weights[2]; }` and a `float4`, each by value. The fake driver knows the
 * kernel by its name.
 */
const PTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry shade(.param .u64 to, .param .align 8 .b8 p[32], .param .align 16 .b8 add[16], .param .u16 h) {
  .reg .u64 %to;
  .reg .f32 %scale, %a, %b, %c, %d, %w, %x, %y, %z, %h;
  .reg .f64 %bias;
  .reg .s32 %width, %height;
  .reg .b16 %half;
  .reg .u32 %on;
  .reg .pred %off;
  ld.param.u64 %to, [to];
  ld.param.f32 %scale, [p];
  ld.param.v2.s32 {%width, %height}, [p+8];
  ld.param.f64 %bias, [p+16];
  ld.param.u8 %on, [p+24];
  ld.param.b16 %half, [p+28];
  cvt.f32.f16 %z, %half;
  ld.param.b16 %half, [h];
  cvt.f32.f16 %h, %half;
  ld.param.v4.f32 {%a, %b, %c, %d}, [add];
  cvt.rn.f32.s32 %w, %width;
  cvt.rn.f32.s32 %x, %height;
  cvt.rn.f32.f64 %y, %bias;
  fma.rn.f32 %a, %a, %scale, %w;
  fma.rn.f32 %b, %b, %scale, %x;
  fma.rn.f32 %c, %c, %scale, %y;
  fma.rn.f32 %d, %d, %scale, %z;
  setp.eq.u32 %off, %on, 0;
  @%off bra done;
  add.f32 %d, %d, %h;
done:
  st.global.v4.f32 [%to], {%a, %b, %c, %d};
  ret;
}
`
const Params = struct({ scale: 'f32', size: 'i32x2', bias: 'f64', on: 'bool', weights: ['f16', 2] })
const SIGNATURE = ['out f32x4*', Params, 'f32x4', 'f16'] as const
const ONE = { grid: 1, block: 1 }
const params = { scale: 2, size: [640, -480], bias: 0.5, on: true, weights: [9, 0.25] } as const
const add = [1, 2, 3, 4] as const
const EXPECTED = [642, -476, 6.5, 8.25 + 1.5]

onEveryBackend('struct arguments', (bench) => {
  const { device } = bench

  test('K2 structs, vectors and floats of 16 bits arrive as they were given, by value', async () => {
    using module = Module.load(PTX, { device })
    const shade = module.kernel('shade', SIGNATURE)
    using stream = bench.stream()
    using to = device.alloc(16, { stream })
    stream.launch(shade, ONE, to, params, add, 1.5)
    assert.deepEqual([...(await stream.download(to, Float32Array))], EXPECTED)
    // A typed array will do for a vector, and each launch has its own arguments.
    using other = device.alloc(16, { stream })
    stream.launch(shade, ONE, to, { ...params, on: false, size: [1, 2] }, Float32Array.of(0, 0, 0, 1), 100)
    stream.launch(shade, ONE, other, { ...params, bias: -1 }, [0, 0, 0, 0], -0.25)
    assert.deepEqual([...(await stream.download(to, Float32Array))], [1, 2, 0.5, 2.25])
    assert.deepEqual([...(await stream.download(other, Float32Array))], [640, -480, -1, 0])
  })

  test('K2 floats of 16 bits are rounded to the nearest, ties to even', async () => {
    using module = Module.load(PTX, { device })
    const shade = module.kernel('shade', SIGNATURE)
    using stream = bench.stream()
    using to = device.alloc(16, { stream })
    for (const [given, rounded] of [
      [2049, 2048],
      [2051, 2052],
      [-0.1, -0.0999755859375],
      [65519, 65504],
    ] as const) {
      stream.launch(shade, ONE, to, { ...params, weights: [0, 0] }, [0, 0, 0, 0], given)
      assert.equal((await stream.download(to, Float32Array))[3], rounded, `${given}`)
    }
  })

  test('K7 a captured launch keeps its struct; a node gets another', async () => {
    const shade = defineKernel({
      name: 'shade',
      ptx: PTX,
      signature: SIGNATURE,
      parameterNames: ['to', 'p', 'add', 'h'],
    })
    await shade.prepare(device)
    using stream = bench.stream()
    using to = device.alloc(16, { stream })
    stream.fill(to, 0)
    const given: { scale: number } & Omit<typeof params, 'scale'> = { ...params }
    using graph = stream.capture(() => {
      stream.launch(shade, ONE, to, given, add, 1.5)
    })
    given.scale = 1000
    using exec = graph.instantiate()
    stream.launch(exec)
    assert.deepEqual([...(await stream.download(to, Float32Array))], EXPECTED)
    const [node] = graph.nodesOf(shade)
    assert.ok(node)
    const typed: KernelNode<typeof SIGNATURE> = node
    exec.update(typed, ONE, to, { ...params, scale: 0 }, add, 0)
    stream.launch(exec)
    assert.deepEqual([...(await stream.download(to, Float32Array))], [640, -480, 0.5, 0.25])
  })

  test('K2 a struct of another size than the kernel’s is refused', () => {
    using module = Module.load(PTX, { device })
    const Other = struct({ scale: 'f32', size: 'i32x2' })
    const take = (second: typeof Other) => module.kernel('shade', ['out f32x4*', second, 'f32x4', 'f16'])
    refused(
      () => take(Other),
      'ERR_INVALID_ARG_VALUE',
      /8, 16, 16, 2 bytes, but the kernel's have 8, 32, 16, 2: argument 1, 'struct', has 16 bytes, and 32 in the code/,
    )
    refused(
      () => module.kernel('shade', ['out f32x4*', Params, 'f32x2', 'f16']),
      'ERR_INVALID_ARG_VALUE',
      /8, 32, 8, 2 bytes/,
    )
  })

  test('K3 a part that does not fit is refused by its name, and nothing is queued', async () => {
    using module = Module.load(PTX, { device })
    const shade = module.kernel('shade', SIGNATURE)
    using stream = bench.stream()
    using to = device.alloc(16, { stream })
    stream.fill(to, 7)
    const launch = (...args: readonly unknown[]): void => {
      Reflect.apply(stream.launch, stream, [shade, ONE, to, ...args])
    }
    const rows: readonly (readonly [args: readonly unknown[], code: string, message: RegExp])[] = [
      [
        [{ ...params, scale: 'x' }, add, 1],
        'ERR_INVALID_ARG_TYPE',
        /^shade: argument 1\.scale \('f32'\) must be a number, not 'x'$/,
      ],
      [
        [{ ...params, size: [1, 2 ** 31] }, add, 1],
        'ERR_OUT_OF_RANGE',
        /^shade: argument 1\.size\[1\] \('i32'\) must be from -2147483648 to 2147483647, not 2147483648$/,
      ],
      [
        [{ ...params, on: 1 }, add, 1],
        'ERR_INVALID_ARG_TYPE',
        /^shade: argument 1\.on \('bool'\) must be true or false, not 1$/,
      ],
      [[to, add, 1], 'ERR_INVALID_ARG_TYPE', /^shade: argument 1\.scale \('f32'\) must be a number, not undefined$/],
      [
        [null, add, 1],
        'ERR_INVALID_ARG_TYPE',
        /^shade: argument 1 \('struct'\) must be an object such as \{ scale, size, bias, on, weights \}, not null$/,
      ],
      [
        [params, [1, 2, 3], 1],
        'ERR_INVALID_ARG_VALUE',
        /^shade: argument 2 \('f32x4'\) must be an array of 4 elements \(f32\), and 3 were given$/,
      ],
      [[params, 4, 1], 'ERR_INVALID_ARG_TYPE', /^shade: argument 2 \('f32x4'\) must be an array of 4 elements/],
      [[params, add, 1n], 'ERR_INVALID_ARG_TYPE', /^shade: argument 3 \('f16'\) must be a number, not 1n$/],
    ]
    for (const [args, code, message] of rows) refused(() => launch(...args), code, message)
    assert.ok((await stream.download(to)).every((byte) => byte === 7))
    refused(
      () => stream.launch(shade, ONE, to.subarray(4, 12), params, add, 1),
      'ERR_INVALID_ARG_VALUE',
      /does not begin at a multiple of 16, for f32x4$/,
    )
  })
})
