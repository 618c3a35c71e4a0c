/** Other libraries on the simulated GPU. None of their code runs, but host implementations do if there are any. */
import { LIBRARY_CALL } from '../foundation/driver/deadlocks.js'
import type { ContextHandle } from '../foundation/driver/handle-types.js'
import type { LibraryDriver } from '../foundation/driver/library-driver.js'
import type { QueuedLibraryCalls } from '../foundation/driver/queued-work.js'
import type { CaptureRules } from './capture-rules.js'
import type { HostWaits } from './machine/host-waits.js'
import type { Registry } from './registry.js'
import { refusedLibrary, type SimKernels } from './sim-kernels.js'

export class SimLibraries implements LibraryDriver {
  constructor(
    private readonly kernels: SimKernels,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
  ) {}

  hostFunctionsPending(): boolean {
    return this.waits.holdsUpDevice
  }

  queue(work: QueuedLibraryCalls): void {
    const { calls } = work
    for (const { name, host } of calls) if (host === undefined) throw refusedLibrary(name)
    for (const { stream } of calls) {
      this.captures.refuseForeignWork(this.registry.liveStream(stream, 'cuStreamIsCapturing'))
    }
    for (const each of calls) this.kernels.queueCall(each, work.comparesAll === true)
  }

  call<R>(_context: ContextHandle, fn: () => R): R {
    this.waits.refuseExclusive(LIBRARY_CALL)
    return fn()
  }

  callOnThread(): never {
    throw refusedLibrary('This call')
  }

  makeOnThread(): never {
    throw refusedLibrary('This call')
  }

  waitUntil(): never {
    throw refusedLibrary('This wait')
  }
}
