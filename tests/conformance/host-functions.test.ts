/** H1, H3, H4 and H5: when host functions run, what they are given, what becomes of a throw, and how many there may be. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Device, Stream } from 'cuda-streams'
import { AsyncLocalStorage } from '../helpers/context-storage.js'
import { byEffort } from '../helpers/effort.js'
import { onEveryBackend } from '../helpers/suite.js'
import { runScenario } from './child.js'
import { refused, stillWorks, turns } from './expect.js'

onEveryBackend('host functions', (bench) => {
  const { device } = bench

  test('H1 it runs after all earlier and before all later work of the stream', async () => {
    using stream = bench.stream()
    const seen: unknown[] = []
    bench.busy(stream, 100_000)
    using before = stream.record()
    stream.launchHostFunc(() => seen.push([before.query(), between.query(), after.query(), stream.query()]))
    bench.busy(stream, 1000)
    using between = stream.record()
    stream.launchHostFunc(() => seen.push([before.query(), between.query(), after.query(), stream.query()]))
    using after = stream.record()
    await stream.finished()
    assert.deepEqual(seen, [
      [true, false, false, false],
      [true, true, false, false],
    ])
  })

  test('C2 the making of 200 more streams runs no host function', async () => {
    using stream = bench.stream()
    let hasRun = false
    stream.launchHostFunc(() => {
      hasRun = true
    })
    const more = Array.from({ length: 200 }, () => new Stream({ device }))
    assert.equal(hasRun, false)
    for (const each of more) each.close()
    await stream.finished()
    assert.equal(hasRun, true)
  })

  test('H1 another stream that waits is held until it has run', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    const order: string[] = []
    stream.launchHostFunc(() => order.push(`host function ${waiting.query()}`))
    waiting.wait(stream)
    waiting.launchHostFunc(() => order.push('waiting'))
    await turns(3)
    await waiting.finished()
    assert.deepEqual(order, ['host function false', 'waiting'])
  })

  test('H1 it does not run before the work in front of it is done', async () => {
    using stream = bench.stream()
    let ran = 0
    using latch = bench.latch(stream)
    stream.launchHostFunc(() => {
      ran += 1
    })
    await turns(50)
    assert.equal(ran, 0)
    latch.open()
    await stream.finished()
    assert.equal(ran, 1)
  })

  test('H1 it runs exactly once, in the order queued, and never inside the call that queues it', async () => {
    using stream = bench.stream()
    const seen: number[] = []
    const expected = Array.from({ length: 200 }, (_, index) => index)
    for (const index of expected) {
      assert.equal(
        stream.launchHostFunc((value: number) => seen.push(value), index),
        stream,
      )
    }
    assert.deepEqual(seen, [])
    await stream.finished()
    assert.deepEqual(seen, expected)
    stream.synchronize()
    await turns()
    assert.deepEqual(seen, expected)
  })

  test('H1 it gets the argument given, and undefined without one', async () => {
    using stream = bench.stream()
    const given: unknown[][] = []
    const argument = { any: 'thing' }
    stream.launchHostFunc((...args: unknown[]) => given.push(args), argument)
    stream.launchHostFunc((...args: unknown[]) => given.push(args))
    await stream.finished()
    assert.equal(given[0]?.[0], argument)
    assert.equal(given[1]?.[0], undefined)
  })

  test('H1 it runs in the async context it was queued in, whichever code waits', async () => {
    using stream = bench.stream()
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const look = (): void => void seen.push(storage.getStore())
    storage.run('first', () => stream.launchHostFunc(look))
    storage.run('second', () => stream.launchHostFunc(look))
    stream.launchHostFunc(look)
    storage.run('third', () => stream.addCallback(look, undefined))
    storage.run('waits', () => stream.synchronize())
    assert.deepEqual(seen, ['first', 'second', undefined, 'third'])
    storage.run('first', () => stream.launchHostFunc(look))
    await storage.run('waits', () => stream.finished())
    assert.equal(seen.at(-1), 'first')
  })

  test('H1 what was current when it was queued is current inside', async () => {
    using stream = bench.stream()
    const last = bench.devices.at(-1)
    assert.ok(last)
    const seen: unknown[] = []
    last.run(() => stream.run(() => stream.launchHostFunc(() => seen.push(Stream.current(device), Device.current()))))
    await stream.finished()
    assert.deepEqual(seen, [stream, last])
  })

  test('H1 a callback that is no function is ERR_INVALID_ARG_TYPE', () => {
    using stream = bench.stream()
    for (const wrong of ['x', undefined, null, {}, 5] as unknown as (() => void)[]) {
      refused(() => stream.launchHostFunc(wrong), 'ERR_INVALID_ARG_TYPE', /callback/, /a function/)
      refused(() => stream.addCallback(wrong, undefined), 'ERR_INVALID_ARG_TYPE', /callback/, /a function/)
    }
    stillWorks(bench, stream)
  })

  test('H1 it works on every kind of stream', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    const perThread = device.run(() => Stream.perThread)
    const seen: Stream[] = []
    const streams = [blocking, device.defaultStream, perThread, ...bench.devices.map((other) => other.defaultStream)]
    for (const stream of streams) stream.launchHostFunc(() => seen.push(stream))
    for (const stream of streams) await stream.finished()
    assert.equal(seen.length, streams.length)
    for (const stream of streams) assert.ok(seen.includes(stream))
  })

  test('H3 a throw is an uncaught exception, not one of synchronize(), and the stream goes on', async () => {
    const { code, stdout, stderr } = await runScenario(bench, 'throwing')
    assert.equal(code, 0, stderr)
    const lines = stdout.trimEnd().split('\n')
    assert.deepEqual(
      lines.filter((line) => line.startsWith('uncaught')),
      ['uncaught boom', 'uncaught boom', 'uncaught undefined'],
    )
    assert.deepEqual(
      lines.filter((line) => !line.startsWith('uncaught')),
      ['next', 'synchronized', 'next', 'finished', 'query true'],
    )
  })

  test('H3 a throw that the program does not handle ends the process as any other', async () => {
    const { code, stderr } = await runScenario(bench, 'throwingUnhandled')
    assert.equal(code, 1)
    assert.match(stderr, /error: boom/i)
  })

  test('H3 a promise that it returns is not awaited', async () => {
    using stream = bench.stream()
    let release: (() => void) | undefined
    const never = new Promise<void>((resolve) => {
      release = resolve
    })
    let ended = false
    stream.launchHostFunc(async () => {
      await never
      ended = true
    })
    await stream.finished()
    assert.equal(ended, false)
    assert.equal(stream.query(), true)
    release?.()
    await turns(3)
    assert.equal(ended, true)
  })

  // Many times what a hardware queue holds.
  const MANY = byEffort({ quick: 5000, normal: 20_000, nightly: 20_000 })
  test(`H4 ${MANY} host functions on one stream`, async () => {
    using stream = bench.stream()
    let ran = 0
    for (let left = MANY; left > 0; left -= 1) {
      stream.launchHostFunc(() => {
        ran += 1
      })
    }
    await stream.finished()
    assert.equal(ran, MANY)
  })

  test('H4 five thousand launches behind one, and it still can be waited for', async () => {
    for (const wait of [(stream: Stream) => stream.synchronize(), (stream: Stream) => stream.finished()]) {
      using stream = bench.stream()
      let ran = 0
      stream.launchHostFunc(() => {
        ran += 1
      })
      for (let left = 5000; left > 0; left -= 1) bench.busy(stream, 0)
      await wait(stream)
      assert.equal(ran, 1)
      assert.equal(stream.query(), true)
    }
  })

  test('H4 host functions and work in turn, three thousand of each', async () => {
    using stream = bench.stream()
    let ran = 0
    for (let left = 3000; left > 0; left -= 1) {
      bench.busy(stream, 0)
      stream.launchHostFunc(() => {
        ran += 1
      })
    }
    await stream.finished()
    assert.equal(ran, 3000)
  })

  test('H4 two hundred streams, each with host functions and work behind them', async () => {
    const streams = Array.from({ length: 200 }, () => bench.stream())
    let ran = 0
    const count = (): void => {
      ran += 1
    }
    for (let round = 0; round < 3; round += 1) {
      for (const stream of streams) {
        stream.launchHostFunc(count)
        for (let left = 20; left > 0; left -= 1) bench.busy(stream, 0)
      }
    }
    const [first] = streams
    assert.ok(first)
    first.synchronize()
    await Promise.all(streams.map((stream) => stream.finished()))
    assert.equal(ran, 600)
    for (const stream of streams) stream.close()
  })

  test('H4 one that queues itself each time leaves the event loop its turns', async () => {
    using stream = bench.stream()
    let stopped = false
    const again = (): void => {
      if (!stopped) stream.launchHostFunc(again)
    }
    stream.launchHostFunc(again)
    await pause(20)
    stopped = true
    await stream.finished()
    await stream.finished()
    assert.equal(stream.query(), true)
  })

  test('H5 addCallback() also gets the stream and a status', async () => {
    using stream = bench.stream()
    const argument = { any: 'thing' }
    const given: unknown[][] = []
    assert.equal(
      stream.addCallback((...args: unknown[]) => given.push(args), argument),
      stream,
    )
    assert.deepEqual(given, [])
    await stream.finished()
    assert.equal(given.length, 1)
    const [which, status, arg] = given[0] ?? []
    assert.equal(which, stream)
    assert.equal(status, 0)
    assert.equal(arg, argument)
  })

  test('H5 callbacks and host functions of a stream run in one order', async () => {
    using stream = bench.stream()
    const order: string[] = []
    stream.launchHostFunc(() => order.push('1'))
    stream.addCallback(() => order.push('2'), undefined)
    bench.busy(stream, 1000)
    stream.launchHostFunc(() => order.push('3'))
    stream.addCallback(() => order.push('4'), undefined)
    await stream.finished()
    assert.deepEqual(order, ['1', '2', '3', '4'])
  })
})
