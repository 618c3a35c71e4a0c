/** Host functions that block: which others run meanwhile, and how deep. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { busy, latch, type Simulation, simulate } from 'cuda-streams/sim'
import { MOST_NESTED } from '../../src/foundation/driver/deadlocks.js'

const MANY = 2000
/** Launches that a stream accepts before the next one waits. */
const QUEUE = 1020

function deviceOf({ devices: [device] }: Simulation): Device {
  assert.ok(device)
  return device
}

const codeOf = (error: unknown): unknown => Reflect.get(error as Error, 'code')

for (const seed of [0, 7]) {
  describe(`host functions that block, seed ${seed}`, () => {
    const open = (): { device: Device; stream: () => Stream } => {
      const device = deviceOf(simulate({ seed }))
      return { device, stream: () => new Stream({ device }) }
    }

    it(`run one after the other, though ${MANY} are due at one time`, async () => {
      const { device, stream } = open()
      let [depth, deepest, done] = [0, 0, 0]
      for (let left = MANY; left > 0; left -= 1) {
        const other = stream()
        stream().launchHostFunc(() => {
          depth += 1
          deepest = Math.max(deepest, depth)
          busy(other, 1000)
          other.synchronize()
          depth -= 1
          done += 1
        })
      }
      await device.finished()
      assert.deepEqual({ deepest, done }, { deepest: 1, done: MANY })
    })

    it('run one inside the other where each waits for the next, as deep as the stack of JavaScript allows', () => {
      for (const more of [0, 1]) {
        const { device, stream } = open()
        const streams = Array.from({ length: MOST_NESTED + more }, stream)
        const codes: unknown[] = []
        let done = 0
        for (const [index, each] of streams.entries()) {
          each.launchHostFunc(() => {
            try {
              streams[index + 1]?.synchronize()
            } catch (error) {
              codes.push(codeOf(error))
            }
            done += 1
          })
        }
        device.synchronize()
        assert.equal(done, streams.length)
        // With another seed one in the middle may be the first.
        if (seed === 0) assert.deepEqual(codes, more === 0 ? [] : ['ERR_DEADLOCK'])
      }
    })

    it('do not run what stands in the middle of a full queue, whose first operation is what makes room', () => {
      const { stream } = open()
      const [a, middle, full] = [stream(), stream(), stream()]
      const codes: unknown[] = []
      a.launchHostFunc(() => {
        middle.launchHostFunc(() => {
          try {
            a.synchronize()
            codes.push('waited')
          } catch (error) {
            codes.push(codeOf(error))
          }
        })
        busy(full, 1_000_000)
        full.wait(middle)
        for (let left = QUEUE; left > 0; left -= 1) busy(full, 0)
      })
      a.synchronize()
      full.synchronize()
      assert.deepEqual(codes, ['waited'])
    })

    it('let time go on before they run what no wait is known to need', () => {
      const simulation = simulate({ seed })
      const device = deviceOf(simulation)
      const [a, held, opens, other] = Array.from({ length: 4 }, () => new Stream({ device })) as [
        Stream,
        Stream,
        Stream,
        Stream,
      ]
      const latched = latch(held)
      const idle: boolean[] = []
      a.launchHostFunc(() => {
        busy(other, 1_000_000)
        opens.launchHostFunc(() => {
          idle.push(other.query())
          latched.open()
        })
        held.synchronize()
      })
      a.synchronize()
      assert.deepEqual(idle, [true])
    })
  })

  describe(`several simulations, seed ${seed}`, () => {
    const pair = (): [Simulation, Simulation] => [simulate({ seed }), simulate({ seed })]

    it('go on where one waits for what a host function of the other does', () => {
      const [one, other] = pair()
      const held = new Stream({ device: deviceOf(one) })
      const opens = new Stream({ device: deviceOf(other) })
      const latched = latch(held)
      busy(opens, 1_000_000)
      opens.launchHostFunc(() => latched.open())
      held.synchronize()
      assert.equal(other.now >= 1_000_000, true)
    })

    it('do so inside a host function too', () => {
      const [one, other] = pair()
      const [a, held] = [new Stream({ device: deviceOf(one) }), new Stream({ device: deviceOf(one) })]
      const opens = new Stream({ device: deviceOf(other) })
      const latched = latch(held)
      opens.launchHostFunc(() => latched.open())
      let waited = false
      a.launchHostFunc(() => {
        held.synchronize()
        waited = true
      })
      a.synchronize()
      assert.equal(waited, true)
    })

    it('leave the other alone where it has no host function that could help', () => {
      const [one, other] = pair()
      const held = new Stream({ device: deviceOf(one) })
      const stream = new Stream({ device: deviceOf(other) })
      const latched = latch(held)
      busy(stream, 1_000_000)
      const before = other.now
      assert.throws(() => held.synchronize(), { code: 'ERR_DEADLOCK' })
      assert.equal(other.now, before)
      latched.open()
    })

    it('do not run a host function of the one inside that of the other, unless it is waited for', async () => {
      const [one, other] = pair()
      const a = new Stream({ device: deviceOf(one) })
      const [c, q] = [new Stream({ device: deviceOf(other) }), new Stream({ device: deviceOf(other) })]
      const order: string[] = []
      busy(q, 1_000_000)
      a.launchHostFunc(() => {
        c.launchHostFunc(() => {
          a.synchronize()
          order.push('c')
        })
        q.synchronize()
        order.push('a')
      })
      a.synchronize()
      await c.finished()
      assert.deepEqual(order, ['a', 'c'])
    })
  })
}
