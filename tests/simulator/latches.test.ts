/** Latches of the simulator: they hold a stream until they are opened, whenever that is. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Stream } from 'cuda-streams'
import { busy, latch, simulate } from 'cuda-streams/sim'

describe('a latch', () => {
  it('is opened where it is disposed of, so that a test that fails leaves no stream that stands', () => {
    using simulation = simulate()
    const stream = new Stream({ device: simulation.devices[0] })
    assert.throws(
      () => {
        using _latch = latch(stream)
        assert.fail('the test fails')
      },
      { message: 'the test fails' },
    )
    stream.synchronize()
  })

  for (const seed of [0, 7]) {
    it(`lets the stream pass that was opened before the stream came to it (seed ${seed})`, () => {
      using simulation = simulate({ seed })
      const [device] = simulation.devices
      const stream = new Stream({ device })
      busy(stream, 1_000_000)
      latch(stream).open()
      busy(stream, 1000)
      stream.synchronize()
      assert.equal(stream.query(), true)
    })

    it(`holds it until then, and no longer (seed ${seed})`, () => {
      using simulation = simulate({ seed })
      const [device] = simulation.devices
      const stream = new Stream({ device })
      const [first, second] = [latch(stream), latch(stream)]
      assert.throws(() => stream.synchronize(), { code: 'ERR_DEADLOCK' })
      second.open()
      assert.throws(() => stream.synchronize(), { code: 'ERR_DEADLOCK' })
      first.open()
      first.open()
      stream.synchronize()
    })
  }
})
