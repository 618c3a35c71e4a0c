/**
 * Plays rows of the matrix in a process of its own, which may hang or crash:
 * `node child.js <backend> <table> <JSON: [[row, first cell], ...]>`. What it says is in `protocol.ts`.
 */
import { writeSync } from 'node:fs'
import { Lab } from '../../catalogue/lab.js'
import { openBackend } from '../../torture/backend.js'
import { CELL_FILE, type Cell, type Line, type Played, UNWELL } from './protocol.js'
import { type Row, TABLES } from './table.js'

const [backend = '', table = '', task = '[]'] = process.argv.slice(2)
const tasks = JSON.parse(task) as readonly (readonly [row: string, first: number])[]
/** The pipe may be full where the parent has much to do. */
function say(line: Line): void {
  for (let left = Buffer.from(`${JSON.stringify(line)}\n`); left.length > 0; ) {
    try {
      left = left.subarray(writeSync(1, left))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

/** So that the parent knows the cell in which this process ended. */
function begin(cell: Cell): void {
  writeSync(CELL_FILE, `${JSON.stringify(cell)}\n`, 0)
}

/** An exception that was not caught belongs to the cell that is played. */
let uncaught: unknown
process.on('uncaughtException', (error) => {
  uncaught ??= error
})

try {
  const lab = await Lab.open(openBackend(backend))
  for (const [name, first] of tasks) {
    const row = TABLES[table]?.find((each) => each.name === name)
    if (row === undefined) throw new Error(`table '${table}' has no row '${name}'`)
    await playRow(lab, row, first)
  }
  process.exit(0)
} catch (error) {
  // What is thrown between cells is nobody's: the handler above would only note it.
  console.error(error)
  process.exit(1)
}

async function playRow(lab: Lab, row: Row, first: number): Promise<void> {
  const { name } = row
  let played = 0
  const reasons = new Map<string, number>()
  const so = (): Played => ({ played, skipped: [...reasons] })
  const lack = await row.lacks(lab)
  if (lack !== undefined) {
    say({ is: 'end', row: name, lacks: lack, ...so() })
    return
  }
  let index = -1
  for (const cell of row.cells(lab)) {
    index += 1
    if (index < first) continue
    if (cell.lacks !== undefined) {
      reasons.set(cell.lacks, (reasons.get(cell.lacks) ?? 0) + 1)
      continue
    }
    played += 1
    begin({ row: name, index, name: cell.name, ...so() })
    try {
      uncaught = undefined
      await cell.play()
      if (uncaught !== undefined) throw uncaught
    } catch (error) {
      say({ is: 'failure', row: name, cell: cell.name, what: messageOf(error) })
      if (isUnwell(lab)) process.exit(UNWELL)
    }
  }
  say({ is: 'end', row: name, ...so() })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
}

/** Has a cell that failed left something behind that the next ones would fail by? */
function isUnwell(lab: Lab): boolean {
  try {
    const stream = lab.bench.stream()
    const piece = lab.make('device', stream)
    lab.write(piece, 1)
    lab.settle()
    lab.check('memory', piece, 1, 1)
    stream.close()
    piece.dispose()
    return !lab.device.defaultStream.query()
  } catch {
    return true
  }
}
