/** CUDA_STREAMS_SANITIZER: starts a sanitizer when the default driver is opened. */
import type { Front } from '../driver/front.js'
import { startFromEnvironment } from '../sanitizer.js'

export function open(_front: Front, value: string): void {
  startFromEnvironment(value)
}
