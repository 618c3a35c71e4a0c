/** A8: after a fault of the GPU all that is pending rejects, and all later calls throw the same. On the simulator: a GPU would be lost for the process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { fault, latch, simulate } from 'cuda-streams/sim'

const ILLEGAL_ADDRESS = { number: 700 }

function twoDevices(): readonly [Device, Device] {
  const [device, second] = simulate({ devices: 2 }).devices
  assert.ok(device && second)
  return [device, second]
}

test('A8 the stream that has the fault, and every later call there, fails with the same error', async () => {
  const [device] = twoDevices()
  const stream = new Stream({ device })
  const buffer = device.alloc(4, { stream })
  fault(stream)
  await assert.rejects(stream.finished(), ILLEGAL_ADDRESS)
  for (const call of [() => stream.query(), () => stream.synchronize(), () => stream.fill(buffer, 1)]) {
    assert.throws(call, ILLEGAL_ADDRESS)
  }
  assert.throws(() => new Stream({ device }), ILLEGAL_ADDRESS)
  buffer.close()
  stream.close()
})

test('A8 so do all other streams, also of another device', async () => {
  const [device, second] = twoDevices()
  const [stream, other, there] = [new Stream({ device }), new Stream({ device }), new Stream({ device: second })]
  const pending = [other, there].map((each) => {
    latch(each)
    return each.finished()
  })
  fault(stream)
  for (const each of pending) await assert.rejects(each, ILLEGAL_ADDRESS)
  for (const each of [other, there]) assert.throws(() => each.query(), ILLEGAL_ADDRESS)
})

test('A8 work that was not done is not done any more, and host functions behind the fault do not run', async () => {
  const [device] = twoDevices()
  const stream = new Stream({ device })
  const pinned = device.allocPinned(4)
  const buffer = device.alloc(4, { stream })
  pinned.bytes.fill(0)
  let ran = 0
  stream.fill(buffer, 1)
  fault(stream)
  stream.copy(pinned, buffer).launchHostFunc(() => {
    ran += 1
  })
  await assert.rejects(stream.finished(), ILLEGAL_ADDRESS)
  assert.deepEqual([ran, ...pinned.bytes], [0, 0, 0, 0, 0])
})

test('A8 work that was done before is', async () => {
  const [device] = twoDevices()
  const stream = new Stream({ device })
  const pinned = device.allocPinned(4)
  const buffer = device.alloc(4, { stream })
  await stream.fill(buffer, 1).copy(pinned, buffer).finished()
  fault(stream)
  assert.throws(() => stream.synchronize(), ILLEGAL_ADDRESS)
  assert.deepEqual([...pinned.bytes], [1, 1, 1, 1])
})
