/** Has the rows of a table played by child processes, a few at a time, and restarts one that hangs or crashes behind the cell. */
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Line, UNWELL } from './protocol.js'

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url))
/** A child that says nothing for so many milliseconds hangs. */
const SILENCE = 20_000
/** Where a row begins it may say nothing for longer: CUDA, a compiler or NCCL may have to start. */
const FIRST_SILENCE = 30_000
/** Milliseconds without progress after which a wait inside a host function is given up: less than the silence. */
const DEADLOCK_TIMEOUT = 2000
/** After so many hangs and crashes the rest of a row is not tried any more. */
const MOST_ENDS = 3
/** The same of processes that told what failed, and had to start again. */
const MOST_RESTARTS = 30
const AT_ONCE = Math.min(4, availableParallelism())

export interface Failure {
  readonly cell: string
  readonly what: string
}

export interface Report {
  /** Played. */
  readonly cells: number
  readonly failures: readonly Failure[]
  /** How many cells could not be played, by the reason. */
  readonly skipped: ReadonlyMap<string, number>
  /** Why none could be played. */
  readonly lacks: string | undefined
}

/** A row while it is played. */
class Progress implements Report {
  readonly row: string
  readonly failures: Failure[] = []
  readonly skipped = new Map<string, number>()
  cells = 0
  lacks: string | undefined
  isOver = false
  /** The first cell that was not begun. */
  next = 0
  #cell = 'before the first cell'
  #ends = 0
  #restarts = 0
  readonly #tell: (report: Report) => void

  constructor(row: string, tell: (report: Report) => void) {
    this.row = row
    this.#tell = tell
  }

  hear(line: Line): void {
    switch (line.is) {
      case 'cell':
        this.#cell = line.name
        this.cells += 1
        this.next = line.cell + 1
        break
      case 'failure':
        this.#failed(line.what)
        break
      case 'skip':
        this.skipped.set(line.why, (this.skipped.get(line.why) ?? 0) + 1)
        this.next = line.cell + 1
        break
      case 'end':
        this.lacks = line.lacks
        this.#end()
        break
    }
  }

  /** The process that played it has told what failed, and must not go on. */
  restart(): void {
    this.#restarts += 1
    if (this.#restarts >= MOST_RESTARTS) this.#giveUp(`${this.#restarts} processes were of no use any more`)
  }

  /** The process that played it has hung or crashed. */
  died(how: string): void {
    this.#failed(how)
    this.#ends += 1
    if (this.#ends >= MOST_ENDS) this.#giveUp(`${this.#ends} processes have hung or crashed`)
  }

  #giveUp(why: string): void {
    this.#cell = 'the rest'
    this.#failed(`not played, because ${why}`)
    this.#end()
  }

  #failed(what: string): void {
    this.failures.push({ cell: this.#cell, what })
  }

  #end(): void {
    this.isOver = true
    this.#tell(this)
  }
}

let running = 0
const waiting: (() => void)[] = []

/** Plays rows of a table on a backend: those that are asked for in one turn of the event loop share so many children. */
export function player(
  backend: string,
  driver: string,
  table: string,
  children: number,
): (row: string) => Promise<Report> {
  let asked: Progress[] = []
  const begin = (): void => {
    const rows = asked
    asked = []
    for (let child = 0; child < children; child += 1) {
      void playBatch(
        backend,
        driver,
        table,
        rows.filter((_, index) => index % children === child),
      )
    }
  }
  return (row) =>
    new Promise((resolve) => {
      if (asked.length === 0) setImmediate(begin)
      asked.push(new Progress(row, resolve))
    })
}

async function playBatch(backend: string, driver: string, table: string, batch: readonly Progress[]): Promise<void> {
  for (let left = batch; left.length > 0; left = left.filter(({ isOver }) => !isOver)) {
    while (running >= AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
    running += 1
    await playWithChild(backend, driver, table, left)
    running -= 1
    waiting.shift()?.()
  }
}

function playWithChild(backend: string, driver: string, table: string, batch: readonly Progress[]): Promise<void> {
  const tasks = JSON.stringify(batch.map(({ row, next }) => [row, next]))
  const child = spawn(process.execPath, ['--expose-gc', CHILD, backend, table, tasks], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
      CUDA_STREAMS_DRIVER: driver,
      CUDA_STREAMS_DEADLOCK_TIMEOUT: String(DEADLOCK_TIMEOUT),
      NCCL_NVLS_ENABLE: process.env['NCCL_NVLS_ENABLE'] ?? '0',
    },
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = `${stderr}${text}`.slice(-1000)
  })
  let isSilent = false
  const watch = (milliseconds: number): NodeJS.Timeout =>
    setTimeout(() => {
      isSilent = true
      child.kill('SIGKILL')
    }, milliseconds)
  let timer = watch(FIRST_SILENCE)
  createInterface(child.stdout).on('line', (text) => {
    const line = JSON.parse(text) as Line
    clearTimeout(timer)
    timer = watch(line.is === 'end' ? FIRST_SILENCE : SILENCE)
    batch.find(({ row }) => row === line.row)?.hear(line)
  })
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      // Rows are played in their order.
      const at = batch.find(({ isOver }) => !isOver)
      if (code === UNWELL) at?.restart()
      else if (isSilent) at?.died('it hung: nothing was heard of it any more')
      else at?.died(`the process ended with ${signal ?? code}: ${stderr.trim()}`)
      resolve()
    })
  })
}
