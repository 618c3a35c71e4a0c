/** Takes the place of backends.ts in a page: there is no driver of real GPUs. */
import { stateError } from '../foundation/base/errors.js'
import * as simulated from '../simulator/sim-driver.js'

type CudaBackend = Pick<typeof import('../cuda/open.js'), 'openCudaDriver' | 'absence' | 'noDriver'>

const cuda: CudaBackend = {
  openCudaDriver: () => undefined,
  absence: () => 'A program in a browser cannot use the GPU through CUDA: the simulator takes its place',
  noDriver: (why, cause) => stateError('ERR_NO_DRIVER', why, cause),
}

export const cudaBackend = (): CudaBackend => cuda
export const simulatedBackend = (): typeof simulated => simulated
