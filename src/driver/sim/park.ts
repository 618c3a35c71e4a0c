/** The simulator's sleep: nothing can happen until somebody queues or opens something, so nothing is watched. */
import type { Sleeper } from '../loop-pump.js'

const LONGEST_TIMEOUT = 2 ** 31 - 1

/** Keeps the process alive, as pending work does on a GPU, and burns nothing. */
export function park(): Sleeper {
  let timer: NodeJS.Timeout | undefined
  return {
    sleep() {
      timer = setInterval(() => {}, LONGEST_TIMEOUT)
    },
    cancel() {
      clearInterval(timer)
      timer = undefined
    },
  }
}
