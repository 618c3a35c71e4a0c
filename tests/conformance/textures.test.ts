/** Textures and surfaces as kernels use them: what they read and write, in the order of streams, and the same on the simulator as on a GPU. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Bytes,
  type DeviceBuffer,
  Module,
  type OpaqueArray,
  type Stream,
  type SurfaceObject,
  type TextureOptions,
} from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'

const HEAD = `.version 7.0
.target sm_70
.address_size 64
`
/** Each thread reads the texture at half its number, in as many directions as it is told, and stores four words. */
const reading = (name: string, instruction: string): string => `
.visible .entry ${name}(.param .u64 texture, .param .u64 out) {
  .reg .b64 %t, %out, %at;
  .reg .b32 %i, %half;
  .reg .f32 %x, %y;
  .reg .b32 %r<4>;
  ld.param.u64 %t, [texture];
  ld.param.u64 %out, [out];
  mov.u32 %i, %tid.x;
  cvt.rn.f32.u32 %x, %i;
  mul.f32 %x, %x, 0f3F000000;
  mov.f32 %y, 0f3F000000;
  mul.wide.u32 %at, %i, 16;
  add.u64 %at, %at, %out;
  ${instruction}
  st.global.v4.b32 [%at], {%r0, %r1, %r2, %r3};
  ret;
}
`
const PTX = `${HEAD}
${reading('line', 'tex.1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x}];')}
${reading('image', 'tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];')}
${reading('integers', 'tex.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];')}
${reading('linear', 'tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%i}];')}
${reading('gathered', 'tld4.r.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];')}
${reading('sizes', 'mov.b32 %r2, 0; mov.b32 %r3, 0; txq.width.b32 %r0, [%t]; txq.height.b32 %r1, [%t];')}
.visible .entry add(.param .u64 surface, .param .u32 what) {
  .reg .b64 %s;
  .reg .b32 %x, %what, %word;
  ld.param.u64 %s, [surface];
  ld.param.u32 %what, [what];
  mov.u32 %x, %tid.x;
  shl.b32 %x, %x, 2;
  suld.b.1d.b32.trap %word, [%s, {%x}];
  add.u32 %word, %word, %what;
  sust.b.1d.b32.trap [%s, {%x}], %word;
  ret;
}
.visible .entry beyond(.param .u64 surface, .param .u64 out) {
  .reg .b64 %s, %out;
  .reg .b32 %r0, %r1, %x;
  ld.param.u64 %s, [surface];
  ld.param.u64 %out, [out];
  mov.u32 %x, 4096;
  suld.b.1d.b32.clamp %r0, [%s, {%x}];
  suld.b.1d.b32.zero %r1, [%s, {%x}];
  sust.b.1d.b32.zero [%s, {%x}], %x;
  st.global.v2.b32 [%out], {%r0, %r1};
  ret;
}
`
const READS = ['u64', 'out f32*'] as const
const KINDS = ['line', 'image', 'integers', 'linear', 'gathered', 'sizes'] as const

onEveryBackend('textures', (bench) => {
  const { device } = bench
  const module = Module.load(PTX, { device })
  const kernels = Object.fromEntries(KINDS.map((name) => [name, module.kernel(name, READS)]))
  const add = module.kernel('add', ['u64', 'u32'])

  async function filled(stream: Stream, memory: OpaqueArray | DeviceBuffer, values: Bytes): Promise<void> {
    void stream.upload(memory, values)
    await stream.finished()
  }

  /** What eight threads of a kernel read. */
  async function read(
    name: (typeof KINDS)[number],
    source: OpaqueArray,
    options: TextureOptions,
  ): Promise<Float32Array> {
    using stream = bench.stream()
    using texture = device.createTexture(source, options)
    using out = device.alloc(128, { stream })
    const kernel = kernels[name]
    assert.ok(kernel)
    stream.launch(kernel, { grid: 1, block: 8 }, texture, out)
    return stream.download(out, Float32Array)
  }
  const firsts = (words: Float32Array): number[] => [...words.filter((_, at) => at % 4 === 0)]

  test('I2 a texture reads the nearest element, or a mean of those around', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [4], format: 'f32' })
    await filled(stream, array, new Float32Array([1, 2, 4, 8]))
    assert.deepEqual(firsts(await read('line', array, {})), [1, 1, 2, 2, 4, 4, 8, 8])
    assert.deepEqual(firsts(await read('line', array, { filterMode: 'linear' })), [1, 1, 1.5, 2, 3, 4, 6, 8])
  })

  test('I2 what lies beside an image is its edge, its border, or the image again', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [2], format: 'f32' })
    await filled(stream, array, new Float32Array([1, 2]))
    const modes = { clamp: [1, 1, 2, 2, 2, 2, 2, 2], border: [1, 1, 2, 2, 7, 7, 7, 7] }
    for (const [addressMode, expected] of Object.entries(modes)) {
      const options = { addressMode: addressMode as 'border' | 'clamp', borderColor: [7, 0, 0, 0] }
      assert.deepEqual(firsts(await read('line', array, options)), expected, addressMode)
    }
    const again = { wrap: [1, 2, 1, 2, 1, 2, 1, 2], mirror: [1, 2, 2, 1, 1, 2, 2, 1] }
    for (const [addressMode, expected] of Object.entries(again)) {
      const options = { addressMode: addressMode as 'mirror' | 'wrap', normalizedCoordinates: true }
      assert.deepEqual(firsts(await read('line', array, options)), expected, addressMode)
    }
  })

  test('I2 integers are read as they are, or as floats to 1', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [1, 2], format: 'u8', channels: 4 })
    await filled(stream, array, new Uint8Array([0, 51, 255, 1, 255, 102, 0, 2]))
    const words = new Uint32Array((await read('integers', array, {})).buffer)
    assert.deepEqual([...words.subarray(0, 4), ...words.subarray(8, 12)], [0, 51, 255, 1, 255, 102, 0, 2])
    const floats = await read('image', array, { readMode: 'normalizedFloat' })
    const expected = [0, 0.2, 1, 1 / 255].map(Math.fround)
    assert.deepEqual([...floats.subarray(0, 4)], expected)
  })

  test('I2 a gather has four elements, and a texture says its size', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [2, 4], format: 'f32', gather: true })
    await filled(stream, array, new Float32Array([1, 2, 3, 4, 5, 6, 7, 8]))
    const four = await read('gathered', array, {})
    assert.deepEqual([...four.subarray(16, 20)], [6, 7, 3, 2])
    const [width, height] = new Uint32Array((await read('sizes', array, {})).buffer)
    assert.deepEqual([width, height], [4, 2])
  })

  test('I2 a buffer is read by integers, or as an image', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(1024, { stream })
    const { linear, image } = kernels
    assert.ok(linear && image)
    await filled(
      stream,
      buffer,
      Float32Array.from({ length: 256 }, (_, index) => index),
    )
    using out = device.alloc(128, { stream })
    using line = device.createTexture(buffer.subarray(0, 20), { format: 'f32' })
    stream.launch(linear, { grid: 1, block: 8 }, line, out)
    assert.deepEqual(firsts(await stream.download(out, Float32Array)), [0, 1, 2, 3, 4, 0, 0, 0])
    using rows = device.createTexture(buffer, { format: 'f32', shape: [4, 8], pitch: 256, filterMode: 'linear' })
    stream.launch(image, { grid: 1, block: 8 }, rows, out)
    assert.deepEqual(firsts(await stream.download(out, Float32Array)), [0, 0, 0.5, 1, 1.5, 2, 2.5, 3])
  })

  const added = (surface: SurfaceObject, what: number): void => {
    using stream = bench.stream()
    stream.launch(add, { grid: 1, block: 8 }, surface, what)
    stream.synchronize()
  }

  test('I2 a surface is read and written, and beside it as the instruction says', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [8], format: 'u32', surface: true })
    using surface = device.createSurface(array)
    await filled(stream, array, new Uint32Array([1, 2, 3, 4, 5, 6, 7, 8]))
    added(surface, 10)
    assert.deepEqual([...(await stream.download(array, Uint32Array))], [11, 12, 13, 14, 15, 16, 17, 18])
    using out = device.alloc(8, { stream })
    stream.launch(module.kernel('beyond', ['u64', 'out u32*']), { grid: 1, block: 1 }, surface, out)
    assert.deepEqual([...(await stream.download(out, Uint32Array))], [18, 0])
    assert.deepEqual([...(await stream.download(array, Uint32Array))], [11, 12, 13, 14, 15, 16, 17, 18])
  })

  test('I2 a captured launch has its surface, which the graph keeps', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [8], format: 'u32', surface: true })
    const surface = device.createSurface(array)
    await filled(stream, array, new Uint32Array(8))
    using graph = stream.capture(() => void stream.launch(add, { grid: 1, block: 8 }, surface, 3))
    using exec = graph.instantiate()
    surface.close()
    stream.launch(exec).launch(exec)
    assert.deepEqual([...new Set(await stream.download(array, Uint32Array))], [6])
  })

  test('I3 a texture and its array are closed while a kernel that reads them is queued', async () => {
    using stream = bench.stream()
    const array = device.createArray({ shape: [4], format: 'f32' })
    await filled(stream, array, new Float32Array([1, 2, 4, 8]))
    const texture = device.createTexture(array)
    using out = device.alloc(128, { stream })
    const latch = bench.latch(stream)
    const { line } = kernels
    assert.ok(line)
    stream.launch(line, { grid: 1, block: 8 }, texture, out)
    texture.close()
    array.close()
    assert.throws(() => stream.launch(line, { grid: 1, block: 8 }, texture, out), { code: 'ERR_CLOSED' })
    latch.open()
    assert.deepEqual(firsts(await stream.download(out, Float32Array)), [1, 1, 2, 2, 4, 4, 8, 8])
  })
})
