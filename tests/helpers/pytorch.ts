import { gpuUnavailable } from '../../examples/python/gpu.js'
import { storyUnavailable } from '../../examples/pytorch/story.js'
import { openPython } from './python.js'

/** Why PyTorch cannot be called here; the cheapest question first, as importing torch takes seconds. */
export function pytorchUnavailable(): string | undefined {
  const noDriver = gpuUnavailable()
  if (noDriver !== undefined) return noDriver
  const python = openPython()
  return typeof python === 'string' ? python : storyUnavailable(python)
}
