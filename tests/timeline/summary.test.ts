/** What held a program up, said in a sentence: a program for each cause, whose times are known to the nanosecond. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { type HoldUp, type HoldUpKind, nameStream, Timeline } from 'cuda-streams/timeline'

interface Bench {
  readonly device: Device
  readonly a: Stream
  readonly b: Stream
  /** A stream that the null stream orders. */
  readonly blocking: Stream
}

interface Case {
  readonly kind: HoldUpKind
  /** The longest of the hold-ups. */
  readonly says: string
  readonly advises: RegExp
  readonly run: (bench: Bench) => unknown
}

const cases: readonly Case[] = [
  {
    kind: 'blockingCall',
    says: "`stream.synchronize()` on 'a' held 'b' back 2 times, 20.0 µs",
    advises: /`stream\.wait\(other\)`/,
    run: ({ a, b }) => {
      for (let i = 0; i < 3; i += 1) {
        busy(b, 100)
        busy(a, 10_000)
        a.synchronize()
      }
    },
  },
]

async function summary(run: Case['run'], seed = 0): Promise<readonly HoldUp[]> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  assert.ok(device)
  const stream = (name: string, nonBlocking = true): Stream => nameStream(new Stream({ device, nonBlocking }), name)
  const bench = { device, a: stream('a'), b: stream('b'), blocking: stream('blocking', false) }
  const { summary } = await Timeline.record(() => run(bench), { simulation })
  return summary.holdUps
}

describe('what held a stream up', () => {
  for (const { kind, says, advises, run } of cases) {
    it(`is named: ${kind}, ${says}`, async () => {
      const [first] = await summary(run)
      assert.deepEqual([first?.kind, first?.message], [kind, says])
      assert.match(first?.advice ?? '', advises)
    })
  }
})
