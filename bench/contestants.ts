/** The contestants outside this process: the C program and the Python libraries, each a child that answers lines. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import type { Contestant } from './catalogue.js'

/** A contestant that does not take part, and why. */
export interface Absent {
  readonly name: string
  readonly reason: string
}

export interface Surroundings {
  /** bench/ in the source tree. */
  readonly sources: string
  /** Where the C program is built. */
  readonly scratch: string
  readonly libcuda: string
  readonly ptx: string
  /** The environment of the C program, which is to have what cuda-streams has. */
  readonly environment: NodeJS.ProcessEnv
  /** That of the Python libraries. */
  readonly pythonEnvironment: NodeJS.ProcessEnv
}

const START_LIMIT_MS = 45_000
const TURN_LIMIT_MS = 15_000
const LEAVE_LIMIT_MS = 3_000

const pythonLibraries = [
  { name: 'CuPy', argument: 'cupy' },
  { name: 'PyTorch', argument: 'torch' },
  { name: 'cuda.core', argument: 'cuda.core' },
  { name: 'Numba', argument: 'numba' },
] as const

/** Starts them all at once, since importing takes them seconds. C comes first. */
export function startContestants(around: Surroundings): Promise<(Contestant | Absent)[]> {
  const script = join(around.sources, 'contestant.py')
  const { BENCH_PYTHON: python = 'python3' } = around.environment
  return Promise.all([
    startC(around),
    ...pythonLibraries.map(({ name, argument }) =>
      start(name, python, [script, argument, around.libcuda, around.ptx], around.pythonEnvironment),
    ),
  ])
}

async function startC(around: Surroundings): Promise<Contestant | Absent> {
  const program = join(around.scratch, 'contestant')
  const build = ['-O2', join(around.sources, 'contestant.c'), '-o', program, '-ldl']
  let reason = ''
  for (const compiler of ['cc', 'gcc', 'clang']) {
    const child = new Child(compiler, build, around.environment)
    const status = await child.exit(START_LIMIT_MS)
    if (status === 0) return start('C', program, [around.libcuda, around.ptx], around.environment)
    reason ||= child.complaint || `${compiler} failed`
  }
  return { name: 'C', reason }
}

async function start(
  name: string,
  command: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<Contestant | Absent> {
  const child = new Child(command, args, environment)
  try {
    const [word, ...rest] = (await child.line(START_LIMIT_MS)).split(' ')
    if (word === 'ready' && rest[0] !== undefined) return contestant(name, rest[0], new Set(rest.slice(1)), child)
    await child.leave()
    return { name, reason: word === 'left-out' ? rest.join(' ') : `unexpected answer '${word} ${rest.join(' ')}'` }
  } catch (error) {
    await child.leave()
    return { name, reason: error instanceof Error ? error.message : String(error) }
  }
}

function contestant(name: string, version: string, keys: ReadonlySet<string>, child: Child): Contestant {
  return {
    name,
    version,
    keys,
    async run(key, calls) {
      child.say(`run ${key} ${calls}`)
      const answer = await child.line(TURN_LIMIT_MS)
      const perCall = Number(answer.startsWith('ns ') ? answer.slice(3) : Number.NaN)
      if (!Number.isFinite(perCall)) throw new Error(answer.replace(/^fail /, ''))
      return perCall
    },
    close: () => child.leave(),
  }
}

/** A child process that is spoken to in lines. */
class Child {
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

  /** Why it failed, as far as it said. */
  get complaint(): string {
    return this.#failure ?? this.#complaints.trim().split('\n').at(-1) ?? ''
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

  /** Closes its stdin, which ends a contestant. */
  async leave(): Promise<void> {
    this.#process.stdin.end()
    await this.exit(LEAVE_LIMIT_MS)
  }

  /** A child that is too slow is killed and its pipes are shut, whoever else holds them: that ends every wait for it. */
  async #within<T>(limitMs: number, wait: Promise<T>): Promise<T> {
    const timer = setTimeout(() => {
      this.#failure ??= `no answer within ${limitMs / 1000} s`
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
