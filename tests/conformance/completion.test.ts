/** C1 to C3: asking whether work is done, blocking until it is, and awaiting it. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { mock, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Stream, WaitOptions } from 'cuda-streams'
import type { Latch } from '../helpers/latch.js'
import { withoutFakeTimers } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { runScenario } from './child.js'
import { follow, refused, rejected, stillWorks, turns } from './expect.js'
import { standingAtValue } from './stands.js'

const PENDING = 10_000

/** Threads of this process, where the system tells. */
function threads(): number | undefined {
  return process.platform === 'linux' ? readdirSync('/proc/self/task').length : undefined
}

onEveryBackend('completion', (bench) => {
  const { device } = bench

  /** Runs a test with a stream that is held until its end. */
  const whileHeld = async (test: (stream: Stream, latch: Latch) => Promise<void>): Promise<void> => {
    using stream = bench.stream()
    using latch = bench.latch(stream)
    await test(stream, latch)
    latch.open()
    await stream.finished()
  }

  test('C1 query() tells whether all work is done', () =>
    whileHeld(async (stream, latch) => {
      using event = stream.record()
      assert.equal(stream.query(), false)
      assert.equal(event.query(), false)
      latch.open()
      await event.finished()
      await stream.finished()
      assert.equal(stream.query(), true)
      assert.equal(event.query(), true)
    }))

  test('C1 query() in a loop ends when the work does', () => {
    using stream = bench.stream()
    bench.busy(stream, 100_000)
    using event = stream.record()
    while (!stream.query());
    while (!event.query());
    assert.equal(stream.query(), true)
  })

  test('C3 while nothing but events is awaited they may be closed, recorded again and given up', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    for (let round = 0; round < 50; round += 1) {
      const end = standingAtValue(stream, (flags) => stream.waitValue(flags, 1))
      const [lone, event, again] = [stream.record(), stream.record(), stream.record()]
      // One whose handle was read is destroyed, and not kept for the next record.
      assert.notEqual(lone.handle, 0n)
      const controller = new AbortController()
      const givenUp = lone.finished({ signal: controller.signal })
      // In every other round it is the only wait, which another wait for the GPU then forgets.
      const isAlone = round % 2 === 0
      const kept = isAlone ? [] : [event.finished(), again.finished()]
      for (let turn = 0; turn < 5; turn += 1) await new Promise((next) => setTimeout(next, 1))
      controller.abort()
      if (isAlone) other.synchronize()
      lone.close()
      await assert.rejects(givenUp, { name: 'AbortError' })
      event.close()
      stream.record(again)
      if (isAlone) for (let turn = 0; turn < 5; turn += 1) await new Promise((next) => setTimeout(next, 1))
      end()
      again.close()
      await Promise.all(kept)
    }
  })

  test('C2 synchronize() of a stream, an event and a device blocks until the work is done', () => {
    using stream = bench.stream()
    for (const wait of [
      () => stream.synchronize(),
      () => stream.record().synchronize(),
      () => stream.record({ blockingSync: true }).synchronize(),
      () => device.synchronize(),
    ]) {
      bench.busy(stream, 200_000)
      wait()
      assert.equal(stream.query(), true)
    }
  })

  test('C2 synchronize() runs host functions that become due while it blocks', () => {
    using stream = bench.stream()
    using other = bench.stream()
    for (const [name, wait] of [
      ['stream', () => stream.synchronize()],
      ['event', () => stream.record().synchronize()],
      ['device', () => device.synchronize()],
    ] as const) {
      const seen: string[] = []
      bench.busy(stream, 10_000)
      stream.launchHostFunc(() => seen.push('first'))
      bench.busy(stream, 10_000)
      stream.launchHostFunc(() => seen.push('second'))
      wait()
      assert.deepEqual(seen, ['first', 'second'], name)

      other.launchHostFunc(() => seen.push('other'))
      stream.wait(other)
      wait()
      assert.deepEqual(seen, ['first', 'second', 'other'], `${name}, behind another stream`)
    }
  })

  test('C2 no other call runs host functions', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using event = device.createEvent({ timing: true })
    let ran = 0
    stream.launchHostFunc(() => {
      ran += 1
    })
    for (let round = 0; round < 200; round += 1) {
      assert.equal(stream.query(), false)
      other.query()
      stream.record(event).query()
      other.wait(event)
      other.wait(stream)
      stream.wait(other)
      void [stream.priority, stream.nonBlocking, stream.id, stream.isCapturing, device.priorityRange]
      device.createEvent().close()
      bench.stream().close()
      if (round < 20) bench.busy(stream, 100)
      if (round < 20) stream.launchHostFunc(() => {})
      void stream.finished()
    }
    refused(() => event.elapsedSince(event), 'CUDA_ERROR_NOT_READY')
    assert.equal(ran, 0)
    await stream.finished()
    assert.equal(ran, 1)
  })

  test('C2 a call that finds the queue full is a blocking wait too', () => {
    using stream = bench.stream()
    let ran = 0
    stream.launchHostFunc(() => {
      ran += 1
    })
    for (let left = 2500; left > 0; left -= 1) bench.busy(stream, 0)
    assert.equal(ran, 1)
    stream.synchronize()
  })

  test('C3 finished() is pending while the work is, and resolves once it is done', () =>
    whileHeld(async (stream, latch) => {
      const event = stream.record()
      const waits = [stream.finished(), event.finished(), device.finished(), stream.finished({})]
      const states = waits.map(follow)
      await turns(50)
      assert.deepEqual(
        states.map(({ settled }) => settled),
        [false, false, false, false],
      )
      latch.open()
      assert.deepEqual(await Promise.all(waits), [undefined, undefined, undefined, undefined])
      assert.equal(stream.query(), true)
    }))

  test('C3 finished() of an idle stream, event or device resolves', async () => {
    using stream = bench.stream()
    await stream.finished()
    await device.createEvent().finished()
    await device.finished()
    await device.defaultStream.finished()
  })

  test('C3 finished() waits for what is queued at the call, not for more', async () => {
    using stream = bench.stream()
    bench.busy(stream, 100_000)
    const waits = [stream.finished(), stream.record().finished(), device.finished()]
    using latch = bench.latch(stream)
    await Promise.all(waits)
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })

  test('C3 recording an event again changes nothing for a wait that has begun', () =>
    whileHeld(async (stream, latch) => {
      using other = bench.stream()
      using event = other.record()
      const early = event.finished()
      stream.record(event)
      await early
      const held = event.finished()
      const state = follow(held)
      other.record(event)
      await event.finished()
      await turns()
      assert.equal(state.settled, false)
      latch.open()
      await held
    }))

  test('C3 finished() resolves though the stream or event is closed meanwhile', () =>
    whileHeld(async (holder, latch) => {
      const stream = bench.stream()
      stream.wait(holder)
      const event = stream.record()
      const waits = [stream.finished(), event.finished()]
      stream.close()
      event.close()
      await turns()
      latch.open()
      await Promise.all(waits)
    }))

  test('C3 ten thousand pending waits hold no threads', () =>
    whileHeld(async (stream, latch) => {
      void follow(stream.finished())
      await turns(3)
      const before = threads()
      let settled = 0
      const waits = Array.from({ length: PENDING }, () =>
        stream.finished().then(() => {
          settled += 1
        }),
      )
      await turns()
      assert.equal(settled, 0)
      const now = threads()
      if (now !== undefined && before !== undefined) assert.ok(now - before <= 8, `${now - before} threads more`)
      // libuv's few threads are free for others.
      const file = fileURLToPath(import.meta.url)
      assert.equal(await readFile(file, 'utf8'), readFileSync(file, 'utf8'))
      assert.equal(settled, 0)
      latch.open()
      await Promise.all(waits)
      assert.equal(settled, PENDING)
    }))

  test('C3 waits that follow each other all resolve, in the main thread and in a worker', async () => {
    const { code, stdout, stderr } = await runScenario(bench, 'waitsInARow')
    const ways = ['stream', 'event', 'device', 'download', 'upload', 'hostFunction', 'callback', 'promise']
    const expected = ['main thread', 'worker'].flatMap((thread) => ways.map((way) => `${thread}: ${way}`))
    assert.deepEqual(stdout.trim().split('\n'), expected, stderr)
    assert.equal(code, 0, stderr)
  })

  test('C3 waits of one stream resolve in the order of its work', async () => {
    using stream = bench.stream()
    const order: number[] = []
    const waits = Array.from({ length: 50 }, (_, index) => {
      bench.busy(stream, 1000)
      return stream.finished().then(() => order.push(index))
    })
    await Promise.all(waits)
    assert.deepEqual(
      order,
      Array.from({ length: 50 }, (_, index) => index),
    )
  })

  test('C3 aborted before: it rejects with the reason', async () => {
    using stream = bench.stream()
    using event = stream.record()
    const reason = new Error('no longer needed')
    for (const what of [reason, 'a text', 0]) {
      const signal = AbortSignal.abort(what)
      for (const wait of [stream, event, device]) {
        const caught = await wait.finished({ signal }).then(
          () => assert.fail('it was fulfilled'),
          (error: unknown) => error,
        )
        assert.equal(caught, what)
        assert.equal(getEventListeners(signal, 'abort').length, 0)
      }
    }
    await assert.rejects(stream.finished({ signal: AbortSignal.abort() }), { name: 'AbortError' })
    stillWorks(bench, stream)
  })

  test('C3 aborted meanwhile: it rejects with the reason, and the GPU works on', () =>
    whileHeld(async (stream, latch) => {
      const controller = new AbortController()
      const { signal } = controller
      const event = stream.record()
      const reason = { why: 'no longer needed' }
      const waits = [stream.finished({ signal }), event.finished({ signal }), device.finished({ signal })]
      const other = stream.finished()
      const otherState = follow(other)
      const settled = Promise.allSettled(waits)
      await turns(3)
      controller.abort(reason)
      for (const result of await settled) assert.deepEqual(result, { status: 'rejected', reason })
      assert.equal(getEventListeners(signal, 'abort').length, 0)
      await turns()
      assert.equal(otherState.settled, false)
      assert.equal(event.query(), false)
      latch.open()
      await other
      assert.equal(event.query(), true)
    }))

  test('C3 any number of waits may have one signal', () =>
    whileHeld(async (stream, latch) => {
      const warnings: Error[] = []
      const note = (warning: Error): void => void warnings.push(warning)
      process.on('warning', note)
      const controller = new AbortController()
      const { signal } = controller
      const waits = Array.from({ length: 100 }, () => stream.finished({ signal }))
      const one = new AbortController()
      const aborted = stream.finished({ signal: one.signal })
      one.abort('enough')
      assert.equal(await aborted.catch((reason: unknown) => reason), 'enough')
      await turns(3)
      process.off('warning', note)
      assert.deepEqual(warnings, [])
      latch.open()
      await Promise.all(waits)
      assert.equal(getEventListeners(signal, 'abort').length, 0)
    }))

  test('C3 a program with fake timers waits all the same', { skip: withoutFakeTimers }, async () => {
    using stream = bench.stream()
    mock.timers.enable({ apis: ['setImmediate', 'setTimeout', 'setInterval'] })
    try {
      bench.busy(stream, 1000)
      await stream.finished()
    } finally {
      mock.timers.reset()
    }
  })

  test('C3 aborted afterwards: nothing happens, and nothing was left on the signal', async () => {
    using stream = bench.stream()
    using event = stream.record()
    const controller = new AbortController()
    const { signal } = controller
    bench.busy(stream, 1000)
    for (const wait of [stream, event, device]) await wait.finished({ signal })
    assert.equal(getEventListeners(signal, 'abort').length, 0)
    controller.abort()
    await turns(3)
    stillWorks(bench, stream)
  })

  test('C3 it rejects, and never throws: wrong options', async () => {
    using stream = bench.stream()
    using event = stream.record()
    for (const wait of [stream, event, device]) {
      for (const signal of ['x', {}, null, new AbortController()]) {
        const options = { signal } as unknown as WaitOptions
        await rejected(() => wait.finished(options), 'ERR_INVALID_ARG_TYPE', /options\.signal/, /AbortSignal/)
      }
      for (const options of [5, null, 'x', []] as unknown as WaitOptions[]) {
        await rejected(() => wait.finished(options), 'ERR_INVALID_ARG_TYPE', /options/, /object/)
      }
    }
    stillWorks(bench, stream)
  })

  test('C3 it rejects, and never throws: closed', async () => {
    const stream = bench.stream()
    const event = stream.record()
    stream.close()
    event.close()
    await rejected(() => stream.finished(), 'ERR_CLOSED', /Stream\(0x/, /closed/)
    await rejected(() => event.finished(), 'ERR_CLOSED', /Event\(0x/, /closed/)
    const { signal } = new AbortController()
    await rejected(() => stream.finished({ signal }), 'ERR_CLOSED')
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })
})
