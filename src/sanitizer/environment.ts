/** CUDA_STREAMS_SANITIZER: starts a sanitizer when the default driver is opened. */
import type { Front } from '../driver/front.js'
import { Sanitizer } from '../sanitizer.js'
import { checkMode } from './modes.js'

export function open(_front: Front, value: string): void {
  Sanitizer.start({ mode: value === '1' ? 'print' : checkMode(value, 'CUDA_STREAMS_SANITIZER') })
}
