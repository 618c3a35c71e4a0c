import { stateError } from '../../errors.js'
import type { Driver } from '../driver.js'
export function openCudaDriver(): Driver {
  throw stateError('ERR_NO_DRIVER', 'The NVIDIA driver was not found')
}
