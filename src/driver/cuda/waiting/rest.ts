/** What a blocked JavaScript thread does between two looks at the GPU. */
import { koffi } from '../libcuda/native.js'

/** Spin this long first: most waits are over by then, and a sleep costs more than they take. */
const SPIN_FOR = 1_000_000
const NAP_MICROSECONDS = 50

/** Spins at first, as CUDA does; then naps, so that a long wait does not burn a core. */
export function makeRest(): (nanosecondsWaited: number) => void {
  if (process.platform === 'win32') return () => {}
  const usleep = koffi().load(null).func('int usleep(uint microseconds)')
  return (waited) => {
    if (waited > SPIN_FOR) usleep(NAP_MICROSECONDS)
  }
}
