/** A child process that is spoken to in lines: what the bench measures runs in one, each for itself. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface, type Interface } from 'node:readline'

/** CUDA takes seconds to take a large process down. */
const LEAVE_LIMIT_MS = 10_000

export class Child {
  readonly #command: string
  readonly #process: ChildProcessWithoutNullStreams
  readonly #reader: Interface
  readonly #lines: AsyncIterator<string>
  readonly #exit: Promise<number | null>
  #complaints = ''
  #failure: string | undefined

  constructor(command: string, args: readonly string[], environment: NodeJS.ProcessEnv) {
    this.#command = command
    const child = spawn(command, args, { env: environment })
    this.#process = child
    this.#reader = createInterface({ input: child.stdout })
    this.#lines = this.#reader[Symbol.asyncIterator]()
    this.#exit = once(child, 'close').then(
      ([status]: (number | null)[]) => status ?? null,
      (error: Error) => {
        this.#failure = error.message
        return null
      },
    )
    child.stdin.on('error', () => {}) // the child has gone; reading its lines says so
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#complaints = (this.#complaints + text).slice(-4000)
    })
  }

  /** Undefined if it could not be started. */
  get pid(): number | undefined {
    return this.#process.pid
  }

  /** Why it failed, as far as it said. */
  get complaint(): string {
    const lines = this.#complaints.trim().split('\n')
    // Node says its version after the error, and the stack; Python and compilers end with what was wrong.
    return this.#failure ?? lines.findLast((line) => /\b\w*Error\b.*:/.test(line)) ?? lines.at(-1) ?? ''
  }

  say(line: string): void {
    this.#process.stdin.write(`${line}\n`)
  }

  async line(limitMs: number): Promise<string> {
    const { done, value } = await this.#within(limitMs, this.#lines.next())
    if (!done) return value
    const status = await this.#exit
    throw new Error(this.complaint || `${this.#command} ended with status ${status ?? this.#process.signalCode}`)
  }

  exit(limitMs: number): Promise<number | null> {
    return this.#within(limitMs, this.#exit)
  }

  /** Closes its stdin, which ends a contestant. The result says if it did not, and was killed. */
  async leave(limitMs = LEAVE_LIMIT_MS): Promise<string | undefined> {
    const before = this.#failure
    this.#process.stdin.end()
    await this.#within(limitMs, this.#exit, 'it did not end')
    return this.#failure === before ? undefined : this.#failure
  }

  /** A child that is too slow is killed and its pipes are shut, whoever else holds them: that ends every wait for it. */
  async #within<T>(limitMs: number, wait: Promise<T>, what = 'no answer'): Promise<T> {
    const timer = setTimeout(() => {
      this.#failure ??= `${what} within ${limitMs / 1000} s`
      const { stdin, stdout, stderr } = this.#process
      this.#process.kill('SIGKILL')
      this.#reader.close()
      for (const pipe of [stdin, stdout, stderr]) pipe.destroy()
    }, limitMs)
    try {
      return await wait
    } finally {
      clearTimeout(timer)
    }
  }
}
