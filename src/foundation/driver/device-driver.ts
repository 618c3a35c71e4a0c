/** The types of the driver interface for devices and their contexts. */

import type { ContextHandle } from './handle-types.js'

/** A context whose kernels run on some multiprocessors of a device only. */
export interface GreenContextPart {
  /** `cuCtxFromGreenCtx` */
  readonly context: ContextHandle
  readonly multiprocessors: number
}
