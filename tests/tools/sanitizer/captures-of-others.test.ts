/** Captures that another library begins or ends, which no call shows: streams that are in them, and that are in them no more. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Device, type DeviceBuffer, ExternalStream, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { destroyForeignStream, foreignStream, simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import { CaptureMode } from '../../../src/foundation/driver/driver-constants.js'
import type { StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { backendOf } from '../../../src/foundation/driver/wrappable-driver.js'

interface Scene {
  readonly device: Device
  readonly data: DeviceBuffer
  /** Begins or ends a capture behind the sanitizer's back. */
  begin(handle: bigint): void
  end(handle: bigint): void
  /** How much was found since the last time. */
  found(): number
}

function watched(test: (scene: Scene) => void): void {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const data = device.alloc(16)
  device.synchronize()
  const { graphs } = backendOf(driverOf(device))
  // Without stacks each pair of streams is told of again.
  using sanitizer = Sanitizer.start({ device, stacks: 'none' })
  let known = 0
  test({
    device,
    data,
    begin: (handle) => graphs.begin(Number(handle) as StreamHandle, CaptureMode.RELAXED),
    end: (handle) => void graphs.end(Number(handle) as StreamHandle),
    found: () => {
      const before = known
      known = sanitizer.reports.length
      return known - before
    },
  })
}

it('what is captured is not held against what is queued, and what comes afterwards is', () => {
  watched(({ device, data, begin, end, found }) => {
    const [joined, other] = [new Stream({ device }), new Stream({ device })]
    const handle = foreignStream(device)
    begin(handle)
    const theirs = new ExternalStream(handle, { device })
    joined.wait(theirs)
    other.fill(data, 1)
    theirs.fill(data, 2)
    joined.fill(data, 3)
    theirs.wait(joined)
    assert.equal(found(), 0)
    end(handle)
    joined.fill(data, 4)
    assert.equal(found(), 1)
    theirs.fill(data, 5)
    assert.ok(found() > 0)
  })
})

it('a stream that was wrapped before their capture, and again inside of it', () => {
  watched(({ device, data, begin, end, found }) => {
    const other = new Stream({ device })
    const handle = foreignStream(device)
    const early = new ExternalStream(handle, { device })
    begin(handle)
    const late = new ExternalStream(handle, { device })
    other.fill(data, 1)
    late.fill(data, 2)
    assert.equal(found(), 0)
    end(handle)
    early.fill(data, 3)
    assert.equal(found(), 1)
  })
})

it('a capture of ours that they end', () => {
  watched(({ device, data, end, found }) => {
    const [origin, joined, other] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
    const { handle } = origin
    origin.beginCapture()
    joined.wait(origin)
    joined.fill(data, 1)
    origin.wait(joined)
    end(handle)
    other.fill(data, 2)
    assert.equal(found(), 0)
    joined.fill(data, 3)
    assert.equal(found(), 1)
  })
})

it('a stream that was in a capture when the sanitizer began, and is closed before that ends', () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const [origin, joined, other] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
  const data = device.alloc(16)
  device.synchronize()
  origin.beginCapture()
  joined.wait(origin)
  using sanitizer = Sanitizer.start({ device })
  joined.fill(data, 1)
  origin.wait(joined)
  joined.close()
  other.fill(data, 2)
  origin.fill(data, 3)
  assert.deepEqual(sanitizer.reports, [])
  origin.endCapture()
  origin.fill(data, 4)
  assert.equal(sanitizer.reports.length, 1)
})

it('a stream in the place of one that is gone, which captures when it is wrapped', () => {
  watched(({ device, data, begin, end, found }) => {
    const gone = foreignStream(device)
    const first = new ExternalStream(gone, { device })
    first.fill(data, 1)
    first.close()
    destroyForeignStream(gone)
    const handle = foreignStream(device)
    assert.equal(handle, gone)
    begin(handle)
    const second = new ExternalStream(handle, { device })
    second.fill(data, 2)
    end(handle)
    assert.equal(found(), 0)
    second.fill(data, 3)
    assert.equal(found(), 1)
  })
})
