/** S3 and S5: streams that another library owns: their lifetime and their device. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CudaStreamLike, cudaStream, Event, ExternalStream, type PythonStreamLike, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { collected, collectUntil, ONE_DEVICE, refused, secondDevice, stillWorks } from './expect.js'

const ours = (handle: bigint | number): CudaStreamLike => ({ [cudaStream]: () => [0, handle] })
const pythons = (handle: bigint | number): PythonStreamLike => ({ __cuda_stream__: () => [0, handle] })

onEveryBackend('foreign streams', (bench) => {
  const { device } = bench
  const withForeign = <R>(test: (handle: bigint) => R): R => {
    const handle = bench.foreignStream(device)
    try {
      return test(handle)
    } finally {
      bench.destroyForeignStream(handle)
    }
  }

  test('S3 close() lets go of the stream and does not destroy it', () => {
    withForeign((handle) => {
      const wrapper = new ExternalStream(handle, { device })
      stillWorks(bench, wrapper)
      wrapper.close()
      assert.equal(wrapper.closed, true)
      refused(() => wrapper.query(), 'ERR_CLOSED', /closed/)
      using again = new ExternalStream(handle, { device })
      stillWorks(bench, again)
    })
  })

  test('S3 the garbage collector does not destroy it either', async () => {
    const handle = bench.foreignStream(device)
    try {
      const wrapper = (() => new WeakRef(new ExternalStream(handle, { device })))()
      assert.equal(await collectUntil(() => wrapper.deref() === undefined), true)
      using again = new ExternalStream(handle, { device })
      stillWorks(bench, again)
    } finally {
      bench.destroyForeignStream(handle)
    }
  })

  test('S3 two wrappers of one stream are closed one by one', () => {
    withForeign((handle) => {
      using one = new ExternalStream(handle, { device })
      const two = new ExternalStream(ours(handle), { device })
      assert.equal(one.equals(two), true)
      two.close()
      stillWorks(bench, one)
    })
  })

  test('S3 owner is the one given, else the protocol object', () => {
    withForeign((handle) => {
      const owner = { name: 'owner' }
      const source = ours(handle)
      const python = pythons(handle)
      const callable = Object.assign(() => {}, ours(handle))
      const ownerOf = (...args: ConstructorParameters<typeof ExternalStream>): object | undefined => {
        using wrapper = new ExternalStream(...args)
        return wrapper.owner
      }
      assert.equal(ownerOf(handle, { device }), undefined)
      assert.equal(ownerOf(handle, { device, owner }), owner)
      assert.equal(ownerOf(source, { device }), source)
      assert.equal(ownerOf(python, { device }), python)
      assert.equal(ownerOf(source, { device, owner }), owner)
      assert.equal(ownerOf(callable, { device }), callable)
      assert.equal(device.createStream(python).owner, python)
    })
  })

  test('S3 an owner that is no object is ERR_INVALID_ARG_TYPE', () => {
    withForeign((handle) => {
      for (const owner of ['x', 5, null, true]) {
        const options = { device, owner } as unknown as { owner: object }
        refused(() => new ExternalStream(handle, options), 'ERR_INVALID_ARG_TYPE', /options\.owner/, /object/)
      }
    })
  })

  test('S3 the owner stays reachable while the wrapper lives, and no longer', async () => {
    const handle = bench.foreignStream(device)
    try {
      const make = () => {
        const owner = { name: 'owner' }
        return { wrapper: new ExternalStream(handle, { device, owner }), owner: new WeakRef(owner) }
      }
      const { wrapper, owner } = make()
      assert.equal(await collected(() => owner.deref() === undefined), false)
      assert.equal(wrapper.owner, owner.deref())
      wrapper.close()
      assert.equal(await collectUntil(() => owner.deref() === undefined), true)
    } finally {
      bench.destroyForeignStream(handle)
    }
  })

  test('S3 the protocol object stays reachable, also where an owner is given', async () => {
    const handle = bench.foreignStream(device)
    try {
      for (const given of [{}, { owner: { name: 'owner' } }]) {
        for (const spelling of [ours, pythons]) {
          const make = () => {
            const source = spelling(handle)
            return { wrapper: new ExternalStream(source, { device, ...given }), source: new WeakRef(source) }
          }
          const { wrapper, source } = make()
          const lost = await collected(() => source.deref() === undefined)
          assert.equal(lost, false, `lost with ${Object.keys(given).join() || 'no'} option given`)
          stillWorks(bench, wrapper)
          wrapper.close()
          assert.equal(await collectUntil(() => source.deref() === undefined), true)
        }
      }
    } finally {
      bench.destroyForeignStream(handle)
    }
  })

  test('S3 a protocol object that is a function stays reachable', async () => {
    const handle = bench.foreignStream(device)
    try {
      const make = () => {
        const source = Object.assign(() => {}, ours(handle))
        return { wrapper: new ExternalStream(source, { device }), source: new WeakRef(source) }
      }
      const { wrapper, source } = make()
      assert.equal(await collected(() => source.deref() === undefined), false)
      stillWorks(bench, wrapper)
      wrapper.close()
    } finally {
      bench.destroyForeignStream(handle)
    }
  })

  test('S3 a wrapper of a wrapper keeps what that one kept, also when that one is closed', async () => {
    const owned = (() => {
      const inner = new ExternalStream(bench.stream())
      return { inner, outer: new ExternalStream(inner) }
    })()
    owned.inner.close()
    assert.equal(await collected(() => owned.outer.closed), false)
    assert.equal(owned.outer.query(), true)
    owned.outer.close()
    const handle = bench.foreignStream(device)
    const [outer, owner] = (() => {
      const keeper = { handle }
      const inner = new ExternalStream(handle, { device, owner: keeper })
      const around = new ExternalStream(inner)
      inner.close()
      return [around, new WeakRef(keeper)] as const
    })()
    assert.equal(await collected(() => owner.deref() === undefined), false)
    outer.close()
    assert.equal(await collectUntil(() => owner.deref() === undefined), true)
    bench.destroyForeignStream(handle)
  })

  test('S4 to wrap a wrapper is to wrap its stream: one that is destroyed is refused', () => {
    const stream = bench.stream()
    using wrapper = new ExternalStream(stream)
    stream.close()
    refused(() => new ExternalStream(wrapper), 'ERR_CLOSED', /closed/)
    refused(() => device.createStream(wrapper), 'ERR_CLOSED', /closed/)
    using other = bench.stream()
    stillWorks(bench, other)
  })

  test('S3 a stream of ours is wrapped the same way, and kept alive by its wrapper', async () => {
    const wrap: ((stream: Stream) => ExternalStream)[] = [
      (stream) => new ExternalStream(stream),
      (stream) => device.createStream(stream),
    ]
    for (const make of wrap) {
      using stream = bench.stream()
      const wrapper = make(stream)
      assert.ok(wrapper instanceof ExternalStream)
      assert.notEqual(wrapper, stream)
      assert.equal(wrapper.owner, stream)
      assert.equal(wrapper.equals(stream), true)
      wrapper.close()
      stillWorks(bench, stream)

      const alone = (() => make(bench.stream()))()
      assert.equal(await collected(() => alone.closed), false)
      stillWorks(bench, alone)
    }
  })

  test('S3 a wrapped event is not destroyed, and keeps its owner', async () => {
    using event = device.createEvent()
    const make = () => {
      const owner = { name: 'owner' }
      return { wrapper: Event.from(event.handle, { device, owner }), owner: new WeakRef(owner) }
    }
    const { wrapper, owner } = make()
    assert.equal(wrapper.equals(event), true)
    assert.equal(wrapper.device, device)
    assert.equal(await collected(() => owner.deref() === undefined), false)
    wrapper.close()
    assert.equal(await collectUntil(() => owner.deref() === undefined), true)
    using stream = bench.stream()
    stream.record(event)
    stream.wait(event)
    stream.synchronize()
    assert.equal(event.query(), true)
  })

  test('S5 the device is asked of the driver', () => {
    for (const there of bench.devices) {
      const handle = bench.foreignStream(there, { nonBlocking: false, priority: -1 })
      try {
        device.run(() => {
          for (const options of [undefined, {}, { device: -1 }, { device: there }, { device: there.ordinal }]) {
            using wrapper = new ExternalStream(handle, options)
            assert.equal(wrapper.device, there)
            assert.equal(wrapper.context.device, there)
            assert.equal(wrapper.handle, handle)
            assert.equal(wrapper.nonBlocking, false)
            assert.equal(wrapper.priority, -1)
            stillWorks(bench, wrapper)
          }
          using fromNumber = Stream.from(Number(handle))
          assert.equal(fromNumber.device, there)
        })
      } finally {
        bench.destroyForeignStream(handle)
      }
    }
  })

  test('S3 host functions run once each, in order, also where the owner replaces the stream meanwhile', async () => {
    const seen: string[] = []
    let handle = bench.foreignStream(device, { nonBlocking: false })
    for (let round = 0; round < 20; round += 1) {
      const wrapper = new ExternalStream(handle, { device })
      for (const place of ['first', 'second']) wrapper.launchHostFunc(() => seen.push(`${round} ${place}`))
      // It may be given the handle of the one before, whose host functions are still pending.
      const old = handle
      bench.destroyForeignStream(old)
      handle = bench.foreignStream(device, { nonBlocking: false })
      // The null stream waits for all blocking streams, the destroyed ones among them.
      device.defaultStream.launchHostFunc(() => seen.push(`${round} null stream`))
      using event = device.defaultStream.record()
      bench.stream().wait(event).close()
    }
    await device.finished()
    bench.destroyForeignStream(handle)
    const expected = Array.from({ length: 20 }, (_, round) => [
      `${round} first`,
      `${round} second`,
      `${round} null stream`,
    ])
    assert.deepEqual(seen.toSorted(), expected.flat().toSorted())
    for (const [first, second] of expected) {
      assert.ok(seen.indexOf(first ?? '') < seen.indexOf(second ?? ''), `${first} comes before ${second}`)
    }
  })

  test('S5 a default stream is that of the device given, or of the current one', () => {
    for (const there of bench.devices) {
      for (const handle of [0n, 1n, 2n]) {
        using given = new ExternalStream(handle, { device: there })
        using current = there.run(() => new ExternalStream(handle))
        assert.equal(given.device, there)
        assert.equal(current.device, there)
        assert.equal(current.handle, handle)
        stillWorks(bench, given)
      }
    }
  })

  test('S5 a device that is not its own is ERR_DEVICE_MISMATCH', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    withForeign((handle) => {
      const says = [/Device\(0/, /Device\(1/, /options\.device/]
      refused(() => new ExternalStream(handle, { device: other }), 'ERR_DEVICE_MISMATCH', ...says)
      refused(() => other.createStream(ours(handle)), 'ERR_DEVICE_MISMATCH', ...says)
      using stream = bench.stream()
      refused(() => other.createStream(stream), 'ERR_DEVICE_MISMATCH', ...says)
      using wrapper = new ExternalStream(handle, { device })
      stillWorks(bench, wrapper)
    })
  })
})
