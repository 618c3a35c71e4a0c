/** How many devices of what memory are simulated. Apart from the rest, which only the simulator reads. */

/** More devices than any machine has; a mistyped figure should not fill the memory. */
export const MOST_DEVICES = 64
/** Bytes that an H200 has (nominally), and more than any device has. */
export const H200_MEMORY = 141e9
export const MOST_MEMORY = 2 ** 46
