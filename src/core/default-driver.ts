/** The driver that a program gets when it names none. It is chosen at the first use, never at import. */
import { cudaBackend, simulatedBackend } from '#backends'
import { VARIABLES } from '../foundation/base/environment-variables.js'
import { process } from '../foundation/base/node-modules.js'
import { onceInAllThreads } from '../foundation/base/once-in-all-threads.js'
import type { Driver } from '../foundation/driver/driver.js'
import { type WrappableDriver, wrappableOf } from '../foundation/driver/wrappable-driver.js'
import { defaultMemory } from '../simulator/limits.js'
import { interceptAsEnvironmentSays } from './environment-interceptors.js'
import { checkSyncAsEnvironmentSays } from './sync-check.js'

/** Threads have modules of their own: the first that has to warn does so for all. */
const mustWarn = onceInAllThreads('cuda-streams: warned of the simulator')

let opened: WrappableDriver | undefined
/** The chosen driver, once no listener has refused it. */
let chosen: WrappableDriver | undefined
const toBeTold = new Set<(driver: WrappableDriver) => void>()

export function defaultDriver(): WrappableDriver {
  return chosen ?? open()
}

/**
 * Calls `tell` with the default driver: now if it is open, otherwise when it is opened. The returned function cancels
 * that.
 */
export function whenDriverOpens(tell: (driver: WrappableDriver) => void): () => void {
  if (chosen === undefined) toBeTold.add(tell)
  else tell(chosen)
  return () => void toBeTold.delete(tell)
}

function open(): WrappableDriver {
  opened ??= wrappableOf(choose())
  const driver = opened
  // The driver is chosen only after all listeners were called: a listener that refuses it refuses every use.
  checkSyncAsEnvironmentSays(driver)
  interceptAsEnvironmentSays(driver)
  for (const tell of toBeTold) tell(driver)
  toBeTold.clear()
  chosen = driver
  return driver
}

/**
 * The driver of a handle that came without a device. Simulations have separate ranges of handles, so the right
 * simulation can be found. A handle in none of these ranges belongs to the driver `near`.
 */
export function driverForHandle(handle: number, near: WrappableDriver): WrappableDriver {
  const owner = near.name === 'sim' ? simulatedBackend().simulatorOfHandle(handle) : undefined
  return owner === undefined ? near : wrappableOf(owner)
}

function choose(): Driver {
  const wanted = VARIABLES.driver.read()
  return wanted === 'sim' ? openSimulator() : (cudaBackend().openCudaDriver() ?? withoutCudaDriver(wanted))
}

/**
 * Opens the simulator on a machine that has no NVIDIA driver. A driver that does not work is an error, so that a GPU is never
 * simulated by accident.
 */
function withoutCudaDriver(wanted: 'cuda' | 'auto'): Driver {
  const { absence, noDriver } = cudaBackend()
  if (wanted === 'cuda') throw noDriver(absence())
  const simulator = openSimulator()
  if (!mustWarn()) return simulator
  process.emitWarning('Using the simulated GPU, since this machine has no NVIDIA driver', {
    type: 'CudaStreamsWarning',
    code: 'CUDA_STREAMS_SIMULATED',
    detail:
      'Set CUDA_STREAMS_DRIVER=sim to choose it without this warning, or =cuda to make the lack of a driver an error.',
  })
  return simulator
}

function openSimulator(): Driver {
  const { SimDriver } = simulatedBackend()
  const devices = VARIABLES.simDevices.read()
  return new SimDriver({
    devices,
    seed: VARIABLES.simSeed.read(),
    memory: VARIABLES.simMemory.read() || defaultMemory(devices),
  })
}
