import { Device } from 'cuda-streams'

/** Why there is no GPU for cuda-streams here; undefined if there is one. */
export function gpuUnavailable(): string | undefined {
  try {
    const { driver } = Device.get()
    return driver === 'cuda' ? undefined : `needs a GPU, and cuda-streams runs on the '${driver}' driver here`
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_NO_DRIVER') return error.message
    throw error
  }
}
