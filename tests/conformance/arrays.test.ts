/** CUDA arrays, and the textures and surfaces that are made of them: what they are, how they are copied and closed, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ArrayOptions, CudaError, OpaqueArray, SurfaceObject, TextureObject } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'

/** Numbers that differ, as many as an array of this shape has. */
const counted = (shape: readonly number[]): Float32Array =>
  Float32Array.from({ length: shape.reduce((product, each) => product * each, 1) }, (_, index) => index + 0.5)

onEveryBackend('arrays', (bench) => {
  const { device } = bench
  const SHAPES: readonly ArrayOptions[] = [
    { shape: [37], format: 'f32' },
    { shape: [5, 7], format: 'f32' },
    { shape: [3, 5, 7], format: 'f32', surface: true },
    { shape: [4, 9], format: 'f32', layered: true },
    { shape: [4, 5, 6], format: 'f32', layered: true },
    { shape: [6, 8, 8], format: 'f32', cubemap: true },
    { shape: [12, 8, 8], format: 'f32', cubemap: true, layered: true },
  ]

  test('I1 an array says what it is', () => {
    using array = device.createArray({ shape: [3, 5], format: 'u8', channels: 4 })
    assert.ok(array instanceof OpaqueArray)
    assert.deepEqual([...array.shape], [3, 5])
    assert.equal(array.format, 'u8')
    assert.equal(array.channels, 4)
    assert.equal(array.byteLength, 60)
    assert.equal(array.device, device)
    assert.equal(typeof array.handle, 'bigint')
    assert.match(String(array), /^OpaqueArray\(3×5 elements of 4 u8, Device\(0, \w+\)\)$/)
    array.close()
    assert.equal(array.closed, true)
    assert.throws(() => array.handle, { code: 'ERR_CLOSED' })
  })

  test('I1 an array of each shape has what was copied to it, row after row', async () => {
    using stream = bench.stream()
    for (const options of SHAPES) {
      using array = device.createArray(options)
      const values = counted(options.shape)
      void stream.upload(array, values)
      assert.deepEqual(await stream.download(array, Float32Array), values, String(array))
      using from = device.alloc(array.byteLength, { stream })
      using to = device.alloc(array.byteLength, { stream })
      const other = values.map((each) => -each)
      void stream.upload(from, other)
      stream.copy(array, from).copy(to, array)
      assert.deepEqual(await stream.download(to, Float32Array), other, String(array))
      using copied = device.createArray(options)
      stream.copy(copied, array)
      assert.deepEqual(await stream.download(copied, Float32Array), other, String(array))
    }
  })

  test('I1 rows with gaps are copied to an array and from it, and those of a part from its first element on', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [3, 4], format: 'f32' })
    using pitched = device.alloc(3 * 64, { stream })
    const rows = new Float32Array(48).fill(-1)
    for (let at = 0; at < 12; at += 1) rows[16 * Math.floor(at / 4) + (at % 4)] = at
    void stream.upload(pitched, rows)
    stream.copy(array, pitched, { shape: [3, 16], sourceStrides: [64] })
    assert.deepEqual([...(await stream.download(array, Float32Array))], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    stream.fill(pitched, 0).copy(pitched, array, { shape: [2, 8], destinationStrides: [64] })
    const part = await stream.download(pitched, Float32Array)
    assert.deepEqual([...part.filter((_, at) => part[at] !== 0)], [1, 4, 5])
    assert.deepEqual([part[1], part[16], part[17]], [1, 4, 5])
  })

  test('I1 an array is longer than the pinned memory that its bytes go through', async () => {
    using stream = bench.stream()
    // Rows that are no power of two, so that each chunk ends in the middle of one, and of a plane.
    using array = device.createArray({ shape: [5, 700, 1001], format: 'f32' })
    const values = counted(array.shape)
    await stream.upload(array, values)
    const back = await stream.download(array, Float32Array)
    assert.equal(Buffer.compare(new Uint8Array(back.buffer), new Uint8Array(values.buffer)), 0)
  })

  test('I1 a captured copy of an array is launched again and again', async () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [2, 8], format: 'f32' })
    using from = device.alloc(array.byteLength, { stream })
    using to = device.alloc(array.byteLength, { stream })
    stream.synchronize()
    using graph = stream.capture(() => void stream.copy(array, from).copy(to, array))
    using exec = graph.instantiate()
    for (const value of [1, 2]) {
      void stream.upload(from, new Float32Array(16).fill(value))
      stream.launch(exec)
      assert.deepEqual([...new Set(await stream.download(to, Float32Array))], [value])
    }
  })

  test('I1 what does not fit an array is refused', () => {
    using stream = bench.stream()
    using array = device.createArray({ shape: [2, 8], format: 'f32' })
    using other = device.createArray({ shape: [4, 4], format: 'f32' })
    using buffer = device.alloc(64)
    const unknown = (options: unknown): unknown => device.createArray(options as ArrayOptions)
    for (const [run, code] of [
      [() => stream.copy(array, device.alloc(60)), 'ERR_OUT_OF_RANGE'],
      [() => stream.copy(array, array), 'ERR_INVALID_ARG_VALUE'],
      [() => stream.copy(array, other), 'ERR_INVALID_ARG_VALUE'],
      [() => stream.copy(array, buffer, { shape: [2, 32], destinationStrides: [32] }), 'ERR_INVALID_ARG_VALUE'],
      [() => stream.copy(array, buffer, { shape: [3, 16] }), 'ERR_OUT_OF_RANGE'],
      [() => stream.copy(array, buffer, { shape: [2, 30] }), 'ERR_OUT_OF_RANGE'],
      [() => stream.fill(array as never, 0), 'ERR_INVALID_ARG_TYPE'],
      [() => unknown({ shape: [2] }), 'ERR_INVALID_ARG_VALUE'],
      [() => unknown({ shape: [2], format: 'f64' }), 'ERR_INVALID_ARG_VALUE'],
      [() => unknown({ shape: [], format: 'f32' }), 'ERR_INVALID_ARG_VALUE'],
      [() => unknown({ shape: [0], format: 'f32' }), 'ERR_OUT_OF_RANGE'],
      [() => unknown({ shape: [2], format: 'f32', channels: 3 }), 'ERR_INVALID_ARG_VALUE'],
      [() => unknown({ shape: [2], format: 'f32', layered: true }), 'ERR_INVALID_ARG_VALUE'],
      [() => unknown({ shape: [5, 4, 4], format: 'f32', cubemap: true }), 'ERR_INVALID_ARG_VALUE'],
      [() => unknown({ shape: [4], format: 'f32', gather: true }), 'ERR_INVALID_ARG_VALUE'],
    ] as const)
      assert.throws(run, { code }, String(run))
    assert.throws(() => device.createArray({ shape: [200_000, 2], format: 'f32' }), CudaError)
  })

  test('I2 a texture and a surface say what they are, and what cannot be one is refused', () => {
    using array = device.createArray({ shape: [2, 8], format: 'u8' })
    using buffer = device.alloc(4096)
    using texture = device.createTexture(array, { addressMode: ['wrap', 'border'], borderColor: [1, 0, 0, 1] })
    assert.ok(texture instanceof TextureObject)
    assert.equal(texture.source, array)
    assert.equal(texture.device, device)
    assert.equal(typeof texture.handle, 'bigint')
    assert.match(String(texture), /^TextureObject\(\d+, Device\(0, \w+\)\)$/)
    using writable = device.createArray({ shape: [2, 8], format: 'u8', surface: true })
    using surface = device.createSurface(writable)
    assert.ok(surface instanceof SurfaceObject)
    assert.equal(surface.source, writable)
    assert.notEqual(surface.handle, texture.handle)
    const options = (given: object) => (): unknown => device.createTexture(array, given)
    const ofBuffer = (given: object) => (): unknown => device.createTexture(buffer, given)
    for (const [run, code] of [
      [options({ filterMode: 'linear' }), 'ERR_INVALID_ARG_VALUE'],
      [options({ filterMode: 'cubic' }), 'ERR_INVALID_ARG_VALUE'],
      [options({ addressMode: 'repeat' }), 'ERR_INVALID_ARG_VALUE'],
      [options({ addressMode: [] }), 'ERR_INVALID_ARG_VALUE'],
      [options({ borderColor: [1, 2] }), 'ERR_INVALID_ARG_VALUE'],
      [options({ sRGB: true }), 'ERR_INVALID_ARG_VALUE'],
      [options({ format: 'u8' }), 'ERR_INVALID_ARG_VALUE'],
      [ofBuffer({}), 'ERR_INVALID_ARG_VALUE'],
      [ofBuffer({ format: 'u32', readMode: 'normalizedFloat' }), 'ERR_INVALID_ARG_VALUE'],
      [ofBuffer({ format: 'f32', pitch: 64 }), 'ERR_INVALID_ARG_VALUE'],
      [ofBuffer({ format: 'f32', shape: [4, 7] }), 'ERR_INVALID_ARG_VALUE'],
      [ofBuffer({ format: 'f32', shape: [64, 32] }), 'ERR_OUT_OF_RANGE'],
      [() => device.createTexture(buffer.subarray(4), { format: 'f32' }), 'ERR_INVALID_ARG_VALUE'],
      [() => device.createSurface(array), 'ERR_INVALID_ARG_VALUE'],
      [() => device.createTexture({} as never), 'ERR_INVALID_ARG_TYPE'],
    ] as const)
      assert.throws(run, { code }, String(run))
  })

  test('I3 an array is closed while work with it is queued, and the work is done', async () => {
    using stream = bench.stream()
    const array = device.createArray({ shape: [64], format: 'f32' })
    using to = device.alloc(array.byteLength, { stream })
    const latch = bench.latch(stream)
    void stream.upload(array, new Float32Array(64).fill(3))
    stream.copy(to, array)
    array.close()
    assert.throws(() => stream.copy(to, array), { code: 'ERR_CLOSED' })
    latch.open()
    assert.deepEqual([...new Set(await stream.download(to, Float32Array))], [3])
  })

  test('I3 a texture keeps its memory, whichever is closed first', async () => {
    using stream = bench.stream()
    for (let round = 0; round < 8; round += 1) {
      const array = device.createArray({ shape: [8, 8], format: 'f32', surface: true })
      const buffer = device.alloc(1024, { stream })
      const objects = [
        device.createTexture(array),
        device.createSurface(array),
        device.createTexture(buffer, { format: 'f32' }),
      ]
      void stream.upload(array, new Float32Array(64))
      array.close()
      buffer.close()
      for (const object of round % 2 === 0 ? objects : objects.reverse()) {
        object.close()
        object.close()
        assert.equal(object.closed, true)
      }
    }
    await device.finished()
  })
})
