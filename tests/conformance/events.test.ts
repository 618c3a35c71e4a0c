/** O6 and O7: what an event is made with, sharing it with other processes, and the time between two. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CudaError, Event, type EventOptions } from 'cuda-streams'
import { withoutProcesses } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { runScenario } from './child.js'
import { checkError, ONE_DEVICE, refused, rejected, secondDevice, stillWorks } from './expect.js'

onEveryBackend('events', (bench) => {
  const { device } = bench

  test('O6 timing with interprocess is ERR_INVALID_ARG_VALUE', () => {
    using stream = bench.stream()
    const options = { timing: true, interprocess: true }
    const says = [/timing/, /interprocess/]
    refused(() => new Event({ device, ...options }), 'ERR_INVALID_ARG_VALUE', ...says)
    refused(() => device.createEvent(options), 'ERR_INVALID_ARG_VALUE', ...says)
    refused(() => stream.record(options), 'ERR_INVALID_ARG_VALUE', ...says)
    stillWorks(bench, stream)
  })

  test('O6 a new event was never recorded, whatever became of one that is closed', async () => {
    using stream = bench.stream()
    using latch = bench.latch(stream)
    for (let count = 0; count < 5; count += 1) stream.record().close()
    const fresh = Array.from({ length: 10 }, () => device.createEvent())
    assert.deepEqual(fresh.map((event) => event.query()).filter(Boolean).length, fresh.length)
    for (const event of fresh) event.close()
    latch.open()
    using captured = stream.capture(() => stream.record().close())
    assert.equal(captured.nodeCount, 0)
    const afterwards = Array.from({ length: 10 }, () => device.createEvent())
    for (const event of afterwards) assert.equal(event.query(), true)
    for (const event of afterwards) event.close()
    await stream.finished()
  })

  test('O6 options that are no booleans, or no object, are ERR_INVALID_ARG_TYPE', () => {
    using stream = bench.stream()
    for (const name of ['timing', 'blockingSync', 'interprocess']) {
      const options = { [name]: 'yes' } as unknown as EventOptions
      const says = [new RegExp(`options\\.${name}`), /true or false/, /'yes'/]
      refused(() => device.createEvent(options), 'ERR_INVALID_ARG_TYPE', ...says)
      refused(() => stream.record(options), 'ERR_INVALID_ARG_TYPE', ...says)
    }
    refused(() => stream.record({ external: 1 } as never), 'ERR_INVALID_ARG_TYPE', /options\.external/)
    refused(() => new Event(5 as never), 'ERR_INVALID_ARG_TYPE', /options/)
    stillWorks(bench, stream)
  })

  test('O6 options that contradict the event given are ERR_INVALID_ARG_VALUE', () => {
    using stream = bench.stream()
    using plain = device.createEvent()
    using timed = device.createEvent({ timing: true })
    using blocking = device.createEvent({ blockingSync: true })
    const cases: readonly (readonly [Event, EventOptions, RegExp])[] = [
      [plain, { timing: true }, /options\.timing/],
      [plain, { blockingSync: true }, /options\.blockingSync/],
      [plain, { interprocess: true }, /options\.interprocess/],
      [timed, { timing: false }, /options\.timing/],
      [timed, { timing: true, blockingSync: true }, /options\.blockingSync/],
      [blocking, { blockingSync: false }, /options\.blockingSync/],
    ]
    for (const [event, options, said] of cases) {
      refused(() => stream.record(event, options), 'ERR_INVALID_ARG_VALUE', said, /true/, /false/, /leave/)
      assert.equal(event.query(), true)
    }
    // How another library made its own, nobody can know.
    using foreign = Event.from(timed.handle, { device })
    assert.equal(stream.record(foreign, { timing: true }), foreign)
    assert.equal(stream.record(plain, { timing: false }), plain)
    assert.equal(stream.record(plain, {}), plain)
    assert.equal(stream.record(timed, { timing: true, external: false }), timed)
    assert.equal(stream.record(blocking, { blockingSync: true }), blocking)
    stillWorks(bench, stream)
  })

  test('O6 bytes of the wrong kind or number are refused', () => {
    for (const wrong of ['x', undefined, null, 64, Array(64).fill(0), new ArrayBuffer(64)]) {
      const bytes = wrong as unknown as Uint8Array
      refused(() => Event.fromIpcHandle(bytes, { device }), 'ERR_INVALID_ARG_TYPE', /bytes/, /64/)
    }
    for (const length of [0, 63, 65]) {
      const bytes = new Uint8Array(length)
      const says = [/64/, new RegExp(`\\b${length}\\b`)]
      refused(() => Event.fromIpcHandle(bytes, { device }), 'ERR_INVALID_ARG_VALUE', ...says)
    }
  })

  test('O6 an interprocess event is recorded again once its record before is done, and the stream waits for that', async () => {
    for (const interprocess of [true, false]) {
      using event = device.createEvent({ interprocess })
      using held = bench.stream()
      using other = bench.stream()
      {
        using _latch = bench.latch(held)
        held.record(event)
        other.record(event)
        if (!interprocess) await other.finished()
        assert.deepEqual([other.query(), event.query()], [!interprocess, !interprocess])
      }
      await event.finished()
      assert.deepEqual([other.query(), event.query()], [true, true])
    }
  })

  test('O6 an event opened from bytes is the other process’s, and cannot be exported again', {
    skip: withoutProcesses,
  }, async () => {
    using event = device.createEvent({ interprocess: true })
    using stream = bench.stream()
    const bytes = event.ipcHandle()
    assert.ok(bytes instanceof Uint8Array)
    assert.equal(bytes.length, 64)
    stream.record(event)
    const { code, stdout, stderr } = await runScenario(bench, 'openIpcEvent', {
      env: { IPC_BYTES: Buffer.from(bytes).toString('hex') },
    })
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^opened interprocess=true query=true\nrefused \w+\n$/)
  })

  test('O6 an event that is not interprocess has no bytes to share', () => {
    using event = device.createEvent()
    const way = /createEvent\(\{ interprocess: true \}\)/
    refused(() => event.ipcHandle(), 'CUDA_ERROR_INVALID_HANDLE', /not for other processes: make it by/, way)
    using foreign = Event.from(event.handle, { device })
    refused(() => foreign.ipcHandle(), 'CUDA_ERROR_INVALID_HANDLE', /was made elsewhere/, /cudaEventInterprocess/, way)
    using stream = bench.stream()
    stream.record(event)
    stream.synchronize()
    assert.equal(event.query(), true)
  })

  test('O7 elapsedSince is the time between two records, in milliseconds', async () => {
    using stream = bench.stream()
    using start = stream.record({ timing: true })
    bench.busy(stream, 3_000_000)
    using end = stream.record({ timing: true })
    await end.finished()
    const elapsed = end.elapsedSince(start)
    assert.ok(elapsed > 2.5 && elapsed < 500, `3 ms of work took ${elapsed} ms`)
    assert.equal(start.elapsedSince(start), 0)
  })

  test('O7 an event without timing: a CudaError that says which', async () => {
    using stream = bench.stream()
    using timed = stream.record({ timing: true })
    using plain = stream.record()
    await stream.finished()
    const asEnd = refused(() => plain.elapsedSince(timed), 'CUDA_ERROR_INVALID_HANDLE', /end.*without timing/)
    const asStart = refused(() => timed.elapsedSince(plain), 'CUDA_ERROR_INVALID_HANDLE', /start.*without timing/)
    for (const error of [asEnd, asStart]) {
      assert.match(error.message, /\{ timing: true \}/)
      assert.equal((error as CudaError).call, 'cuEventElapsedTime')
    }
    assert.equal(timed.elapsedSince(timed), 0)
  })

  test('O7 an event that was never recorded: a CudaError that says so', async () => {
    using stream = bench.stream()
    using recorded = stream.record({ timing: true })
    using never = device.createEvent({ timing: true })
    await stream.finished()
    const asEnd = refused(() => never.elapsedSince(recorded), 'CUDA_ERROR_INVALID_HANDLE', /never recorded/)
    const asStart = refused(() => recorded.elapsedSince(never), 'CUDA_ERROR_INVALID_HANDLE', /never recorded/)
    for (const error of [asEnd, asStart]) assert.equal((error as CudaError).call, 'cuEventElapsedTime')
    never.record(stream)
    await stream.finished()
    assert.ok(never.elapsedSince(recorded) >= 0)
  })

  test('O7 an event that is not complete: a CudaError that says so, and what to await', async () => {
    using stream = bench.stream()
    using start = stream.record({ timing: true })
    await start.finished()
    using latch = bench.latch(stream)
    using end = stream.record({ timing: true })
    const error = refused(() => end.elapsedSince(start), 'CUDA_ERROR_NOT_READY', /not complete/, /finished\(\)/)
    assert.equal((error as CudaError).call, 'cuEventElapsedTime')
    refused(() => start.elapsedSince(end), 'CUDA_ERROR_NOT_READY', /not complete/)
    latch.open()
    await end.finished()
    assert.ok(end.elapsedSince(start) >= 0)
  })

  test('O7 events of two devices have no time between them', async (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream()
    using theirs = other.createStream()
    using start = stream.record({ timing: true })
    using end = theirs.record({ timing: true })
    await Promise.all([start.finished(), end.finished()])
    refused(() => end.elapsedSince(start), 'CUDA_ERROR_INVALID_HANDLE', /device/)
  })

  test('O7 a start that is no event is ERR_INVALID_ARG_TYPE', async () => {
    using stream = bench.stream()
    using event = stream.record({ timing: true })
    await event.finished()
    for (const wrong of ['x', undefined, null, stream, event.handle]) {
      refused(() => event.elapsedSince(wrong as unknown as Event), 'ERR_INVALID_ARG_TYPE', /start/, /an Event/)
    }
    await rejected(() => event.finished({ signal: 5 } as never), 'ERR_INVALID_ARG_TYPE', /options\.signal/)
    assert.equal(event.elapsedSince(event), 0)
  })

  test('O7 an event of another library says what the driver says', async () => {
    using stream = bench.stream()
    using plain = stream.record()
    using wrapped = Event.from(plain.handle, { device })
    await stream.finished()
    try {
      wrapped.elapsedSince(wrapped)
      assert.fail('an event without timing has no time')
    } catch (error) {
      checkError(error, 'CUDA_ERROR_INVALID_HANDLE')
    }
  })

  for (const how of ['made here', 'of another library'] as const) {
    test(`O6 a stream of another device waits for an event that other processes may share, ${how}`, async (t) => {
      const there = secondDevice(bench)
      if (there === undefined) return t.skip(ONE_DEVICE)
      using stream = bench.stream()
      using theirs = there.createStream()
      using other = there.createStream()
      using made = device.createEvent({ interprocess: true })
      using event = how === 'made here' ? undefined : Event.from(made.handle, { device })
      const order: string[] = []
      theirs.wait(event ?? made)
      assert.equal(await theirs.finished(), undefined)
      stream.launchHostFunc(() => order.push('before'))
      stream.record(event ?? made)
      theirs.wait(event ?? made).launchHostFunc(() => order.push('after'))
      // What waits for one record is not waited for by who waits for the next.
      using done = device.createEvent({ interprocess: true })
      other.wait(done).launchHostFunc(() => order.push('beside'))
      await Promise.all([theirs.finished(), other.finished()])
      assert.deepEqual(
        order.filter((one) => one !== 'beside'),
        ['before', 'after'],
      )
      made.close()
      stillWorks(bench, theirs)
    })
  }
})
