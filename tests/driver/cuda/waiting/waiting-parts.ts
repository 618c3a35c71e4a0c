/** The three parts of the CUDA driver's waiting, wired as it wires them, on whatever a test pretends. */
import { Captures } from '../../../../src/driver/cuda/host-functions/captures.js'
import { HostFunctions, type HostFunctionsParts } from '../../../../src/driver/cuda/host-functions/host-functions.js'
import type { Threads } from '../../../../src/driver/cuda/host-functions/thread-table.js'
import { Blocking, type WaitingParts } from '../../../../src/driver/cuda/waiting/blocking.js'
import { CallsApart } from '../../../../src/driver/cuda/waiting/calls-apart.js'
import { Completions } from '../../../../src/driver/cuda/waiting/completions.js'
import { EventPool } from '../../../../src/driver/cuda/waiting/event-pool.js'
import { Promises } from '../../../../src/driver/cuda/waiting/promises.js'
import type { EventHandle } from '../../../../src/driver/driver.js'
import { LoopPump, type Sleeper } from '../../../../src/driver/loop-pump.js'

import { AnyStreams } from '../any-streams.js'

interface Pretended {
  readonly threads: Threads
  readonly rest?: () => void
  readonly sleeper?: Sleeper
  readonly library?: object
  readonly gates?: object
}

/** Gates at which no stream stands for a promise. */
function withoutHolds(gates: object | undefined): object | undefined {
  if (gates === undefined || 'holds' in gates) return gates
  const functionsPending = { get: (): unknown => Reflect.get(gates, 'pending') }
  return Object.defineProperties(gates, { holds: { value: new Set() }, functionsPending })
}

/** The library's own records, made with the events of a pool. */
function withRecords(pool: object): object {
  const recordOf: EventPool['recordOf'] = (...given) => EventPool.prototype.recordOf.apply(pool as EventPool, given)
  return Object.assign(pool, { recordOf })
}

export function waitingOf(pretended: Pretended) {
  const { threads, rest = () => {}, sleeper = { sleep: () => {}, cancel: () => {} }, library = {} } = pretended
  const captures = new Captures({ library } as never, threads, rest)
  const eventWaits = new Completions<EventHandle>(library as never)
  const pump: LoopPump = new LoopPump(
    () => promises.turn(),
    sleeper,
    () => true,
  )
  const gates = withoutHolds(pretended.gates)
  const valueWaits = { any: false, anyStands: () => false }
  const pool = 'pool' in pretended ? withRecords(pretended.pool as object) : undefined
  const given = {
    streams: new AnyStreams(),
    ...pretended,
    pool,
    gates,
    valueWaits,
    rest,
    sleeper,
    captures,
    eventWaits,
    pump,
  }
  const hostFunctions = new HostFunctions(given as unknown as HostFunctionsParts)
  const parts = { ...given, hostFunctions } as unknown as WaitingParts
  const promises = new Promises(parts)
  const blocking = new Blocking(parts)
  const callsApart = new CallsApart(parts)
  return { hostFunctions, blocking, promises, callsApart, captures }
}

/** For waits during which no stream begins to capture. */
export const nothingCaptures = (): never => {
  throw new Error('A record was asked for, though no stream captures')
}
