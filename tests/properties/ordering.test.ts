/** What CUDA promises of order holds on the simulator for every program and every seed, and what it does not, does not. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { type Device, Stream, type StreamOptions } from 'cuda-streams'
import { busy, latch, type Simulation, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { runs } from '../helpers/effort.js'
import { brokenRule, programs, promisesOf, runProgram, type StreamKind } from './ordered-play.js'

/** Of fast-check: which programs are tried. CUDA_STREAMS_TEST_SEED tries others. */
const SEED = Number(process.env['CUDA_STREAMS_TEST_SEED'] ?? 20_251_120)
const RUNS = runs({ quick: 100, normal: 100, nightly: 1000 })
const SEEDS = 200
/** Programs that are tried with each of these seeds. */
const FEW = runs({ quick: 8, normal: 8, nightly: 50 })
/** Seeds of the simulator; 0 is the natural order. */
const simulationSeed = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
const title = (what: string): string => `${what} (fast-check seed ${SEED})`
const parameters = { seed: SEED, numRuns: RUNS }
const timeout = 120_000
const ANY: readonly StreamKind[] = ['nonBlocking', 'blocking', 'null']

describe('order', { timeout }, () => {
  for (const [among, kinds] of [
    ['non-blocking streams', ['nonBlocking']],
    ['blocking streams without the null stream', ['blocking']],
    ['streams of every kind, the null stream among them', ANY],
  ] as const) {
    it(title(`host functions run in stream order, and as events say, on ${among}`), async () => {
      await fc.assert(
        fc.asyncProperty(programs(kinds), simulationSeed, async (program, seed) => {
          assert.equal(brokenRule(promisesOf(program), await runProgram(program, seed)), undefined)
        }),
        parameters,
      )
    })
  }

  it(title('one seed gives one run, to the nanosecond'), async () => {
    await fc.assert(
      fc.asyncProperty(programs(ANY), simulationSeed, async (program, seed) => {
        assert.deepEqual(await runProgram(program, seed), await runProgram(program, seed))
      }),
      parameters,
    )
  })

  it(title(`${SEEDS} seeds respect the order of one program`), async () => {
    await fc.assert(
      fc.asyncProperty(programs(ANY), async (program) => {
        const promised = promisesOf(program)
        for (let seed = 0; seed < SEEDS; seed += 1) {
          assert.equal(brokenRule(promised, await runProgram(program, seed)), undefined, `seed ${seed}`)
        }
      }),
      { seed: SEED, numRuns: FEW },
    )
  })

  it('a wait of the null stream for an event that was never recorded orders nothing, and nothing is promised of it', async () => {
    const program = {
      streams: ['blocking', 'null', 'blocking'] as const,
      steps: [
        { what: 'host', stream: 0 },
        { what: 'wait', stream: 1, event: 0 },
        { what: 'host', stream: 2 },
      ] as const,
      blockingly: true,
    }
    assert.deepEqual(
      promisesOf(program).map(({ after }) => [...after]),
      [[], []],
    )
    const orders = await ordersOf(async (seed) => (await runProgram(program, seed)).map(({ step }) => step))
    assert.equal(orders.size, 2)
  })

  it(title('where nothing promises an order, some seed of a few hundred turns it round'), async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(20_000), fc.nat(20_000), fc.boolean(), async (first, second, blockingly) => {
        const program = {
          streams: ['nonBlocking', 'nonBlocking'] as const,
          steps: [
            { what: 'busy', stream: 0, nanoseconds: first },
            { what: 'host', stream: 0 },
            { what: 'busy', stream: 1, nanoseconds: second },
            { what: 'host', stream: 1 },
          ] as const,
          blockingly,
        }
        const orders = await ordersOf(async (seed) => (await runProgram(program, seed)).map(({ step }) => step))
        assert.deepEqual([...orders].toSorted(), ['1,3', '3,1'])
      }),
      { seed: SEED, numRuns: 20 },
    )
  })
})

/** The orders that the seeds give, until both of two are there: then no other can come. */
async function ordersOf(run: (seed: number) => Promise<readonly unknown[]>): Promise<Set<string>> {
  const orders = new Set<string>()
  for (let seed = 0; seed < SEEDS && orders.size < 2; seed += 1) orders.add((await run(seed)).join())
  return orders
}

describe('a missing wait', { timeout }, () => {
  type Wait = (producer: Stream, consumer: Stream) => void
  const withEvent: Wait = (producer, consumer) => void consumer.wait(producer.record())
  const withStream: Wait = (producer, consumer) => void consumer.wait(producer)
  const tooEarly: Wait = (producer, consumer) => {
    const event = producer.device.createEvent()
    consumer.wait(event)
    producer.record(event)
  }

  const produceAndConsume = async (seed: number, nanoseconds: number, wait?: Wait): Promise<readonly string[]> => {
    using simulation = simulate({ seed })
    const [device] = simulation.devices
    const [producer, consumer] = [new Stream({ device }), new Stream({ device })]
    const seen: string[] = []
    busy(producer, nanoseconds)
    producer.launchHostFunc(() => seen.push('produced'))
    wait?.(producer, consumer)
    consumer.launchHostFunc(() => seen.push('consumed'))
    await consumer.finished()
    await producer.finished()
    return seen
  }

  for (const [how, wait] of [
    ['no wait', undefined],
    ['a wait for an event that is recorded only later', tooEarly],
  ] as const) {
    for (const nanoseconds of [0, 1_000]) {
      it(`with ${how}, and ${nanoseconds} ns of work, some seed of ${SEEDS} shows the wrong order`, async () => {
        const orders = await ordersOf((seed) => produceAndConsume(seed, nanoseconds, wait))
        assert.ok(orders.has('consumed,produced'), [...orders].join(' | '))
      })
    }
  }

  it(`can stay unseen in the natural order, and does not over ${SEEDS} seeds`, async () => {
    assert.deepEqual(await produceAndConsume(0, 0), ['produced', 'consumed'])
    const orders = await ordersOf((seed) => produceAndConsume(seed, 0))
    assert.equal(orders.size, 2)
  })

  for (const [how, wait] of [
    ['an event', withEvent],
    ['a stream', withStream],
  ] as const) {
    it(`with a wait for ${how}, no seed of ${SEEDS} does`, async () => {
      for (const nanoseconds of [0, 1_000, 1_000_000]) {
        const orders = await ordersOf((seed) => produceAndConsume(seed, nanoseconds, wait))
        assert.deepEqual([...orders], ['produced,consumed'])
      }
    })
  }
})

describe('the null stream', { timeout }, () => {
  for (const seed of [0, 7]) describe(`seed ${seed}`, () => nullStreamRules(seed))
})

function nullStreamRules(seed: number): void {
  let simulation: Simulation | undefined
  const machine = (): { device: Device; other: Device; make: (options?: StreamOptions) => Stream } => {
    simulation = simulate({ seed, devices: 2 })
    const [device, other] = simulation.devices
    if (device === undefined || other === undefined) throw new Error('it has two devices')
    return { device, other, make: (options) => new Stream({ device, ...options }) }
  }
  // What still stands at a latch would keep the process alive.
  afterEach(() => simulation?.close())

  /** Which of the streams have their work done, after as much waiting as brings anything. */
  const done = async (streams: readonly Stream[]): Promise<boolean[]> => {
    const ran = streams.map(() => false)
    streams.forEach((stream, index) => {
      stream.launchHostFunc(() => {
        ran[index] = true
      })
    })
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    return ran
  }

  it('waits for the earlier work of all blocking streams, and for no non-blocking one', async () => {
    const { device, make } = machine()
    const [blocking, nonBlocking] = [make({ nonBlocking: false }), make()]
    latch(nonBlocking)
    assert.deepEqual(await done([device.defaultStream]), [true])
    const held = latch(blocking)
    assert.equal(device.defaultStream.query(), false)
    assert.deepEqual(await done([device.defaultStream]), [false])
    held.open()
    assert.deepEqual(await done([device.defaultStream]), [true])
  })

  it('holds up the later work of blocking streams, and of no non-blocking one', async () => {
    const { device, make } = machine()
    const [blocking, nonBlocking] = [make({ nonBlocking: false }), make()]
    const perThread = device.run(() => Stream.perThread)
    const held = latch(device.defaultStream)
    assert.deepEqual(await done([blocking, perThread, nonBlocking]), [false, false, true])
    held.open()
    assert.deepEqual(await done([blocking, perThread]), [true, true])
  })

  it('does not hold up what a blocking stream had before', async () => {
    const { device, make } = machine()
    const [first, second] = [make({ nonBlocking: false }), make({ nonBlocking: false })]
    const seen: string[] = []
    first.launchHostFunc(() => seen.push('earlier'))
    const earlier = first.record()
    const held = latch(device.defaultStream)
    second.launchHostFunc(() => seen.push('later'))
    await earlier.finished()
    assert.deepEqual(seen, ['earlier'])
    held.open()
    await second.finished()
    assert.deepEqual(seen, ['earlier', 'later'])
  })

  it('carries a wait from one blocking stream to another, and none without work of its own', async () => {
    const { device, make } = machine()
    const blocking = { nonBlocking: false }
    const [first, second, third] = [make(blocking), make(blocking), make(blocking)]
    const held = latch(first)
    assert.deepEqual(await done([second]), [true])
    busy(device.defaultStream, 10)
    assert.deepEqual(await done([second, third]), [false, false])
    held.open()
    assert.deepEqual(await done([second, third]), [true, true])
  })

  it('keeps to its own device', async () => {
    const { device, other, make } = machine()
    latch(make({ nonBlocking: false }))
    assert.deepEqual(await done([device.defaultStream, other.defaultStream]), [false, true])
  })

  it('is waited for by synchronize() and finished() with all blocking streams', async () => {
    const { device, make } = machine()
    const blocking = make({ nonBlocking: false })
    let ran = 0
    const count = (): void => {
      ran += 1
    }
    busy(blocking, 1_000)
    blocking.launchHostFunc(count)
    device.defaultStream.synchronize()
    assert.equal(ran, 1)
    blocking.launchHostFunc(count)
    await device.defaultStream.finished()
    assert.equal(ran, 2)
  })
}
