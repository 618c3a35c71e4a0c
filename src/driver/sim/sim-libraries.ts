/** Other libraries on the simulated GPU: it runs none of their code, but twins in JavaScript where there are any. */
import { stateError } from '../../base/errors.js'
import { LIBRARY_CALL } from '../deadlocks.js'
import type { ContextHandle, KernelDriver, LibraryDriver, LibraryWork, StreamHandle } from '../driver.js'
import type { HostWaits } from './machine/host-waits.js'

export class SimLibraries implements LibraryDriver {
  constructor(
    private readonly kernels: KernelDriver,
    private readonly waits: HostWaits,
    private readonly refuseQueuing: (stream: StreamHandle) => void,
  ) {}

  get hostFunctionsPending(): boolean {
    return this.waits.holdsUpDevice
  }

  queue(work: readonly LibraryWork[]): void {
    const twins = work.map(({ name, stream, memory, twin }) => {
      if (twin === undefined) throw refused(name)
      return { stream, twin: { name, memory, shape: undefined, ...twin } }
    })
    for (const { stream } of twins) this.refuseQueuing(stream)
    for (const { stream, twin } of twins) this.kernels.launchTwin(stream, twin)
  }

  call<R>(_context: ContextHandle, fn: () => R): R {
    this.waits.refuseExclusive(LIBRARY_CALL)
    return fn()
  }

  apart(): never {
    throw refused('This call')
  }

  waitUntil(): never {
    throw refused('This wait')
  }
}

function refused(what: string): Error {
  return stateError('ERR_UNSUPPORTED', `${what} needs a real GPU: the simulator runs no code of CUDA's libraries`)
}
