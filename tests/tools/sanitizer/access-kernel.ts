/** Kernels that do nothing, but are said to read or to write each of their arguments. */
import { type DefinedKernel, defineKernel } from 'cuda-streams'

type AnyKernel = DefinedKernel<readonly ('in u8*' | 'out u8*')[]>

const kernels = new Map<string, AnyKernel>()

/** True for each argument that is written. */
export function accessKernel(writes: readonly boolean[]): AnyKernel {
  const key = writes.map((isWrite) => (isWrite ? 'w' : 'r')).join('')
  let kernel = kernels.get(key)
  if (kernel === undefined) {
    const parameters = writes.map((_, index) => `unsigned char* p${index}`).join(', ')
    kernel = defineKernel({
      name: `touch_${key}`,
      source: `extern "C" __global__ void touch_${key}(${parameters}) {}`,
      signature: writes.map((isWrite) => (isWrite ? 'out u8*' : 'in u8*')) as readonly ('in u8*' | 'out u8*')[],
      simulate() {},
    })
    kernels.set(key, kernel)
  }
  return kernel
}
