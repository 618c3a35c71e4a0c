/** Virtual time: it goes on, and stays a number that means something. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { refused } from '../conformance/expect.js'

const LONGEST = 2 ** 53 - 1

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
    // What the garbage collector destroys is calls to the driver, which take time.
    const kept: unknown[] = []
    for (const [toName, to] of Object.entries(places)) {
      for (const [fromName, from] of Object.entries(places)) {
        const [source, destination] = [from(), to()]
        stream.fill(source, 1).fill(destination, 0)
        const begin = stream.record({ timing: true })
        kept.push(source, destination, begin)
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
        kept.push(end)
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
})
