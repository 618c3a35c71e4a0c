/** The progress of long work, on one line of a terminal that is rewritten. Silent if standard error is no terminal. */
import { monotonicTime } from './event-loop.js'
import { openTerminal, type Terminal } from './standard-error.js'

/** Milliseconds before the first line, so that quick work prints nothing, and between two lines. */
const FIRST = 500
const BETWEEN = 100

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
