/**
 * In random programs whose driver calls fail now and then, each at random, every error is one that the library documents: no call
 * throws an error of the inside, and none surfaces elsewhere.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  CudaError,
  type Device,
  type DeviceBuffer,
  defineKernel,
  type Event,
  type GraphExec,
  type PinnedBuffer,
  type Stream,
} from 'cuda-streams'
import { latch, simulate } from 'cuda-streams/sim'
import { collectingUncaught } from '../../src/foundation/base/uncaught.js'
import { FAILING_CALLS } from '../../src/simulator/machine/fault-plan.js'
import { Random } from '../../src/simulator/machine/random.js'
import { turns } from '../conformance/expect.js'
import { runs } from '../helpers/effort.js'

type Memory = DeviceBuffer | PinnedBuffer

const PROGRAMS = runs({ quick: 60, normal: 300, nightly: 3000 })
const STEPS = 120
/** Out of memory, an invalid handle, and an error that nobody knows. */
const RESULTS = [2, 400, 999]
const SHAPE = { grid: 1, block: 16 }

const addInJavaScript = defineKernel({
  name: 'add',
  source:
    'extern "C" __global__ void add(unsigned char* to, const unsigned char* from) { to[threadIdx.x] += from[threadIdx.x]; }',
  signature: ['inout u8*', 'in u8*'],
  simulate: ({ globalX }, to, from) => (to[globalX] = (to[globalX] ?? 0) + (from[globalX] ?? 0)),
})

/** Its code runs, and is compared with the JavaScript. */
const addInBoth = defineKernel({
  name: 'add',
  ptx: `.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u64 from) {
  .reg .b64 %rd<5>; .reg .b16 %rs<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  mov.u32 %r1, %tid.x; cvt.u64.u32 %rd3, %r1;
  add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
  ld.global.u8 %rs1, [%rd1]; ld.global.u8 %rs2, [%rd2];
  add.u16 %rs3, %rs1, %rs2; st.global.u8 [%rd1], %rs3;
  ret;
}`,
  signature: ['inout u8*', 'in u8*'],
  simulate: ({ globalX }, to, from) => (to[globalX] = (to[globalX] ?? 0) + (from[globalX] ?? 0)),
  runs: 'both',
})

const isDocumented = (error: unknown): boolean =>
  error instanceof CudaError || (error instanceof Error && /^ERR_/.test(String(Reflect.get(error, 'code'))))

describe('driver calls that fail at random', () => {
  for (let first = 0; first < PROGRAMS; first += PROGRAMS / 10) {
    it(`end in documented errors, programs from ${first} on`, async () => {
      for (let seed = first; seed < first + PROGRAMS / 10; seed += 1) {
        const strange: unknown[] = []
        const note = (error: unknown): void => void (isDocumented(error) || strange.push(error))
        await collectingUncaught(
          (error) => strange.push(error),
          () => play(seed, note),
        )
        assert.deepEqual(strange, [], `program ${seed}`)
      }
    })
  }
})

describe('a launch whose memory is freed before it runs, since the record behind it was refused', () => {
  /** The launch waits, the memory of its argument is freed meanwhile, and `then` runs before it goes on. */
  async function freedEarly(kernel: typeof addInJavaScript, then: (device: Device) => void) {
    const simulation = simulate()
    const [device] = simulation.devices as readonly [Device]
    const [owner, other] = [device.createStream(), device.createStream()]
    const [whole, from] = [device.alloc(96, { stream: owner }), device.alloc(16, { stream: other })]
    other.wait(owner).fill(from, 1)
    const closed = latch(other)
    simulation.inject({ call: 'cuEventRecord', result: 999 })
    assert.throws(() => other.launch(kernel, SHAPE, whole.subarray(16, 32), from), { number: 999 })
    whole.close()
    owner.synchronize()
    then(device)
    closed.open()
    const uncaught: unknown[] = []
    await collectingUncaught(
      (error) => uncaught.push(error),
      () => other.finished(),
    )
    assert.deepEqual(uncaught, [])
  }

  it('works on poison', () => freedEarly(addInJavaScript, () => {}))

  for (const [name, kernel] of Object.entries({ JavaScript: addInJavaScript, code: addInBoth })) {
    it(`is a fault where other memory has its address: ${name}`, () =>
      assert.rejects(
        freedEarly(kernel, (device) => void Array.from({ length: 8 }, () => device.alloc(16))),
        { number: 700 },
      ))
  }
})

/** Plays a program of this seed on a machine of its own. `note` is called with each error that a call has thrown. */
async function play(seed: number, note: (error: unknown) => void): Promise<void> {
  const random = new Random(7919 * (seed + 1))
  const below = (count: number): number => Math.floor(random.next() * count)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] ?? assert.fail('nothing to pick from')
  const attempt = <R>(act: () => R): R | undefined => {
    try {
      const value = act()
      if (value instanceof Promise) value.catch(note)
      return value
    } catch (error) {
      note(error)
      return undefined
    }
  }

  const simulation = simulate({ seed: seed % 5, memory: 2 ** 28 })
  for (const call of FAILING_CALLS) {
    simulation.inject({ call, probability: 0.02 + below(10) / 100, result: pick(RESULTS), times: Infinity })
  }
  const [device] = simulation.devices as readonly [Device]
  const streams: Stream[] = []
  const memory: Memory[] = []
  const events: Event[] = []
  const instances: GraphExec[] = []
  const keep = <T>(list: T[], made: T | undefined): void => void (made !== undefined && list.push(made))
  const takeOut = <T>(list: T[]): T | undefined => list.splice(below(list.length), 1)[0]
  const part = (whole: Memory): Memory => (below(3) === 0 ? whole : whole.subarray(16 * below(2), 16 * (2 + below(3))))
  const launch = (stream: Stream): void => {
    const to = pick(memory)
    // Threads that read what others write have no certain result.
    const from = pick(memory.filter((each) => each !== to))
    stream.launch(pick([addInJavaScript, addInBoth]), SHAPE, part(to), part(from))
  }

  const steps: readonly (() => unknown)[] = [
    () => keep(streams, device.createStream({ nonBlocking: below(2) === 1 })),
    () => keep(memory, device.alloc(64 + 16 * below(8), { stream: pick(streams) })),
    () => keep(memory, below(2) === 0 ? device.allocPinned(64 + 16 * below(4)) : device.alloc(64)),
    () => memory.length > 3 && takeOut(memory)?.close(),
    () => pick(streams).fill(part(pick(memory)), below(256)),
    () => launch(pick(streams)),
    () => launch(pick(streams)),
    () => launch(pick(streams)),
    () => pick(streams).copy(pick(memory).subarray(0, 32), pick(memory).subarray(32, 64)),
    () => pick(streams).wait(pick(streams)),
    () => keep(events, pick(streams).record()),
    () => events.length > 0 && pick(streams).wait(pick(events)),
    () => pick(streams).launchHostFunc(() => {}),
    () => pick(streams).download(part(pick(memory))),
    () => {
      const stream = pick(streams)
      keep(instances, stream.capture(() => launch(stream.fill(pick(memory), 1))).instantiate())
    },
    () => instances.length > 0 && pick(instances).launch(pick(streams)),
    () => streams.length > 2 && takeOut(streams)?.close(),
    () => pick(streams).query(),
    () => pick(streams).synchronize(),
    () => device.finished(),
  ]
  for (let step = 0; step < STEPS; step += 1) {
    if (streams.length === 0) attempt(() => keep(streams, device.createStream()))
    else if (memory.length < 2) attempt(() => keep(memory, device.alloc(96)))
    else attempt(pick(steps))
    if (below(60) === 0) await turns()
  }
  await turns()
  for (const each of [...instances, ...memory, ...events, ...streams]) attempt(() => each.close())
  await turns()
  attempt(() => simulation[Symbol.dispose]())
}
