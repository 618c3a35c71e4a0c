/** Other libraries on the simulated GPU: it runs none of their code, but twins in JavaScript where there are any. */
import { stateError } from '../../base/errors.js'
import type { KernelDriver, LibraryDriver, LibraryWork } from '../driver.js'

export class SimLibraries implements LibraryDriver {
  readonly hostFunctionsPending = false

  constructor(private readonly kernels: KernelDriver) {}

  queue(work: readonly LibraryWork[]): void {
    const twins = work.map(({ name, stream, memory, twin }) => {
      if (twin === undefined) throw refused(name)
      return { stream, twin: { name, memory, shape: undefined, ...twin } }
    })
    for (const { stream, twin } of twins) this.kernels.launchTwin(stream, twin)
  }

  call(): never {
    throw refused('This call')
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
