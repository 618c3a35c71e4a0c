/** Streams that wait for promises: what the sanitizer, an exploration and a timeline make of them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Stream } from 'cuda-streams'
import { Sanitizer, sanitize } from 'cuda-streams/sanitizer'
import { busy, explore, latch, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'

describe('a stream that waits for a promise', () => {
  it('races with nothing that JavaScript did until the promise settled', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    await sanitize(
      async () => {
        const stream = new Stream({ device })
        const pinned = device.allocPinned(16)
        const buffer = device.alloc(16, { stream })
        const kept = pinned.bytes
        stream.wait(
          turn().then(() => {
            kept[0] = 1
            pinned.bytes.fill(3)
          }),
        )
        stream.copy(buffer, pinned)
        assert.equal((await stream.download(buffer))[5], 3)
      },
      { device },
    )
  })

  it('comes after work of other streams that the promise is about', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    await sanitize(
      async () => {
        const [stream, other] = [new Stream({ device }), new Stream({ device })]
        const buffer = device.alloc(16, { stream: other })
        other.fill(buffer, 1)
        stream.wait(other.finished()).fill(buffer, 2)
        await stream.finished()
      },
      { device },
    )
  })

  it('races as ever once it has passed', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device, mode: 'collect' })
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const buffer = device.alloc(16, { stream: other })
    await stream.wait(turn()).finished()
    other.fill(buffer, 1)
    stream.fill(buffer, 2)
    assert.equal(sanitizer.reports.length, 1)
    device.synchronize()
  })

  it('hides no race with what was queued before the wait', () => {
    for (const waitsFor of ['promise', 'value'] as const) {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      using sanitizer = Sanitizer.start({ device, mode: 'collect' })
      const [stream, other] = [new Stream({ device }), new Stream({ device })]
      const [buffer, result, flag] = [device.alloc(16), device.alloc(16), device.allocPinned(4)]
      flag.bytes.fill(0)
      device.synchronize()
      stream.copy(result, buffer)
      if (waitsFor === 'promise') stream.wait(new Promise(() => {}))
      else stream.waitValue(flag, 1)
      stream.copy(result, buffer)
      other.fill(buffer, 1)
      assert.deepEqual(
        sanitizer.reports.map(({ first, second }) => [first?.what, second.what]),
        [['copy', 'fill']],
        waitsFor,
      )
    }
  })

  it('has the same result in every order where it is awaited, and is found where it is not', async () => {
    const program =
      (waits: boolean) =>
      async ({ devices: [device] }: { readonly devices: readonly import('cuda-streams').Device[] }) => {
        assert.ok(device)
        const [stream, other] = [new Stream({ device }), new Stream({ device })]
        const buffer = device.alloc(4, { stream: other })
        other.fill(buffer, 1)
        if (waits) stream.wait(other.finished())
        stream.fill(buffer, 2)
        return (await stream.download(buffer))[0]
      }
    const right = await explore(program(true))
    assert.equal(right.verdict, 'agree', right.message)
    const wrong = await explore(program(false))
    assert.equal(wrong.verdict, 'disagree')
  })

  it('is a deadlock of the exploration where nothing settles it', async () => {
    const { verdict, deadlock } = await explore(async ({ devices: [device] }) => {
      assert.ok(device)
      await new Stream({ device }).wait(new Promise(() => {})).finished()
    })
    assert.equal(verdict, 'deadlock')
    assert.match(String(deadlock?.outcome.value), /promise 1 on stream 1/)
  })

  it('is a wait in a timeline, from when the stream comes there until it goes on', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = new Stream({ device })
    const recording = Timeline.start({ device })
    busy(stream, 5000)
    const [held, other] = [latch(stream), new Stream({ device })]
    held.open()
    stream.wait(
      (async () => {
        busy(other, 90_000)
        await other.finished()
      })(),
    )
    busy(stream, 1000)
    await stream.finished()
    const timeline = await recording.stop()
    const wait = timeline.operations.find(({ kind }) => kind === 'wait')
    assert.equal(wait?.name, 'promise')
    assert.ok((wait.start ?? Number.NaN) >= 5000, `it began at ${wait.start}`)
    assert.ok((wait.end ?? Number.NaN) >= 90_000, `it ended at ${wait.end}`)
  })
})

describe('a stream that waits for a value', () => {
  const scene = (waits: boolean, writesFirst: boolean) => {
    const simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const sanitizer = Sanitizer.start({ device, mode: 'collect' })
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const buffer = device.alloc(16, { stream: other })
    const flags = device.allocPinned(64)
    flags.bytes.fill(0)
    const write = () => other.fill(buffer, 1).writeValue(flags, 1)
    if (writesFirst) write()
    if (waits) stream.waitValue(flags, 1)
    stream.fill(buffer, 2)
    if (!writesFirst) write()
    device.synchronize()
    const { length } = sanitizer.reports
    sanitizer.stop()
    simulation.close()
    return length
  }

  it('comes after the write that meets it, whichever was queued first', () => {
    assert.equal(scene(true, true), 0)
    assert.equal(scene(true, false), 0)
    assert.equal(scene(false, true), 1)
    assert.equal(scene(false, false), 1)
  })

  it('races as ever once it is done, where JavaScript has written the value', () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device, mode: 'collect' })
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const [buffer, flag] = [device.alloc(16), device.allocPinned(4)]
    const words = flag.view(Uint32Array).fill(0)
    stream.waitValue(flag, 1)
    words[0] = 1
    stream.synchronize()
    other.fill(buffer, 1)
    stream.fill(buffer, 2)
    assert.equal(sanitizer.reports.length, 1)
  })

  it('has the same bytes in every order, and others without the wait', async () => {
    const program =
      (waits: boolean) =>
      async ({ devices: [device] }: { readonly devices: readonly import('cuda-streams').Device[] }) => {
        assert.ok(device)
        const [stream, other] = [new Stream({ device }), new Stream({ device })]
        const buffer = device.alloc(4, { interprocess: true })
        const flags = device.alloc(4, { interprocess: true })
        device.defaultStream.fill(flags, 0)
        device.synchronize()
        if (waits) stream.waitValue(flags, 1)
        stream.fill(buffer, 2)
        other.fill(buffer, 1).writeValue(flags, 1)
        await other.finished()
        return (await stream.download(buffer))[0]
      }
    const right = await explore(program(true))
    assert.equal(right.verdict, 'agree', right.message)
    assert.equal((await explore(program(false))).verdict, 'disagree')
  })

  it('is a deadlock of the exploration where nothing writes it', async () => {
    const { verdict, deadlock } = await explore(async ({ devices: [device] }) => {
      assert.ok(device)
      const flags = device.alloc(4, { interprocess: true })
      await new Stream({ device }).fill(flags, 0).waitValue(flags, 1).finished()
    })
    assert.equal(verdict, 'deadlock')
    assert.match(String(deadlock?.outcome.value), /waitValue 1 on stream 1/)
  })
})
