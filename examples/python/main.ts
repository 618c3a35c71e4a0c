/**
 * The Python GPU libraries in one process with Node, each exchanging streams, events and memory with cuda-streams:
 *
 *     node dist/examples/python/main.js [tries]
 *
 * Ends with status 1 if an exchange was wrong although it waited, if leaving the wait out did no harm (then the exchange
 * proves nothing), or if a library broke. Where there is no GPU or no Python, it says so and tells the same story with
 * a library of the simulation.
 */
import { Device } from 'cuda-streams'
import { Python } from 'cuda-streams/python'
import { simulate } from 'cuda-streams/sim'
import { type Hold, holdOn } from '../hold.js'
import { type Delay, delayOn } from './delay.js'
import { COUNT, EXCHANGES, type Exchange, exchangesOf, Table, wrongTries, wrongWithout } from './exchanges.js'
import { gpuUnavailable } from './gpu.js'
import type { Library } from './library.js'
import { Pipeline } from './pipeline.js'
import { isNotHere, openPythonLibraries } from './python-library.js'
import { SimulatedLibrary } from './simulated-library.js'

const DEFAULT_TRIES = 20
/** Rounds of the pipeline, and for how long its first stage is held while they are queued. */
const ROUNDS = 100
const HELD_MS = 3000

/** A GPU and the libraries that use it, or why there is no showing them. */
function real(): { device: Device; libraries: readonly Library[]; broken: number } | string {
  // The GPU comes first: libcuda reads the number of hardware queues when it starts, and this library asks for more.
  const noGpu = gpuUnavailable()
  if (noGpu !== undefined) return noGpu
  const device = Device.get()
  let python: Python
  try {
    python = Python.start()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  console.log(`${device.name}, Python ${python.version} from ${python.library}`)
  const { libraries, missing } = openPythonLibraries(python, device, COUNT)
  let broken = 0
  for (const { name, error } of missing) {
    if (!isNotHere(error)) broken += 1
    const what = isNotHere(error) ? 'not here, so it is not shown' : 'FAILED, it does not open'
    console.log(`${name}: ${what}:\n${error.stack}`)
  }
  for (const { name, hasProtocol } of libraries) {
    console.log(`${name}: its stream has ${hasProtocol ? 'a' : 'no'} __cuda_stream__ of its own`)
  }
  if (libraries.length === 0) return 'none of the libraries is here'
  return { device, libraries, broken }
}

const WIDTHS = [28, 52, 8] as const
const row = (...cells: readonly string[]): string => cells.map((cell, at) => cell.padEnd(WIDTHS[at] ?? 0)).join('  ')

interface Verdict {
  readonly texts: readonly [string, string]
  readonly good: boolean
}

async function judge(table: Table, exchange: Exchange, tries: number): Promise<Verdict> {
  try {
    const wrong = await wrongTries(table, exchange, tries)
    const right = await wrongWithout(table, exchange)
    const without = right === undefined ? 'too early' : `not too early: ${right}`
    const good = wrong.length === 0 && right === undefined
    return { texts: [`${tries - wrong.length}/${tries}`, [without, ...wrong].join('\n  ')], good }
  } catch (error) {
    return { texts: ['FAILED', `\n${error instanceof Error ? error.stack : String(error)}`], good: false }
  }
}

/** Returns how many exchanges were not as they must be. */
async function show(library: Library, device: Device, delay: Delay, hold: Hold, tries: number): Promise<number> {
  let bad = 0
  const table = new Table(device, library, delay, hold)
  for (const exchange of exchangesOf(library)) {
    const { texts, good } = await judge(table, exchange, tries)
    console.log(row(library.name, exchange.title, ...texts) + (good ? '' : '   <-- WRONG'))
    if (!good) bad += 1
  }
  const without = EXCHANGES.length - exchangesOf(library).length
  if (without > 0) console.log(row(library.name, `(${without} more that it does not support)`))
  table.close()
  return bad
}

/** All of them in turn on one buffer of ours. Returns 1 if it was not as it must be, else 0. */
async function showPipeline(device: Device, libraries: readonly Library[], delay: Delay, hold: Hold): Promise<number> {
  try {
    const pipeline = new Pipeline(device, libraries, { delay, hold }, COUNT)
    await pipeline.run(3, 0)
    const { right, firstWrong, heldToTheEnd, queuedIn } = await pipeline.run(ROUNDS, HELD_MS)
    const without = await pipeline.runWithoutWaits(ROUNDS)
    const stages = pipeline.stages.join(' > ')
    pipeline.close()
    const waited = heldToTheEnd ? 'before the first began' : 'but something waited for the GPU meanwhile'
    console.log(`\n${stages}: ${right}/${ROUNDS} rounds right, queued in ${queuedIn.toFixed(0)} ms, ${waited};`)
    if (firstWrong !== undefined) console.log(firstWrong)
    console.log(`without the waits: ${without.right}/${ROUNDS} right`)
    return right === ROUNDS && heldToTheEnd && without.right === 0 ? 0 : 1
  } catch (error) {
    console.log(`\nThe pipeline FAILED:\n${error instanceof Error ? error.stack : String(error)}`)
    return 1
  }
}

async function main(tries: number): Promise<number> {
  const found = real()
  let { device, libraries, broken } = typeof found === 'string' ? simulated(found) : found
  const [delay, hold] = [delayOn(device), holdOn(device)]
  console.log(`\n${row('library', 'exchange', 'right', 'without the wait')}`)
  for (const library of libraries) {
    try {
      broken += await show(library, device, delay, hold, tries)
    } catch (error) {
      broken += 1
      console.log(row(library.name, `it broke:\n${error instanceof Error ? error.stack : String(error)}`))
    }
  }
  broken += await showPipeline(device, libraries, delay, hold)
  console.log(broken === 0 ? '\nAll as expected.' : `\nFAILED: ${broken} not as expected.`)
  return broken === 0 ? 0 : 1
}

function simulated(why: string): { device: Device; libraries: readonly Library[]; broken: number } {
  console.log(`Cannot show PyTorch, CuPy, cuda.core and Numba here: ${why}`)
  console.log('The same story on the simulator, where another library of the simulation owns the other stream:')
  const [device] = simulate().devices
  if (device === undefined) throw new Error('a simulation has a device')
  return { device, libraries: [new SimulatedLibrary(device, COUNT)], broken: 0 }
}

const tries = Number(process.argv[2] ?? DEFAULT_TRIES)
if (!Number.isInteger(tries) || tries < 1) {
  console.error(`tries must be a positive integer, not '${process.argv[2]}'`)
  process.exitCode = 2
} else {
  process.exitCode = await main(tries)
}
