/** Tensor maps: made of buffers, passed to kernels, refused where the driver refuses them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Module, Stream, TensorMap } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'

/** Copies a tile at the coordinates (x, y) from one tensor to the same place of another. */
const COPY = `.version 8.0
.target sm_90
.address_size 64
.shared .align 128 .b8 tile[256];
.shared .align 8 .b64 bar;
.visible .entry move(.param .align 64 .b8 source[128], .param .align 64 .b8 target[128], .param .u32 x, .param .u32 y) {
  .reg .b64 %from, %to, %state; .reg .b32 %x, %y, %tile, %bar; .reg .pred %over;
  mov.b64 %from, source; cvta.param.u64 %from, %from; mov.b64 %to, target; cvta.param.u64 %to, %to;
  ld.param.u32 %x, [x]; ld.param.u32 %y, [y]; mov.u32 %tile, tile; mov.u32 %bar, bar;
  mbarrier.init.shared.b64 [%bar], 1; fence.proxy.async;
  mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 256;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%from, {%x, %y}], [%bar];
AGAIN: mbarrier.try_wait.parity.shared.b64 %over, [%bar], 0; @!%over bra AGAIN;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%to, {%x, %y}], [%tile];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
}
`

onEveryBackend('tensor maps', (bench) => {
  const { device } = bench
  const lacks = device.computeCapability.major < 9 && 'needs compute capability 9.0'

  test('K10 a kernel copies tiles by maps of two buffers', { skip: lacks }, async () => {
    using stream = new Stream({ device })
    const [rows, columns] = [16, 24]
    const values = Float32Array.from({ length: rows * columns }, (_, index) => index + 1)
    using from = stream.bufferFrom(values)
    using to = stream.bufferFrom(new Float32Array(rows * columns))
    const tensor = { type: 'f32', shape: [rows, columns], box: [8, 8] } as const
    const [source, target] = [from.tensorMap(tensor), to.tensorMap(tensor)]
    using module = Module.load(COPY, { device })
    const move = module.kernel('move', ['in tensorMap', 'out tensorMap', 'i32', 'i32'])
    stream.launch(move, { grid: 1, block: 1 }, source, target, 20, 4)
    const moved = await stream.download(to, Float32Array)
    const expected = values.map((value, index) => {
      const [x, y] = [index % columns, Math.floor(index / columns)]
      return x >= 20 && y >= 4 && y < 12 ? value : 0
    })
    assert.deepEqual(moved, expected)
    assert.equal(source.device, device)
    assert.equal(source.bytes.length, 128)
    // A tensor map is no pointer, and memory is no tensor map.
    const wrong = { code: 'ERR_INVALID_ARG_TYPE' }
    assert.throws(() => stream.launch(move, { grid: 1, block: 1 }, from as never, target, 0, 0), {
      ...wrong,
      message: /tensorMap\(options\)/,
    })
    from.close()
    assert.throws(() => stream.launch(move, { grid: 1, block: 1 }, source, target, 0, 0), { code: 'ERR_CLOSED' })
    await stream.synchronize()
  })

  test('K10 maps that no GPU takes are refused by the driver, others before', { skip: lacks }, () => {
    using stream = new Stream({ device })
    using buffer = device.alloc(4096, { stream })
    const tensor = { type: 'f32', shape: [16, 32], box: [8, 8] } as const
    assert.ok(buffer.tensorMap(tensor) instanceof TensorMap)
    for (const [given, why] of [
      [{ ...tensor, box: [8, 3] }, /multiple of 16 bytes, not 12/],
      [{ ...tensor, box: [8, 257] }, /1 to 256 elements/],
      [{ ...tensor, strides: [120] }, /multiple of 16 bytes/],
      [{ ...tensor, swizzle: 32, box: [8, 16] }, /swizzled by 32 bytes/],
      [{ ...tensor, type: 'u32', fill: 'nan' }, /cannot be NaN/],
      [{ ...tensor, interleave: 16 }, /3 to 5 dimensions/],
      [{ ...tensor, elementStrides: [9, 1] }, /element stride/],
    ] as const)
      assert.throws(() => buffer.tensorMap(given), { code: 'CUDA_ERROR_INVALID_VALUE', number: 1, message: why })
    assert.throws(() => buffer.subarray(4).tensorMap({ ...tensor, shape: [1, 8] }), { number: 1 })
    const range = { code: 'ERR_OUT_OF_RANGE' }
    assert.throws(() => buffer.tensorMap({ ...tensor, shape: [64, 32] }), range)
    assert.throws(() => buffer.tensorMap({ ...tensor, swizzle: 48 as never }), range)
    assert.throws(() => buffer.tensorMap({ ...tensor, shape: [0, 32] }), range)
    const value = { code: 'ERR_INVALID_ARG_VALUE' }
    assert.throws(() => buffer.tensorMap({ ...tensor, box: [8] }), value)
    assert.throws(() => buffer.tensorMap({ ...tensor, type: 'bool' as never }), value)
    assert.throws(() => buffer.tensorMap({ type: 'f32', shape: [16, 32] }), value)
    assert.throws(() => buffer.tensorMap(undefined as never), { code: 'ERR_INVALID_ARG_TYPE' })
    buffer.close()
    assert.throws(() => buffer.tensorMap(tensor), { code: 'ERR_CLOSED' })
  })
})
