/** Memory of the simulated machine: a part of this machine's, there from the first touch on, and never in its way. */
import assert from 'node:assert/strict'
import { constants } from 'node:buffer'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, defineKernel, type PinnedBuffer, Stream } from 'cuda-streams'
import { explore, simulate } from 'cuda-streams/sim'
import { collectingUncaught } from '../../src/foundation/base/uncaught.js'
import { machineMemory } from '../../src/simulator/limits.js'
import { PART } from '../../src/simulator/memory-work.js'
import { refused, rejected } from '../conformance/expect.js'

const GIB = 2 ** 30
const MIB = 2 ** 20
const STEP = 32 * MIB
const MACHINE = machineMemory() ?? 8 * GIB
const UNWRITTEN = 0xcd
const POISON = 0xdd

function machine(): { device: Device; stream: Stream } {
  const [device] = simulate().devices
  assert.ok(device)
  return { device, stream: new Stream({ device }) }
}

const increment = defineKernel({
  name: 'increment',
  source: '',
  signature: ['inout u32*'],
  simulateGrid: (_grid, elements) => {
    for (let index = 0; index < elements.length; index += 1) elements[index] = (elements[index] ?? 0) + 1
  },
})

const LONG = { skip: MACHINE < 20 * GIB && 'a quarter of the machine must be as long' }

describe('a buffer of more than 4 GiB', LONG, () => {
  const length = 5 * GIB
  const kinds: Readonly<Record<string, (device: Device) => DeviceBuffer | PinnedBuffer>> = {
    'on a device': (device) => device.alloc(length),
    pinned: (device) => device.allocPinned(length),
    'that other processes may see': (device) => device.alloc(length, { interprocess: true }),
  }

  for (const [kind, allocate] of Object.entries(kinds)) {
    it(`is used near its end as any, and takes no more of the process than is used: ${kind}`, async () => {
      const { device, stream } = machine()
      const before = process.memoryUsage().rss
      const long = allocate(device)
      const end = long.subarray(length - 64, length)
      const other = device.alloc(64, { stream })
      stream.fill(end, 1)
      assert.deepEqual(await stream.download(end), new Uint8Array(64).fill(1))
      stream.fill(end.subarray(0, 32), 0x0202, { width: 2 }).fill(end.subarray(32, 64), 0x03030303, { width: 4 })
      stream.copy(other, end)
      const expected = new Uint8Array(64).fill(2).fill(3, 32)
      assert.deepEqual(await stream.download(other), expected)
      await stream.upload(end, new Uint8Array(64).fill(4))
      stream
        .copy(long.subarray(4 * GIB - 32, 4 * GIB + 32), end)
        .launch(increment, { grid: 1, block: 1 }, end.subarray(0, 4))
      stream.external(
        { name: 'theirs', memory: [{ buffer: end.subarray(8, 16) }], simulate: ([b]) => b?.fill(9) },
        () => {},
      )
      assert.deepEqual(await stream.download(long.subarray(4 * GIB - 32, 4 * GIB + 32)), new Uint8Array(64).fill(4))
      assert.deepEqual([...(await stream.download(end.subarray(0, 18)))].join(), '5,4,4,4,4,4,4,4,9,9,9,9,9,9,9,9,4,4')
      const rss = process.memoryUsage().rss - before
      assert.ok(rss < GIB / 4, `${Math.round(rss / 2 ** 20)} MiB for a few bytes`)
      long.close()
      stream.synchronize()
    })
  }

  it('says what is too long for an array of JavaScript', async (context) => {
    if (length <= constants.MAX_LENGTH) return context.skip('this Node has longer arrays')
    const { device, stream } = machine()
    const [long, pinned] = [device.alloc(length, { stream }), device.allocPinned(length)]
    await rejected(() => stream.download(long), 'ERR_UNSUPPORTED', /slice/)
    refused(() => stream.launch(increment, { grid: 1, block: 1 }, long), 'ERR_UNSUPPORTED', /slice/)
    refused(() => pinned.bytes, 'ERR_UNSUPPORTED', /slice/)
    refused(() => pinned.view(Uint8Array), 'ERR_UNSUPPORTED', /slice/)
    assert.equal(pinned.view(Float64Array).length, length / 8)
    stream.fill(long.subarray(0, 8), 7)
    assert.deepEqual(await stream.download(long.subarray(0, 8)), new Uint8Array(8).fill(7))
  })
})

describe('the memory of the machine', () => {
  const total = (count: number): number => Math.floor(MACHINE / 2 / count / STEP) * STEP

  it('is shared by the devices: half of it in equal parts, and no more than an H200 has', () => {
    for (const count of [1, 2, 4]) {
      const { devices } = simulate({ devices: count })
      const expected = Math.min(141e9, Math.max(256 * MIB, total(count)))
      for (const { memory } of devices) assert.deepEqual(memory, { free: expected, total: expected })
    }
    for (const { memory } of simulate({ devices: 64 }).devices) assert.ok(memory.total >= 256 * MIB)
  })

  it('is as much as the program says', () => {
    const [device] = simulate({ memory: 3 * STEP }).devices
    assert.deepEqual(device?.memory, { free: 3 * STEP, total: 3 * STEP })
  })

  it('is the same in an exploration on each machine', async () => {
    let seen: number | undefined
    await explore(({ devices: [device] }) => {
      seen = device?.memory.total
    })
    assert.equal(seen, 141e9)
  })

  const ends: Readonly<Record<string, readonly [(device: Device) => DeviceBuffer | PinnedBuffer, number, RegExp]>> = {
    'of a device': [
      (device) => device.alloc(64 * MIB),
      total(1),
      /simulate\(\{ memory \}\) or CUDA_STREAMS_SIM_MEMORY/,
    ],
    'that other processes may see': [
      (device) => device.alloc(64 * MIB, { interprocess: true }),
      total(1),
      /simulate\(\{ memory \}\) or CUDA_STREAMS_SIM_MEMORY .*Close what is no longer used/,
    ],
    pinned: [(device) => device.allocPinned(64 * MIB), MACHINE / 4, /a quarter of this machine's memory to pin/],
  }
  for (const [kind, [allocate, limit, hint]] of Object.entries(ends)) {
    it(`has an end, which is an error, and closing makes room: ${kind}`, async () => {
      const { device, stream } = machine()
      const expected = Math.floor(Math.min(141e9, limit) / (64 * MIB))
      const buffers: (DeviceBuffer | PinnedBuffer)[] = []
      const allocateAll = (): void => {
        while (buffers.length <= expected) buffers.push(allocate(device))
      }
      for (let round = 0; round < 2; round += 1) {
        assert.throws(allocateAll, { code: 'CUDA_ERROR_OUT_OF_MEMORY', number: 2, message: hint })
        assert.equal(buffers.length, expected)
        const { free, total: all } = device.memory
        assert.equal(all - free, kind === 'pinned' ? 0 : expected * 64 * MIB)
        for (const buffer of buffers.splice(0)) buffer.close()
        await device.finished()
      }
      const pinned = device.allocPinned(4)
      stream.copy(pinned, stream.device.alloc(4, { stream }))
      await stream.finished()
      device.memoryPool.trim()
    })
  }
})

describe('memory', () => {
  it('is filled and copied whole, however long it is', async () => {
    const { device, stream } = machine()
    const length = PART + 12
    const [from, to] = [device.alloc(length, { stream }), device.alloc(length, { stream })]
    for (const [value, width] of [
      [0x11, 1],
      [0x2222, 2],
      [0x33333333, 4],
    ] as const) {
      stream.fill(from, value, { width }).copy(to, from)
      const bytes = await stream.download(to)
      assert.ok(bytes.every((byte) => byte === (value & 0xff)))
    }
  })

  it('that was not written reads the same all over', async () => {
    const { device, stream } = machine()
    const buffer = device.alloc(2 ** 20 + 3, { stream })
    stream.fill(buffer.subarray(300_000, 300001), 0)
    const bytes = await stream.download(buffer)
    assert.equal(bytes[300_000], 0)
    bytes[300_000] = UNWRITTEN
    assert.ok(bytes.every((byte) => byte === UNWRITTEN))
  })
})

/** What a host implementation may do to its views that takes the memory away. */
const TRANSFERS: Readonly<Record<string, (view: Uint8Array) => unknown>> = {
  'transfers it to a clone': ({ buffer }) => structuredClone(buffer, { transfer: [buffer as ArrayBuffer] }),
  'sends it away': ({ buffer }) => {
    const { port1, port2 } = new MessageChannel()
    port1.postMessage(buffer, [buffer as ArrayBuffer])
    for (const port of [port1, port2]) port.close()
  },
}

describe('a host implementation that', () => {
  for (const [what, transfer] of Object.entries(TRANSFERS)) {
    for (const place of ['device', 'pinned'] as const) {
      it(`${what}: the program is told, and the machine goes on (${place} memory)`, async () => {
        const { device, stream } = machine()
        const buffer = place === 'device' ? device.alloc(64, { stream }) : device.allocPinned(64)
        const taking = defineKernel({
          name: 'taking',
          source: '',
          signature: ['inout u8*'],
          simulateGrid: (_grid, view) => void transfer(view),
        })
        const uncaught = await uncaughtDuring(async () => {
          stream.fill(buffer, 1).launch(taking, { grid: 1, block: 1 }, buffer)
          stream.external(
            { name: 'theirs', memory: [{ buffer }], simulate: ([view]) => view && transfer(view) },
            () => {},
          )
          stream.fill(buffer, 2)
          await stream.finished()
        })
        assert.equal(uncaught.length, 2)
        for (const error of uncaught) {
          assert.equal((error as { code?: unknown }).code, 'ERR_INVALID_ARG_VALUE')
          assert.match(String(error), /transferred its view/)
        }
        const bytes = await stream.download(buffer)
        // What the host transferred away is its own loss; a device has its memory still.
        assert.deepEqual(bytes, new Uint8Array(64).fill(place === 'device' ? 2 : POISON))
        buffer.close()
        stream.synchronize()
      })
    }
  }

  it('keeps its view and transfers it later: what was there is lost, and the machine goes on', async () => {
    const { device, stream } = machine()
    const buffer = device.alloc(64, { stream })
    let kept: Uint8Array | undefined
    const keeping = defineKernel({
      name: 'keeping',
      source: '',
      signature: ['inout u8*'],
      simulateGrid: (_grid, view) => {
        kept = view
      },
    })
    stream.fill(buffer, 1).launch(keeping, { grid: 1, block: 1 }, buffer)
    stream.launchHostFunc(() => structuredClone(kept?.buffer, { transfer: [kept?.buffer as ArrayBuffer] }))
    stream.fill(buffer.subarray(0, 2), 3)
    assert.deepEqual([...(await stream.download(buffer.subarray(0, 4)))], [3, 3, UNWRITTEN, UNWRITTEN])
  })

  it('loses the devices: what is pending hears of it, and nothing hangs', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const closing = defineKernel({
      name: 'closing',
      source: '',
      signature: [],
      simulateGrid: () => simulation.close(),
    })
    other.wait(stream.launch(closing, { grid: 1, block: 1 }))
    const told = new Promise((resolve) => other.addCallback((_stream, status) => resolve(status), undefined))
    for (const one of [stream, other]) await assert.rejects(one.finished(), { number: 709 })
    assert.equal(await told, 709)
  })

  it('throws, calls the library, or waits for its own stream: the machine goes on', async () => {
    const { device, stream } = machine()
    const other = new Stream({ device })
    const acts: readonly (() => void)[] = [
      () => {
        throw new Error('mine')
      },
      () => void stream.record(),
      () => void other.fill(device.alloc(4, { stream: other }), 1),
      () => other.synchronize(),
      () => stream.synchronize(),
      () => device.synchronize(),
    ]
    const uncaught = await uncaughtDuring(async () => {
      for (const act of acts) {
        const kernel = defineKernel({ name: 'k', source: '', signature: [], simulateGrid: act })
        stream.launch(kernel, { grid: 1, block: 1 })
      }
      await stream.finished()
      await other.finished()
    })
    const codes = uncaught.map((error) => (error as { code?: unknown }).code ?? String(error))
    assert.deepEqual(codes, ['Error: mine', 'ERR_DEADLOCK', 'ERR_DEADLOCK'])
    assert.equal(stream.query(), true)
  })
})

/** What surfaces as an uncaught exception while the function runs. */
async function uncaughtDuring(fn: () => Promise<void>): Promise<unknown[]> {
  const uncaught: unknown[] = []
  await collectingUncaught((error) => uncaught.push(error), fn)
  return uncaught
}
