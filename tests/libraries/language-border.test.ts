/**
 * What crosses the border to C: every argument where its function wants it, errors back again, groups, and how a
 * communicator begins and ends. On a C library that pretends to be cuBLAS and NCCL, so that it runs on any machine.
 */
import assert from 'node:assert/strict'
import { AsyncResource } from 'node:async_hooks'
import { after, afterEach, before, describe, it } from 'node:test'
import { type DeviceBuffer, Stream } from 'cuda-streams'
import { Cublas, type GeamOptions, type GemmOptions, LibraryError, type StridedBatchOptions } from 'cuda-streams/cublas'
import { Communicator, group, ncclVersion, uniqueId } from 'cuda-streams/nccl'
import { latch } from 'cuda-streams/sim'
import { CUresult, cudaError } from '../../src/foundation/driver/cuda-results.js'
import { collectUntil, follow, insideHostFunction, refused, rejected, turns, until } from '../conformance/expect.js'
import { fakeDevices, fakeLibraries } from './fake-libraries.js'

process.env['CUDA_STREAMS_WARN_AFTER'] = '100'
const fake = fakeLibraries()
const skip = typeof fake === 'string' ? fake : false
if (typeof fake === 'string') console.log(`skipped: ${fake}`)

const hex = (value: bigint | DeviceBuffer): string => (typeof value === 'bigint' ? value : value.pointer).toString(16)

/** Milliseconds that are long enough for what does not wait for anybody, on a machine that is busy with other things. */
const LIMIT = 500

describe('across the language border', { skip }, () => {
  if (typeof fake === 'string') return
  const { devices, told, driver } = fakeDevices(2)
  const [device, second] = devices
  assert.ok(device !== undefined && second !== undefined)
  const stream = new Stream({ device })
  const other = new Stream({ device: second })
  const [a, b, c] = [device.alloc(4096), device.alloc(4096), device.alloc(4096)]
  const [x, y] = [second.alloc(4096), second.alloc(4096)]

  afterEach(() => {
    fake.polls(3)
    fake.said()
    told.length = 0
  })

  describe('cuBLAS', () => {
    it('row after row: the product of the transposes, with the operands changed', () => {
      using cublas = new Cublas({ device: stream.device })
      assert.equal(cublas.version, 130100)
      fake.said()
      cublas.gemm(stream, a, b, c, { type: 'f32', m: 2, n: 3, k: 5, transposeA: true, alpha: 1.5, beta: -2, ldc: 4 })
      assert.deepEqual(fake.said(), [
        `stream ${hex(stream.handle)}`,
        `gemm 01 m3 n2 k5 1.5 A${hex(b)}:0/3 B${hex(a)}:0/2 -2 C${hex(c)}:0/4 compute 68 algo -1`,
      ])
    })

    it('column after column: as cuBLAS has it', () => {
      using cublas = new Cublas({ device: stream.device })
      fake.said()
      cublas.gemm(stream, a, b, c, { type: 'f64', m: 2, n: 3, k: 5, transposeB: true, order: 'column', alpha: 0.1 })
      assert.deepEqual(fake.said().slice(1), [
        `gemm 01 m2 n3 k5 0.1 A${hex(a)}:1/2 B${hex(b)}:1/3 0 C${hex(c)}:1/2 compute 70 algo -1`,
      ])
    })

    it('a batch with strides, a workspace, and half precision', () => {
      using workspace = device.alloc(1024)
      using cublas = new Cublas({ device, workspace })
      fake.said()
      stream.run(() =>
        cublas.gemmStridedBatched(stream, a, b, c, {
          type: 'f16',
          m: 2,
          n: 3,
          k: 5,
          batchCount: 4,
          strideA: 0,
          strideC: 7,
        }),
      )
      assert.deepEqual(fake.said(), [
        `stream ${hex(stream.handle)}`,
        `workspace ${hex(workspace)} 1024`,
        `batch 00 m3 n2 k5 1 A${hex(b)}:2/3+15 B${hex(a)}:2/5+0 0 C${hex(c)}:2/3+7 x4 compute 68 algo -1`,
      ])
      cublas.gemm(stream, a, b, c, { type: 'bf16', m: 1, n: 1, k: 1 })
      assert.match(fake.said()[2] ?? '', /A\w+:14\/1 .*C\w+:14\/1 compute 68/)
    })

    it('a sum, row after row and column after column: the operands keep their places', () => {
      using cublas = new Cublas({ device: stream.device })
      fake.said()
      cublas.geam(stream, a, b, c, { type: 'f32', m: 2, n: 3, transposeA: true, alpha: 1.5, beta: -2, ldc: 4 })
      cublas.geam(stream, a, b, c, { type: 'f64', m: 2, n: 3, transposeB: true, order: 'column', alpha: 0.1 })
      assert.deepEqual(fake.said(), [
        `stream ${hex(stream.handle)}`,
        `Sgeam 10 m3 n2 1.5 A${hex(a)}/2 -2 B${hex(b)}/3 C${hex(c)}/4`,
        `stream ${hex(stream.handle)}`,
        `Dgeam 01 m2 n3 0.1 A${hex(a)}/2 1 B${hex(b)}/3 C${hex(c)}/2`,
      ])
    })

    it('a transposition has A in the place of B, with a factor of 0, so that each pointer is valid, in place too', () => {
      using cublas = new Cublas({ device: stream.device })
      fake.said()
      cublas.geam(stream, a, undefined, c, { type: 'f32', m: 2, n: 3, transposeA: true, lda: 5, ldb: 9 })
      cublas.geam(stream, c, undefined, c, { type: 'f32', m: 2, n: 3, alpha: 2, transposeB: true })
      assert.deepEqual(
        fake.said().filter((line) => line.startsWith('S')),
        [
          `Sgeam 11 m3 n2 1 A${hex(a)}/5 0 B${hex(a)}/5 C${hex(c)}/3`,
          `Sgeam 00 m3 n2 2 A${hex(c)}/3 0 B${hex(c)}/3 C${hex(c)}/3`,
        ],
      )
    })

    it('wrappers are told that a sum writes C, and reads A and B unless their factors are 0', () => {
      using cublas = new Cublas({ device: stream.device })
      const told2x3 = (b: DeviceBuffer | undefined, more: Partial<GeamOptions>): readonly string[] => {
        told.length = 0
        cublas.geam(stream, a, b, c, { type: 'f32', m: 2, n: 3, ...more })
        return told.flatMap(({ memory }) =>
          memory.map(({ pointer, byteLength, access, rows }) =>
            [pointer.toString(16), byteLength, access, ...(rows === undefined ? [] : [rows.rowDistance])].join(' '),
          ),
        )
      }
      const [readA, readB, written] = [`${hex(a)} 24 in`, `${hex(b)} 24 in`, `${hex(c)} 24 out`]
      assert.deepEqual(told2x3(b, {}), [readA, readB, written])
      assert.deepEqual(told2x3(b, { beta: 0 }), [readA, `${hex(b)} 0 in`, written])
      assert.deepEqual(told2x3(b, { alpha: 0 }), [`${hex(a)} 0 in`, readB, written])
      assert.deepEqual(told2x3(undefined, { transposeA: true }), [readA, `${hex(a)} 0 in`, written])
      const apart = { lda: 4, ldb: 5, ldc: 6 }
      assert.deepEqual(told2x3(b, apart), [`${hex(a)} 28 in 16`, `${hex(b)} 32 in 20`, `${hex(c)} 36 out 24`])
    })

    it('host functions are run before the first sum of a kind', () => {
      using cublas = new Cublas({ device: stream.device })
      const options: GeamOptions = { type: 'f32', m: 6, n: 6, lda: 8, ldb: 8, ldc: 8 }
      const isNew = (add: () => unknown): boolean => {
        const before = driver.drained
        add()
        return driver.drained > before
      }
      const ways: Readonly<Record<string, () => unknown>> = {
        first: () => cublas.geam(stream, a, b, c, options),
        ...Object.fromEntries(
          [
            ...[{ type: 'f64' as const }, { m: 5 }, { n: 5 }, { lda: 7 }, { ldb: 7 }, { ldc: 7 }, { transposeA: true }],
            ...[
              { transposeB: true },
              { order: 'column' as const },
              { alpha: 0 },
              { alpha: 2 },
              { beta: 0 },
              { beta: 2 },
            ],
          ].map((more) => [JSON.stringify(more), () => cublas.geam(stream, a, b, c, { ...options, ...more })]),
        ),
        'another place of A': () => cublas.geam(stream, a.subarray(4, 1028), b, c, options),
        'in place of A': () => cublas.geam(stream, c, b, c, options),
        'in place of B': () => cublas.geam(stream, a, c, c, options),
      }
      for (const [name, add] of Object.entries(ways)) {
        assert.equal(isNew(add), true, name)
        assert.equal(isNew(add), false, name)
      }
      assert.equal(
        isNew(() => cublas.geam(stream, a, b, c, { ...options, alpha: 3 })),
        false,
        'alpha is neither 0 nor 1',
      )
    })

    it('wrappers are told which memory is touched, how much of it, and how', () => {
      using cublas = new Cublas({ device: stream.device })
      cublas.gemm(stream, a, b, c, { type: 'f32', m: 2, n: 3, k: 5 })
      cublas.gemm(stream, a, b, c.subarray(4, 1028), { type: 'f32', m: 2, n: 3, k: 5, beta: 1 })
      const seen = told.map(({ name, memory }) => [
        name,
        ...memory.map(({ pointer, byteLength, access }) => `${pointer.toString(16)} ${byteLength} ${access}`),
      ])
      const inputs = [`${hex(a)} 40 in`, `${hex(b)} 60 in`]
      assert.deepEqual(seen, [
        ['cublasGemmEx', ...inputs, `${hex(c)} 24 out`],
        ['cublasGemmEx', ...inputs, `${hex(c.pointer + 4n)} 24 inout`],
      ])
    })

    it('what it refuses is a LibraryError', () => {
      using cublas = new Cublas({ device: stream.device })
      fake.nextStatus(15)
      assert.throws(
        () => cublas.gemm(stream, a, b, c, { type: 'f32', m: 1, n: 1, k: 1 }),
        (error: unknown) =>
          error instanceof LibraryError &&
          error.code === 'CUBLAS_STATUS_NOT_SUPPORTED' &&
          error.number === 15 &&
          error.call === 'cublasGemmEx',
      )
      cublas.gemm(stream, a, b, c, { type: 'f32', m: 1, n: 1, k: 1 })
    })

    it('host functions are run before the first product of a kind, which is all that cuBLAS may pick its code by', () => {
      using workspace = device.alloc(1024)
      using cublas = new Cublas({ device: stream.device })
      using withWorkspace = new Cublas({ device: stream.device, workspace })
      const sizes = { m: 6, n: 6, k: 6, batchCount: 2, lda: 8, ldb: 8, ldc: 8 }
      const options: StridedBatchOptions = { type: 'f16', ...sizes, strideA: 64, strideB: 64, strideC: 64 }
      const one: GemmOptions = { type: 'f16', m: 6, n: 6, k: 6, lda: 8, ldb: 8, ldc: 8 }
      const isNew = (compute: () => unknown): boolean => {
        const before = driver.drained
        compute()
        return driver.drained > before
      }
      const other = (more: object): boolean =>
        isNew(() => cublas.gemmStridedBatched(stream, a, b, c, { ...options, ...more }))
      assert.equal(other({}), true)
      assert.equal(other({}), false)
      assert.equal(other({ alpha: 3 }), false)
      for (const more of [
        ...[{ type: 'bf16' }, { m: 5 }, { n: 5 }, { k: 5 }, { batchCount: 3 }, { beta: 1 }, { beta: 2 }, { alpha: 0 }],
        ...[{ lda: 7 }, { ldb: 7 }, { ldc: 7 }, { strideA: 60 }, { strideB: 60 }, { strideC: 70 }],
        ...[{ transposeA: true }, { transposeB: true }, { order: 'column' }],
      ]) {
        assert.equal(other(more), true, JSON.stringify(more))
        assert.equal(other(more), false, JSON.stringify(more))
      }
      for (const way of [
        () => cublas.gemmStridedBatched(stream, a.subarray(2, 1026), b, c, options),
        () => cublas.gemmStridedBatched(stream, a, b.subarray(16, 1040), c, options),
        () => cublas.gemmStridedBatched(stream, a, b, c.subarray(128, 1152), options),
        () => withWorkspace.gemmStridedBatched(stream, a, b, c, options),
        () => cublas.gemmStridedBatched(stream, a, b, c, { ...options, batchCount: 1 }),
        () => cublas.gemm(stream, a, b, c, one),
      ]) {
        assert.equal(isNew(way), true, String(way))
        assert.equal(isNew(way), false, String(way))
      }
      // Farther than this cuBLAS does not look into an address.
      const far = (): unknown =>
        cublas.gemmStridedBatched(stream, a.subarray(256, 1280), b, c.subarray(512, 1536), options)
      assert.equal(isNew(far), false)
    })

    it('a kind is new until one was computed: not one that was refused, or captured', () => {
      using cublas = new Cublas({ device: stream.device })
      const options: GemmOptions = { type: 'f64', m: 3, n: 3, k: 3 }
      const drains = (act: () => void): number => {
        const before = driver.drained
        act()
        return driver.drained - before
      }
      fake.nextStatus(15)
      assert.equal(
        drains(() => assert.throws(() => cublas.gemm(stream, a, b, c, options), LibraryError)),
        1,
      )
      stream.beginCapture()
      assert.equal(
        drains(() => void cublas.gemm(stream, a, b, c, options)),
        1,
      )
      stream.endCapture().close()
      assert.equal(
        drains(() => void cublas.gemm(stream, a, b, c, options)),
        1,
      )
      assert.equal(
        drains(() => void cublas.gemm(stream, a, b, c, options)),
        0,
      )
    })

    it('inside a host function the first product of a kind is refused, and later ones are not', () => {
      using cublas = new Cublas({ device: stream.device })
      const options: GemmOptions = { type: 'f64', m: 4, n: 3, k: 2 }
      const inside = (act: () => void): void => insideHostFunction(stream, act)
      fake.said()
      inside(() => refused(() => cublas.gemm(stream, a, b, c, options), 'ERR_DEADLOCK'))
      assert.deepEqual(fake.said(), [])
      cublas.gemm(stream, a, b, c, options)
      inside(() => void cublas.gemm(stream, a, b, c, options))
      assert.equal(fake.said().filter((line) => line.startsWith('gemm')).length, 2)
    })

    it('what a host function closes that is run first is not used any more', () => {
      for (const [index, close] of [
        (_: Cublas, gone: DeviceBuffer) => gone.close(),
        (cublas: Cublas) => cublas.close(),
        (_: Cublas, __: DeviceBuffer, on: Stream) => on.close(),
      ].entries()) {
        using on = new Stream({ device })
        using cublas = new Cublas({ device: on.device })
        using gone = device.alloc(1024)
        driver.whileDrained = () => close(cublas, gone, on)
        try {
          fake.said()
          refused(() => cublas.gemm(on, gone, b, c, { type: 'f32', m: 9, n: 9, k: 1 + index }), 'ERR_CLOSED')
          assert.deepEqual(fake.said(), [])
        } finally {
          driver.whileDrained = undefined
        }
      }
    })

    it('handles are used again: as many are made as are in use at one time', () => {
      const open = [new Cublas({ device: stream.device }), new Cublas({ device: stream.device })]
      for (const each of open) each.close()
      fake.said()
      for (let round = 0; round < 10; round += 1) new Cublas({ device: stream.device }).close()
      assert.deepEqual(fake.said(), [])
      using onSecond = new Cublas({ device: other.device })
      assert.deepEqual(fake.said(), ['create'], 'another device has handles of its own')
      onSecond.close()
    })

    it('the handle of an unreachable Cublas is used again', async () => {
      const held = Array.from({ length: 4 }, () => new Cublas({ device: stream.device }))
      for (const each of held) each.close()
      await (async () => {
        for (let count = 0; count < 4; count += 1) new Cublas({ device: stream.device })
        await turns()
      })()
      fake.said()
      const reused = await collectUntil(() => {
        new Cublas({ device: stream.device }).close()
        return fake.said().length === 0
      })
      assert.ok(reused, 'each new one needed a new handle')
    })
  })

  describe('NCCL', () => {
    const make = (options: { rank?: number; size?: number; timeout?: number; signal?: AbortSignal } = {}) =>
      Communicator.create({ id: uniqueId(), rank: 0, size: 1, device, ...options })

    it('a communicator is made without blocking: the configuration is that of NCCL 2.14', async () => {
      assert.equal(
        device.run(() => ncclVersion()),
        22609,
      )
      await using communicator = await device.run(() => make({ rank: 3, size: 8 }))
      assert.deepEqual(fake.said(), ['init rank 3 of 8 id 1 config 24 cafebeef 21400 0'])
      assert.deepEqual([communicator.rank, communicator.size, communicator.device], [3, 8, device])
    })

    it('passes each argument where its function wants it', async () => {
      await using communicator = await device.run(() => make({ rank: 1, size: 4 }))
      fake.said()
      const on = `on ${hex(stream.handle)}`
      const half = a.subarray(0, 1024)
      stream.run(() => {
        communicator.allReduce(stream, a, b, { type: 'f32', op: 'max' })
        communicator.allReduce(device.defaultStream, a, a, { type: 'bf16' })
        communicator.broadcast(stream, undefined, b, { type: 'u8' })
        communicator.broadcast(stream, a, b, { type: 'i64', root: 1 })
        communicator.reduce(stream, a, undefined, { type: 'i8', root: 2, op: 'prod' })
        communicator.reduce(stream, a, b, { type: 'u32', root: 1, op: 'min' })
        communicator.allGather(stream, half, b, { type: 'f16' })
        communicator.reduceScatter(stream, b, half, { type: 'f64', op: 'avg' })
        communicator.send(stream, a, { type: 'u64', peer: 2 })
        communicator.recv(stream, half, { type: 'i32', peer: 0 })
      })
      assert.deepEqual(fake.said(), [
        `allReduce 1: ${hex(a)} ${hex(b)} 1024 type 7 op 2 ${on}`,
        `allReduce 1: ${hex(a)} ${hex(a)} 2048 type 9 op 0 on 0`,
        `broadcast 1: ${hex(b)} ${hex(b)} 4096 type 1 root 0 ${on}`,
        `broadcast 1: ${hex(a)} ${hex(b)} 512 type 4 root 1 ${on}`,
        `reduce 1: ${hex(a)} 0 4096 type 0 op 1 root 2 ${on}`,
        `reduce 1: ${hex(a)} ${hex(b)} 1024 type 3 op 3 root 1 ${on}`,
        `allGather 1: ${hex(a)} ${hex(b)} 512 type 6 ${on}`,
        `reduceScatter 1: ${hex(b)} ${hex(a)} 128 type 8 op 4 ${on}`,
        `send 1: ${hex(a)} 512 type 5 to 2 ${on}`,
        `recv 1: ${hex(a)} 256 type 2 from 0 ${on}`,
      ])
      assert.deepEqual(
        told.map(({ name, memory }) => `${name} ${memory.map(({ access }) => access)}`),
        [
          ...['ncclAllReduce in,out', 'ncclAllReduce in,out', 'ncclBroadcast out', 'ncclBroadcast out,in'],
          ...['ncclReduce in', 'ncclReduce in,out', 'ncclAllGather in,out', 'ncclReduceScatter in,out'],
          ...['ncclSend in', 'ncclRecv out'],
        ],
      )
    })

    it('what lies in place, or side by side, is taken', async () => {
      await using communicator = await device.run(() => make({ rank: 1, size: 4 }))
      const f32 = { type: 'f32' } as const
      fake.said()
      communicator.allReduce(stream, a.subarray(0, 32), a.subarray(32, 64), f32)
      communicator.allReduce(stream, a.subarray(32, 64), a.subarray(0, 32), f32)
      communicator.broadcast(stream, a, a, { ...f32, root: 1 })
      communicator.reduce(stream, a, a, { ...f32, root: 1 })
      communicator.reduce(stream, a.subarray(0, 32), a.subarray(4, 36), f32)
      communicator.allGather(stream, b.subarray(1024, 2048), b, f32)
      communicator.reduceScatter(stream, b, b.subarray(1024, 2048), f32)
      assert.deepEqual(
        fake.said().map((line) => line.split(' ')[0]),
        ['allReduce', 'allReduce', 'broadcast', 'reduce', 'reduce', 'allGather', 'reduceScatter'],
      )
    })

    it('a group is told to NCCL as one, at its end, and each call on its own stream', async () => {
      const communicators = await device.run(() => Communicator.createAll(devices))
      const [left, right] = communicators
      assert.ok(left !== undefined && right !== undefined)
      fake.said()
      const result = group(() => {
        left.allReduce(stream, a, a, { type: 'f32' })
        group(() => right.allReduce(other, x, y, { type: 'f32' }))
        assert.deepEqual(fake.said(), [], 'nothing is told before the end')
        return 'done'
      })
      assert.equal(result, 'done')
      assert.deepEqual(fake.said(), [
        'group 1{',
        `allReduce 0: ${hex(a)} ${hex(a)} 1024 type 7 op 0 on ${hex(stream.handle)}`,
        `allReduce 1: ${hex(x)} ${hex(y)} 1024 type 7 op 0 on ${hex(other.handle)}`,
        '}',
      ])
      group(() => {})
      assert.deepEqual(fake.said(), [])
      assert.throws(
        () =>
          group(() => {
            left.allReduce(stream, a, a, { type: 'f32' })
            throw new Error('half-way')
          }),
        /half-way/,
      )
      assert.deepEqual(fake.said(), [], 'a group that throws has done nothing')
      group(() => {
        left.broadcast(stream, a, a, { type: 'f32' })
        for (const inner of [
          () => {
            left.allReduce(stream, a, a, { type: 'f32' })
            group(() => right.allReduce(other, x, x, { type: 'f32' }))
            throw new Error('half-way')
          },
          async () => left.allReduce(stream, a, a, { type: 'f32' }),
        ]) {
          assert.throws(() => group(inner), /half-way|must not be an async function/)
        }
        right.broadcast(other, undefined, x, { type: 'f32' })
      })
      assert.deepEqual(
        fake.said().map((line) => line.split(' ')[0]),
        ['group', 'broadcast', 'broadcast', '}'],
        'nor has one inside of another',
      )
      refused(() => group(async () => {}), 'ERR_INVALID_ARG_VALUE', /must not be an async function/)
      refused(() => group('x' as never), 'ERR_INVALID_ARG_TYPE', /fn/)
      const gone = device.alloc(64)
      refused(
        () =>
          group(() => {
            left.broadcast(stream, gone, gone, { type: 'u8' })
            right.broadcast(other, undefined, x.subarray(0, 64), { type: 'u8' })
            gone.close()
          }),
        'ERR_CLOSED',
      )
      assert.deepEqual(fake.said(), [], 'nor has one whose memory was closed meanwhile')
      await Promise.all(communicators.map((each) => each.close()))
    })

    it('a host function that runs while a group is open, or a call waits, makes calls of its own', async () => {
      await using communicator = await device.run(() => make({ rank: 2, size: 3 }))
      fake.said()
      const f32 = { type: 'f32' } as const
      stream.launchHostFunc(() => communicator.send(device.defaultStream, c, { ...f32, peer: 0 }))
      let later: (() => void) | undefined
      group(() => {
        communicator.send(stream, a, { ...f32, peer: 0 })
        stream.synchronize()
        assert.deepEqual(
          fake.said().map((line) => line.split(' ')[0]),
          ['send'],
          'the host function is not of the group',
        )
        communicator.recv(stream, b, { ...f32, peer: 0 })
        later = AsyncResource.bind(() => communicator.recv(stream, c, { ...f32, peer: 1 }))
      })
      assert.deepEqual(
        fake.said().map((line) => line.split(' ')[0]),
        ['group', 'send', 'recv', '}'],
      )
      later?.()
      assert.equal(fake.said().length, 1, 'what a group has left behind is not of it any more')
    })

    it('a thread that leaves out one of its ranks is told so, instead of waiting forever', async () => {
      const communicators = await device.run(() => Communicator.createAll(devices))
      const [left, right] = communicators
      assert.ok(left !== undefined && right !== undefined)
      fake.said()
      const f32 = { type: 'f32' } as const
      refused(
        () => left.allReduce(Stream.current(left.device), a, a, f32),
        'ERR_DEADLOCK',
        /rank 1.*calls nothing.*group\(\)/,
      )
      const both = (first: () => unknown, second: () => unknown) => (): unknown => group(() => [first(), second()])
      const sum = (): unknown => left.allReduce(Stream.current(left.device), a, a, f32)
      refused(
        both(sum, () => right.allReduce(Stream.current(right.device), x, x, { type: 'f32', op: 'max' })),
        'ERR_DEADLOCK',
        /sum.*max/,
      )
      refused(
        both(sum, () => right.allReduce(Stream.current(right.device), x, x, { type: 'f16' })),
        'ERR_DEADLOCK',
        /f32.*f16/,
      )
      const send = (): unknown => left.send(Stream.current(left.device), a, { ...f32, peer: 1 })
      refused(send, 'ERR_DEADLOCK', /0 to 1.*1024 x f32 is sent and nothing received/)
      refused(
        both(send, () => right.recv(Stream.current(right.device), x.subarray(0, 4), { ...f32, peer: 0 })),
        'ERR_DEADLOCK',
        /1 x f32 received/,
      )
      assert.deepEqual(fake.said(), [])
      both(send, () => right.recv(Stream.current(right.device), x, { ...f32, peer: 0 }))()
      assert.equal(fake.said().length, 4)
      await left.abort()
      right.send(Stream.current(right.device), x, { ...f32, peer: 0 })
      assert.equal(fake.said().length, 2, 'a rank that is gone is no part of this thread any more')
      await right.abort()
    })

    it('closing lets its work complete first; both endings run on threads of their own', async () => {
      const first = await device.run(() => make())
      const second = await device.run(() => make())
      fake.said()
      await Promise.all([first.close(), first.close()])
      await first.close()
      await first.abort()
      assert.deepEqual(fake.said(), ['finalize 0', 'destroy 0'])
      refused(() => first.allReduce(Stream.current(first.device), a, a, { type: 'f32' }), 'ERR_CLOSED')
      await rejected(() => first.finished(), 'ERR_CLOSED')
      await second.abort()
      await second.close()
      assert.deepEqual(fake.said(), ['abort 0'])
      refused(
        () => second.allReduce(Stream.current(second.device), a, a, { type: 'f32' }),
        'ERR_CLOSED',
        /abort\(\) was called/,
      )
      assert.match(String(second), /closed/)
    })

    it('an error that comes later is thrown, with what NCCL says, and ends the communicator', async () => {
      const communicator = await device.run(() => make({ rank: 5, size: 6 }))
      const gate = latch(stream)
      communicator.allReduce(stream, a, a, { type: 'f32' })
      const finished = communicator.finished()
      fake.said()
      await turns()
      fake.error(5, 6)
      await assert.rejects(finished, { name: 'LibraryError', code: 'ncclRemoteError', number: 6 })
      gate.open()
      await stream.finished()
      await communicator.abort()
      assert.deepEqual(fake.said(), ['abort 5'])
    })

    it('waiting for its work ends with the signal, and gives it up', async () => {
      const communicator = await device.run(() => make())
      communicator.allReduce(stream, a, a, { type: 'f32' })
      await communicator.finished()
      const gate = latch(stream)
      communicator.allReduce(stream, a, a, { type: 'f32' })
      fake.said()
      await assert.rejects(communicator.finished({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' })
      gate.open()
      await stream.finished()
      await communicator.abort()
      assert.deepEqual(fake.said(), ['abort 0'])
    })

    it('where the driver refuses to tell whether its work is done, it is as good as before', async () => {
      const communicator = await device.run(() => make())
      communicator.allReduce(stream, a, a, { type: 'f32' })
      driver.refusal = cudaError('cuEventRecord', CUresult.CAPTURED_EVENT)
      await rejected(() => communicator.finished(), 'CUDA_ERROR_CAPTURED_EVENT')
      driver.refusal = undefined
      assert.equal(communicator.closed, false)
      communicator.allReduce(stream, a, a, { type: 'f32' })
      await communicator.finished()
      communicator.allReduce(stream, a, a, { type: 'f32' })
      driver.refusal = cudaError('cuEventRecord', CUresult.ILLEGAL_ADDRESS)
      await rejected(() => communicator.finished(), 'CUDA_ERROR_ILLEGAL_ADDRESS')
      driver.refusal = undefined
      assert.equal(communicator.closed, true, 'a lost context is another matter')
    })

    it('keeps few events however many streams it has used, and none when it is gone', async () => {
      const communicator = await device.run(() => make())
      const before = driver.eventsInUse
      let most = 0
      const use = (on: Stream): void => {
        using buffer = device.alloc(16, { stream: on })
        communicator.allReduce(on, buffer, buffer, { type: 'f32' })
      }
      for (let count = 0; count < 200; count += 1) {
        using on = new Stream({ device })
        use(on)
        on.synchronize()
        most = Math.max(most, driver.eventsInUse - before)
      }
      assert.ok(most <= 20, `${most} events`)
      const gates: { open(): void }[] = []
      for (let count = 0; count < 40; count += 1) {
        using on = new Stream({ device })
        gates.push(latch(on))
        use(on)
        use(on)
      }
      const waiting = follow(communicator.finished())
      await turns()
      assert.equal(waiting.settled, false)
      await communicator.abort()
      for (const gate of gates) gate.open()
      await device.finished()
      await turns()
      assert.equal(waiting.settled, true)
      assert.equal(driver.eventsInUse, before)
    })

    it('an error inside a call is thrown by it', async () => {
      const communicator = await device.run(() => make({ rank: 7, size: 9 }))
      fake.said()
      fake.error(7, 6)
      assert.throws(
        () => communicator.allReduce(stream, a, a, { type: 'f32' }),
        (error: unknown) =>
          error instanceof LibraryError &&
          error.code === 'ncclRemoteError' &&
          error.call === 'ncclAllReduce' &&
          /remote process exited.*the last thing said/.test(error.message),
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, a, { type: 'f32' }),
        'ERR_CLOSED',
        /ncclRemoteError/,
      )
      // It is under way already, on a thread of its own: this waits for it.
      await communicator.abort()
      assert.equal(fake.said().at(-1), 'abort 7')
    })

    it('C6 waiting for other ranks is told of long before the time is up, once: in create(), a call and close()', async () => {
      const told: string[] = []
      const hear = ({ code, message }: Error & { code?: string }): void => void told.push(`${code} ${message}`)
      // A busy machine may take long enough to make them for a warning of its own.
      const communicator = await device.run(() => make({ rank: 1, size: 3, timeout: 400 }))
      const closing = await device.run(() => make({ rank: 2, size: 3, timeout: 400 }))
      await turns()
      process.on('warning', hear)
      try {
        fake.polls(-1)
        await rejected(() => device.run(() => make({ rank: 1, size: 12, timeout: 400 })), 'ERR_DEADLOCK')
        refused(() => communicator.allReduce(stream, a, a, { type: 'f32' }), 'ERR_DEADLOCK')
        await rejected(() => closing.close(), 'ERR_DEADLOCK')
      } finally {
        process.off('warning', hear)
      }
      const what = (call: string, ranks: string, missing: string): RegExp =>
        new RegExp(
          `^CUDA_STREAMS_RANKS ${call} of rank ${ranks} has waited for the other ranks for 0.1 s, of at most 0.4 s .*; ranks ${missing} must come from other threads or processes`,
        )
      assert.equal(told.length, 3, told.join('\n'))
      assert.match(told[0] ?? '', what('ncclCommInitRankConfig', '1 of 12', '0, 2, 3, 4, 5, 6, 7, 8, ...'))
      assert.match(told[1] ?? '', what('ncclAllReduce', '1 of 3', '0, 2'))
      assert.match(told[2] ?? '', what('ncclCommFinalize', '2 of 3', '0, 1'))
    })

    it('waiting for other ranks ends with the time, and with the signal', async () => {
      const communicator = await device.run(() => make({ timeout: LIMIT }))
      fake.polls(-1)
      refused(() => communicator.allReduce(stream, a, a, { type: 'f32' }), 'ERR_DEADLOCK', /500 ms/)
      await rejected(() => device.run(() => make({ timeout: LIMIT })), 'ERR_DEADLOCK', /500 ms/)
      const reason = new Error('enough')
      const controller = new AbortController()
      setTimeout(() => controller.abort(reason), 20)
      await assert.rejects(() => device.run(() => make({ signal: controller.signal })), reason)
      await assert.rejects(() => device.run(() => make({ signal: AbortSignal.abort(reason) })), reason)
      fake.polls(3)
      const third = await device.run(() => make())
      fake.polls(-1)
      await assert.rejects(() => third.close({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' })
      await third.abort()
      assert.equal(fake.said().at(-1), 'abort 0')
    })

    it('a wrong way to begin is refused by name', async () => {
      const id = device.run(() => uniqueId())
      const ok = { id, rank: 0, size: 2, device }
      const create = (options: object) => () => Communicator.create({ ...ok, ...options })
      const first = await Communicator.create(ok)
      await rejected(create({}), 'ERR_INVALID_ARG_VALUE', /options\.rank.*already/)
      await rejected(create({ rank: 1, size: 3 }), 'ERR_INVALID_ARG_VALUE', /options\.size is 3, but 2/)
      await first.abort()
      await rejected(() => Communicator.createAll([device, device]), 'ERR_INVALID_ARG_VALUE', /twice/)
      await rejected(() => Communicator.createAll([]), 'ERR_INVALID_ARG_TYPE', /devices/)
      const again = await Communicator.create(ok)
      await again.abort()
    })

    it('wrong arguments are refused by name, and nothing is told to NCCL', async () => {
      await using communicator = await device.run(() => make({ rank: 1, size: 4 }))
      fake.said()
      const f32 = { type: 'f32' } as const
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, b, undefined as never),
        'ERR_INVALID_ARG_TYPE',
        /options/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, b, { type: 'f8' as never }),
        'ERR_INVALID_ARG_VALUE',
        /options\.type/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, b, { ...f32, op: 'plus' as never }),
        'ERR_INVALID_ARG_VALUE',
        /options\.op/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, b.subarray(0, 8), f32),
        'ERR_OUT_OF_RANGE',
        /source must be 8 bytes/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, b.subarray(0, 7), f32),
        'ERR_INVALID_ARG_VALUE',
        /whole number/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, b.subarray(2, 10), f32),
        'ERR_INVALID_ARG_VALUE',
        /in the middle/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, x, f32),
        'ERR_DEVICE_MISMATCH',
        /destination is on/,
      )
      refused(
        () => communicator.allReduce(Stream.current(communicator.device), a, 5 as never, f32),
        'ERR_INVALID_ARG_TYPE',
        /destination/,
      )
      refused(() => communicator.allReduce(other, a, b, { ...f32 }), 'ERR_DEVICE_MISMATCH', /communicator/)
      refused(() => communicator.allReduce(1 as never, a, b, { ...f32 }), 'ERR_INVALID_ARG_TYPE', /stream/)
      const perThread = device.run(() => Stream.perThread)
      refused(() => communicator.allReduce(perThread, a, b, { ...f32 }), 'ERR_UNSUPPORTED', /per-thread/)
      refused(
        () => communicator.allGather(Stream.current(communicator.device), a, b, f32),
        'ERR_OUT_OF_RANGE',
        /destination must be 16384 bytes/,
      )
      refused(
        () => communicator.reduceScatter(Stream.current(communicator.device), a, b, f32),
        'ERR_OUT_OF_RANGE',
        /source must be 16384 bytes/,
      )
      refused(
        () => communicator.broadcast(Stream.current(communicator.device), undefined, b, { ...f32, root: 1 }),
        'ERR_INVALID_ARG_TYPE',
        /source/,
      )
      refused(
        () => communicator.broadcast(Stream.current(communicator.device), a, b, { ...f32, root: 4 }),
        'ERR_OUT_OF_RANGE',
        /options\.root/,
      )
      refused(
        () => communicator.reduce(Stream.current(communicator.device), a, undefined, { ...f32, root: 1 }),
        'ERR_INVALID_ARG_TYPE',
        /destination/,
      )
      refused(
        () => communicator.send(Stream.current(communicator.device), a, { ...f32, peer: -1 }),
        'ERR_OUT_OF_RANGE',
        /options\.peer/,
      )
      refused(
        () => communicator.recv(Stream.current(communicator.device), a, { ...f32, peer: 1.5 }),
        'ERR_INVALID_ARG_TYPE',
        /options\.peer/,
      )
      const overlap = (act: () => unknown): unknown =>
        refused(act, 'ERR_INVALID_ARG_VALUE', /source and destination overlap/)
      const part = (index: number, buffer = b): DeviceBuffer => buffer.subarray(index * 1024, (index + 1) * 1024)
      overlap(() =>
        communicator.allReduce(Stream.current(communicator.device), a.subarray(0, 32), a.subarray(4, 36), f32),
      )
      overlap(() =>
        communicator.allReduce(Stream.current(communicator.device), a.subarray(28, 60), a.subarray(0, 32), f32),
      )
      overlap(() =>
        communicator.broadcast(Stream.current(communicator.device), a.subarray(0, 32), a.subarray(4, 36), {
          ...f32,
          root: 1,
        }),
      )
      overlap(() =>
        communicator.reduce(Stream.current(communicator.device), a.subarray(0, 32), a.subarray(4, 36), {
          ...f32,
          root: 1,
        }),
      )
      for (const index of [0, 2, 3]) {
        overlap(() => communicator.allGather(Stream.current(communicator.device), part(index), b, f32))
        overlap(() => communicator.reduceScatter(Stream.current(communicator.device), b, part(index), f32))
      }
      group(() =>
        overlap(() => communicator.allGather(Stream.current(communicator.device), b.subarray(1028, 2052), b, f32)),
      )
      const closed = device.alloc(4)
      closed.close()
      refused(() => communicator.send(Stream.current(communicator.device), closed, { ...f32, peer: 0 }), 'ERR_CLOSED')
      // A rank 0 of an earlier test, which waited for others in vain, may be given up meanwhile; this one is rank 1.
      assert.deepEqual(
        fake.said().filter((line) => line !== 'abort 0'),
        [],
      )
    })
  })

  describe('NCCL of today: a communicator has a half that blocks', () => {
    const f32 = { type: 'f32' } as const
    const make = async (options: { rank?: number; size?: number; timeout?: number } = {}): Promise<Communicator> => {
      const made = await device.run(() => Communicator.create({ id: uniqueId(), rank: 1, size: 4, device, ...options }))
      fake.said()
      return made
    }
    /** Which thread made the calls since the last time. */
    const threads = (): string[] => fake.said().flatMap((line) => /^half .*by (\w+) thread/.exec(line)?.[1] ?? [])

    before(() => fake.call('fake_nccl_version', 22809))
    after(() => fake.call('fake_nccl_version', 22609))

    it('which the communicator makes, without blocking, where the id says that all ranks do', async () => {
      const id = device.run(uniqueId)
      await using communicator = await Communicator.create({ id, rank: 1, size: 4, device })
      assert.deepEqual(fake.said(), [
        'init rank 1 of 4 id 1 config 48 cafebeef 21800 0',
        'split 1 color 0 key 1 config 48 21800 1',
      ])
      assert.equal(communicator.closed, false)
      // What another program made has no mark, nor does one rank wait for others.
      id.fill(0, 120)
      for (const options of [
        { id, rank: 1, size: 4 },
        { size: 1, rank: 0, id: device.run(uniqueId) },
      ]) {
        fake.said()
        const whole = await Communicator.create({ ...options, device })
        assert.match(fake.said().join(), /^init rank \d of \d id 1 config 24 cafebeef 21400 0$/)
        await whole.close()
      }
    })

    it('another thread makes the first call of a kind, and this one makes those that are alike', async () => {
      await using communicator = await make()
      const sum = (): unknown => communicator.allReduce(stream, a, b, f32)
      const both = (): void => group(() => void [sum(), communicator.send(stream, a, { ...f32, peer: 0 })])
      for (const [call, expected] of [
        [sum, 'another'],
        [sum, 'this'],
        [() => communicator.allReduce(stream, b, c, f32), 'this'],
        [() => communicator.allReduce(stream, a, b, { ...f32, type: 'u32' }), 'another'],
        [() => communicator.allReduce(stream, a, b, { ...f32, op: 'max' }), 'another'],
        [() => communicator.allReduce(stream, a.subarray(0, 64), b.subarray(0, 64), f32), 'another'],
        [() => communicator.broadcast(stream, undefined, b, f32), 'another'],
        [() => communicator.broadcast(stream, undefined, b, { ...f32, root: 2 }), 'another'],
        [() => communicator.send(stream, a, { ...f32, peer: 0 }), 'another'],
        [() => communicator.send(stream, a, { ...f32, peer: 2 }), 'another'],
        [() => communicator.recv(stream, a, { ...f32, peer: 0 }), 'another'],
        [both, 'another'],
        [both, 'this'],
        [sum, 'this'],
      ] as const) {
        call()
        assert.deepEqual(threads(), [expected], String(call))
      }
      await using next = await make()
      next.allReduce(stream, a, b, f32)
      assert.deepEqual(threads(), ['another'], 'each communicator connects for itself')
    })

    it('a captured call is made by another thread, and stands for no other', async () => {
      await using communicator = await make()
      const sum = (): unknown => communicator.allReduce(stream, a, b, f32)
      const captured = (): void => stream.capture(() => void sum()).close()
      for (const [call, expected] of [
        [captured, 'another'],
        [sum, 'another'],
        [sum, 'this'],
        [captured, 'another'],
      ] as const) {
        call()
        assert.deepEqual(threads(), [expected])
      }
    })

    it('both ranks of a thread are in one group, on either thread', async () => {
      const communicators = await device.run(() => Communicator.createAll(devices))
      const [left, right] = communicators
      assert.ok(left !== undefined && right !== undefined)
      fake.said()
      for (const thread of ['another', 'this']) {
        group(() => {
          left.allReduce(stream, a, a, f32)
          right.allReduce(other, x, y, { type: 'f32' })
        })
        assert.deepEqual(fake.said(), [
          'group 1{',
          `allReduce 0: ${hex(a)} ${hex(a)} 1024 type 7 op 0 on ${hex(stream.handle)}`,
          `allReduce 1: ${hex(x)} ${hex(y)} 1024 type 7 op 0 on ${hex(other.handle)}`,
          '}',
          `half 1, by ${thread} thread`,
        ])
      }
      await Promise.all(communicators.map((each) => each.close()))
    })

    it('with one that has no half it makes two groups, since NCCL takes no two kinds in one', async () => {
      await using half = await make()
      const id = device.run(uniqueId).fill(0, 120)
      await using whole = await Communicator.create({ id, rank: 0, size: 2, device })
      fake.said()
      group(() => {
        half.allReduce(stream, a, a, f32)
        whole.allReduce(stream, b, b, f32)
      })
      assert.deepEqual(
        fake.said().map((line) => line.split(':')[0]),
        ['allReduce 0', 'allReduce 1', 'half 1, by another thread'],
      )
    })

    it('a call that waits for a rank that does not come is given up: the whole is aborted, which ends the call, then the half', async () => {
      const communicator = await make({ timeout: LIMIT })
      fake.polls(-1)
      refused(() => communicator.allReduce(stream, a, b, f32), 'ERR_DEADLOCK', /ncclAllReduce has waited.* 500 ms/)
      assert.equal(communicator.closed, true)
      await communicator.abort()
      assert.deepEqual(
        fake.said().map((line) => line.split(':')[0]),
        ['allReduce 1', 'half 1, by another thread', 'abort 1', 'abort 1 half'],
      )
      refused(() => communicator.allReduce(stream, a, b, f32), 'ERR_CLOSED', / 500 ms/)
    })

    it('calls that the GPU has not done are counted: when there are many, no call is made by this thread', async () => {
      await using communicator = await make()
      const sum = (): unknown => communicator.allReduce(stream, a, b, f32)
      sum()
      const gate = latch(stream)
      assert.deepEqual(threads(), ['another'])
      for (let left = 400; left > 0; left -= 1) sum()
      const made = threads()
      const least = made.indexOf('another')
      assert.ok(least >= 128 && least <= 256, `${least}`)
      assert.ok(made.slice(least).every((thread) => thread === 'another'))
      gate.open()
      await communicator.finished()
      sum()
      assert.deepEqual(threads(), ['this'])
    })

    it('what a variable of NCCL makes wait always is never made by this thread', async () => {
      process.env['NCCL_TUNER_PLUGIN'] = 'mine'
      try {
        await using communicator = await make()
        for (let left = 2; left > 0; left -= 1) communicator.allReduce(stream, a, b, f32)
        assert.deepEqual(threads(), ['another', 'another'])
      } finally {
        delete process.env['NCCL_TUNER_PLUGIN']
      }
      const marked = device.run(uniqueId)
      process.env['NCCL_COMM_SPLIT_SHARE_RESOURCES'] = '0'
      try {
        const communicator = await make()
        communicator.allReduce(stream, a, b, f32)
        assert.deepEqual(threads(), [], 'there is no half')
        await communicator.close()
        const other = Communicator.create({ id: marked, rank: 0, size: 2, device })
        await rejected(() => other, 'ERR_UNSUPPORTED', /the same NCCL/)
      } finally {
        delete process.env['NCCL_COMM_SPLIT_SHARE_RESOURCES']
      }
    })

    for (const nth of ['first', 'second']) {
      it(`an error of the ${nth} call is thrown, and ends both`, async () => {
        const communicator = await make({ rank: 3 })
        if (nth === 'second') communicator.allReduce(stream, a, b, f32)
        fake.error(3, 6)
        fake.said()
        assert.throws(() => communicator.allReduce(stream, a, b, f32), {
          name: 'LibraryError',
          code: 'ncclRemoteError',
        })
        await communicator.abort()
        assert.deepEqual(fake.said().slice(-2), ['abort 3', 'abort 3 half'])
      })
    }

    it('closing completes the work of the half on another thread, then frees both', async () => {
      const communicator = await make()
      communicator.allReduce(stream, a, b, f32)
      fake.said()
      await communicator.close()
      assert.deepEqual(fake.said(), ['finalize 1 half', 'half 1, by another thread', 'destroy 1 half', 'destroy 1'])
    })

    it('one that is given up while its half is being made leaves nothing', async () => {
      fake.polls(0)
      const creating = Communicator.create({ id: device.run(uniqueId), rank: 1, size: 4, device, timeout: 30 })
      fake.polls(-1)
      fake.said()
      await rejected(() => creating, 'ERR_DEADLOCK', /ncclCommSplit/)
      const heard: string[] = []
      await until(() => heard.push(...fake.said()) >= 3)
      assert.deepEqual(heard, ['split 1 color 0 key 1 config 48 21800 1', 'abort 1', 'abort 1 half'])
    })
  })
})
