/** Text for people, on standard error: lines, and one line for progress that is rewritten. */
import { monotonicTime } from './event-loop.js'
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
const openTerminal = (): Terminal | undefined =>
  process.getBuiltinModule('node:tty').isatty(2) ? process.stderr : undefined

/** Milliseconds before the first line, so that quick work prints nothing, and between two lines. */
const FIRST = 500
const BETWEEN = 100

/** The progress of long work, on one line of a terminal that is rewritten. Silent if standard error is no terminal. */
export class ProgressLine {
  #next = monotonicTime() + FIRST
  #shown = false

  constructor(private readonly terminal: Terminal | undefined = openTerminal()) {}

  /** `text` is called only if the line is written. */
  show(text: () => string): void {
    if (this.terminal === undefined || monotonicTime() < this.#next) return
    this.#next = monotonicTime() + BETWEEN
    this.#shown = true
    // Moves to the beginning of the line, so that other output begins there.
    this.terminal.write(`\r\x1b[K${text().slice(0, (this.terminal.columns || 80) - 1)}\r`)
  }

  /** Removes the line. To be called before something else is printed, and at the end. */
  erase(): void {
    if (this.#shown) this.terminal?.write('\x1b[K')
    this.#shown = false
  }
}
