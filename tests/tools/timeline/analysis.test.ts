/** The critical path and the idle gaps of programs whose answers are known. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import fc from 'fast-check'
import { programs, runProgram } from '../../properties/ordered-play.js'

function machine(): { simulation: Simulation; device: Device; stream: (name: string) => Stream } {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  return { simulation, device, stream: (name) => nameStream(new Stream({ device }), name) }
}

const path = (timeline: Timeline): string[] =>
  timeline.criticalPath.map(({ name, stream, start, end }) => `${name} ${stream.name} ${(end ?? 0) - (start ?? 0)}`)
const gaps = (timeline: Timeline): unknown[] =>
  timeline.gaps.map(({ stream, begin, end, reason, cause, wait }) => {
    const length = Math.round(end - begin)
    return { stream: stream.name, length, reason, cause: cause && `${cause.name} ${cause.stream.name}`, waits: !!wait }
  })

describe('the critical path', () => {
  it('goes through the longer of two branches', async () => {
    const { simulation, stream } = machine()
    const [a, b, c] = [stream('a'), stream('b'), stream('c')]
    const timeline = await Timeline.record(
      () => {
        busy(a, 10_000)
        b.wait(a)
        busy(b, 50_000)
        c.wait(a)
        busy(c, 20_000)
        a.wait(b).wait(c)
        busy(a, 5000)
      },
      { simulation },
    )
    assert.deepEqual(path(timeline), ['busy a 10000', 'busy b 50000', 'busy a 5000'])
  })

  it('goes through the host where that waited before it queued more', async () => {
    const { simulation, stream } = machine()
    const [a, b, c] = [stream('a'), stream('b'), stream('c')]
    const timeline = await Timeline.record(
      () => {
        busy(c, 3000)
        busy(a, 10_000)
        a.synchronize()
        busy(b, 7000)
      },
      { simulation },
    )
    assert.deepEqual(path(timeline), ['busy a 10000', 'busy b 7000'])
  })

  it('goes through promises and host functions', async () => {
    const { simulation, stream } = machine()
    const [a, b, c] = [stream('a'), stream('b'), stream('c')]
    const timeline = await Timeline.record(
      async () => {
        busy(a, 10_000)
        await a.finished()
        busy(b, 7000)
        b.launchHostFunc(() => busy(c, 2000))
        await b.finished()
        await c.finished()
      },
      { simulation },
    )
    assert.deepEqual(path(timeline), ['busy a 10000', 'busy b 7000', 'host function b 100', 'busy c 2000'])
  })

  it("goes by the null stream's rules", async () => {
    const { simulation, device } = machine()
    const blocking = nameStream(new Stream({ device, nonBlocking: false }), 'blocking')
    const timeline = await Timeline.record(
      () => {
        busy(blocking, 9000)
        busy(device.defaultStream, 1000)
        busy(blocking, 500)
      },
      { simulation },
    )
    assert.deepEqual(path(timeline), ['busy blocking 9000', 'busy null stream 1000', 'busy blocking 500'])
  })

  it('of nothing is nothing', async () => {
    const { simulation } = machine()
    const timeline = await Timeline.record(() => {}, { simulation })
    assert.deepEqual(timeline.criticalPath, [])
    assert.deepEqual(timeline.gaps, [])
  })
})

describe('every program', () => {
  const seeds = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
  const everyTimeline = (check: (timeline: Timeline) => void): Promise<void> =>
    fc.assert(
      fc.asyncProperty(programs(['nonBlocking', 'blocking', 'null']), seeds, async (program, seed) => {
        await runProgram(program, seed, async (simulation, run) => check(await Timeline.record(run, { simulation })))
      }),
      { seed: 20_251_120, numRuns: 200 },
    )

  it('has a critical path that ends with its last operation, and on which time never goes back', async () => {
    await everyTimeline(({ criticalPath, operations }) => {
      const work = operations.filter(({ kind }) => kind !== 'record' && kind !== 'wait')
      const last = Math.max(...work.map(({ end }) => end ?? 0))
      if (work.length > 0) assert.equal(criticalPath.at(-1)?.end, last)
      for (const [index, { start }] of criticalPath.entries()) {
        assert.ok((start ?? Number.NaN) >= (criticalPath[index - 1]?.start ?? 0))
      }
    })
  })

  it('has gaps in which its stream does nothing but wait', async () => {
    await everyTimeline(({ gaps, operations }) => {
      for (const { stream, begin, end, next, cause } of gaps) {
        assert.ok(begin < end && next.stream === stream && next.start === end)
        for (const one of operations) {
          if (one.stream !== stream || one.kind === 'wait') continue
          assert.ok((one.end ?? 0) <= begin || (one.start ?? 0) >= end || one.kind === 'record', `${one.name} is in it`)
        }
        if (cause !== undefined) assert.ok((cause.start ?? 0) <= end)
      }
    })
  })
})

describe('idle gaps', () => {
  it('are held up by the wait that ends them, and by what that waited for', async () => {
    const { simulation, stream } = machine()
    const [a, b] = [stream('a'), stream('b')]
    const timeline = await Timeline.record(
      () => {
        busy(b, 1000)
        busy(a, 10_000)
        b.wait(a)
        busy(b, 500)
      },
      { simulation },
    )
    assert.deepEqual(gaps(timeline), [{ stream: 'b', length: 9100, reason: 'wait', cause: 'busy a', waits: true }])
  })

  it('are the host’s where it had queued nothing yet', async () => {
    const { simulation, stream } = machine()
    const [a, b] = [stream('a'), stream('b')]
    const timeline = await Timeline.record(
      () => {
        busy(b, 1000)
        busy(a, 10_000)
        a.synchronize()
        busy(b, 500)
      },
      { simulation },
    )
    const [gap, ...none] = timeline.gaps
    assert.deepEqual(none, [])
    assert.equal(gap?.reason, 'host')
    assert.equal(gap?.cause?.stream.name, 'a')
    assert.equal(gap?.wait, undefined)
  })

  it('are a copy engine’s where another copy had it', async () => {
    const { simulation, device, stream } = machine()
    const [a, b] = [stream('a'), stream('b')]
    const [one, two, from] = [device.alloc(500_000), device.alloc(500_000), device.allocPinned(500_000)]
    const timeline = await Timeline.record(
      () => {
        busy(b, 100)
        a.copy(one, from)
        b.copy(two, from)
      },
      { simulation },
    )
    const [gap] = timeline.gaps
    assert.equal(gap?.stream.name, 'b')
    assert.equal(gap?.reason, 'engine')
    assert.equal(gap?.cause?.stream.name, 'a')
  })

  it('come longest first', async () => {
    const { simulation, stream } = machine()
    const [a, b] = [stream('a'), stream('b')]
    const timeline = await Timeline.record(
      () => {
        for (const time of [5000, 20_000, 9000]) {
          busy(a, time)
          b.wait(a)
          busy(b, 100)
        }
      },
      { simulation },
    )
    const lengths = timeline.gaps.map(({ begin, end }) => end - begin)
    assert.equal(lengths.length, 2)
    assert.ok((lengths[0] ?? 0) > (lengths[1] ?? 0))
  })
})
