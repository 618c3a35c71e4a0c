/** What the wrappers of the sub-drivers share. */
import type { Driver } from '../driver/driver.js'
import type { Detector } from './detector.js'

export interface SanitizerParts {
  readonly detector: Detector
  /** Whom the calls are passed to: it changes when wrappers are put in and taken out. */
  readonly inner: () => Driver
  /** A race is refused before its work is queued. */
  readonly probes: boolean
}
