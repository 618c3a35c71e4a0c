/** What a sanitizer remembers is bounded by what lives, not by what happened. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerStatistics } from 'cuda-streams/sanitizer'
import { foreignStream, simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import { NO_TIMES } from '../../../src/foundation/base/vector-clock.js'
import { EventFlag, StreamFlag } from '../../../src/foundation/driver/driver-constants.js'
import type { Pointer, StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { Findings } from '../../../src/tools/sanitizer/findings.js'
import { HappensBefore } from '../../../src/tools/sanitizer/happens-before.js'
import { CheckedOperation, Stacks } from '../../../src/tools/sanitizer/operations.js'
import { PendingHostFunctions, PendingWaits } from '../../../src/tools/sanitizer/pending.js'
import { Regions } from '../../../src/tools/sanitizer/regions.js'
import { SanitizerInterceptor } from '../../../src/tools/sanitizer/sanitizer-interceptor.js'

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
      right.fill(copied.subarray(0, BYTES / 2), 1)
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
      stream.fill(data.subarray((round * 37) % 99_000, ((round * 37) % 99_000) + 8), 1)
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
  assert.equal(many.components, few.components)
  assert.ok(many.components < 20, `${many.components} components`)
  assert.equal(many.events, few.events)
  assert.ok(many.regions <= 4096 + 10, `${many.regions} regions`)
  assert.ok(many.ranges <= 10, `${many.ranges} ranges`)
})

it('of memory that was given back the latest is known as gone, and what takes its place is not', () => {
  const regions = new Regions(new PendingHostFunctions(), new PendingWaits())
  const at = (index: number): Pointer => (BYTES * (index + 1)) as Pointer
  const gone = (sequence: number): CheckedOperation =>
    new CheckedOperation(
      { component: 0, time: 1, clock: NO_TIMES },
      sequence,
      'free',
      'free',
      undefined,
      undefined,
      [],
      undefined,
      undefined,
    )
  const kept = regions.allocated(at(20_000), BYTES, 'device')
  for (let index = 0; index < 10_000; index += 1) {
    regions.free(regions.allocated(at(index), BYTES, 'device'), gone(index))
    assert.ok(regions.count <= 4097)
    assert.equal(regions.at(at(index)).freed?.sequence, index)
  }
  for (let index = 9_999; index > 9_999 - 2048; index -= 1) assert.equal(regions.at(at(index)).freed?.sequence, index)
  assert.equal(regions.at(at(0)).freed, undefined)
  assert.equal(regions.at(at(20_000)), kept)
  for (let index = 5000; index < 10_000; index += 1) {
    const again = regions.allocated(at(index), BYTES, 'device')
    assert.equal(regions.at(at(index)), again)
    assert.equal(regions.startingAt(at(index)), again)
  }
  assert.equal(regions.count, 5001)
  // Some of them are gone with what is put across.
  const across = regions.allocated((at(6000) + 8) as Pointer, 2 * BYTES, 'device')
  assert.equal(regions.at(at(6001)), across)
  assert.equal(regions.at((at(6000) + 4) as Pointer).kind, 'unknown')
  assert.equal(regions.count, 4999)
})

it('streams of other libraries are forgotten when nothing of them is left to be waited for', () => {
  const { few, many } = remembered(300, (device) => {
    const data = device.alloc(BYTES)
    device.synchronize()
    return (round) => {
      // Nobody destroys it, so that each has a handle of its own.
      const handle = foreignStream(device, { nonBlocking: round % 2 === 0 })
      using stream = new ExternalStream(handle, { device })
      if (round % 3 > 0) stream.fill(data, 1)
      stream.synchronize()
    }
  })
  assert.ok(few.components < 150, `${few.components} components`)
  assert.ok(many.components < 150, `${many.components} components`)
})

it('and are known again, as what they are, when they come back', () => {
  for (const how of ['race', 'event'] as const) {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const theirs = device.createEvent()
    const others = Array.from({ length: 2000 }, () => device.createEvent())
    const data = device.alloc(BYTES)
    device.synchronize()
    using sanitizer = Sanitizer.start({ device, stacks: 'none' })
    using kept = new ExternalStream(foreignStream(device, { nonBlocking: false }), { device })
    using event = Event.from(theirs.handle, { device })
    const ours = new Stream({ device })
    kept.fill(data, 1)
    kept.synchronize()
    for (const other of others) {
      new ExternalStream(foreignStream(device), { device }).close()
      using wrapped = Event.from(other.handle, { device })
      ours.wait(wrapped)
    }
    assert.ok(sanitizer.statistics.components < 150, `${sanitizer.statistics.components} components`)
    assert.ok(sanitizer.statistics.events < 600, `${sanitizer.statistics.events} events`)
    kept.fill(data, 2)
    if (how === 'event') ours.wait(event)
    ours.fill(data, 3)
    assert.equal(sanitizer.reports.length, how === 'race' ? 1 : 0, how)
  }
})

it('none is forgotten at its first use', () => {
  for (let count = 0; count < 140; count += 1) {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using last = new Stream({ device, nonBlocking: false })
    const data = device.alloc(BYTES, { stream: last })
    device.synchronize()
    using sanitizer = Sanitizer.start({ device, stacks: 'none' })
    for (let other = 0; other < count; other += 1) new ExternalStream(foreignStream(device), { device }).close()
    // It is met here and, since it is a blocking stream, the null stream with it.
    last.fill(data, 1)
    last.fill(data, 2)
    assert.equal(sanitizer.reports.length, 0, `after ${count} others`)
    new Stream({ device }).fill(data, 3)
    assert.equal(sanitizer.reports.length, 1, `after ${count} others`)
  }
})

it('a stream that is closed unused is forgotten at once', () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const driver = driverOf(device)
  const order = new HappensBefore(driver, false)
  const make = (): StreamHandle => {
    const context = driver.devices.context(0)
    const handle = driver.streams.create(context, StreamFlag.NON_BLOCKING, 0)
    order.streams.created(handle, context, StreamFlag.NON_BLOCKING, undefined)
    return handle
  }
  for (let round = 0; round < 100; round += 1) {
    const handle = make()
    driver.streams.destroy(handle)
    order.streams.destroyed(handle)
  }
  assert.ok(order.streams.at(make()).component < 5)
})

it('streams that had one handle after another are told apart', () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const driver = driverOf(device)
  const order = new HappensBefore(driver, false)
  const context = driver.devices.context(0)
  const labels = Array.from({ length: 3 }, () => {
    const handle = driver.streams.create(context, StreamFlag.NON_BLOCKING, 0)
    order.streams.created(handle, context, StreamFlag.NON_BLOCKING, undefined)
    const stream = order.streams.at(handle).advance()
    order.streams.destroying(handle)
    driver.streams.destroy(handle)
    order.streams.destroyed(handle)
    return stream
  }).map(({ label }) => label)
  assert.deepEqual(labels, ['stream 1', 'stream 2', 'stream 3'])
})

it('events that the driver takes over with memory of another process are forgotten', () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const driver = driverOf(device)
  const context = driver.devices.context(0)
  const closed: unknown[] = []
  const pointer = 4096 as Pointer
  // No simulated machine has another process.
  const importMemory = () => ({ pointer, byteLength: BYTES, close: (after: unknown) => void closed.push(after) })
  driver.wrap(() => ({ sharing: { importMemory } }))
  const findings = new Findings({ mode: 'collect', fix: false, suppress: [], onReport: undefined })
  const { detector } = driver.wrap(
    (next) => new SanitizerInterceptor(next, findings, new Stacks('none'), false),
  ).wrapper
  const imported = driver.sharing.importMemory(new Uint8Array(64), context)
  assert.deepEqual([imported.pointer, imported.byteLength], [pointer, BYTES])
  const event = driver.events.create(context, EventFlag.DISABLE_TIMING)
  detector.order.events.created(event, false)
  assert.equal(detector.order.events.count, 1)
  const after = [{ context, event }]
  imported.close(after)
  assert.deepEqual(closed, [after])
  assert.equal(detector.order.events.count, 0)
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
