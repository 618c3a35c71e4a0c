/** Text for people, on standard error. */
import { process } from './node-modules.js'
import { printableLines } from './printable.js'

export interface Terminal {
  readonly columns: number
  write(text: string): unknown
}

/** Prints one line, or several. */
export function printError(text: string): void {
  process.stderr.write(`${printableLines(printableLines(text))}\n`)
}

/**
 * The terminal that standard error is; undefined if it is none. The file descriptor is checked, because a stream that is no terminal
 * has no property that says so. node:tty takes milliseconds to load, and few programs need it.
 */
export const openTerminal = (): Terminal | undefined =>
  process.getBuiltinModule('node:tty').isatty(2) ? process.stderr : undefined
