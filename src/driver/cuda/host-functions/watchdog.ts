/**
 * The watchdog (native/watchdog.c): a thread that warns when a thread of JavaScript has not looked for host functions for a while,
 * though a stream stands at one. That thread is inside a call of another library, or a loop, and can say nothing itself.
 */
import { invalidValue } from '../../../base/errors.js'
import { seconds, warnAfter } from '../../../base/warnings.js'
import { own } from '../libcuda/c-functions.js'
import { NativeMemory } from '../libcuda/native.js'

/**
 * Makes the function that starts the watchdog before the first host function is queued: one for the process. It has no
 * effect when nothing listens to warnings.
 */
export function makeWatchdog(): () => void {
  const wanted = process.env['CUDA_STREAMS_WATCHDOG'] || '1'
  if (wanted !== '0' && wanted !== '1') throw invalidValue(`CUDA_STREAMS_WATCHDOG must be 0 or 1, not '${wanted}'`)
  const after = warnAfter()
  let isNeeded = wanted === '1' && after !== Number.POSITIVE_INFINITY && process.listenerCount('warning') > 0
  return () => {
    if (!isNeeded) return
    isNeeded = false
    const text = NativeMemory.ofText(seconds(after))
    // When the system gives no thread, there is no watchdog.
    own().watch(after * 1e6, text.address)
    text.free()
  }
}
