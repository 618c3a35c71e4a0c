/** What the driver refuses to give back is given back later: whatever call fails on the way, nothing is lost for good. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import {
  CudaError,
  type Device,
  type DeviceBuffer,
  ExternalStream,
  MemoryPool,
  PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { foreignStream, type Simulation, simulate } from 'cuda-streams/sim'
import { FAILING_CALLS } from '../../src/simulator/machine/fault-plan.js'
import { Random } from '../soak/random.js'
import { backendIn } from './stage.js'

interface Scene {
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
}

/** Makes something, and returns the acts that give it back. */
type Scenario = (scene: Scene) => readonly (() => unknown)[]

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'a buffer': ({ device, stream }) => {
    const buffer = device.alloc(64, { stream })
    return [() => buffer.close()]
  },
  'a buffer that another stream used': ({ device, stream, other }) => {
    const buffer = device.alloc(64, { stream })
    other.fill(buffer, 1)
    return [() => buffer.close()]
  },
  'a buffer of a closed stream': ({ device, other }) => {
    const allocationStream = new Stream({ device })
    const buffer = device.alloc(64, { stream: allocationStream })
    other.fill(buffer, 1)
    return [() => allocationStream.close(), () => buffer.close()]
  },
  "a buffer of another library's stream": ({ device, other }) => {
    const buffer = device.alloc(64, { stream: new ExternalStream(foreignStream(device)) })
    other.fill(buffer, 1)
    return [() => buffer.close()]
  },
  'a buffer that is closed while its stream captures': ({ device, stream }) => {
    const buffer = device.alloc(64, { stream })
    stream.beginCapture()
    return [() => buffer.close(), () => stream.endCapture().close()]
  },
  'buffers that a graph keeps': ({ device, stream }) => {
    const [one, two] = [device.alloc(64, { stream }), device.alloc(64, { stream })]
    const graph = stream.capture(() => void stream.fill(one, 1).fill(two, 2))
    return [() => one.close(), () => two.close(), () => graph.close()]
  },
  'buffers that an instance keeps': ({ device, stream, other }) => {
    const [one, two, pinned] = [
      device.alloc(64, { stream }),
      device.alloc(64, { stream: other }),
      device.allocPinned(64),
    ]
    stream.wait(other)
    const graph = stream.capture(() => void stream.fill(one, 1).fill(two, 2).copy(pinned, one))
    const exec = graph.instantiate()
    exec.launch(stream)
    return [one, two, pinned, graph, exec].map((each) => () => each.close())
  },
  "buffers that an instance keeps, which was launched on another library's stream": ({ device, stream }) => {
    const theirs = new ExternalStream(foreignStream(device))
    const buffer = device.alloc(64, { stream })
    const graph = stream.capture(() => void stream.fill(buffer, 1))
    const exec = graph.instantiate()
    exec.launch(theirs)
    return [buffer, graph, exec].map((each) => () => each.close())
  },
  'buffers that an instance no longer keeps': ({ device, stream }) => {
    const [one, two] = [device.alloc(64, { stream }), device.alloc(64, { stream })]
    const [first, second] = [one, two].map((buffer) => stream.capture(() => void stream.fill(buffer, 1)))
    assert.ok(first && second)
    const exec = first.instantiate()
    exec.launch(stream)
    one.close()
    first.close()
    return [() => exec.update(second), ...[second, two, exec].map((each) => () => each.close())]
  },
  'events that an instance keeps': ({ stream, device }) => {
    const event = device.createEvent()
    const graph = stream.capture(() => void stream.record(event, { external: true }))
    const exec = graph.instantiate()
    exec.launch(stream)
    return [event, graph, exec].map((each) => () => each.close())
  },
  'pinned memory': ({ device, stream }) => {
    const [buffer, pinned] = [device.alloc(64, { stream }), device.allocPinned(64)]
    stream.copy(buffer, pinned)
    return [pinned, buffer].map((each) => () => each.close())
  },
  'registered memory': ({ device, stream }) => {
    const [buffer, pinned] = [device.alloc(64, { stream }), PinnedBuffer.from(new Uint8Array(64), { device })]
    stream.copy(buffer, pinned)
    return [pinned, buffer].map((each) => () => each.close())
  },
  'memory that other processes may see': ({ device, stream }) => {
    const buffer = device.alloc(64, { interprocess: true })
    stream.fill(buffer, 1)
    return [() => buffer.close()]
  },
  'a pool': ({ device, stream }) => {
    const pool = new MemoryPool({ device })
    const buffer = device.alloc(64, { stream, pool })
    return [() => pool.close(), () => buffer.close()]
  },
  'a stream and an event': ({ device }) => {
    const stream = new Stream({ device })
    const event = stream.record()
    return [() => event.close(), () => stream.close()]
  },
  'memory that is never usable': ({ device, stream }) => {
    let buffer: DeviceBuffer | undefined
    return [
      () => {
        buffer ??= device.alloc(64, { stream })
      },
      () => buffer?.close(),
    ]
  },
}

function open(simulation: Simulation): Scene {
  const [device] = simulation.devices
  assert.ok(device)
  return { device, stream: new Stream({ device }), other: new Stream({ device }) }
}

/** The errors of the driver that the acts throw. */
async function errorsOf(acts: readonly (() => unknown)[]): Promise<number> {
  let errors = 0
  for (const act of acts) {
    try {
      await act()
    } catch (error) {
      assert.ok(error instanceof CudaError, `${error}`)
      errors += 1
    }
  }
  return errors
}

/** What the scenario leaves: bytes of devices, streams and events. Objects that stayed open are closed once more. */
async function leftBy(make: Scenario, fault?: { call: (typeof FAILING_CALLS)[number]; nth: number; times: number }) {
  const simulation = simulate()
  const scene = open(simulation)
  const acts = make(scene)
  const planned = fault && simulation.inject({ ...fault, result: 1 })
  const errors = await errorsOf(acts)
  planned?.[Symbol.dispose]()
  for (const act of acts) {
    try {
      await act()
    } catch {
      // It was done the first time.
    }
  }
  await turn()
  scene.device.synchronize()
  // Modules and events that graphs kept are swept by later calls.
  scene.device.alloc(8, { stream: scene.stream }).close()
  scene.device.synchronize()
  return { errors, bytes: backendIn(simulation).memory.bytesUsed }
}

describe('what is refused', () => {
  for (const [what, make] of Object.entries(SCENARIOS)) {
    it(`is given back later: ${what}`, async () => {
      assert.deepEqual(await leftBy(make), { errors: 0, bytes: 0 })
      for (const call of FAILING_CALLS) {
        for (const times of [1, 3]) {
          for (let nth = 1; nth <= 4; nth += 1) {
            const { errors, bytes } = await leftBy(make, { call, nth, times })
            assert.equal(bytes, 0, `${call}, no. ${nth}, ${times} times`)
            assert.ok(errors <= times, `${errors} errors of ${call}, no. ${nth}, ${times} times`)
          }
        }
      }
    })
  }

  it('is given back without another call, once the event loop has turned', async () => {
    const simulation = simulate()
    const { device, stream } = open(simulation)
    const buffer = device.alloc(64, { stream })
    const graph = stream.capture(() => void stream.fill(buffer, 1))
    buffer.close()
    simulation.inject({ call: 'cuMemFreeAsync', result: 1 })
    assert.throws(() => graph.close(), { call: 'cuMemFreeAsync', number: 1 })
    assert.equal(device.memoryPool.used, 64)
    await turn()
    assert.equal(device.memoryPool.used, 0)
    graph.close()
  })

  it('is nothing to be given back where the device is lost', async () => {
    const simulation = simulate()
    const { device, stream } = open(simulation)
    const buffer = device.alloc(64, { stream })
    const graph = stream.capture(() => void stream.fill(buffer, 1))
    buffer.close()
    simulation.inject({ call: 'cuMemFreeAsync', result: 700 })
    graph.close()
    assert.throws(() => stream.synchronize(), { number: 700 })
  })

  it('is given back where frees fail at random', async () => {
    const simulation = simulate({ seed: 7 })
    const { device, stream, other } = open(simulation)
    const random = new Random(7)
    const planned = simulation.inject({ call: 'cuMemFreeAsync', probability: 0.3, result: 1 })
    const stillOpen: { close(): void; readonly closed: boolean }[] = []
    for (let nth = 0; nth < 300; nth += 1) {
      const buffer = device.alloc(64, { stream: random.chance(0.5) ? stream : other })
      const graph = stream.capture(() => void stream.fill(buffer, 1))
      const exec = graph.instantiate()
      stream.wait(other)
      exec.launch(stream)
      await errorsOf([buffer, graph, exec].map((each) => () => each.close()))
      if (!buffer.closed) stillOpen.push(buffer)
    }
    planned[Symbol.dispose]()
    for (const buffer of stillOpen) buffer.close()
    await turn()
    device.synchronize()
    assert.equal(device.memoryPool.used, 0)
  })
})
