/** How far long work is, on one line of a terminal that is written anew. Silent where standard error is no terminal. */
import { openTerminal, type Terminal } from '#platform'

/** Milliseconds before the first line, so that what is quick says nothing; and between two. */
const FIRST = 500
const BETWEEN = 100

export class ProgressLine {
  #next = performance.now() + FIRST
  #shown = false

  constructor(private readonly terminal: Terminal | undefined = openTerminal()) {}

  /** `text` is asked only where it is written. */
  show(text: () => string): void {
    if (this.terminal === undefined || performance.now() < this.#next) return
    this.#next = performance.now() + BETWEEN
    this.#shown = true
    // What others print meanwhile begins where the line begins.
    this.terminal.write(`\r\x1b[K${text().slice(0, (this.terminal.columns || 80) - 1)}\r`)
  }

  /** Before something else is printed, and at the end. */
  erase(): void {
    if (this.#shown) this.terminal?.write('\x1b[K')
    this.#shown = false
  }
}
