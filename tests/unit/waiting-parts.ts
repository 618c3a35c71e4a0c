/** The three parts of the CUDA driver's waiting, wired as it wires them, on whatever a test pretends. */
import { Captures } from '../../src/driver/cuda/host-functions/captures.js'
import { HostFunctions, type HostFunctionsParts } from '../../src/driver/cuda/host-functions/host-functions.js'
import type { Threads } from '../../src/driver/cuda/host-functions/thread-table.js'
import { Blocking, type BlockingParts } from '../../src/driver/cuda/waiting/blocking.js'
import { CallsApart, type CallsApartParts } from '../../src/driver/cuda/waiting/calls-apart.js'
import { Completions } from '../../src/driver/cuda/waiting/completions.js'
import { Promises, type PromisesParts } from '../../src/driver/cuda/waiting/promises.js'
import { LoopPump, type Sleeper } from '../../src/driver/loop-pump.js'

interface Pretended {
  readonly threads: Threads
  readonly rest?: () => void
  readonly sleeper?: Sleeper
  readonly library?: object
}

export function waitingOf(pretended: Pretended) {
  const { threads, rest = () => {}, sleeper = { sleep: () => {}, cancel: () => {} }, library = {} } = pretended
  const captures = new Captures(threads, rest)
  const eventWaits = new Completions(library as never)
  const pump: LoopPump = new LoopPump(
    () => promises.turn(),
    sleeper,
    () => true,
  )
  const parts = { ...pretended, sleeper, captures, eventWaits, pump }
  const hostFunctions = new HostFunctions(parts as unknown as HostFunctionsParts)
  const more = { ...parts, hostFunctions }
  const promises = new Promises(more as unknown as PromisesParts)
  const blocking = new Blocking(more as unknown as BlockingParts)
  const callsApart = new CallsApart(more as unknown as CallsApartParts)
  return { hostFunctions, blocking, promises, callsApart, captures }
}
