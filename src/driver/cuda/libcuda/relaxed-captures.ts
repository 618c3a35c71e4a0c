/**
 * Calls that CUDA refuses while any thread of the process captures in global mode, unless the calling one says that it
 * knows.
 */
import type { Library } from './library.js'
import { NativeMemory } from './native.js'

const CAPTURE_MODE_RELAXED = 2

export class RelaxedCaptures {
  /** Holds the mode to set, and from then on the thread's own. */
  readonly #mode = new NativeMemory(8)
  #relaxed = false

  constructor(private readonly library: Pick<Library, 'cuThreadExchangeStreamCaptureMode'>) {}

  /** Runs `fn` without harm to a capture that is under way. */
  run<R>(fn: () => R): R {
    if (this.#relaxed) return fn()
    const { cuThreadExchangeStreamCaptureMode } = this.library
    this.#mode.int32[0] = CAPTURE_MODE_RELAXED
    cuThreadExchangeStreamCaptureMode(this.#mode.address)
    this.#relaxed = true
    try {
      return fn()
    } finally {
      this.#relaxed = false
      cuThreadExchangeStreamCaptureMode(this.#mode.address)
    }
  }
}
