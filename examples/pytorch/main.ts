/**
 * PyTorch inside Node, its stream wrapped and ordered with one of ours: see story.ts for what happens.
 *
 *     node dist/examples/pytorch/main.js [rounds]
 *
 * Needs a GPU, a shared libpython and a python3 with torch in it. Ends with status 1 if a round with both waits was
 * wrong, if leaving a wait out did no harm (then the rounds prove nothing), or if something came out of order.
 */
import { Python } from 'cuda-streams/python'
import type { CaseResult, OrderResult } from './story.js'

const DEFAULT_ROUNDS = 20

function row(cells: readonly string[]): string {
  return cells.map((cell, column) => (column === 0 ? cell.padEnd(24) : cell.padStart(10))).join('')
}

function caseRow(name: string, result: CaseResult): string {
  const { rounds, right, wrong, milliseconds } = result
  const each = (milliseconds / rounds).toFixed(2)
  return row([name, String(rounds), String(right), String(wrong), each, milliseconds.toFixed(0)])
}

/** What must hold; the texts are of what did not. */
function failures(withWaits: CaseResult, noFirst: CaseResult, noSecond: CaseResult, order: OrderResult): string[] {
  const inOrder = (numbers: readonly number[]) =>
    numbers.length === order.rounds && numbers.every((number, index) => number === index)
  const problems: string[] = []
  if (withWaits.right !== withWaits.rounds) problems.push(`with both waits, ${withWaits.wrong} rounds were wrong`)
  if (noFirst.right > 0) problems.push(`without the first wait, ${noFirst.right} rounds were right`)
  if (noSecond.right > 0) problems.push(`without the second wait, ${noSecond.right} rounds were right`)
  if (!inOrder(order.hostFunctions)) problems.push('host functions ran out of order')
  if (!inOrder(order.finished)) problems.push('finished() resolved out of order')
  if (!order.right) problems.push('the last of the rounds queued at once was wrong')
  return problems
}

/** The code that only knows a handle calls CUDA through koffi, which this package does not install. */
async function loadStory(): Promise<typeof import('./story.js') | undefined> {
  try {
    return await import('./story.js')
  } catch (error) {
    if (!(error instanceof Error && error.message.includes("'koffi'"))) throw error
    return undefined
  }
}

async function main(rounds: number): Promise<number> {
  const loaded = await loadStory()
  if (loaded === undefined) {
    console.log('skipped: koffi is not installed: npm install koffi')
    return 0
  }
  const { Story, storyUnavailable } = loaded
  let python: Python
  try {
    python = Python.start()
  } catch (error) {
    console.log(`skipped: ${error instanceof Error ? error.message : String(error)}`)
    return 0
  }
  const unavailable = storyUnavailable(python)
  if (unavailable !== undefined) {
    console.log(`skipped: ${unavailable}`)
    return 0
  }
  console.log(`Python ${python.version} from ${python.library}`)

  const story = new Story(python, { log: console.log })
  console.log('Warming up: one round, not counted')
  await story.warmUp()
  console.log(`With both waits, ${rounds} rounds:`)
  const withWaits = await story.withWaits(rounds)
  console.log(`Our copy does not wait for PyTorch, ${rounds} rounds:`)
  const noFirst = await story.withoutFirstWait(rounds)
  console.log(`PyTorch does not wait for our copy, ${rounds} rounds:`)
  const noSecond = await story.withoutSecondWait(rounds)
  console.log(`Rounds queued without waiting for any, host functions on PyTorch's stream, ${rounds} rounds:`)
  const order = await story.order(rounds)
  story.close()

  console.log()
  console.log(row(['case', 'rounds', 'right', 'wrong', 'ms/round', 'ms']))
  console.log(caseRow('both waits', withWaits))
  console.log(caseRow('without the first wait', noFirst))
  console.log(caseRow('without the second wait', noSecond))
  const { hostFunctions, finished, milliseconds } = order
  const each = (milliseconds / order.rounds).toFixed(2)
  console.log(row(['queued at once', String(order.rounds), '', '', each, milliseconds.toFixed(0)]))
  console.log(`host functions: ${hostFunctions.length}, finished(): ${finished.length}`)

  const problems = failures(withWaits, noFirst, noSecond, order)
  console.log(problems.length === 0 ? 'All as expected.' : `FAILED: ${problems.join('; ')}.`)
  return problems.length === 0 ? 0 : 1
}

const rounds = Number(process.argv[2] ?? DEFAULT_ROUNDS)
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error(`rounds must be a positive integer, not '${process.argv[2]}'`)
  process.exitCode = 2
} else {
  process.exitCode = await main(rounds)
}
