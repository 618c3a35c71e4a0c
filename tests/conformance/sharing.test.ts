/** What is shared between threads and processes, as far as one thread of one process can see: what it says, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeviceBuffer, Event, ExternalStream, Stream } from 'cuda-streams'
import { withoutProcesses } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { collected, ONE_DEVICE, refused, secondDevice } from './expect.js'

onEveryBackend('sharing', (bench) => {
  const { device } = bench

  test('X1 interprocess memory is memory as any other', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(3000, { interprocess: true })
    assert.ok(buffer instanceof DeviceBuffer)
    assert.equal(buffer.byteLength, 3000)
    stream.upload(
      buffer,
      Uint8Array.from({ length: 3000 }, (_, index) => index),
    )
    stream.fill(buffer.subarray(0, 10), 7)
    const bytes = new Uint8Array(await stream.download(buffer.subarray(0, 20)))
    assert.deepEqual([...bytes], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
  })

  test('X1 interprocess memory that was closed is not given to others before queued work is done', async () => {
    using stream = bench.stream()
    using out = device.allocPinned(64)
    // Two that are kept: on a GPU none is to be allocated while the latch stands.
    const both = [0, 1].map(() => device.alloc(64, { interprocess: true }))
    for (const one of both) one.close()
    const first = device.alloc(64, { interprocess: true })
    stream.fill(first, 1)
    using latch = bench.latch(stream)
    stream.copy(out, first)
    first.close()
    using second = device.alloc(64, { interprocess: true })
    using other = bench.stream()
    other.fill(second, 2)
    other.synchronize()
    latch.open()
    await stream.finished()
    assert.deepEqual([...new Set(out.bytes)], [1])
    assert.notEqual(second.pointer, first.pointer)
  })

  test('X1 interprocess memory can be allocated and closed while a host function is pending', async (context) => {
    if (bench.name === 'cuda') return context.skip('in a process of its own, where it may hang: processes/ipc.test.ts')
    using stream = bench.stream()
    let ran = false
    stream.launchHostFunc(() => {
      ran = true
    })
    const buffer = device.alloc(64, { interprocess: true })
    stream.fill(buffer, 1)
    buffer.close()
    await stream.finished()
    assert.ok(ran)
    return undefined
  })

  test('R7 allocating and closing interprocess memory invalidates no capture', async () => {
    using stream = bench.stream()
    stream.beginCapture('global')
    using buffer = device.alloc(64, { interprocess: true })
    device.alloc(64, { interprocess: true }).close()
    stream.fill(buffer, 9)
    using graph = stream.endCapture()
    using exec = graph.instantiate()
    stream.launch(exec)
    assert.deepEqual([...new Set(await stream.download(buffer))], [9])
  })

  test('X1 interprocess memory has no stream of its own', () => {
    using stream = bench.stream()
    const both = { interprocess: true, stream }
    refused(() => device.alloc(8, both), 'ERR_INVALID_ARG_VALUE', /stream/, /interprocess/)
    refused(() => device.alloc(8, { interprocess: 1 as never }), 'ERR_INVALID_ARG_TYPE', /interprocess/)
    device.alloc(8, { stream, interprocess: false }).close()
  })

  test('X2 memory that cannot be shared with another process: an error that says what to do', () => {
    using plain = device.alloc(64)
    refused(() => plain.ipcHandle(), 'ERR_UNSUPPORTED', /interprocess: true/, /cudaMalloc/)
    const closed = device.alloc(64, { interprocess: true })
    closed.close()
    refused(() => closed.ipcHandle(), 'ERR_CLOSED', /closed/)
  })

  test('X2 bytes that are no handle of memory are refused', () => {
    const open = (bytes: unknown): DeviceBuffer => DeviceBuffer.fromIpcHandle(bytes as Uint8Array, { device })
    for (const wrong of [undefined, null, 'text', [], new ArrayBuffer(80), new Uint16Array(80)]) {
      refused(() => open(wrong), 'ERR_INVALID_ARG_TYPE', /bytes/, /80/)
    }
    for (const length of [0, 63, 65, 79, 81]) {
      refused(() => open(new Uint8Array(length)), 'ERR_INVALID_ARG_VALUE', /80/, /64/, new RegExp(`not ${length}`))
    }
    refused(() => DeviceBuffer.fromIpcHandle(new Uint8Array(80), { device: 'x' as never }), 'ERR_INVALID_ARG_TYPE')
    refused(() => open(new Uint8Array(80)), 'ERR_INVALID_HANDLE', /process/)
  })

  test('X2 memory of the same process is not opened as that of another', { skip: withoutProcesses }, () => {
    using buffer = device.alloc(100, { interprocess: true })
    const bytes = buffer.subarray(10, 30).ipcHandle()
    assert.equal(bytes.length, 80)
    const view = new DataView(bytes.buffer, bytes.byteOffset)
    assert.deepEqual([view.getBigUint64(64, true), view.getBigUint64(72, true)], [10n, 20n])
    for (const own of [bytes, bytes.slice(0, 64)]) {
      refused(() => DeviceBuffer.fromIpcHandle(own, { device }), 'ERR_INVALID_HANDLE', /same process/, /share\(\)/)
    }
  })

  test('X3 what is shared is a plain object that can be cloned, and stands for the same thing in the same thread', () => {
    using stream = bench.stream()
    using event = stream.record()
    using buffer = device.alloc(100)
    for (const shared of [stream.share(), event.share(), buffer.share(), buffer.subarray(1, 3).share()]) {
      assert.deepEqual(structuredClone(shared), shared)
      assert.equal(Object.getPrototypeOf(shared), Object.prototype)
    }
    assert.equal(Stream.from(structuredClone(stream.share())), stream)
    assert.equal(Event.from(structuredClone(event.share())), event)
    assert.equal(DeviceBuffer.from(structuredClone(buffer.share())), buffer)
    assert.deepEqual(stream.share(), stream.share())
    const slice = DeviceBuffer.from(buffer.subarray(10, 30).share())
    assert.equal(slice.pointer, buffer.pointer + 10n)
    assert.equal(slice.byteLength, 20)
    using wrapped = new ExternalStream(stream.share())
    assert.ok(wrapped.equals(stream))
    assert.equal(wrapped.owner, undefined)
  })

  test('X3 a default stream can be shared, but not the one that each thread has of its own', () => {
    assert.equal(Stream.from(device.defaultStream.share()), device.defaultStream)
    device.run(() => refused(() => Stream.perThread.share(), 'ERR_UNSUPPORTED', /each thread/))
  })

  test('X3 options are checked against the stream that was shared', (context) => {
    using stream = bench.stream()
    assert.equal(Stream.from(stream.share(), { device }), stream)
    const second = secondDevice(bench)
    if (second === undefined) return context.diagnostic(ONE_DEVICE)
    const wrong = { device: second }
    refused(() => Stream.from(stream.share(), wrong), 'ERR_DEVICE_MISMATCH', /options\.device/)
    refused(() => new ExternalStream(stream.share(), wrong), 'ERR_DEVICE_MISMATCH', /options\.device/)
  })

  test('X4 what was closed can neither be shared nor had', () => {
    const stream = bench.stream()
    const event = stream.record()
    const buffer = device.alloc(8)
    const slice = buffer.subarray(1, 3)
    const shared = { stream: stream.share(), event: event.share(), buffer: buffer.share(), slice: slice.share() }
    for (const open of [stream, event, buffer]) open.close()
    for (const closed of [stream, event, buffer, slice]) refused(() => closed.share(), 'ERR_CLOSED', /closed/)
    refused(() => Stream.from(shared.stream), 'ERR_CLOSED', /stream has been closed/)
    refused(() => new ExternalStream(shared.stream), 'ERR_CLOSED', /stream has been closed/)
    refused(() => Event.from(shared.event), 'ERR_CLOSED', /event has been closed/)
    refused(() => DeviceBuffer.from(shared.buffer), 'ERR_CLOSED', /buffer has been closed/)
    refused(() => DeviceBuffer.from(shared.slice), 'ERR_CLOSED', /buffer has been closed/)
  })

  test('X2 what another process shared is refused, with the way between processes', () => {
    using stream = bench.stream()
    using event = stream.record()
    using buffer = device.alloc(8)
    const process = 'elsewhere 1 2'
    refused(() => Stream.from({ ...stream.share(), process }), 'ERR_INVALID_HANDLE', /another process/, /ipcHandle/)
    refused(() => Event.from({ ...event.share(), process }), 'ERR_INVALID_HANDLE', /another process/, /ipcHandle/)
    refused(() => DeviceBuffer.from({ ...buffer.share(), process }), 'ERR_INVALID_HANDLE', /another process/)
  })

  test('X4 what another thread shared and closed is refused without asking the driver', () => {
    using stream = bench.stream()
    using event = stream.record()
    using buffer = device.alloc(8)
    // No thread has this number, and no registration stands at these addresses.
    for (const registration of [0, 8, 12, 0x7fff_0000_0000]) {
      const gone = { thread: 1e6, registration }
      const says = /closed by the thread/
      refused(() => Stream.from({ ...stream.share(), ...gone, simulated: {} }), 'ERR_CLOSED', says)
      refused(() => Event.from({ ...event.share(), ...gone, simulated: {} }), 'ERR_CLOSED', says)
      refused(() => DeviceBuffer.from({ ...buffer.share(), ...gone, simulated: {} }), 'ERR_CLOSED', says)
    }
  })

  test('X4 what share() did not return is refused', () => {
    using stream = bench.stream()
    using event = stream.record()
    using buffer = device.alloc(8)
    refused(() => Stream.from(event.share() as never), 'ERR_INVALID_ARG_TYPE', /share\(\) of a stream/)
    refused(() => Event.from(buffer.share() as never), 'ERR_INVALID_ARG_TYPE', /share\(\) of an event/)
    refused(() => DeviceBuffer.from(stream.share() as never), 'ERR_INVALID_ARG_TYPE', /share\(\) of a buffer/)
    for (const wrong of [undefined, null, 'text', {}, []]) {
      refused(() => Event.from(wrong as never), 'ERR_INVALID_ARG_TYPE', /share\(\) of an event/)
    }
    for (const key of ['thread', 'key', 'registration', 'device'] as const) {
      for (const wrong of [-1, 0.5, '1', undefined]) {
        refused(
          () => Stream.from({ ...stream.share(), [key]: wrong } as never),
          'ERR_INVALID_ARG_VALUE',
          new RegExp(key),
        )
      }
    }
  })

  test('X4 a token that was changed is refused in the thread that shared it, too', () => {
    using stream = bench.stream()
    using event = stream.record()
    using buffer = device.alloc(64)
    const [ofStream, ofEvent, ofBuffer] = [stream.share(), event.share(), buffer.subarray(8, 16).share()]
    const changed: readonly (() => unknown)[] = [
      () => Stream.from({ ...ofEvent, cudaStreams: 'stream', id: 1n }),
      () => Event.from({ ...ofEvent, ...ofStream, cudaStreams: 'event' }),
      () => DeviceBuffer.from({ ...ofBuffer, ...ofStream, cudaStreams: 'buffer' }),
      () => Stream.from({ ...ofStream, handle: ofStream.handle + 8n }),
      () => new ExternalStream({ ...ofStream, handle: ofEvent.handle }),
      () => Stream.from({ ...ofStream, device: 63 }),
      () => Event.from({ ...ofEvent, handle: 0n }),
      () => Event.from({ ...ofEvent, timing: true }),
      () => DeviceBuffer.from({ ...ofBuffer, byteOffset: 60 }),
      () => DeviceBuffer.from({ ...ofBuffer, byteLength: 57 }),
      () => DeviceBuffer.from({ ...ofBuffer, byteLength: '8' as never }),
      () => DeviceBuffer.from({ ...ofBuffer, pointer: ofBuffer.pointer + 1n }),
      () => DeviceBuffer.from({ ...ofBuffer, ready: 16n }),
    ]
    for (const from of changed) refused(from, 'ERR_INVALID_ARG_VALUE', /as it is/)
    const whole = { ...ofBuffer, pointer: buffer.pointer, byteOffset: 0, byteLength: 64 }
    assert.equal(DeviceBuffer.from(whole), buffer)
  })

  test('X3 what is shared is kept until it is closed', async () => {
    const shared = (() => bench.stream().share())()
    assert.equal(await collected(() => false), false)
    const stream = Stream.from(shared)
    assert.equal(stream.query(), true)
    stream.close()
    refused(() => Stream.from(shared), 'ERR_CLOSED')
  })
})
