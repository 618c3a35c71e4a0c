/** Where public calls are tried, and what they leave behind there. */
import assert from 'node:assert/strict'
import { Stream } from 'cuda-streams'
import { busy, type Simulation } from 'cuda-streams/sim'
import { driverOf } from '../../src/device.js'
import { SimDriver } from '../../src/driver/sim/sim-driver.js'
import { backendOf } from '../../src/driver/wrappable-driver.js'
import { collectUntil } from '../conformance/expect.js'
import type { Stage } from './public-calls.js'

export function backendIn({ devices: [device] }: Simulation): SimDriver {
  assert.ok(device)
  const backend = backendOf(driverOf(device))
  assert.ok(backend instanceof SimDriver)
  return backend
}

export function stageIn({ devices: [device] }: Simulation): Stage {
  assert.ok(device)
  const [stream, other] = [new Stream({ device }), new Stream({ device })]
  const [own, theirs] = [device.alloc(64, { stream }), device.alloc(64, { stream: other })]
  stream.fill(own, 1)
  other.fill(theirs, 2)
  busy(other, 1000)
  stream.wait(other)
  return { device, stream, other, own, theirs, ran: { count: 0 } }
}

type Counts = SimDriver['counts']

export const isNoMore = (some: Counts, others: Counts): boolean =>
  some.streams <= others.streams && some.events <= others.events && some.bytes <= others.bytes

/** What is left when garbage was collected a few times, or when it is enough: by default, when a collection changes nothing. */
export async function left(simulation: Simulation, isEnough?: (counts: Counts) => boolean): Promise<Counts> {
  const backend = backendIn(simulation)
  let rounds = 0
  let before: Counts | undefined
  await collectUntil(() => {
    simulation.devices[0]?.synchronize()
    rounds += 1
    const now = backend.counts
    const isOver = isEnough?.(now) ?? (before !== undefined && isNoMore(before, now))
    before = now
    return rounds === 5 || isOver
  })
  return backend.counts
}
