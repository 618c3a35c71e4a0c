/** What the sanitizer and an exploration say of a program does not depend on what it closes, nor on the garbage collector. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, defineKernel, Event, Module, Stream, StreamPool } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore, replay, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'

const LENGTH = 64
const CRASH_PTX = `.version 8.0
.target sm_75
.address_size 64
.visible .entry crash()
{
  .reg .b64 %address;
  .reg .b32 %value;
  mov.b64 %address, 64;
  mov.b32 %value, 1;
  st.global.b32 [%address], %value;
  ret;
}`
/** Writes to an address that is no memory. */
const CRASH = defineKernel({ name: 'crash', ptx: CRASH_PTX, signature: [] })
const TAKES = defineKernel({
  name: 'takes',
  ptx: '.version 8.0\n.target sm_75\n.address_size 64\n.visible .entry takes(.param .u64 takes_0) { ret; }',
  signature: ['out u32*'],
})

/** A stream reads what another writes, without a wait. Beside that, memory of the first is used on the other, and may be closed. */
function program(device: Device, close: ((buffer: DeviceBuffer) => void) | undefined): Promise<Uint8Array> {
  const [a, b] = [new Stream({ device }), new Stream({ device })]
  const x = device.alloc(LENGTH, { stream: a })
  const [y, z] = [device.alloc(LENGTH, { stream: b }), device.alloc(LENGTH, { stream: b })]
  a.wait(b.fill(z, 1)).fill(x, 1)
  b.wait(a).fill(z, 2).copy(y, x)
  close?.(x)
  return a.download(z)
}

const WAYS = [undefined, (buffer: DeviceBuffer) => buffer.close()] as const

/** What is closed, and a call that uses it afterwards. */
const CLOSED: Readonly<Record<string, (device: Device) => readonly [closed: { close(): void }, use: () => unknown]>> = {
  'a stream': (device) => {
    const stream = new Stream({ device })
    return [stream, () => stream.fill(device.alloc(4), 1)]
  },
  'an event': (device) => {
    const event = new Event({ device })
    return [event, () => new Stream({ device }).record(event)]
  },
  'a buffer': (device) => {
    const buffer = device.alloc(4)
    return [buffer, () => new Stream({ device }).fill(buffer, 1)]
  },
  'a buffer of which a slice is used': (device) => {
    const buffer = device.alloc(4)
    const slice = buffer.subarray(1)
    return [buffer, () => new Stream({ device }).fill(slice, 1)]
  },
  'a buffer that is an argument of a kernel': (device) => {
    const buffer = device.alloc(4)
    return [buffer, () => new Stream({ device }).launch(TAKES, { grid: 1, block: 1 }, buffer)]
  },
  'a module': (device) => {
    const module = Module.load(CRASH_PTX, { device })
    const kernel = module.kernel('crash', [])
    return [module, () => new Stream({ device }).launch(kernel, { grid: 1, block: 1 })]
  },
  'a pool of streams': (device) => {
    const pool = new StreamPool({ device, size: 1 })
    return [pool, () => pool.tryTake()]
  },
}

describe('the error of a call with what was closed', () => {
  for (const [what, make] of Object.entries(CLOSED)) {
    it(`says where it was closed while a sanitizer runs, and not without one: ${what}`, () => {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      for (const isWatched of [true, false]) {
        const [closed, use] = make(device)
        const sanitizer = isWatched ? Sanitizer.start({ device }) : undefined
        closed.close()
        sanitizer?.stop()
        const message = isWatched ? /was closed at .*closes\.test\.[jt]s:\d+/ : /^(?!.*was closed at)/
        assert.throws(use, { code: 'ERR_CLOSED', message })
      }
    })
  }
})

describe('a close', () => {
  it('hides no race from the sanitizer', async () => {
    const found: string[][] = []
    for (const close of WAYS) {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      using sanitizer = Sanitizer.start({ device, mode: 'collect' })
      await program(device, close)
      await device.finished()
      found.push(sanitizer.reports.map(({ kind }) => kind))
    }
    assert.deepEqual(found, [['race'], ['race']])
  })

  it('is no race where the uses of the memory were not waited for', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device, mode: 'collect' })
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const x = device.alloc(LENGTH, { stream: a })
    b.wait(a.fill(x, 1)).fill(x, 2)
    x.close()
    // What is given the memory next comes after its uses.
    using next = device.alloc(LENGTH, { stream: a })
    a.fill(next, 3)
    await device.finished()
    assert.deepEqual(sanitizer.reports, [])
  })

  it('is no race behind a fault, which alone is reported', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device, mode: 'collect' })
    const stream = new Stream({ device })
    const x = device.alloc(LENGTH, { stream })
    const bytes = stream.launch(CRASH, { grid: 1, block: 1 }).download(x)
    x.close()
    // With the stream go the pinned chunks through which its downloads come.
    stream.close()
    await assert.rejects(bytes, { code: 'CUDA_ERROR_ILLEGAL_ADDRESS' })
    await assert.rejects(device.finished(), { code: 'CUDA_ERROR_ILLEGAL_ADDRESS' })
    assert.deepEqual(sanitizer.reports, [])
  })

  it('is at the same place of each run with the same seed', async () => {
    const runs: unknown[] = []
    for (const seed of [0, 0, 5, 5]) {
      using simulation = simulate({ seed })
      const [device] = simulation.devices
      assert.ok(device)
      const timeline = Timeline.start({ simulation })
      for (let round = 0; round < 4; round += 1) await program(device, WAYS[1])
      await device.finished()
      const { operations } = await timeline.stop()
      runs.push(operations.map(({ name, start, end }) => [name, start, end]))
    }
    assert.deepEqual(runs[1], runs[0])
    assert.deepEqual(runs[3], runs[2])
  })

  it('hides no race from an exploration, which plays it again', async () => {
    for (const close of WAYS) {
      const explored = async ({ devices: [device] }: { readonly devices: readonly Device[] }): Promise<unknown> => {
        assert.ok(device)
        return (await program(device, close))[0]
      }
      const { verdict, disagreement } = await explore(explored)
      assert.equal(verdict, 'disagree')
      assert.ok(disagreement)
      const { second } = disagreement
      assert.deepEqual((await replay(explored, second.schedule)).outcome, second.outcome)
    }
  })
})
