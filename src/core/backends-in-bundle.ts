/** The exports of backends.ts for a bundle, which has no other files that could be loaded later. */
import * as cuda from '../cuda/open.js'
import * as simulated from '../simulator/sim-driver.js'

export const cudaBackend = (): typeof cuda => cuda
export const simulatedBackend = (): typeof simulated => simulated
