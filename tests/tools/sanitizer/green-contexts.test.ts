/** Streams of green contexts, seen by the sanitizer: they order nothing by themselves, and waits order them as any. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ExternalStream, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { foreignStream, simulate } from 'cuda-streams/sim'

type Way = 'no wait' | 'a wait' | 'the device'

/** A fill on a stream of one part, and another of the same memory on one of the other part. */
function reportsOf(way: Way, isForeign: boolean): number {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using sanitizer = Sanitizer.start({ device, mode: 'collect' })
  const [small, rest] = device.split({ multiprocessors: [16] })
  const one = new Stream({ context: small })
  const other = isForeign
    ? new ExternalStream(foreignStream(device, { context: rest }), { device })
    : new Stream({ context: rest })
  const buffer = device.alloc(64, { stream: one })
  one.fill(buffer, 1)
  if (way === 'a wait') other.wait(one)
  if (way === 'the device') device.synchronize()
  other.fill(buffer, 2)
  device.synchronize()
  for (const each of [buffer, one, other, small, rest]) each.close()
  return sanitizer.reports.length
}

describe('the sanitizer and green contexts', () => {
  for (const isForeign of [false, true]) {
    const whose = isForeign ? 'of another library' : 'of this library'
    it(`finds the wait that is missing between two parts of a device, with a stream ${whose}`, () => {
      assert.equal(reportsOf('no wait', isForeign), 1)
      assert.equal(reportsOf('a wait', isForeign), 0)
      assert.equal(reportsOf('the device', isForeign), 0)
    })
  }
})
