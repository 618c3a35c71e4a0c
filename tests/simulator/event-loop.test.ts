/**
 * The event loop turns while the simulated GPU computes, and what a program does in such a turn meets a legal state. The library's clock goes on by
 * itself here, so that slices of time end after so many looks at it, however fast the machine is.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type Device, type DeviceBuffer, defineKernel, Module, Stream } from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { type Simulation, simulate } from 'cuda-streams/sim'
import { clock } from '../../src/foundation/base/event-loop.js'

/** A kernel (f32* x, u32 turns): each thread multiplies its element so many times. */
const PTX = `.version 8.0
.target sm_80
.address_size 64
.visible .entry grow(.param .u64 x, .param .u32 turns)
{
.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [turns];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.s32 %r2, %r3, %r4, %r2;
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r5, [%rd1]; mov.u32 %r6, 0;
L: mad.lo.u32 %r5, %r5, 3, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, %r1; @%p bra L;
st.global.u32 [%rd1], %r5; ret;
}
.visible .entry fault(.param .u64 x, .param .u32 turns)
{
.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u32 %r1, [turns]; mov.u32 %r6, 0;
L: add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, %r1; @%p bra L;
mov.u64 %rd1, 16; st.global.u32 [%rd1], %r6; ret;
}
`
const THREADS = 256
const TURNS = 50_000
/** What a thread makes of its element. */
const grown = (element: number, turns = TURNS): number => {
  let value = element
  for (let nth = 0; nth < turns; nth += 1) value = (Math.imul(value, 3) + 1) >>> 0
  return value
}

interface Scene {
  readonly simulation: Simulation
  readonly device: Device
  readonly stream: Stream
  readonly data: DeviceBuffer
  launch(on?: Stream, data?: DeviceBuffer, turns?: number): void
  launchFault(): void
}

function open(seed: number): Scene {
  const simulation = simulate({ seed })
  const [device] = simulation.devices
  assert.ok(device)
  const stream = new Stream({ device })
  const module = Module.load(PTX, { device })
  const [grow, fault] = (['grow', 'fault'] as const).map((name) => module.kernel(name, ['inout u32*', 'u32']))
  assert.ok(grow && fault)
  const data = device.alloc(4 * THREADS, { stream })
  stream.fill(data, 0)
  return {
    simulation,
    device,
    stream,
    data,
    launch: (on = stream, to = data, turns = TURNS) => void on.launch(grow, { grid: 2, block: THREADS / 2 }, to, turns),
    launchFault: () => void stream.launch(fault, { grid: 1, block: 1 }, data, 3_000_000),
  }
}

/** Counts the turns of the event loop until a promise is settled. */
async function turnsUntil(promise: Promise<unknown>): Promise<number> {
  let [turns, isOver] = [0, false]
  const over = (): void => {
    isOver = true
  }
  promise.then(over, over)
  for (; !isOver; turns += 1) await turn()
  return turns
}

/** The different numbers in a buffer. */
async function numbersIn(stream: Stream, buffer: DeviceBuffer): Promise<ReadonlySet<number>> {
  const bytes = await stream.download(buffer)
  return new Set(new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4))
}

const MANY = 10

for (const seed of [0, 5]) {
  describe(`while the simulated GPU computes, with seed ${seed},`, () => {
    const { now } = clock
    let time = now()
    before(() => {
      clock.now = () => {
        time += 1
        return time
      }
    })
    after(() => {
      clock.now = now
    })

    it('the event loop turns, and the results are there at the end', async () => {
      const { simulation, stream, data, launch } = open(seed)
      launch()
      assert.ok((await turnsUntil(stream.finished())) > MANY)
      const numbers = await numbersIn(stream, data)
      assert.deepEqual(numbers, new Set([grown(0)]))
      simulation.close()
    })

    it('a wait can be given up, and the work goes on', async () => {
      const { simulation, stream, data, launch } = open(seed)
      launch()
      const controller = new AbortController()
      const wait = stream.finished({ signal: controller.signal })
      for (let nth = 0; nth < 3; nth += 1) await turn()
      controller.abort()
      await assert.rejects(wait, { name: 'AbortError' })
      assert.equal(stream.query(), false, 'the work is not over yet')
      assert.ok((await turnsUntil(stream.finished())) > 0)
      assert.deepEqual(await numbersIn(stream, data), new Set([grown(0)]))
      simulation.close()
    })

    it('queries say that it is not over, and end without a turn of the event loop', () => {
      const { simulation, stream, launch } = open(seed)
      launch()
      const event = stream.record()
      let queries = 0
      for (; !event.query(); queries += 1) assert.ok(queries < 1_000_000)
      assert.ok(queries > MANY, `only ${queries} queries`)
      assert.equal(stream.query(), true)
      simulation.close()
    })

    it('virtual time is that of a computation at once, whatever the program calls meanwhile', async () => {
      const times = [false, true].map(async (calls) => {
        const { simulation, device, stream, launch } = open(seed)
        const other = new Stream({ device })
        launch()
        const behind = stream.record()
        const wait = stream.finished()
        for (let nth = 0; nth < 3; nth += 1) await turn()
        const before = simulation.now
        for (let nth = 0; nth < 50 && calls; nth += 1) other.query()
        assert.equal(simulation.now, before + (calls ? 50 * 100 : 0), 'each call takes its 100 ns')
        await wait
        assert.equal(behind.query(), true)
        simulation.close()
      })
      await Promise.all(times)
    })

    it('whoever waits by blocking gets all at once', async () => {
      const { simulation, stream, data, launch } = open(seed)
      launch()
      const wait = stream.finished()
      for (let nth = 0; nth < 3; nth += 1) await turn()
      stream.synchronize()
      assert.equal(stream.query(), true)
      await wait
      assert.deepEqual(await numbersIn(stream, data), new Set([grown(0)]))
      simulation.close()
    })

    it('more is queued behind it, and beside it', async () => {
      const { simulation, device, stream, data, launch } = open(seed)
      const other = new Stream({ device })
      const own = device.alloc(4 * THREADS, { stream: other })
      other.fill(own, 0)
      launch()
      const first = stream.finished()
      for (let nth = 0; nth < 3; nth += 1) await turn()
      launch()
      launch(other, own, 10)
      other.wait(stream)
      launch(other, data, 7)
      await first
      await other.finished()
      assert.deepEqual(await numbersIn(other, own), new Set([grown(0, 10)]))
      assert.deepEqual(await numbersIn(other, data), new Set([grown(0, 2 * TURNS + 7)]))
      simulation.close()
    })

    it('memory is freed, streams are closed, and captures are made', async () => {
      const { simulation, device, stream, data, launch } = open(seed)
      const other = new Stream({ device })
      launch()
      const wait = stream.finished()
      for (let nth = 0; nth < 3; nth += 1) await turn()
      const graph = other.capture(() => void other.fill(data, 1))
      const exec = graph.instantiate()
      data.close()
      device.alloc(1 << 20, { stream: other }).close()
      other.close()
      exec.close()
      stream.close()
      await wait
      simulation.close()
    })

    it('a fault is told to those who wait, and to nobody before', async () => {
      const { simulation, stream, launchFault, launch } = open(seed)
      launchFault()
      const wait = stream.finished()
      const told = wait.then(
        () => undefined,
        (error: unknown) => error,
      )
      assert.ok((await turnsUntil(told)) > MANY)
      assert.match(String(await told), /700|ILLEGAL_ADDRESS/)
      assert.throws(() => launch(), /700|ILLEGAL_ADDRESS/)
      simulation.close()
    })

    it('host functions run in their order', async () => {
      const { simulation, stream, launch } = open(seed)
      const order: string[] = []
      stream.launchHostFunc(() => void order.push('before'))
      launch()
      stream.launchHostFunc(() => void order.push('behind'))
      const wait = stream.finished().then(() => order.push('finished'))
      while (!order.includes('before')) await turn()
      for (let nth = 0; nth < 3; nth += 1) await turn()
      assert.deepEqual(order, ['before'])
      await wait
      assert.deepEqual(order, ['before', 'behind', 'finished'])
      simulation.close()
    })

    it('a simulation is closed, and none of it is left', async () => {
      const { simulation, stream, launch } = open(seed)
      launch()
      const wait = stream.finished()
      for (let nth = 0; nth < 3; nth += 1) await turn()
      simulation.close()
      await wait.catch(() => {})
    })

    it('what cannot be done in parts gives one warning, which names it', async () => {
      const { simulation, stream } = open(seed)
      const name = `slow${seed}`
      const simulateGrid = (): void => {
        time += 2500
      }
      const slow = defineKernel({ name, source: '', signature: [], simulateGrid })
      const warnings: string[] = []
      const listen = (warning: Error & { code?: string }): void =>
        void warnings.push(`${warning.code}: ${warning.message}`)
      process.on('warning', listen)
      for (let nth = 0; nth < 2; nth += 1) {
        stream.launch(slow, { grid: 1, block: 1 })
        await stream.finished()
      }
      process.off('warning', listen)
      assert.equal(warnings.length, 1)
      assert.match(
        warnings[0] ?? '',
        new RegExp(`^CUDA_STREAMS_EVENT_LOOP_HELD: .* for 2\\.5 s while it did all of 'kernel ${name}'`),
      )
      simulation.close()
    })

    for (const isOrdered of [true, false]) {
      it(`the sanitizer sees ${isOrdered ? 'that launches are in order' : 'the race of two launches'}, of which one comes between the parts of the other`, async () => {
        const { simulation, device, stream, data, launch } = open(seed)
        using sanitizer = Sanitizer.start({ device, mode: 'collect' })
        const other = new Stream({ device })
        const own = device.alloc(4 * THREADS, { stream: other })
        other.fill(own, 0)
        launch()
        const first = stream.finished()
        for (let nth = 0; nth < 3; nth += 1) await turn()
        launch(other, own, 10)
        other.synchronize()
        if (isOrdered) other.wait(stream)
        launch(other, data, 7)
        await Promise.all([first, other.finished()])
        assert.deepEqual(await numbersIn(other, own), new Set([grown(0, 10)]))
        assert.deepEqual(
          sanitizer.reports.map(({ kind }) => kind),
          isOrdered ? [] : ['race'],
        )
        simulation.close()
      })
    }

    it('rows let it turn, and long rows do', async () => {
      const { simulation, device, stream } = open(seed)
      for (const [rows, rowLength] of [
        [2, 2 ** 25],
        [2 ** 19, 64],
      ] as const) {
        const pitch = rowLength + 64
        const [from, to] = [0, 1].map(() => device.alloc(rows * pitch, { stream }))
        assert.ok(from && to)
        stream.fill(from, 1).fill(to, 2)
        stream.copy(to, from, { shape: [rows, rowLength], destinationStrides: [pitch], sourceStrides: [pitch] })
        assert.ok((await turnsUntil(stream.finished())) > 5)
        const bytes = await stream.download(to)
        assert.ok(bytes.every((byte, at) => byte === (at % pitch < rowLength ? 1 : 2)))
      }
      simulation.close()
    })

    it('a product of cuBLAS lets it turn, and is the one of a product at once', async () => {
      const { simulation, device, stream } = open(seed)
      const sizes = { m: 64, n: 16, k: 32, type: 'f32' } as const
      const numbers = (length: number): Float32Array => Float32Array.from({ length }, (_, at) => (at % 17) - 8)
      const [a, b] = [numbers(64 * 32), numbers(32 * 16)].map((each) => stream.bufferFrom(each))
      const [inParts, atOnce] = [0, 1].map(() => device.alloc(4 * 64 * 16, { stream }))
      assert.ok(a && b && inParts && atOnce)
      using cublas = new Cublas({ device: stream.device })
      cublas.gemm(stream, a, b, atOnce, sizes)
      stream.synchronize()
      cublas.gemm(stream, a, b, inParts, sizes)
      assert.ok((await turnsUntil(stream.finished())) > 5)
      assert.deepEqual(await stream.download(inParts), await stream.download(atOnce))
      simulation.close()
    })

    it('long copies and fills let it turn, too', async () => {
      const { simulation, device, stream } = open(seed)
      const large = device.alloc(2 ** 26, { stream })
      const copy = device.alloc(2 ** 26, { stream })
      stream.fill(large, 7).copy(copy, large)
      assert.ok((await turnsUntil(stream.finished())) > 2)
      const bytes = await stream.download(copy)
      assert.ok(bytes.every((byte) => byte === 7))
      simulation.close()
    })
  })
}
