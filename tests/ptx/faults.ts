/** The fault with which a launch ends. */
import { KernelFault } from '../../src/ptx/faults.js'

export function faultOf(run: () => unknown): KernelFault {
  try {
    run()
  } catch (error) {
    if (error instanceof KernelFault) return error
    throw error
  }
  throw new Error('The kernel ran without a fault')
}
