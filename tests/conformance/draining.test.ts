/** device.drainHostFunctions(): what makes a blocking call of another library safe, and what it does not wait for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, ONE_DEVICE, refused, secondDevice, stillWorks } from './expect.js'

onEveryBackend('device.drainHostFunctions()', (bench) => {
  const { device } = bench

  test('H6 it returns at once where nothing is pending', () => {
    using stream = bench.stream()
    device.drainHostFunctions()
    stillWorks(bench, stream)
  })

  test('H6 it runs the host functions of all streams, in the order of each, before it returns', () => {
    using one = bench.stream()
    using two = bench.stream()
    const ran: string[] = []
    bench.busy(one, 1_000_000)
    for (const name of ['a', 'b', 'c']) {
      one.launchHostFunc(() => ran.push(`one ${name}`))
      bench.busy(one, 1000)
      two.launchHostFunc(() => ran.push(`two ${name}`))
      bench.busy(two, 1000)
    }
    device.drainHostFunctions()
    assert.deepEqual(
      ran.filter((name) => name.startsWith('one')),
      ['one a', 'one b', 'one c'],
    )
    assert.deepEqual(
      ran.filter((name) => name.startsWith('two')),
      ['two a', 'two b', 'two c'],
    )
  })

  test('H6 it runs callbacks too, and those that a host function queues on another stream', () => {
    using stream = bench.stream()
    using other = bench.stream()
    const ran: unknown[] = []
    stream.addCallback((_stream, status, name) => ran.push([name, status]), 'callback')
    stream.launchHostFunc(() => {
      other.launchHostFunc(() => ran.push('queued by it'))
    })
    device.drainHostFunctions()
    assert.deepEqual(ran, [['callback', 0], 'queued by it'])
  })

  test('H6 it is ERR_DEADLOCK where a stream waits for a promise, also by a host function that it runs', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    let settle = (): void => {}
    const promise = new Promise<void>((resolve) => {
      settle = resolve
    })
    let ran = 0
    stream.launchHostFunc(() => {
      ran += 1
      other.wait(promise)
    })
    for (let time = 0; time < 2; time += 1) refused(() => device.drainHostFunctions(), 'ERR_DEADLOCK', /a promise/)
    assert.equal(ran, 1)
    settle()
    await other.finished()
    device.drainHostFunctions()
  })

  test('H6 it waits through the work before a host function, also on a stream that waits for it', () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using before = device.createEvent()
    const ran: unknown[] = []
    bench.busy(stream, 2_000_000)
    before.record(stream)
    stream.launchHostFunc(() => ran.push(before.query()))
    waiting.wait(stream)
    waiting.launchHostFunc(() => ran.push('waiting'))
    device.drainHostFunctions()
    assert.deepEqual(ran, [true, 'waiting'])
  })

  test('H6 it runs those of other devices of the driver: their streams may be waited for on this one', (t) => {
    const elsewhere = secondDevice(bench)
    if (elsewhere === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream({ device: elsewhere })
    let ran = false
    stream.launchHostFunc(() => {
      ran = true
    })
    device.drainHostFunctions()
    assert.equal(ran, true)
  })

  test('H6 it does not wait for work that no host function comes after', async () => {
    using stream = bench.stream()
    using held = bench.stream()
    using latch = bench.latch(held)
    let ran = false
    stream.launchHostFunc(() => {
      ran = true
    })
    device.drainHostFunctions()
    assert.equal(ran, true)
    assert.equal(held.query(), false)
    latch.open()
    await held.finished()
  })

  test('H6 it runs those of a graph that was launched', () => {
    using stream = bench.stream()
    let runs = 0
    using graph = stream.capture(() => {
      bench.busy(stream, 1000)
      stream.launchHostFunc(() => {
        runs += 1
      })
    })
    using exec = graph.instantiate()
    device.drainHostFunctions()
    assert.equal(runs, 0, 'a captured host function is not pending')
    for (let launch = 0; launch < 3; launch += 1) stream.launch(exec)
    device.drainHostFunctions()
    assert.equal(runs, 3)
  })

  test('H6 inside a host function it is ERR_DEADLOCK, and runs none', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    let thrown: unknown
    let others = 0
    let seenInside = -1
    stream.launchHostFunc(() => {
      try {
        device.drainHostFunctions()
      } catch (error) {
        thrown = error
      }
      seenInside = others
    })
    bench.busy(stream, 1000)
    other.wait(stream)
    other.launchHostFunc(() => {
      others += 1
    })
    await Promise.all([stream.finished(), other.finished()])
    checkError(thrown, 'ERR_DEADLOCK', /drainHostFunctions/, /host function/, /Return from the host function first/)
    assert.equal(seenInside, 0)
    assert.equal(others, 1)
    stillWorks(bench, stream)
  })
})

onEveryBackend('device.drainHostFunctions() and a stream that nothing lets go', (bench) => {
  const simulated = bench.name === 'sim' ? false : 'a GPU would wait for the latch forever'

  test('V5 on the simulator it is ERR_DEADLOCK instead of a hang', { skip: simulated }, async () => {
    using stream = bench.stream()
    let ran = false
    using latch = bench.latch(stream)
    stream.launchHostFunc(() => {
      ran = true
    })
    refused(() => bench.device.drainHostFunctions(), 'ERR_DEADLOCK', /drainHostFunctions/, /1 latch/)
    assert.equal(ran, false)
    latch.open()
    await stream.finished()
    assert.equal(ran, true)
  })
})
