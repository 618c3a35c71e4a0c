/** Conditional nodes on the simulator: virtual time, orders, and what the sanitizer and timelines know of them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, defineKernel, type Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'

const ONE = { grid: 1, block: 1 } as const
const countDown = defineKernel({
  name: 'count_down',
  source: '__global__ void count_down(unsigned long long again, unsigned* count);',
  signature: ['u64', 'inout u32*'],
  simulate: ({ setConditional }, again, count) => {
    count[0] = (count[0] ?? 0) - 1
    setConditional(again, count[0])
  },
  nanoseconds: 1000,
})
const bump = defineKernel({
  name: 'bump',
  source: '__global__ void bump(unsigned* to);',
  signature: ['inout u32*'],
  simulate: (_, to) => (to[0] = (to[0] ?? 0) + 1),
  nanoseconds: 3000,
})

interface Scene {
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
  readonly count: DeviceBuffer
  readonly data: DeviceBuffer
}

/** A loop of so many turns that bumps `data`, written by `other` before. */
function program(device: Device, turns: number, waits: boolean): Scene {
  const [stream, other] = [device.createStream(), device.createStream()]
  const [count, data] = [device.alloc(4, { stream }), device.alloc(4, { stream: other })]
  stream.fill(count, turns, { width: 4 })
  other.fill(data, 10, { width: 4 })
  const graph = stream.capture(() => {
    const again = stream.createCondition(1)
    stream.while(again, (body) => body.launch(bump, ONE, data).launch(countDown, ONE, again, count))
  })
  if (waits) stream.wait(other)
  stream.launch(graph.instantiate())
  return { device, stream, other, count, data }
}

describe('a loop on the simulator', () => {
  it('takes the time of its turns, and of a decision for each', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const timeline = await Timeline.record(
      async () => {
        const { stream } = program(device, 3, true)
        await stream.finished()
      },
      { device },
    )
    const operations = timeline.operations.filter(({ kind }) => kind === 'kernel' || kind === 'graph')
    const [graph, ...nodes] = operations
    assert.equal(graph?.kind, 'graph')
    assert.deepEqual(
      nodes.map(({ name, graph: parent }) => [name, parent]),
      Array.from({ length: 3 }, () => [
        ['bump', graph?.id],
        ['count_down', graph?.id],
      ]).flat(),
    )
    const [first, , second] = nodes
    assert.equal((second?.start ?? 0) - (first?.start ?? 0), 3000 + 1000 + 2500)
    // The last decision.
    assert.equal((graph?.end ?? 0) - (nodes.at(-1)?.end ?? 0), 2500)
  })

  it('shows a missing wait as a wrong number, with and without a seed', async () => {
    for (const seed of [0, 1, 2, 3]) {
      using simulation = simulate({ seed })
      const [device] = simulation.devices
      assert.ok(device)
      const { stream, data } = program(device, 2, true)
      assert.equal((await stream.download(data, Uint32Array))[0], 12)
    }
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const { stream, other, data } = program(device, 2, false)
    stream.wait(other)
    assert.notEqual((await stream.download(data, Uint32Array))[0], 12)
  })

  it('is explored in all orders', async () => {
    const run = (waits: boolean) =>
      explore(async ({ devices: [device] }) => {
        assert.ok(device)
        const { stream, other, data } = program(device, 2, waits)
        stream.wait(other)
        return (await stream.download(data, Uint32Array))[0]
      })
    const right = await run(true)
    assert.equal(right.complete, true)
    assert.equal(right.verdict, 'agree', right.message)
    const wrong = await run(false)
    assert.equal(wrong.verdict, 'disagree')
    assert.match(wrong.message, /fill on stream 2 .* and kernel bump/)
  })

  it('is checked by the sanitizer, with its bodies', async () => {
    for (const waits of [true, false]) {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      using sanitizer = Sanitizer.start({ device })
      const { stream } = program(device, 2, waits)
      await stream.finished()
      assert.deepEqual(
        sanitizer.reports.map(({ message }) => /kernel 'bump'/.test(message)),
        waits ? [] : [true],
      )
    }
  })

  it('has no race between the two bodies of an if, of which one is played', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device })
    const stream = device.createStream()
    const data = device.alloc(4, { stream })
    stream.fill(data, 0)
    const graph = stream.capture(() => {
      const condition = stream.createCondition(0)
      stream.if(
        condition,
        (body) => body.fill(data, 1),
        (body) => body.fill(data, 2),
      )
      stream.launch(bump, ONE, data)
    })
    stream.launch(graph.instantiate())
    assert.equal((await stream.download(data, Uint32Array))[0], 0x02020203)
    assert.deepEqual(sanitizer.reports, [])
  })

  it('is dropped with the context when a kernel of it faults', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = device.createStream()
    const graph = stream.capture(() => {
      const again = stream.createCondition(1)
      stream.while(again, (body) => body.launch(countDown, ONE, 77n, device.alloc(4, { stream: body })))
    })
    stream.launch(graph.instantiate())
    await assert.rejects(
      stream.finished(),
      /700.*handle 77, and the graph that it is launched from has no such condition/,
    )
  })
})
