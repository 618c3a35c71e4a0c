/** What a sanitizer remembers is bounded by what lives, not by what happened. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerStatistics } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'

const BYTES = 1024

/** What is remembered after some rounds, and after ten times as many. */
function remembered(
  rounds: number,
  prepare: (device: Device) => (round: number) => void,
): { few: SanitizerStatistics; many: SanitizerStatistics } {
  const after = (count: number): SanitizerStatistics => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device, stacks: 'none' })
    const go = prepare(device)
    for (let round = 0; round < count; round += 1) go(round)
    assert.deepEqual(sanitizer.reports, [])
    return sanitizer.statistics
  }
  return { few: after(rounds), many: after(10 * rounds) }
}

it('the same work again and again leaves no trace', () => {
  const { few, many } = remembered(1000, (device) => {
    const [left, right] = [new Stream({ device }), new Stream({ device })]
    const [data, copied] = [device.alloc(BYTES), device.alloc(BYTES)]
    const pinned = device.allocPinned(BYTES)
    device.synchronize()
    return () => {
      left.copy(data, pinned)
      right.wait(left)
      right.copy(copied, data)
      right.fill(copied.slice(0, BYTES / 2), 1)
      left.wait(right)
    }
  })
  assert.deepEqual(many, few)
  assert.ok(many.ranges <= 4)
})

it('pending host functions keep what they may meet, and no more', () => {
  const { few, many } = remembered(200, (device) => {
    const [copies, host] = [new Stream({ device }), new Stream({ device })]
    const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
    device.synchronize()
    return () => {
      host.launchHostFunc(() => pinned.bytes)
      copies.wait(host)
      copies.copy(pinned, data)
      host.wait(copies)
    }
  })
  assert.equal(many.ranges, few.ranges)
})

it('slices of a buffer are swept once the work is waited for', () => {
  const { many } = remembered(3000, (device) => {
    const stream = new Stream({ device })
    const data = device.alloc(100_000)
    return (round) => {
      stream.fill(data.slice((round * 37) % 99_000, 8), 1)
      if (round % 100 === 0) stream.synchronize()
    }
  })
  assert.ok(many.ranges < 10_000, `${many.ranges} ranges`)
})

it('buffers, streams and events that are closed are forgotten', () => {
  const { few, many } = remembered(500, (device) => {
    return () => {
      const stream = new Stream({ device })
      const other = new Stream({ device, nonBlocking: false })
      using event = device.createEvent()
      const data = device.alloc(BYTES, { stream })
      stream.fill(data, 1)
      stream.record(event)
      other.wait(event)
      other.fill(data, 2)
      data.close()
      other.synchronize()
      stream.synchronize()
      stream.close()
      other.close()
    }
  })
  assert.equal(many.strands, few.strands)
  assert.ok(many.strands < 20, `${many.strands} strands`)
  assert.equal(many.events, few.events)
  assert.ok(many.regions <= 4096 + 10, `${many.regions} regions`)
  assert.ok(many.ranges <= 10, `${many.ranges} ranges`)
})

it('graphs that are closed are forgotten', () => {
  const { few, many } = remembered(100, (device) => {
    const [stream, side] = [new Stream({ device }), new Stream({ device })]
    const [left, right] = [device.alloc(BYTES), device.alloc(BYTES)]
    device.synchronize()
    return () => {
      using graph = stream.capture(() => {
        side.wait(stream)
        stream.fill(left, 1)
        side.fill(right, 2)
        stream.wait(side)
      })
      using exec = graph.instantiate()
      exec.launch(stream)
      exec.launch(side)
      side.synchronize()
    }
  })
  assert.deepEqual(many, few)
})

it('no object of the program is kept reachable', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using sanitizer = Sanitizer.start({ device, stacks: 'all' })
  const kept = device.alloc(BYTES)
  const dropped = ((): WeakRef<object>[] => {
    const stream = new Stream({ device })
    const buffer = device.alloc(BYTES)
    stream.copy(buffer, kept)
    return [new WeakRef(stream), new WeakRef(buffer)]
  })()
  device.synchronize()
  for (let turn = 0; turn < 50 && dropped.some((one) => one.deref() !== undefined); turn += 1) {
    await new Promise(setImmediate)
    globalThis.gc?.()
  }
  assert.deepEqual(
    dropped.map((one) => one.deref()),
    [undefined, undefined],
  )
  assert.deepEqual(sanitizer.reports, [])
})
