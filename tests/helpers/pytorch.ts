import { gpuUnavailable } from '../../examples/python/gpu.js'
import { pythonUnavailable, startPython } from '../../examples/python/python.js'
import { storyUnavailable } from '../../examples/pytorch/story.js'

/** Why PyTorch cannot be called here; the cheapest question first, as importing torch takes seconds. */
export function pytorchUnavailable(): string | undefined {
  const noDriver = gpuUnavailable()
  if (noDriver !== undefined) return noDriver
  const python = startPython()
  return python === undefined ? pythonUnavailable() : storyUnavailable(python)
}
