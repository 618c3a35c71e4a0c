/**
 * U1 to U4: the current stream and the current device, and which code sees them. Where contexts do not follow awaits, as in
 * browsers, scopes that overlap are those of all code, and the latest counts.
 */
import assert from 'node:assert/strict'
import { AsyncResource } from 'node:async_hooks'
import { test } from 'node:test'
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'
import { Device, Stream } from 'cuda-streams'
import { contextsFollowAwaits } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { ONE_DEVICE, refused, secondDevice, stillWorks } from './expect.js'

onEveryBackend('what is current', (bench) => {
  const { device } = bench

  test('U1 the current stream is the null stream until it is changed', () => {
    for (const there of bench.devices) {
      assert.equal(Stream.current(there), there.defaultStream)
      there.run(() => {
        assert.equal(Stream.current(), there.defaultStream)
        assert.equal(Stream.current(there.ordinal), there.defaultStream)
        assert.equal(Stream.null, there.defaultStream)
        assert.equal(Stream.null.handle, 0n)
        assert.equal(Stream.perThread.handle, 2n)
        assert.equal(Stream.perThread, Stream.perThread)
        assert.equal(Stream.null.nonBlocking, false)
        assert.equal(Stream.perThread.device, there)
      })
    }
    using stream = bench.stream()
    stream.run(() => assert.equal(Stream.current(device), stream))
    assert.equal(Stream.current(device), device.defaultStream)
  })

  test('U1 a device that is none is refused', () => {
    device.run(() => {
      const count = bench.devices.length
      refused(() => Stream.current(count), 'ERR_OUT_OF_RANGE', new RegExp(`not ${count}`))
      for (const wrong of ['x', 0.5, null, {}] as unknown as number[]) {
        refused(() => Stream.current(wrong), 'ERR_INVALID_ARG_TYPE', /device/)
      }
    })
  })

  test('U1 a call without a stream says that the current one is closed, and how it comes to be so', async () => {
    const closed = bench.stream()
    using event = device.createEvent()
    const says = [/it is closed and still the current stream of Device/, /Close it after its run\(\)/]
    const calls = [
      () => device.alloc(16),
      () => event.record(),
      () => event.wait(),
      () => Stream.current(device).launchHostFunc(() => {}),
    ]
    await closed.run(async () => {
      closed.close()
      for (const call of calls) refused(call, 'ERR_CLOSED', ...says)
      await turn()
      for (const call of calls) refused(call, 'ERR_CLOSED', ...says)
    })
    const named = refused(() => closed.launchHostFunc(() => {}), 'ERR_CLOSED')
    assert.doesNotMatch(named.message, /current/, 'it is no longer current')
    device.alloc(16).close()
  })

  test('U1 an event is recorded and waited for on the current stream of its device', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using event = device.createEvent()
    using latch = bench.latch(stream)
    stream.run(() => assert.equal(event.record(), event))
    waiting.run(() => assert.equal(event.wait(), event))
    await turn()
    assert.equal(event.query(), false)
    assert.equal(waiting.query(), false)
    latch.open()
    await waiting.finished()
  })

  test('U2 concurrent requests never see each other’s; in a browser the latest use() counts for all', async () => {
    const before = { stream: device.defaultStream, there: device }
    let latest = before
    const request = (stream: Stream, there: Device) =>
      new AsyncResource('Request').runInAsyncScope(async () => {
        const own = { stream, there }
        const seesIts = (expected: typeof own): void => {
          assert.equal(Stream.current(device), expected.stream)
          assert.equal(Device.current(), expected.there)
        }
        const sees = (): void => seesIts(contextsFollowAwaits ? own : latest)
        seesIts(contextsFollowAwaits ? before : latest)
        stream.use()
        there.use()
        latest = own
        for (let round = 0; round < 20; round += 1) {
          sees()
          await (round % 2 === 0 ? turn() : pause(1))
        }
        await Promise.all([pause(1).then(sees), turn().then(sees)])
      })
    const streams = Array.from({ length: 6 }, () => bench.stream())
    // A scope of their own: in a browser it is what ends the effect of use().
    await device.run(() =>
      device.defaultStream.run(async () => {
        const requests = streams.map((stream, index) => {
          const there = bench.devices[index % bench.devices.length]
          assert.ok(there)
          return new Promise<void>((resolve, reject) => {
            setImmediate(() => request(stream, there).then(resolve, reject))
          })
        })
        await Promise.all(requests)
        assert.equal(Stream.current(device), (contextsFollowAwaits ? before : latest).stream)
      }),
    )
    assert.equal(Stream.current(device), device.defaultStream)
    for (const stream of streams) stream.close()
  })

  test('U2 run(fn) scopes a function, and gives back what it returns', () => {
    using outer = bench.stream()
    using inner = bench.stream()
    const result = outer.run(() => {
      const got = inner.run(() => {
        assert.equal(Stream.current(device), inner)
        return 'inner'
      })
      assert.equal(Stream.current(device), outer)
      return `${got}, outer`
    })
    assert.equal(result, 'inner, outer')
    assert.equal(Stream.current(device), device.defaultStream)
    const mine = new Error('mine')
    const fail = (): never => {
      throw mine
    }
    assert.throws(
      () => inner.run(fail),
      (error) => error === mine,
    )
    assert.throws(
      () => device.run(fail),
      (error) => error === mine,
    )
    assert.equal(Stream.current(device), device.defaultStream)
  })

  test('U2 run(fn) scopes an async function to its end, and its errors come through', async () => {
    using outer = bench.stream()
    using inner = bench.stream()
    const work = async (stream: Stream): Promise<Stream> => {
      for (let round = 0; round < 5; round += 1) {
        await turn()
        assert.equal(Stream.current(device), stream)
      }
      await Promise.resolve()
      queueMicrotask(() => assert.equal(Stream.current(device), stream))
      await new Promise<void>((resolve) => setTimeout(resolve, 1))
      return Stream.current(device)
    }
    const mine = new Error('mine')
    const found = await outer.run(async () => {
      assert.equal(await inner.run(() => work(inner)), inner)
      await assert.rejects(
        inner.run(async () => {
          await turn()
          throw mine
        }),
        (error) => error === mine,
      )
      return work(outer)
    })
    assert.equal(found, outer)
    assert.equal(Stream.current(device), device.defaultStream)
  })

  test('U2 async functions that overlap see their own; in a browser all see that of the latest that is not over', async () => {
    const streams = Array.from({ length: 4 }, () => bench.stream())
    const running: Stream[] = []
    let rounds = 0
    const work = async (stream: Stream, count: number): Promise<void> => {
      running.push(stream)
      for (let round = 0; round < count; round += 1) {
        assert.equal(Stream.current(device), contextsFollowAwaits ? stream : running.at(-1))
        rounds += 1
        await (round % 2 === 0 ? turn() : pause(1))
      }
      running.splice(running.indexOf(stream), 1)
    }
    // The first and the last to begin are not the last to end.
    const works = [4, 16, 8, 2].map((count, index) => {
      const stream = streams[index]
      assert.ok(stream)
      return stream.run(() => work(stream, count))
    })
    assert.equal(Stream.current(device), contextsFollowAwaits ? device.defaultStream : running.at(-1))
    // A scope without an await is one everywhere, also beside those that are not over.
    for (const stream of streams) {
      stream.run(() => assert.equal(Stream.current(device), stream))
      using _scope = stream.enter()
      assert.equal(Stream.current(device), stream)
    }
    await Promise.all(works)
    assert.equal(rounds, 30)
    assert.equal(Stream.current(device), device.defaultStream)
    for (const stream of streams) stream.close()
  })

  test('U2 use() inside run(fn) ends with it', () => {
    using outer = bench.stream()
    using inner = bench.stream()
    outer.run(() => {
      assert.equal(inner.use(), inner)
      assert.equal(Stream.current(device), inner)
    })
    assert.equal(Stream.current(device), device.defaultStream)
  })

  test('U2 enter() restores on dispose, also when nested', () => {
    using a = bench.stream()
    using b = bench.stream()
    {
      using _outer = a.enter()
      assert.equal(Stream.current(device), a)
      {
        using _inner = b.enter()
        assert.equal(Stream.current(device), b)
      }
      assert.equal(Stream.current(device), a)
    }
    assert.equal(Stream.current(device), device.defaultStream)
  })

  test('U2 enter() restores also when use() was called in between', () => {
    using a = bench.stream()
    using b = bench.stream()
    using c = bench.stream()
    a.run(() => {
      const scope = b.enter()
      c.use()
      assert.equal(Stream.current(device), c)
      scope[Symbol.dispose]()
      assert.equal(Stream.current(device), a)
    })
  })

  test('U2 enter() holds over await, and is not seen from outside; in a browser it is', async () => {
    using stream = bench.stream()
    let isIn = false
    let isOver = false
    const task = new AsyncResource('Task').runInAsyncScope(async () => {
      await turn()
      {
        using _scope = stream.enter()
        isIn = true
        await pause(2)
        assert.equal(Stream.current(device), stream)
      }
      isIn = false
      await turn()
      isOver = true
    })
    let seen = 0
    while (!isOver) {
      assert.equal(Stream.current(device), isIn && !contextsFollowAwaits ? stream : device.defaultStream)
      seen += Number(isIn)
      await turn()
    }
    assert.ok(seen > 0)
    await task
    assert.equal(Stream.current(device), device.defaultStream)
  })

  test('U2 the current device has scopes too', async () => {
    const last = bench.devices.at(-1)
    assert.ok(last)
    await device.run(async () => {
      assert.equal(Device.current(), device)
      assert.equal(Device.get(), device)
      {
        using _scope = last.enter()
        await turn()
        assert.equal(Device.current(), last)
        assert.equal(Device.get(), last)
      }
      assert.equal(Device.current(), device)
      assert.equal(last.use(), last)
      await turn()
      assert.equal(Device.current(), last)
    })
  })

  test('U2 run() of what is no function is ERR_INVALID_ARG_TYPE', () => {
    using stream = bench.stream()
    for (const wrong of ['x', undefined, null, {}] as unknown as (() => void)[]) {
      refused(() => stream.run(wrong), 'ERR_INVALID_ARG_TYPE', /fn/, /a function/)
      refused(() => device.run(wrong), 'ERR_INVALID_ARG_TYPE', /fn/, /a function/)
    }
    stillWorks(bench, stream)
  })

  test('U3 a stream is current for its own device only, and changes no current device', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream()
    using theirs = other.createStream()
    device.run(() => {
      theirs.run(() => {
        assert.equal(Device.current(), device)
        assert.equal(Stream.current(), device.defaultStream)
        assert.equal(Stream.current(other), theirs)
        {
          using _scope = stream.enter()
          assert.equal(Stream.current(), stream)
          assert.equal(Stream.current(other), theirs)
          other.run(() => assert.equal(Stream.current(), theirs))
          using made = new Stream()
          assert.equal(made.device, device)
        }
        assert.equal(Stream.current(other), theirs)
      })
      theirs.use()
      assert.equal(Device.current(), device)
      using event = other.createEvent()
      event.record()
      theirs.synchronize()
    })
    assert.equal(Stream.current(other), other.defaultStream)
  })

  test('U3 making a device current leaves the current streams alone', () => {
    using stream = bench.stream()
    stream.run(() => {
      for (const there of bench.devices) there.run(() => assert.equal(Stream.current(device), stream))
    })
  })

  test('U4 each enter() ends its own scope, in whatever order scopes end', () => {
    const streams = [bench.stream(), bench.stream(), bench.stream()]
    const orders = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ]
    for (const order of orders) {
      const scopes = streams.map((stream) => ({ stream, scope: stream.enter() }))
      const open = new Set(scopes)
      for (const each of order) {
        const ending = scopes[each]
        assert.ok(ending)
        ending.scope[Symbol.dispose]()
        open.delete(ending)
        assert.equal(Stream.current(device), [...open].at(-1)?.stream ?? device.defaultStream, `${order}`)
      }
    }
    for (const stream of streams) stream.close()
  })

  test('U4 use() belongs to the scope that it is called in, and ends with that', () => {
    const [a, b, c, d] = [bench.stream(), bench.stream(), bench.stream(), bench.stream()]
    a.run(() => {
      const first = b.enter()
      c.use()
      const second = d.enter()
      first[Symbol.dispose]()
      assert.equal(Stream.current(device), d)
      second[Symbol.dispose]()
      assert.equal(Stream.current(device), a)
      const third = b.enter()
      d.run(() => {
        third[Symbol.dispose]()
        assert.equal(Stream.current(device), d, 'a scope that ends inside of run() ends nothing of that')
      })
      assert.equal(Stream.current(device), a)
    })
    for (const stream of [a, b, c, d]) stream.close()
  })

  test('U4 scopes of two devices, and of the current device, end in any order too', (context) => {
    const before = Device.current()
    using stream = bench.stream()
    const other = bench.devices.at(-1)
    if (other === undefined || other === device) {
      context.skip(ONE_DEVICE)
      return
    }
    using there = other.createStream()
    const scopes = [device.enter(), stream.enter(), other.enter(), there.enter()]
    for (const scope of scopes) scope[Symbol.dispose]()
    assert.equal(Device.current(), before)
    assert.equal(Stream.current(device), device.defaultStream)
    assert.equal(Stream.current(other), other.defaultStream)
  })

  test('U4 disposing twice does nothing more', () => {
    using a = bench.stream()
    using b = bench.stream()
    a.run(() => {
      const scope = b.enter()
      scope[Symbol.dispose]()
      assert.equal(Stream.current(device), a)
      b.use()
      scope[Symbol.dispose]()
      assert.equal(Stream.current(device), b)
      const deviceScope = device.enter()
      deviceScope[Symbol.dispose]()
      const last = bench.devices.at(-1)
      last?.use()
      deviceScope[Symbol.dispose]()
      assert.equal(Device.current(), last)
    })
  })
})
