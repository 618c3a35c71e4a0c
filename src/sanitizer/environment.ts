/** CUDA_STREAMS_SANITIZER: starts a sanitizer when the default driver is opened. */
import type { WrappableDriver } from '../driver/wrappable-driver.js'
import { optionsOf } from './environment-options.js'
import { Sanitizer } from './sanitizer.js'

export function open(_front: WrappableDriver, value: string): void {
  Sanitizer.start(optionsOf(value))
}
