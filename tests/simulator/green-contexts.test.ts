/** What partitions of the simulated device change: which kernels run side by side, in virtual time. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type GreenContext, Stream } from 'cuda-streams'
import { busy, explore, fault, simulate } from 'cuda-streams/sim'

/** Kernels that a whole device runs at one time. */
const SLOTS = 128
const LONG = 1_000_000
const SHORT = 1000
/** Virtual nanoseconds of a call to the driver. */
const CALL = 100

function deviceOf(seed = 0): Device {
  const [device] = simulate({ seed }).devices
  assert.ok(device)
  return device
}

/** Queues a kernel on each of so many streams. */
function fill(device: Device, count: number, nanoseconds: number, context?: GreenContext): Stream[] {
  const streams = Array.from({ length: count }, () => new Stream({ device, context }))
  for (const stream of streams) busy(stream, nanoseconds)
  return streams
}

/** Virtual nanoseconds until a kernel is done that is queued now. */
async function latencyOn(stream: Stream): Promise<number> {
  const begin = stream.record({ timing: true })
  busy(stream, SHORT)
  const end = stream.record({ timing: true })
  await end.finished()
  return end.elapsedSince(begin) * 1e6 - CALL
}

const isAbout = (found: number, wanted: number): void =>
  assert.ok(Math.abs(found - wanted) < 1e-3, `${found}, and not ${wanted}`)

describe('partitions of the simulated device', () => {
  it('E9 a kernel takes as long in a green context as elsewhere', async () => {
    const device = deviceOf()
    for (const context of device.split({ multiprocessors: [8, 64] })) {
      isAbout(await latencyOn(new Stream({ context })), SHORT)
    }
  })

  it('E9 as many kernels run at one time as the context has multiprocessors, in proportion', async () => {
    for (const multiprocessors of [8, 16, 64]) {
      const device = deviceOf()
      const [context] = device.split({ multiprocessors: [multiprocessors] })
      const slots = Math.floor((SLOTS * multiprocessors) / 132)
      fill(device, slots - 1, LONG, context)
      isAbout(await latencyOn(new Stream({ context })), SHORT)
      fill(device, 1, LONG, context)
      // The others have begun a little before.
      assert.ok((await latencyOn(new Stream({ context }))) > LONG / 2)
    }
  })

  it('E9 a tenant that fills its own part holds up no other, and one that fills the device does', async () => {
    const waits: Record<string, number> = {}
    for (const where of ['plain', 'its own part', 'the whole device']) {
      const device = deviceOf()
      const [small, rest] = device.split({ multiprocessors: [16] })
      fill(device, 2 * SLOTS, LONG, where === 'its own part' ? rest : undefined)
      const stream = where === 'plain' ? new Stream({ device }) : new Stream({ context: small })
      waits[where] = await latencyOn(stream)
    }
    assert.ok((waits['plain'] ?? 0) > LONG)
    assert.ok((waits['the whole device'] ?? 0) > LONG)
    isAbout(waits['its own part'] ?? 0, SHORT)
  })

  it('E9 kernels of a graph run in the parts where they were captured', async () => {
    const device = deviceOf()
    const [small, rest] = device.split({ multiprocessors: [16] })
    const there = new Stream({ context: small })
    const exec = there.capture(() => busy(there, SHORT)).instantiate()
    fill(device, 2 * SLOTS, LONG, rest)
    const plain = new Stream({ device })
    const begin = plain.record({ timing: true })
    plain.launch(exec)
    const end = plain.record({ timing: true })
    await end.finished()
    isAbout(end.elapsedSince(begin) * 1e6, SHORT + CALL)
    // Just as quick where it is launched on a stream of the other part.
    const other = new Stream({ context: rest })
    const from = other.record({ timing: true })
    other.launch(exec)
    const to = other.record({ timing: true })
    await to.finished()
    isAbout(to.elapsedSince(from) * 1e6, SHORT + CALL)
  })

  it('E9 a fault drops what waits for its turn in a part, and the turn of the event loop continues', async () => {
    const device = deviceOf(7)
    const [small] = device.split({ multiprocessors: [8] })
    const streams = fill(device, 40, LONG, small)
    fault(new Stream({ device }))
    for (const stream of streams) await assert.rejects(stream.finished(), /ILLEGAL_ADDRESS/)
  })

  it('E9 every order of kernels of two parts is explored, as they run side by side', async () => {
    const seen = new Set<string>()
    await explore(({ devices: [device] }) => {
      assert.ok(device)
      const [small, rest] = device.split({ multiprocessors: [16] })
      const order: string[] = []
      const [one, other] = [new Stream({ context: small }), new Stream({ context: rest })]
      one.launchHostFunc(() => order.push('small'))
      other.launchHostFunc(() => order.push('rest'))
      device.synchronize()
      seen.add(order.join())
    })
    assert.deepEqual([...seen].toSorted(), ['rest,small', 'small,rest'])
  })
})
