/** Devices: one object for each, what they say of themselves, and waiting for all of one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { CudaError, Device, type DeviceAttribute, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { DEVICE_ATTRIBUTES } from '../../src/foundation/driver/device-attributes.js'
import { onEveryBackend } from '../helpers/suite.js'
import { follow, refused, stillWorks, turns } from './expect.js'

test('D1 Device.get() has one object for each ordinal of the default driver', () => {
  const count = Device.count()
  assert.ok(Number.isInteger(count) && count > 0)
  for (let ordinal = 0; ordinal < count; ordinal += 1) {
    const device = Device.get(ordinal)
    assert.equal(Device.get(ordinal), device)
    assert.equal(device.ordinal, ordinal)
    assert.ok(device instanceof Device)
  }
  assert.equal(Device.get(), Device.current())
  assert.equal(Device.current(), Device.get(0))
})

test('D1 Device.get() of an ordinal that does not exist is ERR_OUT_OF_RANGE', () => {
  const count = Device.count()
  for (const ordinal of [count, count + 99, -1]) {
    refused(() => Device.get(ordinal), 'ERR_OUT_OF_RANGE', new RegExp(`not ${ordinal}`), /from 0 to/, /device\(s\)/)
  }
  using simulation = simulate()
  const [device] = simulation.devices
  const more = /CUDA_STREAMS_SIM_DEVICES, or simulate\(\{ devices \}\), gives it more/
  refused(() => device?.run(() => new Stream({ device: 1 })), 'ERR_OUT_OF_RANGE', /driver 'sim' has 1 device/, more)
})

test('D1 a device is found by its address on the bus, however that is written, and all devices at once', () => {
  assert.equal(Device.all().length, Device.count())
  for (const [ordinal, there] of Device.all().entries()) assert.equal(there, Device.get(ordinal))
  for (const there of Device.all()) {
    const id = there.pciBusId
    const spellings = [id, id.toUpperCase(), `0000${id}`, id.replace(/\.0$/, ''), id.replace(/^0000:/, '')]
    for (const spelling of spellings) assert.equal(Device.fromPciBusId(spelling), there)
  }
  refused(
    () => Device.fromPciBusId('ffff:ff:1f.7'),
    'ERR_INVALID_ARG_VALUE',
    /^No device is at 'ffff:ff:1f\.7': .* is at /,
  )
  refused(() => Device.fromPciBusId('the first'), 'ERR_INVALID_ARG_VALUE', /^No device is at 'the first'/)
  refused(() => Reflect.apply(Device.fromPciBusId, Device, [0]), 'ERR_INVALID_ARG_TYPE', /^id must be a string/)
})

test('D1 Device.get() of what is no integer is ERR_INVALID_ARG_TYPE', () => {
  for (const ordinal of ['0', 0.5, null, Number.NaN, 0n, {}] as unknown as number[]) {
    refused(() => Device.get(ordinal), 'ERR_INVALID_ARG_TYPE', /ordinal/, /integer/)
  }
})

test('D1 Device has no constructor for others', () => {
  const Make = Device as unknown as new () => Device
  refused(() => new Make(), 'ERR_INVALID_ARG_TYPE', /Device\.get/)
})

onEveryBackend('devices', (bench) => {
  const { device } = bench

  test('D2 Device says its name, uuid, driver and compute capability', () => {
    assert.equal(device.driver, bench.name)
    assert.ok(device.name.length > 0)
    const uuids = new Set<string>()
    for (const [index, there] of bench.devices.entries()) {
      assert.equal(there.ordinal, index)
      assert.match(there.uuid, /^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
      uuids.add(there.uuid)
      assert.match(`${there}`, new RegExp(`Device\\(${index}, ${bench.name}\\)`))
      assert.equal(inspect(there), String(there))
    }
    assert.equal(uuids.size, bench.devices.length)
    const { major, minor } = device.computeCapability
    assert.equal(major, device.attribute('computeCapabilityMajor'))
    assert.equal(minor, device.attribute('computeCapabilityMinor'))
    assert.ok(major >= 5 && minor >= 0)
  })

  test('D2 whether a device can use memory of another is told, and its own it can', () => {
    for (const there of bench.devices) {
      assert.equal(there.canAccess(there), true)
      for (const other of bench.devices) assert.equal(typeof there.canAccess(other), 'boolean')
    }
    refused(() => Reflect.apply(device.canAccess, device, [0]), 'ERR_INVALID_ARG_TYPE', /^other must be a Device/)
    using elsewhere = simulate()
    const [other = device] = elsewhere.devices
    refused(() => device.canAccess(other), 'ERR_DEVICE_MISMATCH', / is of /)
  })

  test('D2 device.pciBusId is made of the attributes that say the same', () => {
    const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')
    for (const there of bench.devices) {
      const [domain, bus, slot] = (['pciDomainId', 'pciBusId', 'pciDeviceId'] as const).map((name) =>
        there.attribute(name),
      )
      assert.equal(there.pciBusId, `${hex(domain ?? -1, 4)}:${hex(bus ?? -1, 2)}:${hex(slot ?? -1, 2)}.0`)
    }
    assert.equal(new Set(bench.devices.map(({ pciBusId }) => pciBusId)).size, bench.devices.length)
  })

  test('D2 Device.attribute() has CUDA’s attributes by their names in camelCase', () => {
    const names: readonly DeviceAttribute[] = ['multiprocessorCount', 'warpSize', 'maxThreadsPerBlock', 'maxBlockDimX']
    for (const name of names) assert.ok(device.attribute(name) > 0, name)
    assert.equal(device.attribute('warpSize'), 32)
  })

  test('D2 Device.attribute() answers every name that the driver knows, and no driver knows one and not an older one', () => {
    const [answered, refusedBy]: [number[], number[]] = [[], []]
    for (const [name, number] of Object.entries(DEVICE_ATTRIBUTES)) {
      try {
        assert.ok(Number.isInteger(device.attribute(name as DeviceAttribute)), name)
        answered.push(number)
      } catch (error) {
        assert.equal(error instanceof CudaError && error.code, 'CUDA_ERROR_INVALID_VALUE', name)
        refusedBy.push(number)
      }
    }
    // Those of CUDA 12.5 are older than any driver that the library takes.
    assert.ok(Math.max(...answered) >= 138 && Math.max(...answered) < Math.min(...refusedBy, Number.POSITIVE_INFINITY))
  })

  test('D2 Device.attribute() of another name is ERR_INVALID_ARG_VALUE, of no text ERR_INVALID_ARG_TYPE', () => {
    for (const name of ['multiProcessorCount', 'MULTIPROCESSOR_COUNT', '', 'toString', '__proto__', 'constructor']) {
      const says = [new RegExp(`'${name}'`), /camelCase/, /multiprocessorCount/]
      refused(() => device.attribute(name as DeviceAttribute), 'ERR_INVALID_ARG_VALUE', ...says)
    }
    for (const name of [16, undefined, null, {}] as unknown as DeviceAttribute[]) {
      refused(() => device.attribute(name), 'ERR_INVALID_ARG_TYPE', /name/, /attribute/)
    }
  })

  test('D2 Device.priorityRange has the least and the greatest; lower goes first', () => {
    const { least, greatest } = device.priorityRange
    assert.ok(Number.isInteger(least) && Number.isInteger(greatest))
    assert.ok(greatest <= least)
  })

  test('D2 Device.context is the primary one, the same for all that is made here', () => {
    for (const there of bench.devices) {
      const { handle } = there.context
      assert.ok(handle > 0n)
      assert.equal(there.context.handle, handle)
      assert.equal(there.context.device, there)
      using stream = there.createStream()
      assert.equal(stream.context.handle, handle)
      assert.equal(there.defaultStream.context.handle, handle)
    }
  })

  test('D3 Device makes streams and events of its own, whatever is current', () => {
    for (const there of bench.devices) {
      using stream = there.createStream({ priority: -1, nonBlocking: false })
      using event = there.createEvent({ timing: true })
      assert.ok(stream instanceof Stream)
      assert.equal(stream.device, there)
      assert.equal(stream.nonBlocking, false)
      assert.equal(event.device, there)
      assert.equal(event.timing, true)
      assert.equal(stream.record(event), event)
      assert.equal(there.defaultStream, there.defaultStream)
      assert.equal(there.defaultStream.device, there)
      assert.equal(there.defaultStream.handle, 0n)
      stillWorks(bench, stream)
    }
  })

  test('D4 Device.synchronize() waits for all streams of the device', () => {
    using one = bench.stream()
    using two = bench.stream({ nonBlocking: false })
    bench.busy(one, 100_000)
    bench.busy(two, 100_000)
    device.synchronize()
    assert.deepEqual([one.query(), two.query()], [true, true])
  })

  test('D4 Device.finished() resolves once all that is queued on the device is done', async () => {
    using one = bench.stream()
    using two = bench.stream({ nonBlocking: false })
    using latch = bench.latch(one)
    bench.busy(two, 10_000)
    const finished = device.finished()
    const state = follow(finished)
    await turns(30)
    assert.equal(state.settled, false)
    latch.open()
    await finished
    assert.deepEqual([one.query(), two.query()], [true, true])
  })

  test('D4 Device.synchronize() and finished() are not held by another device', async (t) => {
    const other = bench.devices[1]
    if (other === undefined) return t.skip('this machine has only one device')
    using stream = other.createStream()
    using latch = bench.latch(stream)
    device.synchronize()
    await device.finished()
    assert.equal(stream.query(), false)
    latch.open()
    await other.finished()
    assert.equal(stream.query(), true)
  })

  test('D2 a device says how full it is, and who uses it, while a stream stands', (context) => {
    using stream = bench.stream()
    using latch = bench.latch(stream)
    let usage: ReturnType<typeof device.usage>
    try {
      usage = device.usage()
    } catch (error) {
      assert.equal((error as { code?: unknown }).code, 'ERR_UNSUPPORTED')
      context.skip('no management library (NVML) here')
      return
    }
    const { memory, processes, temperature, power, utilization } = usage
    assert.equal(
      memory.total >= memory.used && memory.used >= 0 && memory.total > 2 ** 30,
      true,
      JSON.stringify(memory),
    )
    if (bench.name === 'sim') assert.deepEqual(processes, [{ pid: process.pid, usedBytes: memory.used }])
    else assert.ok(memory.used > 0 && processes.length >= 0, JSON.stringify(usage))
    for (const figure of [temperature, power, utilization]) assert.ok(figure === undefined || figure >= 0)
    context.diagnostic(JSON.stringify(usage))
    latch.open()
  })
})
