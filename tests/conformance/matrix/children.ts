/** Has the rows of a table played by child processes, a few at a time, and restarts one that hangs or crashes behind the cell. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Cell, type Line, type Played, UNWELL } from './protocol.js'

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url))
/** A child that says nothing for so many milliseconds hangs. */
const SILENCE = 20_000
const LOOK_EVERY = 1000
/** Where a row begins it may say nothing for longer: CUDA, a compiler or NCCL may have to start. */
const FIRST_SILENCE = 30_000
/** Milliseconds without progress after which a wait inside a host function is given up: less than the silence. */
const DEADLOCK_TIMEOUT = 2000
/** After so many hangs and crashes the rest of a row is not tried any more. */
const MOST_ENDS = 3
/** The same of processes that told what failed, and had to start again. */
const MOST_RESTARTS = 30
/** A collector with threads of its own takes more processor time in all, and other tests have the other cores. */
const FLAGS = ['--expose-gc', '--single-threaded-gc']
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
    if (line.is === 'failure') {
      this.failures.push(line)
      return
    }
    this.#add(line)
    this.lacks = line.lacks
    this.#end()
  }

  /** The process that played it is gone: in this cell, if it came so far. */
  endedIn(cell: Cell | undefined): void {
    if (cell?.row !== this.row) return
    this.#cell = cell.name
    this.next = cell.index + 1
    this.#add(cell)
  }

  #add({ played, skipped }: Played): void {
    this.cells += played
    for (const [why, count] of skipped) this.skipped.set(why, (this.skipped.get(why) ?? 0) + count)
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

/** Where a child writes which cell it plays. */
class CellFile {
  readonly descriptor: number
  readonly #bytes = Buffer.alloc(65_536)

  constructor() {
    const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-matrix-'))
    this.descriptor = openSync(join(folder, 'cell'), 'w+')
    rmSync(folder, { recursive: true })
  }

  text(): string {
    const read = readSync(this.descriptor, this.#bytes, 0, this.#bytes.length, 0)
    return this.#bytes.toString('utf8', 0, read)
  }

  /** The last one that was begun. */
  cell(): Cell | undefined {
    const [line = ''] = this.text().split('\n')
    return line === '' ? undefined : (JSON.parse(line) as Cell)
  }

  close(): void {
    closeSync(this.descriptor)
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
  const cells = new CellFile()
  const child = spawn(process.execPath, [...FLAGS, CHILD, backend, table, tasks], {
    stdio: ['ignore', 'pipe', 'pipe', cells.descriptor],
    env: {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
      CUDA_STREAMS_DRIVER: driver,
      CUDA_STREAMS_DEADLOCK_TIMEOUT: String(DEADLOCK_TIMEOUT),
      NCCL_NVLS_ENABLE: process.env['NCCL_NVLS_ENABLE'] ?? '0',
    },
  })
  assert.ok(child.stdout !== null && child.stderr !== null)
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = `${stderr}${text}`.slice(-1000)
  })
  let isSilent = false
  let seen = ''
  let silence = 0
  let longest = FIRST_SILENCE
  const heard = (): void => {
    silence = 0
    longest = SILENCE
  }
  const watch = setInterval(() => {
    const now = cells.text()
    if (now !== seen) heard()
    seen = now
    silence += LOOK_EVERY
    if (silence <= longest) return
    isSilent = true
    child.kill('SIGKILL')
  }, LOOK_EVERY)
  createInterface(child.stdout).on('line', (text) => {
    const line = JSON.parse(text) as Line
    heard()
    if (line.is === 'end') longest = FIRST_SILENCE
    batch.find(({ row }) => row === line.row)?.hear(line)
  })
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearInterval(watch)
      // Rows are played in their order.
      const at = batch.find(({ isOver }) => !isOver)
      at?.endedIn(cells.cell())
      cells.close()
      if (code === UNWELL) at?.restart()
      else if (isSilent) at?.died('it hung: nothing was heard of it any more')
      else at?.died(`the process ended with ${signal ?? code}: ${stderr.trim()}`)
      resolve()
    })
  })
}
