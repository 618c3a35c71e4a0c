/** Green contexts: shares of a device's multiprocessors, and the streams that keep to them. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Device,
  defineKernel,
  ExternalStream,
  type GraphExec,
  type GreenContext,
  type SplitOptions,
  Stream,
  type StreamOptions,
} from 'cuda-streams'
import { driverOf } from '../../src/core/device.js'
import type { DeviceDriver } from '../../src/foundation/driver/device-driver.js'
import type { Driver } from '../../src/foundation/driver/driver.js'
import type { ContextHandle } from '../../src/foundation/driver/handle-types.js'
import type { Interceptor } from '../../src/foundation/driver/wrappable-driver.js'
import { onEveryBackend } from '../helpers/suite.js'
import {
  CAPTURE_MODES,
  checkCudaError,
  collectUntil,
  follow,
  ONE_DEVICE,
  refused,
  refusedByDriver,
  rejected,
  secondDevice,
  stillWorks,
  turns,
} from './expect.js'

const add = defineKernel({
  name: 'add',
  source: `extern "C" __global__ void add(unsigned char *to, const unsigned char *from, unsigned long long n) {
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] += from[i];
  }`,
  signature: ['inout u8*', 'in u8*', 'u64'],
  simulateGrid: (_, to, from, n) => {
    for (let at = 0; at < Number(n); at += 1) to[at] = (to[at] ?? 0) + (from[at] ?? 0)
  },
})

onEveryBackend('green contexts', (bench) => {
  const { device } = bench
  const all = device.attribute('multiprocessorCount')

  function halves(run: (small: GreenContext, rest: GreenContext) => void): void {
    const [small, rest] = device.split({ multiprocessors: [16] })
    try {
      run(small, rest)
    } finally {
      small.close()
      rest.close()
    }
  }

  test('E1 a device is split into at least so many multiprocessors each, and the rest', () => {
    for (const multiprocessors of [[1], [8], [16], [17], [16, 16], [8, 16, 40], [64, 32]]) {
      const parts = device.split({ multiprocessors })
      assert.equal(parts.length, multiprocessors.length + 1)
      multiprocessors.forEach((wanted, index) => {
        const got = parts[index]?.multiprocessors ?? 0
        assert.ok(got >= wanted && got < wanted + 8, `${wanted} were asked for, and ${got} given`)
      })
      const sum = parts.reduce((before, part) => before + part.multiprocessors, 0)
      assert.equal(sum, all)
      assert.equal(new Set(parts.map(({ handle }) => handle)).size, parts.length)
      assert.equal(new Set(parts.map(({ serial }) => serial)).size, parts.length)
      for (const part of parts) {
        assert.equal(part.device, device)
        assert.notEqual(part.handle, device.context.handle)
        assert.equal(part.closed, false)
        part.close()
        part.close()
        assert.equal(part.closed, true)
        assert.ok(part.handle > 0n)
      }
    }
    assert.equal(device.context.multiprocessors, all)
  })

  test('E1 what cannot be split is refused, and says how many there are', () => {
    const split = (multiprocessors: unknown) => device.split({ multiprocessors } as SplitOptions)
    for (const wrong of [undefined, 16, '16', { 0: 16 }, null]) {
      refused(() => split(wrong), 'ERR_INVALID_ARG_TYPE', /options\.multiprocessors/, /array/)
    }
    refused(() => device.split(undefined as unknown as SplitOptions), 'ERR_INVALID_ARG_TYPE', /multiprocessors/)
    refused(() => split([]), 'ERR_INVALID_ARG_VALUE', /rest/)
    refused(() => split([16, '16']), 'ERR_INVALID_ARG_TYPE', /multiprocessors\[1\]/)
    refused(() => split([1.5]), 'ERR_INVALID_ARG_TYPE', /multiprocessors\[0\]/)
    for (const wrong of [0, -8, all, 1e9]) refused(() => split([wrong]), 'ERR_OUT_OF_RANGE', new RegExp(`${all}`))
    refused(() => split([all / 2, all / 2]), 'ERR_OUT_OF_RANGE', /together/, new RegExp(`${all}`))
    // Rounded up they leave nothing.
    assert.match(refusedByDriver(() => split([all - 1]), 915).message, /rounded up/)
    const unknown = { multiprocessors: [16], sms: 1 } as SplitOptions
    refused(() => device.split(unknown), 'ERR_INVALID_ARG_VALUE', /'sms'/)
  })

  test('E2 a stream is made in a green context, and tells it', () => {
    halves((small, rest) => {
      for (const context of [small, rest]) {
        using stream = new Stream({ context })
        using other = device.createStream({ context, priority: -1 })
        using third = new Stream({ context, device, nonBlocking: true })
        for (const each of [stream, other, third]) {
          assert.equal(each.context, context)
          assert.equal(each.device, device)
          assert.equal(each.nonBlocking, true)
          stillWorks(bench, each)
        }
        assert.equal(other.priority, -1)
        assert.equal(new Set([stream.id, other.id, third.id]).size, 3)
      }
      using plain = bench.stream()
      assert.deepEqual({ ...plain.context }, { ...device.context })
    })
  })

  test('E2 a context that is none, of another device, or closed is refused', () => {
    halves((small) => {
      const make = (options: unknown) => new Stream(options as StreamOptions)
      for (const wrong of [device.context, 5, 'small', null, {}]) {
        refused(() => make({ context: wrong }), 'ERR_INVALID_ARG_TYPE', /options\.context/, /split/)
      }
      refused(() => make({ context: small, nonBlocking: false }), 'ERR_INVALID_ARG_VALUE', /nonBlocking/)
      const second = secondDevice(bench)
      if (second !== undefined) {
        refused(() => make({ context: small, device: second }), 'ERR_DEVICE_MISMATCH', /context/)
        refused(() => second.createStream({ context: small }), 'ERR_DEVICE_MISMATCH', /context/)
      }
      small.close()
      refused(() => make({ context: small }), 'ERR_CLOSED', /GreenContext/)
      assert.match(String(small), /^GreenContext\(0x[0-9a-f]+, 16 multiprocessors of Device\(0, \w+\), closed\)$/)
    })
  })

  test('E2 a second device is split for itself', (t) => {
    const second = secondDevice(bench)
    if (second === undefined) {
      t.skip(ONE_DEVICE)
      return
    }
    const [part, rest] = second.split({ multiprocessors: [8] })
    using stream = new Stream({ context: part })
    assert.equal(stream.device, second)
    stillWorks(bench, stream)
    part.close()
    rest.close()
  })

  test('E3 memory, events, kernels and copies are the device’s in all of its green contexts', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    const streams = [new Stream({ context: small }), bench.stream(), new Stream({ context: rest })]
    const pinned = device.allocPinned(4096)
    for (const from of streams) {
      for (const to of streams) {
        using one = device.alloc(4096, { stream: from })
        using other = device.alloc(4096, { stream: to })
        from.fill(one, 3)
        to.fill(other, 4)
        to.wait(from).launch(add, { grid: 4, block: 256 }, other, one, 4096n)
        const event = to.record({ timing: true })
        from.wait(event)
        from.copy(pinned, other)
        const end = from.record({ timing: true })
        from.synchronize()
        assert.ok(pinned.bytes.every((byte) => byte === 7))
        assert.ok(end.elapsedSince(event) >= 0)
        assert.deepEqual(await to.download(other.subarray(0, 2)), new Uint8Array([7, 7]))
        await from.upload(one, new Uint8Array(4096).fill(9))
        to.wait(from)
        assert.deepEqual(await to.download(one.subarray(4094, 4096)), new Uint8Array([9, 9]))
      }
    }
    for (const each of [...streams, pinned, small, rest]) each.close()
  })

  test('E3 the device’s waits cover the streams of its green contexts, and theirs do not cover others', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    using one = new Stream({ context: small })
    using other = new Stream({ context: rest })
    using latch = bench.latch(one)
    bench.busy(one, 1000)
    const finished = follow(device.finished())
    other.synchronize()
    assert.equal(other.query(), true)
    assert.equal(device.defaultStream.query(), true)
    await turns()
    assert.equal(finished.settled, false)
    assert.equal(one.query(), false)
    latch.open()
    device.synchronize()
    assert.equal(one.query(), true)
    await device.finished()
    small.close()
    rest.close()
  })

  test('E3 host functions, waits by promise, and the current stream are as on any stream', async () => {
    const [small, rest] = device.split({ multiprocessors: [8] })
    await using stream = new Stream({ context: small })
    await using plain = bench.stream()
    const ran: string[] = []
    stream.launchHostFunc(() => ran.push('small'))
    plain.wait(stream).launchHostFunc(() => ran.push('plain'))
    stream.addCallback((on, status) => ran.push(`${on === stream} ${status}`), undefined)
    plain.synchronize()
    await stream.finished()
    assert.deepEqual(ran.toSorted(), ['plain', 'small', 'true 0'])
    assert.ok(ran.indexOf('small') < ran.indexOf('plain'))
    stream.run(() => {
      assert.equal(Stream.current(device), stream)
      using buffer = device.alloc(64)
      Stream.current(device).fill(buffer, 1)
    })
    stream.launchHostFunc(() => {
      refused(() => stream.synchronize(), 'ERR_DEADLOCK')
      refused(() => device.synchronize(), 'ERR_DEADLOCK')
    })
    device.synchronize()
    rest.close()
    small.close()
  })

  test('K9 a cooperative launch has room for as many blocks as its multiprocessors run, and is 720 with one more', async () => {
    await add.prepare(device)
    const [small, rest] = device.split({ multiprocessors: [16] })
    const block = 1024
    const perMultiprocessor = device.attribute('maxThreadsPerMultiprocessor') / block
    for (const stream of [bench.stream(), new Stream({ context: small })]) {
      using to = device.alloc(64, { stream })
      using from = device.alloc(64, { stream })
      stream.fill(to, 0).fill(from, 1)
      const most = stream.context.multiprocessors * perMultiprocessor
      const mostOfDevice = device.context.multiprocessors * perMultiprocessor
      const launch = (grid: number, cooperative: boolean): void =>
        void stream.launch(add, { grid, block, cooperative }, to, from, 64)
      launch(most, true)
      const { message } = refusedByDriver(() => launch(most + 1, true), 720)
      assert.match(message, /kernel\.activeBlocks\(\)/)
      launch(most + 1, false)
      assert.deepEqual(await stream.download(to), new Uint8Array(64).fill(2))
      stream.beginCapture()
      launch(mostOfDevice, true)
      refusedByDriver(() => launch(mostOfDevice + 1, true), 720)
      refusedByDriver(() => stream.endCapture(), 901)
      // One that is refused leaves the context as it is.
      stillWorks(bench, stream)
      stream.close()
    }
    small.close()
    rest.close()
  })

  test('E3 a device is not split inside a host function or while a stream waits for a promise, and before it others run', async () => {
    using stream = bench.stream()
    let ran = 0
    stream.launchHostFunc(() => {
      ran += 1
    })
    const parts = device.split({ multiprocessors: [16] })
    assert.equal(ran, 1)
    for (const part of parts) part.close()
    stream.synchronize()
    const split = (): void => {
      for (const part of device.split({ multiprocessors: [16] })) part.close()
    }
    let refusal: unknown
    stream.launchHostFunc(() => {
      refusal = refused(split, 'ERR_DEADLOCK', /splitting a device.* inside a host function/)
    })
    await stream.finished()
    assert.ok(refusal instanceof Error)
    let resolve = (): void => {}
    stream.wait(
      new Promise<void>((settle) => {
        resolve = settle
      }),
    )
    refused(split, 'ERR_DEADLOCK', /splitting a device.*comes after a promise/)
    resolve()
    await stream.finished()
    split()
  })

  for (const [mode] of CAPTURE_MODES) {
    test(`E4 captures of mode ${mode} on streams of a green context leave the device’s waits allowed`, async () => {
      const [small, rest] = device.split({ multiprocessors: [16] })
      using stream = new Stream({ context: small })
      using plain = bench.stream()
      using buffer = device.alloc(64, { stream })
      stream.fill(buffer, 1).synchronize()
      stream.beginCapture(mode)
      assert.equal(stream.isCapturing, true)
      stream.fill(buffer, 2)
      device.synchronize()
      await device.finished()
      await rejected(() => stream.finished(), 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
      refusedByDriver(() => stream.addCallback(() => {}, undefined), 900)
      // Another part of the device may be made meanwhile.
      using third = new Stream({ context: rest })
      using graph = stream.endCapture()
      using exec = graph.instantiate()
      for (const on of [stream, plain, third]) {
        exec.launch(on)
        on.synchronize()
        assert.deepEqual(await on.download(buffer.subarray(0, 1)), new Uint8Array([2]))
      }
      small.close()
      rest.close()
    })
  }

  test('E4 a capture may have streams of several parts, and of none', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    using one = new Stream({ context: small })
    using other = new Stream({ context: rest })
    using plain = bench.stream()
    using buffer = device.alloc(96, { stream: plain })
    plain.fill(buffer, 0).synchronize()
    using graph = one.capture(() => {
      one.fill(buffer.subarray(0, 32), 1)
      other.wait(one).fill(buffer.subarray(32, 64), 2)
      plain.wait(other).fill(buffer.subarray(64, 96), 3)
      one.wait(plain)
    })
    using exec = graph.instantiate()
    exec.launch(plain)
    const bytes = await plain.download(buffer)
    assert.deepEqual([bytes[0], bytes[40], bytes[95]], [1, 2, 3])
    small.close()
    rest.close()
  })

  test('E4 where a stream of no part has joined, the device’s waits are refused, and the capture stays valid', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    using one = new Stream({ context: small })
    const handle = bench.foreignStream(device)
    try {
      using theirs = new ExternalStream(handle, { device })
      using plain = bench.stream()
      for (const joining of [plain, theirs]) {
        one.beginCapture('relaxed')
        joining.wait(one)
        refusedByDriver(() => joining.wait(device), 900)
        refusedByDriver(() => plain.wait(device), 900)
        await rejected(() => device.finished(), 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
        one.wait(joining)
        one.endCapture().close()
        plain.wait(device)
        await device.finished()
      }
    } finally {
      bench.destroyForeignStream(handle)
      small.close()
      rest.close()
    }
  })

  test('E5 a context that is closed goes on until its streams are closed', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    const stream = new Stream({ context: small })
    using buffer = device.alloc(64, { stream })
    small.close()
    rest.close()
    assert.equal(stream.context, small)
    stream.fill(buffer, 5)
    assert.deepEqual(await stream.download(buffer.subarray(0, 1)), new Uint8Array([5]))
    using latch = bench.latch(stream)
    const event = stream.record()
    stream.close()
    assert.equal(event.query(), false)
    latch.open()
    event.synchronize()
    device.synchronize()
    using plain = bench.stream()
    stillWorks(bench, plain)
  })

  test('E5 graphs keep the green contexts that they were captured in', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    const stream = new Stream({ context: small })
    using plain = bench.stream()
    using buffer = device.alloc(64, { stream: plain })
    plain.fill(buffer, 0).synchronize()
    const graph = stream.capture(() => stream.launch(add, { grid: 1, block: 64 }, buffer, buffer, 64n))
    const other = plain.capture(() => plain.launch(add, { grid: 1, block: 64 }, buffer, buffer, 64n))
    stream.close()
    small.close()
    rest.close()
    const exec = graph.instantiate()
    graph.close()
    plain.fill(buffer, 1)
    exec.launch(plain).launch(plain)
    assert.deepEqual(await plain.download(buffer.subarray(0, 1)), new Uint8Array([4]))
    exec.close()
    const second = other.instantiate()
    other.close()
    second.launch(plain)
    assert.deepEqual(await plain.download(buffer.subarray(0, 1)), new Uint8Array([8]))
    second.close()
  })

  test('E5 an instance that is updated keeps the green contexts of the new graph', async () => {
    using plain = bench.stream()
    using buffer = device.alloc(64, { stream: plain })
    plain.fill(buffer, 1).synchronize()
    const first = plain.capture(() => plain.fill(buffer, 2))
    using exec = first.instantiate()
    first.close()
    const [small, rest] = device.split({ multiprocessors: [16] })
    const stream = new Stream({ context: small })
    const graph = stream.capture(() => stream.fill(buffer, 3))
    let value = 3
    try {
      exec.update(graph)
    } catch (error) {
      // CUDA moves some fills to another context, and refuses others.
      assert.equal(checkCudaError(error, 910).call, 'cuGraphExecUpdate')
      value = 2
    }
    for (const each of [graph, stream, small, rest]) each.close()
    exec.launch(plain)
    assert.deepEqual(await plain.download(buffer.subarray(0, 1)), new Uint8Array([value]))
  })

  test('E5 nodes that were captured in a part are changed, and stay in that part', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    const stream = new Stream({ context: small })
    using plain = bench.stream()
    using a = device.alloc(64, { stream: plain })
    using b = device.alloc(64, { stream: plain })
    plain.fill(a, 1).fill(b, 2).synchronize()
    using graph = stream.capture(() => {
      stream.fill(a, 7)
      stream.copy(b, a)
      stream.launch(add, { grid: 1, block: 64 }, a, a, 64n)
    })
    const exec = graph.instantiate()
    for (const node of graph.nodes) {
      if (node.kind === 'fill') exec.update(node, b, 3)
      if (node.kind === 'copy') exec.update(node, a, b)
    }
    for (const node of graph.nodesOf(add)) exec.update(node, { grid: 1, block: 64 }, b, a, 64n)
    exec.launch(plain)
    assert.deepEqual(await plain.download(a.subarray(0, 1)), new Uint8Array([3]))
    assert.deepEqual(await plain.download(b.subarray(0, 1)), new Uint8Array([6]))
    // Of another part it would be another shape.
    using same = stream.capture(() => {
      stream.fill(a, 7)
      stream.copy(b, a)
      stream.launch(add, { grid: 1, block: 64 }, a, a, 64n)
    })
    exec.update(same)
    exec.close()
    stream.close()
    small.close()
    rest.close()
  })

  test('E5 an update moves no kernel to another part of the device', () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    using stream = new Stream({ context: small })
    using plain = bench.stream()
    const graphOn = (on: Stream, nanoseconds: number) => on.capture(() => bench.busy(on, nanoseconds))
    using exec = graphOn(stream, 1000).instantiate()
    exec.update(graphOn(stream, 2000))
    refusedByDriver(() => exec.update(graphOn(plain, 1000)), 910)
    exec.launch(plain)
    plain.synchronize()
    small.close()
    rest.close()
  })

  test('E3 streams are made in a green context while a host function is pending, and inside of one', () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    using plain = bench.stream()
    const made: Stream[] = []
    const make = (priority: number) => made.push(new Stream({ context: small, priority }))
    let ran = false
    plain.launchHostFunc(() => {
      ran = true
      for (let count = 4; count > 0; count -= 1) make(0)
    })
    for (let count = 8; count > 0; count -= 1) make(-count)
    assert.equal(ran, false)
    for (const stream of made) bench.busy(stream, 1000)
    plain.synchronize()
    assert.equal(ran, true)
    assert.equal(new Set(made.map(({ handle }) => handle)).size, 12)
    for (const stream of made) {
      stillWorks(bench, stream)
      stream.close()
    }
    small.close()
    rest.close()
  })

  test('E3 instances of graphs of green contexts are made while a host function is pending, and inside of one', () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    using stream = new Stream({ context: small })
    using plain = bench.stream()
    using buffer = device.alloc(64, { stream: plain })
    using ready = plain.record()
    using alone = stream.capture(() => stream.fill(buffer, 1))
    using both = plain.capture(() => {
      stream.wait(plain).fill(buffer.subarray(0, 32), 2)
      plain.fill(buffer.subarray(32, 64), 3).wait(stream)
    })
    using within = plain.capture(() => plain.launch(both))
    const made: GraphExec[] = []
    let ran = false
    stream.wait(ready)
    plain.launchHostFunc(() => {
      ran = true
      for (const graph of [alone, both]) made.push(graph.instantiate())
    })
    for (const graph of [alone, alone, both]) made.push(graph.instantiate())
    assert.equal(ran, false)
    // CUDA has no streams for so many: the host function is run before.
    for (const graph of [alone, both, within])
      for (let count = 25; count > 0; count -= 1) made.push(graph.instantiate())
    for (const exec of made) plain.launch(exec)
    plain.synchronize()
    assert.equal(ran, true)
    for (const exec of made) exec.close()
    small.close()
    rest.close()
  })

  for (const captured of ['there', 'elsewhere', 'nowhere'] as const) {
    for (const origin of ['ours', "another library's"] as const) {
      test(`E3 the waits of a device cover the work of a green stream, ${origin}, captured ${captured}`, async () => {
        const [small, rest] = device.split({ multiprocessors: [16] })
        const handle = origin === 'ours' ? undefined : bench.foreignStream(device, { context: small })
        const stream = handle === undefined ? new Stream({ context: small }) : new ExternalStream(handle, { device })
        using plain = bench.stream()
        using buffer = device.alloc(64, { stream: plain })
        using copy = device.alloc(64, { stream: plain })
        const on = captured === 'there' ? stream : plain
        const work = (where: Stream): void => {
          bench.busy(where, 2_000_000)
          where.copy(copy, buffer)
        }
        using graph = on.capture(() => work(on))
        using exec = graph.instantiate()
        const first = async () => (await plain.download(copy.subarray(0, 1)))[0]
        const launch = (value: number) => {
          plain.fill(copy, 0).fill(buffer, value)
          stream.wait(plain)
          if (captured === 'nowhere') work(stream)
          else stream.launch(exec)
        }
        launch(1)
        plain.wait(device)
        assert.equal(await first(), 1)
        launch(2)
        device.synchronize()
        assert.equal(stream.query(), true)
        assert.equal(await first(), 2)
        launch(3)
        await device.finished()
        assert.equal(await first(), 3)
        // The stream itself has to come after its graphs, too.
        launch(4)
        plain.wait(stream)
        assert.equal(await first(), 4)
        stream.close()
        if (handle !== undefined) bench.destroyForeignStream(handle)
        small.close()
        rest.close()
      })
    }
  }

  test('E5 a stream of a green context is never given out as another stream', () => {
    halves((small) => {
      for (let round = 0; round < 20; round += 1) {
        new Stream({ context: small }).close()
        using plain = bench.stream()
        assert.equal(plain.context.multiprocessors, all)
        using foreign = new ExternalStream(plain.handle, { device })
        assert.equal(foreign.context.multiprocessors, all)
      }
      bench.stream().close()
      using green = new Stream({ context: small })
      using wrapper = new ExternalStream(green.handle, { device })
      assert.equal(wrapper.context.multiprocessors, small.multiprocessors)
    })
  })

  test('E6 a stream of a green context that another library made is wrapped as what it is', async () => {
    const [small, rest] = device.split({ multiprocessors: [16] })
    for (const context of [small, rest]) {
      const handle = bench.foreignStream(device, { context })
      const wrapper = new ExternalStream(handle, { device })
      assert.equal(wrapper.device, device)
      assert.equal(wrapper.context.handle, context.handle)
      assert.equal(wrapper.context.device, device)
      assert.equal(wrapper.context.multiprocessors, context.multiprocessors)
      assert.equal(wrapper.nonBlocking, true)
      using ours = bench.stream()
      using buffer = device.alloc(64, { stream: ours })
      ours.fill(buffer, 1)
      wrapper.wait(ours).fill(buffer, 2)
      let ran = false
      wrapper.launchHostFunc(() => {
        ran = true
      })
      ours.wait(wrapper)
      assert.deepEqual(await ours.download(buffer.subarray(0, 1)), new Uint8Array([2]))
      assert.equal(ran, true)
      using again = new ExternalStream(wrapper)
      assert.equal(again.context.multiprocessors, context.multiprocessors)
      device.synchronize()
      using graph = wrapper.capture(() => wrapper.fill(buffer, 3))
      assert.equal(graph.nodeCount, 1)
      // CUDA tells nothing of a stream whose capture is invalidated.
      wrapper.beginCapture('relaxed')
      using outside = ours.record()
      assert.throws(() => wrapper.wait(outside), { number: 905 })
      using late = new ExternalStream(handle, { device })
      assert.equal(late.context.multiprocessors, context.multiprocessors)
      assert.throws(() => wrapper.endCapture(), { number: 901 })
      wrapper.close()
      again.close()
      bench.destroyForeignStream(handle)
    }
    small.close()
    rest.close()
  })

  test('E6 our stream of a green context, wrapped by its handle, is the same stream', () => {
    halves((small) => {
      using stream = new Stream({ context: small })
      using wrapper = new ExternalStream(stream)
      using byHandle = new ExternalStream(stream.handle, { device })
      assert.equal(wrapper.context, small)
      assert.equal(byHandle.context.handle, small.handle)
      assert.ok(wrapper.equals(stream) && byHandle.equals(stream))
      assert.equal(byHandle.id, stream.id)
    })
  })

  test('E7 an unreachable green context is destroyed, and not before its streams', async () => {
    using watcher = watch(device)
    const has = (handle: bigint): boolean => watcher.ended.includes(Number(handle) as ContextHandle)
    const made = (() => {
      const [small, rest] = device.split({ multiprocessors: [16] })
      return { stream: new Stream({ context: small }), small: small.handle, rest: rest.handle }
    })()
    const { stream } = made
    // Nothing holds the rest, and the stream holds the other.
    assert.ok(await collectUntil(() => has(made.rest)))
    assert.equal(has(made.small), false)
    assert.equal(stream.context.multiprocessors, 16)
    stillWorks(bench, stream)
    stream.close()
  })

  test('E8 contexts, streams and graphs of green contexts leave nothing behind', () => {
    for (let round = 0; round < 10; round += 1) {
      const parts = device.split({ multiprocessors: [8, 8, 8] })
      const streams = parts.flatMap((context) => [new Stream({ context }), new Stream({ context })])
      for (const stream of streams) bench.busy(stream, 100)
      for (const [index, each] of [...streams, ...parts].entries()) if (index % 2 === 0) each.close()
      for (const each of [...parts, ...streams]) each.close()
    }
    using plain = bench.stream()
    stillWorks(bench, plain)
  })
})

/** Sees the contexts that are let go. */
class Watcher implements Interceptor {
  constructor(readonly next: Driver) {}

  readonly ended: ContextHandle[] = []

  readonly devices: Partial<DeviceDriver> = {
    greenContextDestroy: (context) => {
      this.ended.push(context)
      this.next.devices.greenContextDestroy(context)
    },
  }
}

function watch(device: Device): { readonly ended: readonly ContextHandle[]; readonly [Symbol.dispose]: () => void } {
  const { wrapper, unwrap } = driverOf(device).wrap((inner: Driver) => new Watcher(inner))
  return { ended: wrapper.ended, [Symbol.dispose]: unwrap }
}
