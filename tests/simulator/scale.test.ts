/** The simulator at scale: bounded memory, and work that grows with the operations and not with the streams. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { ExternalStream, Stream } from 'cuda-streams'
import { busy, foreignStream, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { Heap } from '../../src/simulator/machine/heap.js'
import { SimOperation } from '../../src/simulator/machine/machine-state.js'
import { Queue } from '../../src/simulator/machine/queue.js'
import type { Steps } from '../../src/simulator/machine/scheduler.js'
import { TimedScheduler } from '../../src/simulator/machine/timed-scheduler.js'
import { SimOperationKind } from '../../src/simulator/machine/work.js'
import { SimDriver } from '../../src/simulator/sim-driver.js'
import { collectUntil } from '../conformance/expect.js'

const MEGABYTE = 2 ** 20

async function heapNow(): Promise<number> {
  global.gc?.()
  // The test runner watches all async resources, and lets go of those that are gone only now.
  await setImmediate()
  global.gc?.()
  return process.memoryUsage().heapUsed
}

describe('a long program', () => {
  it('keeps nothing of the operations that are over', async (t) => {
    if (global.gc === undefined) return t.skip('needs --expose-gc')
    using simulation = simulate({ seed: 3 })
    const [device] = simulation.devices
    assert.ok(device)
    const streams = Array.from({ length: 32 }, (_, index) => new Stream({ device, nonBlocking: index % 2 === 0 }))
    const buffers = streams.map(() => device.alloc(4))
    const event = device.createEvent()
    const go = (operations: number): void => {
      for (let nth = 0; nth < operations; nth += 5) {
        const stream = streams[nth % 32] as Stream
        stream.fill(buffers[nth % 32] as never, 1)
        stream.record(event)
        ;(streams[(nth + 7) % 32] as Stream).wait(event)
        busy(stream, 100)
        stream.launchHostFunc(() => {})
      }
      device.synchronize()
    }
    const rounds: number[] = []
    for (let round = 0; round < 4; round += 1) {
      const before = await heapNow()
      go(100_000)
      rounds.push(((await heapNow()) - before) / MEGABYTE)
    }
    // What is compiled meanwhile takes memory too, but not in every round; what is kept does.
    assert.ok(
      Math.min(...rounds) < 0.5,
      `MiB more after each 100 000 operations: ${rounds.map((each) => each.toFixed(2))}`,
    )
  })

  it('V4 can have a hundred thousand simulations at a time, and any number one after the other', async () => {
    const pointerOfNew = (): bigint => simulate().devices[0]?.alloc(1).pointer ?? 0n
    const pointers = Array.from({ length: 100 }, pointerOfNew)
    const [first = 0n, last = 0n] = [pointers[0], pointers.at(-1)]
    assert.ok(first > 0n && last > first, `0x${first.toString(16)} comes before 0x${last.toString(16)}`)
    const highest = first + 1_000n * (last - first)
    assert.ok(highest < 2n ** 47n, `0x${highest.toString(16)} is no address of user space`)
    const seen = new Set(pointers)
    assert.ok(
      await collectUntil(() => {
        const pointer = pointerOfNew()
        return seen.has(pointer) || !seen.add(pointer)
      }),
      'an address is used again once its simulation was collected',
    )
  })

  it('V4 has handles in its last simulation that are as good as in its first', () => {
    const simulations = Array.from({ length: 100 }, () => simulate())
    for (const { devices } of [simulations[0], simulations.at(-1)].filter((each) => each !== undefined)) {
      const [device] = devices
      assert.ok(device)
      using wrapper = new ExternalStream(foreignStream(device), { device })
      wrapper.synchronize()
    }
  })
})

/** What operations come after, counted. */
class Counting extends TimedScheduler {
  override readonly explores = true
  operations = 0
  predecessors = 0

  override over(operation: SimOperation): void {
    this.operations += 1
    this.predecessors += operation.after.length
    super.over(operation)
  }
}

describe('many streams', () => {
  /** Rounds over blocking streams, with something on the null stream in between, and a wait for the device. */
  function predecessorsPerOperation(count: number): number {
    let counting: Counting | undefined
    const scheduler = (steps: Steps): Counting => {
      counting = new Counting(steps, 0)
      return counting
    }
    const driver = new SimDriver({ devices: 1, seed: 0, scheduler })
    const context = driver.devices.context(0)
    const nullStream = driver.streams.wrap(0, 0).stream
    const streams = Array.from({ length: count }, () => driver.streams.create(context, 0, 0))
    for (let round = 0; round < 5; round += 1) {
      for (const stream of streams) driver.queue.enqueue(stream, SimOperationKind.KERNEL, 100)
      driver.queue.enqueue(nullStream, SimOperationKind.KERNEL, 100)
      driver.devices.synchronize(0)
      for (let nth = 0; nth < count; nth += 1) driver.devices.synchronize(0)
    }
    assert.ok(counting)
    assert.ok(counting.operations >= 5 * count)
    return counting.predecessors / counting.operations
  }

  it('do not make an operation wait for more, nor a wait look at idle streams', () => {
    const [few, many] = [predecessorsPerOperation(10), predecessorsPerOperation(2_000)]
    assert.ok(many < few + 0.5, `${few} predecessors an operation with 10 streams, ${many} with 2000`)
  })

  /** How often an operation is asked for its effect, for each of a program whose streams and host functions race for memory. */
  function looksPerOperation(count: number): number {
    const owesEffect = Object.getOwnPropertyDescriptor(SimOperation.prototype, 'owesEffect')
    assert.ok(owesEffect?.get)
    let looks = 0
    function counted(this: SimOperation): boolean {
      looks += 1
      return owesEffect?.get?.call(this) === true
    }
    Object.defineProperty(SimOperation.prototype, 'owesEffect', { ...owesEffect, get: counted })
    try {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      const streams = Array.from({ length: 8 }, () => new Stream({ device }))
      const buffers = streams.map(() => device.alloc(4))
      const event = device.createEvent()
      for (let nth = 0; nth < count; nth += 6) {
        const [stream, other] = [streams[nth % 8] as Stream, streams[(nth + 3) % 8] as Stream]
        stream.copy(buffers[nth % 8] as never, buffers[(nth + 1) % 8] as never)
        stream.fill(buffers[(nth + 5) % 8] as never, 1)
        busy(stream, 5_000)
        stream.launchHostFunc(() => {})
        stream.record(event)
        other.wait(event)
      }
      device.synchronize()
    } finally {
      Object.defineProperty(SimOperation.prototype, 'owesEffect', owesEffect)
    }
    return looks / count
  }

  it('that race for memory cost each host function a look at the first of each stream, and no more where more is queued', () => {
    const [few, many] = [looksPerOperation(3_000), looksPerOperation(24_000)]
    assert.ok(many < 30, `${few} looks an operation in a program of 3 000, ${many} in one of 24 000`)
  })

  it('cost a logarithm of comparisons each time that the next operation is looked for', () => {
    const comparisons = (size: number): number => {
      let count = 0
      const heap = new Heap<number>((a, b) => {
        count += 1
        return a < b
      })
      for (let nth = 0; nth < size; nth += 1) heap.push((nth * 7919) % size)
      for (let nth = 0; nth < size; nth += 1) assert.equal(heap.shift(), nth)
      return count / size
    }
    assert.ok(comparisons(8_191) < 4 * Math.log2(8_191))
    assert.ok(comparisons(65_537) < 4 * Math.log2(65_537))
  })
})

describe('a queue', () => {
  it('gives what was put in, in that order', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat()), { maxLength: 3_000, size: 'max' }), (steps) => {
        const queue = new Queue<number>()
        const model: number[] = []
        for (const step of steps) {
          if (step === null) assert.equal(queue.shift(), model.shift())
          else model.push(step) && queue.push(step)
          assert.equal(queue.length, model.length)
        }
        assert.deepEqual([...queue], model)
      }),
      { numRuns: 50 },
    )
  })

  it('gives what is wanted from the middle, and leaves the rest in order', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { maxLength: 200 }), (steps) => {
        const queue = new Queue<number>()
        const model: number[] = []
        for (const step of steps) {
          if (step > 0) model.push(step) && queue.push(step)
          else {
            const at = model.indexOf(-step)
            const taken = queue.take((item) => item === -step)
            assert.equal(taken, at < 0 ? undefined : model.splice(at, 1)[0])
          }
          assert.deepEqual([...queue], model)
        }
      }),
    )
  })
})
