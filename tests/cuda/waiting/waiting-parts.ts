/** The three parts of the CUDA driver's waiting, wired as it wires them, on whatever a test pretends. */
import { Captures } from '../../../src/cuda/host-functions/captures.js'
import {
  type HostFunctionParts,
  PendingHostFunctions,
} from '../../../src/cuda/host-functions/pending-host-functions.js'
import type { ProcessRegistry } from '../../../src/cuda/host-functions/process-registry.js'
import { Blocking } from '../../../src/cuda/waiting/blocking.js'
import { CallsOnThreads } from '../../../src/cuda/waiting/calls-on-threads.js'
import { EventPool } from '../../../src/cuda/waiting/event-pool.js'
import { Completions, Promises, type WaitingParts } from '../../../src/cuda/waiting/promises.js'
import { UsualWaits } from '../../../src/cuda/waiting/usual-waits.js'
import { type BackOff, EventLoopPoller } from '../../../src/foundation/driver/event-loop-poller.js'
import type { EventHandle } from '../../../src/foundation/driver/handle-types.js'

import { AnyStreams } from '../fake-parts.js'

interface Fake {
  readonly registry: ProcessRegistry
  readonly spinWait?: () => void
  readonly backOff?: BackOff
  readonly library?: object
  readonly semaphores?: object
}

/** Semaphores at which no stream waits for a promise. */
function withoutWaits(semaphores: object | undefined): object | undefined {
  if (semaphores === undefined || 'waits' in semaphores) return semaphores
  const functionsPending = { get: (): unknown => Reflect.get(semaphores, 'pending') }
  return Object.defineProperties(semaphores, { waits: { value: new Set() }, functionsPending })
}

/** The library's own records, made with the events of a pool. */
function withRecords(pool: object): object {
  const recordOf: EventPool['recordOf'] = (...given) => EventPool.prototype.recordOf.apply(pool as EventPool, given)
  return Object.assign(pool, { recordOf })
}

export function waitingOf(fake: Fake) {
  const { registry, spinWait = () => {}, backOff = { sleep: () => {}, cancel: () => {} }, library = {} } = fake
  const captures = new Captures({ library } as never, registry, spinWait)
  const usualWaits = new UsualWaits()
  const eventWaits = new Completions<EventHandle>(library as never, usualWaits)
  const poller: EventLoopPoller = new EventLoopPoller(
    () => promises.turn(),
    backOff,
    () => true,
  )
  const semaphores = withoutWaits(fake.semaphores)
  const valueWaits = { any: false, anyBlocks: () => false }
  const pool = 'pool' in fake ? withRecords(fake.pool as object) : undefined
  const given = {
    streams: new AnyStreams(),
    ...fake,
    pool,
    semaphores,
    valueWaits,
    spinWait,
    backOff,
    captures,
    eventWaits,
    usualWaits,
    poller,
  }
  const hostFunctions = new PendingHostFunctions(given as unknown as HostFunctionParts)
  const parts = { ...given, hostFunctions } as unknown as WaitingParts
  const promises = new Promises(parts)
  const blocking = new Blocking(parts)
  const callsOnThreads = new CallsOnThreads(parts)
  return { hostFunctions, blocking, promises, callsOnThreads, captures }
}

/** For waits during which no stream begins to capture. */
export const nothingCaptures = (): never => {
  throw new Error('A record was requested, though no stream captures')
}
