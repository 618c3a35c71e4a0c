/** What a simulation keeps, and for how long: nothing that a program cannot reach any more, or has given back. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { busy, destroyForeignStream, foreignStream, latch, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import { driverOf } from '../../src/core/device.js'
import { backendOf } from '../../src/foundation/driver/wrappable-driver.js'
import { SimDriver } from '../../src/simulator/sim-driver.js'
import { collectUntil, refused } from '../conformance/expect.js'

function deviceOf({ devices: [device] }: Simulation): Device {
  assert.ok(device)
  return device
}

const LEFT_OPEN: Readonly<Record<string, (device: Device) => void>> = {
  'a foreign stream': (device) => void foreignStream(device),
  'a wrapped foreign stream': (device) => void new ExternalStream(foreignStream(device)),
  'a named stream': (device) => void nameStream(new Stream({ device }), 'kept'),
  'work that is done': (device) => {
    const stream = new Stream({ device })
    busy(stream, 100)
    stream.synchronize()
  },
}

describe('a simulation that the program cannot reach', () => {
  for (const [what, leave] of Object.entries(LEFT_OPEN)) {
    it(`is collected, whatever was left open in it: ${what}`, async () => {
      const collected = { count: 0 }
      const registry = new FinalizationRegistry(() => {
        collected.count += 1
      })
      const make = (): void => {
        const simulation = simulate()
        leave(deviceOf(simulation))
        registry.register(simulation, undefined)
      }
      for (let nth = 0; nth < 10; nth += 1) make()
      assert.ok(await collectUntil(() => collected.count === 10), `${collected.count} of 10 were collected`)
    })
  }
})

describe('a foreign stream', () => {
  it('is destroyed once, and by its own handle', () => {
    const [one, other] = [simulate(), simulate()]
    const handle = foreignStream(deviceOf(one))
    refused(() => destroyForeignStream(handle + 32n), 'ERR_INVALID_HANDLE')
    refused(() => destroyForeignStream(new Stream({ device: deviceOf(other) }).handle), 'ERR_INVALID_HANDLE')
    destroyForeignStream(handle)
    refused(() => destroyForeignStream(handle), 'ERR_INVALID_HANDLE')
  })
})

describe('a fault that has struck', () => {
  it('is forgotten: a simulation whose faults are spent looks for none', () => {
    const simulation = simulate({ faults: [{ call: 'cuEventCreate', nth: 2, times: 2, result: 2 }] })
    const device = deviceOf(simulation)
    const backend = backendOf(driverOf(device))
    assert.ok(backend instanceof SimDriver)
    const { faults } = backend.machine
    new Event({ device })
    for (let nth = 0; nth < 2; nth += 1) {
      assert.equal(faults.empty, false)
      assert.throws(() => new Event({ device }), { number: 2 })
    }
    assert.equal(faults.empty, true)
    new Event({ device })
  })
})

describe('an event of a capture', () => {
  const USES: Readonly<Record<string, (stream: Stream, event: Event) => void>> = {
    'recorded inside': (stream, event) => void stream.record(event),
    'recorded by each launch': (stream, event) => void stream.record(event, { external: true }),
    'recorded inside, and by each launch': (stream, event) =>
      void stream.record(event, { external: true }).record(stream),
    'waited for by each launch': (stream, event) => void stream.wait(event, { external: true }),
  }

  for (const [how, use] of Object.entries(USES)) {
    it(`keeps nothing of the capture, its stream and its host functions: ${how}`, async () => {
      const device = deviceOf(simulate())
      const event = new Event({ device })
      const make = (): WeakRef<object>[] => {
        const stream = new Stream({ device })
        const callback = (): void => {}
        const graph = stream.capture(() => {
          stream.launchHostFunc(callback)
          use(stream, event)
        })
        graph.instantiate().launch(stream).close()
        stream.synchronize()
        for (const each of [graph, stream]) each.close()
        return [new WeakRef(stream), new WeakRef(callback)]
      }
      const kept = make()
      assert.ok(await collectUntil(() => kept.every((weak) => weak.deref() === undefined)))
      assert.equal(event.closed, false)
    })

    it(`goes when it is closed and no graph uses it, which is launched all the same until then: ${how}`, () => {
      const simulation = simulate()
      const device = deviceOf(simulation)
      const backend = backendOf(driverOf(device))
      assert.ok(backend instanceof SimDriver)
      const stream = new Stream({ device })
      const event = new Event({ device })
      const graph = stream.capture(() => use(stream, event))
      const exec = graph.instantiate()
      const { events } = backend.counts
      event.close()
      assert.equal(backend.counts.events, how === 'recorded inside' ? events - 1 : events)
      const other = new Event({ device })
      const held = latch(stream)
      exec.launch(stream)
      assert.equal(other.query(), true, 'the graph records an event that it does not know')
      held.open()
      stream.synchronize()
      exec.close()
      graph.close()
      assert.equal(backend.counts.events, events, 'it is gone, and the other is there')
      assert.equal(other.closed, false)
    })
  }
})

describe('the name of a stream', () => {
  const namesOn = (device: Device): number => driverOf(device).streamNames.size

  it('goes with its stream: with one that is closed, or that the program cannot reach', async () => {
    const device = deviceOf(simulate())
    const open = nameStream(new Stream({ device }), 'open')
    for (let nth = 0; nth < 100; nth += 1) nameStream(new Stream({ device }), `${nth}`).close()
    assert.equal(namesOn(device), 1)
    for (let nth = 0; nth < 100; nth += 1) nameStream(new Stream({ device }), `${nth}`)
    assert.ok(await collectUntil(() => namesOn(device) === 1), `${namesOn(device)} names are left`)
    open.close()
    assert.equal(namesOn(device), 0)
  })

  it('is not kept for each of the foreign streams that come and go', () => {
    const device = deviceOf(simulate())
    for (let nth = 0; nth < 100; nth += 1) {
      const handle = foreignStream(device)
      nameStream(new ExternalStream(handle), `${nth}`).close()
      destroyForeignStream(handle)
    }
    assert.ok(namesOn(device) <= 1)
  })

  it('is not that of a later stream with the same handle', async () => {
    const simulation = simulate()
    const device = deviceOf(simulation)
    const handle = foreignStream(device)
    nameStream(new ExternalStream(handle), 'first')
    destroyForeignStream(handle)
    const later = new Stream({ device })
    assert.equal(later.handle, handle)
    const timeline = await Timeline.record(() => busy(later, 10), { simulation })
    assert.deepEqual(
      timeline.operations.map(({ stream }) => stream.name),
      [`stream ${later.id}`],
    )
  })

  it('stays in the timelines of a stream that is closed: named before, named after, and named again', async () => {
    const simulation = simulate()
    const device = deviceOf(simulation)
    const before = nameStream(new Stream({ device }), 'before')
    const timeline = await Timeline.record(
      () => {
        const after = new Stream({ device })
        const foreign = foreignStream(device)
        const again = nameStream(new ExternalStream(foreign), 'once')
        for (const stream of [before, after, again]) busy(stream, 10)
        nameStream(after, 'after')
        nameStream(new ExternalStream(foreign), 'again')
        for (const stream of [before, after, again]) stream.close()
        destroyForeignStream(foreign)
        // Streams that get the handles of those that are gone.
        for (const name of ['x', 'y', 'z']) nameStream(new Stream({ device }), name)
      },
      { simulation },
    )
    assert.deepEqual(timeline.operations.map(({ stream }) => stream.name).sort(), ['after', 'again', 'before'])
  })

  it('is one for both names of the null stream', async () => {
    const simulation = simulate()
    const device = deviceOf(simulation)
    const timeline = await Timeline.record(
      () => {
        busy(device.defaultStream, 10)
        nameStream(new ExternalStream(1n, { device }), 'legacy')
      },
      { simulation },
    )
    assert.deepEqual(
      timeline.operations.map(({ stream }) => stream.name),
      ['legacy'],
    )
  })
})
