/** What backends.ts exports, for a bundle: that has no files beside it to load later. */
import * as cuda from './cuda/open.js'
import * as simulated from './sim/sim-driver.js'

export const cudaBackend = (): typeof cuda => cuda
export const simulatedBackend = (): typeof simulated => simulated
