/** The states of a thread while the threads of its block are in different states. */
export const READY = 0
export const WAITING = 1
export const GONE = 2
/** The state of a thread that has used up its turn and goes on in the next round. */
export const YIELDED = 3
