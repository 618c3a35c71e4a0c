/** Kernels of the simulated GPU: it runs no GPU code. */
import { stateError } from '../../errors.js'
import type { KernelHandle, ModuleHandle } from '../handles.js'
import type { KernelDriver } from '../kernel-driver.js'

export class SimKernels implements KernelDriver {
  async compile(): Promise<Uint8Array> {
    throw refused()
  }

  load(): ModuleHandle {
    throw refused()
  }

  unload(): void {}

  kernel(): KernelHandle {
    throw refused()
  }

  launch(): void {
    throw refused()
  }

  activeBlocks(): number {
    throw refused()
  }
}

function refused(): Error {
  return stateError('ERR_UNSUPPORTED', 'The simulator runs no GPU code: use the cuda driver for modules and kernels')
}
