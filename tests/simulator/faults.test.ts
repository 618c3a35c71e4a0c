/** Faults on request: what is asked to fail fails, nothing else does, and the rest goes on as CUDA says. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type CudaError, type Device, defineKernel, Stream } from 'cuda-streams'
import { busy, type ExploredProgram, explore, type Fault, type Simulation, simulate } from 'cuda-streams/sim'

const OUT_OF_MEMORY = 2
const INVALID_VALUE = 1
const ILLEGAL_ADDRESS = 700
const LAUNCH_FAILED = 719
const nothing = defineKernel({ name: 'nothing', source: '', signature: [], simulateGrid: () => {} })

function open(simulation: Simulation): { device: Device; stream: Stream } {
  const [device] = simulation.devices
  assert.ok(device)
  return { device, stream: new Stream({ device }) }
}

const failing = (call: string, number: number): Partial<CudaError> => ({ call, number })

describe('a call that is to fail', () => {
  it('is the nth of its name, and the next goes well', () => {
    using simulation = simulate({ faults: [{ call: 'cuMemAllocAsync', nth: 3, result: OUT_OF_MEMORY }] })
    const { device } = open(simulation)
    device.alloc(8)
    device.alloc(8)
    assert.throws(() => device.alloc(8), failing('cuMemAllocAsync', OUT_OF_MEMORY))
    device.alloc(8)
  })

  it('is a launch of a kernel, and work that stands for one', () => {
    using simulation = simulate({ faults: [{ call: 'cuLaunchKernelEx', times: 3, result: INVALID_VALUE }] })
    const { stream } = open(simulation)
    const queues = [
      () => stream.launch(nothing, { grid: 1, block: 1 }),
      () => stream.external({ name: 'theirs', simulate: () => {} }, () => {}),
      () => busy(stream, 10),
    ]
    for (const queue of queues) assert.throws(queue, failing('cuLaunchKernelEx', INVALID_VALUE))
    for (const queue of queues) queue()
    stream.synchronize()
  })

  it('fails as often as asked', () => {
    using simulation = simulate({ faults: [{ call: 'cuEventCreate', times: 2, result: OUT_OF_MEMORY }] })
    const { device } = open(simulation)
    for (let nth = 0; nth < 2; nth += 1) assert.throws(() => device.createEvent(), failing('cuEventCreate', 2))
    device.createEvent()
  })

  it('does nothing: what was to be queued is not', async () => {
    using simulation = simulate()
    const { device, stream } = open(simulation)
    const data = device.alloc(4)
    stream.fill(data, 1)
    simulation.inject({ call: 'cuMemsetD8Async', result: INVALID_VALUE })
    assert.throws(() => stream.fill(data, 2), failing('cuMemsetD8Async', INVALID_VALUE))
    assert.deepEqual([...(await stream.download(data))], [1, 1, 1, 1])
  })

  it('loses the devices where CUDA would lose its context', async () => {
    using simulation = simulate({ devices: 2 })
    const { device, stream } = open(simulation)
    const pending = new Stream({ device: simulation.devices[1] }).finished()
    busy(stream, 1000)
    simulation.inject({ call: 'cuStreamQuery', result: ILLEGAL_ADDRESS })
    assert.throws(() => stream.query(), failing('cuStreamQuery', ILLEGAL_ADDRESS))
    assert.throws(() => device.alloc(8), { number: ILLEGAL_ADDRESS })
    await assert.rejects(stream.finished(), { number: ILLEGAL_ADDRESS })
    await pending
  })
})

describe('an operation that is to fail', () => {
  it('is queued as ever, and faults when it would end', async () => {
    using simulation = simulate({ faults: [{ operation: 'kernel', nth: 2, result: LAUNCH_FAILED }] })
    const { stream } = open(simulation)
    busy(stream, 1000)
    const before = stream.finished()
    busy(stream, 1000)
    const after = stream.finished()
    await before
    await assert.rejects(after, { number: LAUNCH_FAILED })
    assert.throws(() => stream.query(), { number: LAUNCH_FAILED })
  })

  it('is an illegal address unless said otherwise, and copies and fills are counted apart', async () => {
    using simulation = simulate({ faults: [{ operation: 'copy' }] })
    const { device, stream } = open(simulation)
    const [data, pinned] = [device.alloc(4), device.allocPinned(4)]
    stream.fill(data, 1)
    busy(stream, 10)
    await stream.finished()
    stream.copy(pinned, data)
    await assert.rejects(stream.finished(), { number: ILLEGAL_ADDRESS })
    assert.deepEqual([...pinned.bytes], [0, 0, 0, 0])
  })

  it('is found in a graph, at each of its launches', async () => {
    using simulation = simulate({ faults: [{ operation: 'any', nth: 3 }] })
    const { stream } = open(simulation)
    const exec = stream.capture(() => busy(stream, 10)).instantiate()
    stream.launch(exec).launch(exec)
    await stream.finished()
    stream.launch(exec)
    await assert.rejects(stream.finished(), { number: ILLEGAL_ADDRESS })
  })
})

describe('faults at random', () => {
  const failures = (seed: number, probability: number): string => {
    using simulation = simulate({ seed, faults: [{ call: 'cuMemAllocAsync', probability, result: OUT_OF_MEMORY }] })
    const { device } = open(simulation)
    let seen = ''
    for (let nth = 0; nth < 200; nth += 1) {
      try {
        device.alloc(8)
        seen += '.'
      } catch {
        seen += 'x'
      }
    }
    return seen
  }

  it('are those of the seed', () => {
    assert.equal(failures(5, 0.2), failures(5, 0.2))
    assert.notEqual(failures(5, 0.2), failures(6, 0.2))
  })

  it('have their probability', () => {
    const count = [...failures(1, 0.2)].filter((each) => each === 'x').length
    assert.ok(count > 15 && count < 70, `${count} of 200`)
    assert.equal(failures(1, 0), '.'.repeat(200))
    assert.equal(failures(1, 1), 'x'.repeat(200))
  })
})

describe('what cannot be had for the library’s own account', () => {
  it('is found out before the work is queued: what is refused has not been done', async () => {
    const simulation = simulate()
    const { device } = open(simulation)
    const [allocationStream, other] = [new Stream({ device }), new Stream({ device })]
    const data = device.alloc(16, { stream: allocationStream })
    allocationStream.fill(data, 1)
    device.synchronize()
    simulation.inject({ call: 'cuEventCreate', result: OUT_OF_MEMORY })
    assert.throws(() => other.fill(data, 9), { code: 'CUDA_ERROR_OUT_OF_MEMORY' })
    assert.equal((await allocationStream.download(data))[0], 1)
    other.fill(data, 9)
    allocationStream.wait(other)
    assert.equal((await allocationStream.download(data))[0], 9)
  })

  it('gives back memory that was had for nothing', () => {
    const simulation = simulate({ memory: 141e9 })
    const { device, stream } = open(simulation)
    const most = 100e9
    simulation.inject({ call: 'cuEventCreate', result: OUT_OF_MEMORY })
    assert.throws(() => device.alloc(most, { stream }), { code: 'CUDA_ERROR_OUT_OF_MEMORY' })
    device.alloc(most, { stream }).close()
  })
})

describe('a fault that is injected', () => {
  it('counts from then on, and can be taken back', () => {
    using simulation = simulate()
    const { device } = open(simulation)
    device.alloc(8)
    const fault = simulation.inject({ call: 'cuMemAllocAsync', nth: 2, result: OUT_OF_MEMORY })
    device.alloc(8)
    fault[Symbol.dispose]()
    device.alloc(8)
    simulation.inject({ call: 'cuMemAllocAsync', result: OUT_OF_MEMORY })
    assert.throws(() => device.alloc(8), failing('cuMemAllocAsync', OUT_OF_MEMORY))
  })

  it('joins exploration: the order that the fault breaks is found', async () => {
    const fallsBack: ExploredProgram = async (simulation) => {
      const { device, stream } = open(simulation)
      const other = new Stream({ device })
      const data = device.alloc(4)
      stream.fill(data, 1)
      try {
        other.wait(stream)
      } catch {
        // Taken for harmless, and it is not.
      }
      other.fill(data, 2)
      await device.finished()
      return [...(await other.download(data))]
    }
    assert.equal((await explore(fallsBack)).verdict, 'agree')
    const faults: Fault[] = [{ call: 'cuStreamWaitEvent', nth: 3, result: INVALID_VALUE }]
    const results = []
    for (const nth of [1, 2, 3])
      results.push((await explore(fallsBack, { faults: [{ ...faults[0], nth } as Fault] })).verdict)
    assert.ok(results.includes('disagree'), results.join())
  })

  for (const [what, fault, code] of [
    ['nothing named', { result: 2 }, 'ERR_INVALID_ARG_VALUE'],
    ['both named', { call: 'cuMemAllocAsync', operation: 'copy', result: 2 }, 'ERR_INVALID_ARG_VALUE'],
    ['no such call', { call: 'cuMemAlloc', result: 2 }, 'ERR_INVALID_ARG_VALUE'],
    ['no such operation', { operation: 'dance' }, 'ERR_INVALID_ARG_VALUE'],
    ['no result for a call', { call: 'cuMemAllocAsync' }, 'ERR_INVALID_ARG_TYPE'],
    ['success as the result', { call: 'cuMemAllocAsync', result: 0 }, 'ERR_OUT_OF_RANGE'],
    ['the zeroth', { operation: 'copy', nth: 0 }, 'ERR_OUT_OF_RANGE'],
    ['no times at all', { operation: 'copy', times: 0 }, 'ERR_OUT_OF_RANGE'],
    ['more than certain', { operation: 'copy', probability: 1.5 }, 'ERR_OUT_OF_RANGE'],
    ['no fault', undefined, 'ERR_INVALID_ARG_TYPE'],
  ] as const) {
    it(`is refused: ${what}`, () => {
      using simulation = simulate()
      assert.throws(() => simulation.inject(fault as never), { code })
    })
  }
})

describe('a kernel that writes to memory by its address', () => {
  const writes = defineKernel({
    name: 'writes',
    signature: ['u64'],
    ptx: `.version 7.0
.target sm_70
.address_size 64
.visible .entry writes(.param .u64 to) {
  .reg .u64 %to;
  ld.param.u64 %to, [to];
  st.global.u32 [%to+8], 1;
  ret;
}`,
  })

  it('is told that it was freed, and how it is kept', async () => {
    using simulation = simulate()
    const { device, stream } = open(simulation)
    const buffer = device.alloc(64)
    const { pointer } = buffer
    await stream.finished()
    buffer.close()
    await device.finished()
    stream.launch(writes, { grid: 1, block: 1 }, BigInt(pointer))
    await assert.rejects(
      stream.finished(),
      /^CudaError: Kernel 'writes' faulted: .*byte 8 of 64 that were freed before: close the buffer after/,
    )
  })
})
