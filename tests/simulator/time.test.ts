/** Virtual time: it goes on, and stays a number that means something. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { clock } from '../../src/foundation/base/event-loop.js'
import { collectUntil, refused } from '../conformance/expect.js'
import { PROGRAMS, type Program } from './long-kernels.js'

const LONGEST = 2 ** 53 - 1

/** What a program says, and when, where each look at the clock comes `step` milliseconds after the one before. */
async function timesOf(program: Program, seed: number, step: number): Promise<readonly string[]> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  assert.ok(device)
  const said: string[] = []
  const { now } = clock
  let time = now()
  clock.now = () => {
    time += step
    return time
  }
  try {
    await program(device, (what, at = simulation.now) => said.push(`${what} at ${at}`))
  } finally {
    clock.now = now
  }
  return said
}

describe('virtual time', () => {
  for (const seed of [0, 7]) {
    it(`stays finite, and does not go back, whatever is queued (seed ${seed})`, async () => {
      const simulation = simulate({ seed })
      const [device] = simulation.devices
      const [stream, other] = [new Stream({ device }), new Stream({ device })]
      for (const nanoseconds of [2 ** 53, Number.MAX_VALUE, Number.POSITIVE_INFINITY, Number.NaN, -1]) {
        refused(() => busy(stream, nanoseconds), 'ERR_OUT_OF_RANGE', /2 \*\* 53/)
      }
      let before = simulation.now
      for (let nth = 0; nth < 2000; nth += 1) {
        busy(stream, LONGEST)
        if (nth % 500 > 0) continue
        const begin = other.wait(stream).record({ timing: true })
        busy(other, 1000)
        const end = other.record({ timing: true })
        await other.finished()
        assert.ok(Number.isFinite(simulation.now) && simulation.now >= before, `${before}, then ${simulation.now}`)
        assert.ok(end.elapsedSince(begin) >= 0)
        before = simulation.now
      }
    })
  }

  it('takes the duration of a copy between pinned buffers like that of any other, in stream order', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = new Stream({ device })
    const length = 2 ** 20
    const places = { pinned: () => device.allocPinned(length), device: () => device.alloc(length, { stream }) }
    const durations: Record<string, number> = {}
    for (const [toName, to] of Object.entries(places)) {
      for (const [fromName, from] of Object.entries(places)) {
        const [source, destination] = [from(), to()]
        stream.fill(source, 1).fill(destination, 0)
        const begin = stream.record({ timing: true })
        let ran = 0
        stream.launchHostFunc(() => {
          ran = 1
        })
        stream.copy(destination, source)
        const end = stream.record({ timing: true })
        assert.equal(ran, 0, 'the call returns before the host function has run')
        assert.equal(end.query(), false)
        await end.finished()
        assert.equal(ran, 1)
        durations[`${toName} from ${fromName}`] = Math.floor(end.elapsedSince(begin) * 1e6)
        assert.deepEqual(await stream.download(destination), new Uint8Array(length).fill(1))
      }
    }
    // 50 bytes in a nanosecond wherever the host is at one end, and 2000 on the device.
    const host = Math.floor(length / 50)
    assert.deepEqual(durations, {
      'pinned from pinned': host,
      'pinned from device': host,
      'device from pinned': host,
      'device from device': 1000,
    })
  })

  it('is not moved by what the garbage collector destroys', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    const stream = new Stream({ device })
    let forgotten = 0
    const registry = new FinalizationRegistry(() => {
      forgotten += 1
    })
    for (let nth = 0; nth < 3000; nth += 1) registry.register(stream.record(), undefined)
    await stream.finished()
    const before = simulation.now
    assert.ok(await collectUntil(() => forgotten >= 2500, 100), `${forgotten} of 3000`)
    await new Promise(setImmediate)
    assert.equal(simulation.now, before)
  })

  for (const [name, program] of Object.entries(PROGRAMS)) {
    for (const seed of [0, 3, 5, 8]) {
      it(`is the same however fast the processor is: ${name} (seed ${seed})`, async () => {
        const expected = await timesOf(program, seed, 0)
        assert.ok(expected.length > 0)
        // Each look at the clock comes so many milliseconds later: a slice is over at once, after a few looks, or after many.
        for (const step of [5, 1.1, 0.3]) assert.deepEqual(await timesOf(program, seed, step), expected, `${step} ms`)
      })
    }
  }
})
