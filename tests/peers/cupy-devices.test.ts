/** What CuPy’s tests ask of the stream protocol and of devices, asked of ours. */
import assert from 'node:assert/strict'
import { AsyncResource } from 'node:async_hooks'
import { test } from 'node:test'
import { cudaStream, Device, ExternalStream, Stream, type StreamSource } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, refused, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

/** Streams made current inside stay current no longer than this. */
function inOwnContext<R>(act: () => R): R {
  return new AsyncResource('Peer').runInAsyncScope(act)
}

onEveryBackend('CuPy’s stream protocol', (bench) => {
  const { device } = bench
  const mock = (answer: unknown): StreamSource => ({ __cuda_stream__: () => answer }) as StreamSource

  test('a stream answers with version 0 and its handle, the default ones too', () => {
    using stream = bench.stream()
    for (const each of [stream, device.defaultStream, device.run(() => Stream.perThread)]) {
      const answer = each[cudaStream]()
      assert.equal(answer.length, 2)
      assert.deepEqual([...answer], [0, each.handle])
    }
    stream.close()
    refused(() => stream[cudaStream](), 'ERR_CLOSED')
  })

  test('an object of another library is wrapped, and is the owner', () => {
    using stream = bench.stream()
    const theirs = mock([0, stream.handle])
    using wrapped = device.run(() => new ExternalStream(theirs))
    assert.equal(wrapped.handle, stream.handle)
    assert.equal(wrapped.device, device)
    assert.equal(wrapped.owner, theirs)
    using again = new ExternalStream(stream)
    assert.ok(again.equals(stream))
    assert.equal(again.owner, stream)
    wrapped.run(() => assert.equal(Stream.current(device), wrapped))
    wrapped.synchronize()
    assert.equal(wrapped.query(), true)
  })

  test('what has no protocol, or answers wrongly, is ERR_INVALID_ARG_TYPE', () => {
    using stream = bench.stream()
    for (const wrong of [{}, [], () => {}, Symbol('stream'), null, undefined, 'x', 1.5, true]) {
      refused(() => new ExternalStream(wrong as StreamSource), 'ERR_INVALID_ARG_TYPE')
    }
    const answers = [123, [0], [], [0, stream.handle, 0], ['x', 0], [0, 'x'], [1, stream.handle], null, undefined, {}]
    for (const wrong of answers) {
      refused(() => new ExternalStream(mock(wrong)), 'ERR_INVALID_ARG_TYPE', /__cuda_stream__|stream protocol|version/)
      refused(() => stream.wait(mock(wrong) as never), 'ERR_INVALID_ARG_TYPE')
      refused(() => device.createStream(mock(wrong) as never), 'ERR_INVALID_ARG_TYPE')
    }
    stillWorks(bench, stream)
  })

  test('the wrapped object lives as long as the wrapper, and no longer', async () => {
    using stream = bench.stream()
    let wrapped: ExternalStream | undefined
    const weak = (() => {
      const theirs = mock([0, stream.handle])
      wrapped = device.run(() => new ExternalStream(theirs))
      return new WeakRef(theirs as object)
    })()
    assert.equal(await collectUntil(() => weak.deref() === undefined), false)
    const inUse = wrapped
    assert.ok(inUse)
    bench.busy(inUse, 1000)
    inUse.close()
    assert.equal(await collectUntil(() => weak.deref() === undefined), true, 'close() lets go of the owner')
    const forgotten = (() => {
      const theirs = mock([0, stream.handle])
      device.run(() => new ExternalStream(theirs))
      return new WeakRef(theirs as object)
    })()
    assert.equal(await collectUntil(() => forgotten.deref() === undefined), true, 'so does the collector')
    stillWorks(bench, stream)
  })
})

onEveryBackend('CuPy devices', (bench) => {
  const { device } = bench

  test('a device is one object, and use() and blocks nest', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    inOwnContext(() => {
      assert.equal(other.use(), other)
      assert.equal(Device.current(), other)
      device.run(() => {
        assert.equal(Device.current(), device)
        other.use()
        device.run(() => assert.equal(Device.current(), device))
        assert.equal(Device.current(), other)
      })
      assert.equal(Device.current(), other)
      using _scope = device.enter()
      assert.equal(Device.current(), device)
      assert.throws(() =>
        other.run(() => {
          throw new Error('mine')
        }),
      )
      assert.equal(Device.current(), device)
    })
  })

  test('two concurrent flows each leave their own device as they found it', async (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    const flow = (outer: Device, inner: Device): Promise<void> =>
      outer.run(async () => {
        await inner.run(async () => {
          await new Promise(setImmediate)
          assert.equal(Device.current(), inner)
        })
        await new Promise(setImmediate)
        assert.equal(Device.current(), outer)
      })
    await Promise.all([flow(device, device), flow(other, device), flow(device, other)])
  })

  test('a device that does not exist is ERR_OUT_OF_RANGE, and changes nothing', () => {
    device.run(() => {
      for (const wrong of [bench.devices.length, 100]) {
        refused(() => new Stream({ device: wrong }), 'ERR_OUT_OF_RANGE', new RegExp(`${wrong}`))
        refused(() => Stream.current(wrong), 'ERR_OUT_OF_RANGE')
      }
      assert.equal(Device.current(), device)
    })
  })
})
