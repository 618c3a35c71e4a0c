/** Launches of Triton kernels: which code the arguments choose, and what a launch adds to them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTritonKernel, type TritonKernel, type TritonMeta, type TritonVariant } from 'cuda-streams/triton'
import { onEveryBackend } from '../../helpers/suite.js'

type Signature = readonly ['out u32*', 'i32']
const SIGNATURE: Signature = ['out u32*', 'i32']

/** Code that each block writes a number by: to the memory of a launch first, if it gets some. */
function writing(value: number, { takesCount = true, hasMemory = false } = {}): string {
  const count = takesCount ? '.param .u32 mark_param_1, ' : ''
  const to = hasMemory
    ? `ld.param.u64 %rd4, [mark_param_2]; add.u64 %rd5, %rd4, %rd2;
       st.global.u32 [%rd5], %r2; ld.global.u32 %r3, [%rd5]; add.u32 %r2, %r3, 1;`
    : ''
  return `.version 8.5
.target sm_80
.address_size 64
.visible .entry mark(.param .u64 mark_param_0, ${count}.param .u64 mark_param_2, .param .u64 mark_param_3) .reqntid 64
{
  .reg .b64 %rd<6>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [mark_param_0];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  mov.u32 %r2, ${value};
  ${to}
  st.global.u32 [%rd3], %r2;
  ret;
}`
}

const variant = (value: number, more: Partial<TritonVariant> = {}): TritonVariant => ({
  ptx: writing(value, { takesCount: more.ones === undefined, hasMemory: more.globalScratch !== undefined }),
  warps: 2,
  ...more,
})

const kernelOf = (...variants: readonly TritonVariant[]): TritonKernel<Signature, { readonly BLOCK: 8 }> =>
  defineTritonKernel({
    name: 'mark',
    signature: SIGNATURE,
    parameterNames: ['out', 'n'],
    configs: [{ meta: { BLOCK: 8 }, variants }],
  })

const tuned = (): TritonKernel<Signature, { readonly BLOCK: 8 | 16 }> =>
  defineTritonKernel({
    name: 'mark',
    signature: SIGNATURE,
    parameterNames: ['out', 'n'],
    key: [1],
    configs: [
      { meta: { BLOCK: 8 }, variants: [variant(8)] },
      { meta: { BLOCK: 16 }, variants: [variant(16)] },
    ],
  })

onEveryBackend('launches of Triton kernels', ({ name, device, stream: make }) => {
  const stream = make()
  const words = (count: number) => device.alloc(4 * count, { stream })

  test('a launch takes the first variant whose conditions the arguments meet', async () => {
    const kernel = kernelOf(variant(1, { divisible: [0, 1] }), variant(2, { divisible: [0] }), variant(3))
    const out = stream.bufferFrom(new Uint32Array(3))
    const first = async (of: typeof out, n: number): Promise<number> =>
      (await stream.launch(kernel, { grid: 1 }, of, n).download(of, Uint32Array))[0] ?? 0
    assert.equal(await first(out, 32), 1)
    assert.equal(await first(out, 33), 2)
    assert.equal(await first(out.subarray(4), 32), 3)
  })

  test('a parameter that was compiled as 1 is no parameter of the code, and must be 1', async () => {
    const kernel = kernelOf(variant(5, { ones: [1] }))
    const out = words(1)
    assert.deepEqual([...(await stream.launch(kernel, { grid: 1 }, out, 1).download(out, Uint32Array))], [5])
    assert.throws(() => stream.launch(kernel, { grid: 1 }, out, 2), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /^mark: parameter `n` \(i32\) is 2, and must be 1, as its declaration in the source says/,
    })
  })

  test('arguments that no variant was compiled for are refused, by the parameter', () => {
    const kernel = kernelOf(variant(1, { divisible: [0, 1] }))
    assert.throws(() => stream.launch(kernel, { grid: 1 }, words(1), 17), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /`n` \(i32\) is 17, and must be a multiple of 16/,
    })
    assert.throws(() => stream.launch(kernel, { grid: 1 }, words(2).subarray(4), 16), {
      message: /`out` \(out u32\*\) begins at 0x[\da-f]+4, and must be a multiple of 16/,
    })
  })

  test('the grid may be a function of the configuration, and all else of the shape is the compiler’s', async () => {
    const kernel = kernelOf(variant(1))
    const out = stream.bufferFrom(new Uint32Array(4))
    stream.launch(kernel, { grid: ({ BLOCK }) => [24 / BLOCK] }, out, 24)
    assert.deepEqual([...(await stream.download(out, Uint32Array))], [1, 1, 1, 0])
    for (const wrong of [{ block: 64 }, { threads: 64 }, { sharedMemory: 8 }, { cluster: 2 }, { cooperative: true }])
      assert.throws(() => stream.launch(kernel, { grid: 1, ...wrong }, out, 1), {
        code: 'ERR_INVALID_ARG_VALUE',
        message: /is decided where the kernel is compiled \(num_warps is 2/,
      })
    assert.throws(() => stream.launch(kernel, {} as never, out, 1), { message: /config must have grid/ })
    assert.throws(() => stream.launch(kernel, undefined as never, out, 1), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => stream.launch(kernel, { grid: 1, blocks: 1 } as never, out, 1), { message: /blocks/ })
    assert.throws(() => stream.launch(kernel, { grid: 0 }, out, 1), { code: 'ERR_OUT_OF_RANGE' })
  })

  test('arguments are checked against the signature', () => {
    const kernel = kernelOf(variant(1))
    assert.throws(() => stream.launch(kernel, { grid: 1 }, words(1), 1.5), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => Reflect.apply(stream.launch, stream, [kernel, { grid: 1 }, words(1)]), {
      message: /mark takes 2 arguments, 'out u32\*', 'i32', and 1 were given/,
    })
  })

  test('memory that each block needs for the time of a launch is supplied', async () => {
    const kernel = kernelOf(variant(7, { globalScratch: 4 }))
    const out = words(3)
    assert.deepEqual([...(await stream.launch(kernel, { grid: 3 }, out, 1).download(out, Uint32Array))], [8, 8, 8])
  })

  test('a graph’s node takes other arguments, and with them another variant', async () => {
    const kernel = kernelOf(variant(1, { divisible: [1] }), variant(2))
    const out = stream.bufferFrom(new Uint32Array(2))
    await kernel.prepare(device)
    const graph = stream.capture(() => stream.launch(kernel, { grid: 1 }, out, 16))
    const [node] = graph.nodesOf(kernel)
    assert.ok(node?.config !== undefined && node.args !== undefined)
    assert.deepEqual([node.kernel, node.args[1], node.config.block], [kernel, 16, 64])
    using exec = graph.instantiate()
    stream.launch(exec)
    assert.deepEqual([...(await stream.download(out, Uint32Array))], [1, 0])
    exec.update(node, { ...node.config, grid: 2 }, out, 17)
    stream.launch(exec)
    assert.deepEqual([...(await stream.download(out, Uint32Array))], [2, 2])
    assert.throws(() => exec.update(node, { grid: 1, block: 32 }, out, 16), { message: /config\.block is decided/ })
  })

  test('a captured launch keeps its own memory, and its node cannot be changed', async () => {
    const kernel = kernelOf(variant(7, { globalScratch: 4 }))
    const out = words(2)
    await kernel.prepare(device)
    const graph = stream.capture(() => stream.launch(kernel, { grid: 2 }, out, 1))
    using exec = graph.instantiate()
    assert.deepEqual([...(await stream.launch(exec).download(out, Uint32Array))], [8, 8])
    const [node] = graph.nodesOf(kernel)
    assert.ok(node !== undefined)
    assert.throws(() => exec.update(node, { grid: 1 }, out, 1), { code: 'ERR_UNSUPPORTED' })
  })

  test('choose() takes a configuration for all launches, or for those of one key', async () => {
    const kernel = tuned()
    const out = words(2)
    const first = async (n: number): Promise<number> =>
      (await stream.launch(kernel, { grid: ({ BLOCK }) => 16 / BLOCK }, out, n).download(out, Uint32Array))[0] ?? 0
    assert.deepEqual([kernel.configs, await first(1)], [[{ BLOCK: 8 }, { BLOCK: 16 }], 8])
    kernel.choose({ meta: { BLOCK: 16 }, key: [7] })
    assert.deepEqual([await first(1), await first(7)], [8, 16])
    kernel.choose({ meta: { BLOCK: 16 } }).choose({ meta: { BLOCK: 8 }, key: [7] })
    assert.deepEqual([await first(1), await first(7)], [16, 8])
    const choose = (choice: unknown): unknown => Reflect.apply(kernel.choose, kernel, [choice])
    assert.throws(() => choose({ meta: { BLOCK: 32 } }), { message: /compiled for \{"BLOCK":8\}, \{"BLOCK":16\}/ })
    assert.throws(() => choose({ meta: { BLOCK: 8 }, key: [] }), { message: /has 0 values, and the key of mark 1/ })
    assert.throws(() => choose({ meta: 1 }), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => choose(undefined), { code: 'ERR_INVALID_ARG_TYPE' })
  })

  test('tune() measures on a GPU, and on the simulator nothing', async () => {
    const kernel = tuned()
    const out = stream.bufferFrom(new Uint32Array(2))
    const choice = await kernel.tune(stream, { grid: ({ BLOCK }) => 16 / BLOCK }, out, 9)
    assert.deepEqual([choice.key, choice.nanoseconds?.length], [[9], name === 'cuda' ? 2 : undefined])
    if (name === 'sim') assert.deepEqual([...(await stream.download(out, Uint32Array))], [0, 0])
    kernel.choose(choice)
    await assert.rejects(Reflect.apply(kernel.tune, kernel, [1]), { code: 'ERR_INVALID_ARG_TYPE' })
  })
})

test('definitions that no compiler writes are refused', () => {
  const define = (more: object): unknown =>
    Reflect.apply(defineTritonKernel, undefined, [
      {
        name: 'mark',
        signature: SIGNATURE,
        configs: [{ meta: {} satisfies TritonMeta, variants: [variant(1)] }],
        ...more,
      },
    ])
  define({})
  assert.throws(() => Reflect.apply(defineTritonKernel, undefined, []), { code: 'ERR_INVALID_ARG_TYPE' })
  assert.throws(() => define({ name: 1 }), { code: 'ERR_INVALID_ARG_TYPE' })
  assert.throws(() => define({ key: [2] }), { code: 'ERR_OUT_OF_RANGE' })
  assert.throws(() => define({ configs: [] }), { code: 'ERR_INVALID_ARG_VALUE' })
  assert.throws(() => define({ configs: [{ meta: {}, variants: [] }] }), { code: 'ERR_INVALID_ARG_VALUE' })
  assert.throws(() => define({ configs: [{ meta: {}, variants: [variant(1, { divisible: [2] })] }] }), {
    code: 'ERR_OUT_OF_RANGE',
  })
})
