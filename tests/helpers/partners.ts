/**
 * Who there is to exchange streams and memory with: the Python libraries of this machine, loaded together in this
 * process, and always one of the simulation. What is missing is printed.
 */
import { Device } from 'cuda-streams'
import type { Python } from 'cuda-streams/python'
import { simulate } from 'cuda-streams/sim'
import { COUNT } from '../../examples/python/exchanges.js'
import type { Library } from '../../examples/python/library.js'
import { isNotHere, openPythonLibraries, type PythonLibraryName } from '../../examples/python/python-library.js'
import { SimulatedLibrary } from '../../examples/python/simulated-library.js'
import { openCudaWorkbench } from './cuda-workbench.js'
import { openPython } from './python.js'

export interface Real {
  readonly device: Device
  readonly python: Python
  readonly libraries: readonly Library[]
  /** Those that are here and do not open, with Python's traceback. */
  readonly broken: readonly { readonly name: PythonLibraryName; readonly error: Error }[]
}

/** The libraries on a real GPU, or why there are none. */
export function realPartners(): Real | string {
  // The GPU before Python: libcuda reads the number of hardware queues when it starts.
  const cuda = openCudaWorkbench()
  if (typeof cuda === 'string') return `no NVIDIA driver here: ${cuda}`
  const python = openPython()
  if (typeof python === 'string') return python
  const device = Device.get(0)
  const { libraries, missing } = openPythonLibraries(python, device, COUNT)
  for (const { name, error } of missing) console.log(`${name} is not tested:\n${error.stack}`)
  console.log(`loaded in one process: ${libraries.map(({ name }) => name).join(', ') || 'none'}`)
  return { device, python, libraries, broken: missing.filter(({ error }) => !isNotHere(error)) }
}

/** Two devices of a machine of their own. */
export function simulatedDevices(): readonly [Device, Device] {
  const [first, second] = simulate({ devices: 2 }).devices
  if (first === undefined || second === undefined) throw new Error('the simulation was to have two devices')
  return [first, second]
}

export function simulatedDevice(): Device {
  return simulatedDevices()[0]
}

export function simulatedPartner(device: Device): Library {
  return new SimulatedLibrary(device, COUNT)
}
