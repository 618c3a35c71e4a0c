/** The process of a month (month.ts): it starts the workers, and measures what it has after every few of them. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { Device, Stream } from 'cuda-streams'
import { figuresOfProcess, growthOf, handlesLeft, type Sample, toldFigures } from './figures.js'
import { type MonthOptions, parseMonth } from './month-options.js'
import { MONTH_ENDINGS, MONTH_ERROR, type MonthEnding, type MonthWork } from './month-worker.js'

const SAMPLES = 40
/** The part of the workers after which all is in use that is ever used. */
const WARM_UP = 0.25
/** In which finalizers run. */
const TURNS = 5
/** Milliseconds for the native layer's thread to give back what a worker left: many times what it takes. */
const LONGEST = 20_000
const NAP = 2

/** One worker, from its beginning to its end. */
async function employ(script: string, work: MonthWork): Promise<void> {
  const worker = new Worker(new URL(script, import.meta.url), { workerData: work })
  const errors: unknown[] = []
  let served = false
  worker.on('error', (error) => errors.push(error))
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  const told = new Promise<void>((resolve) => {
    worker.once('message', () => {
      served = true
      resolve()
    })
  })
  await Promise.race([told, ended])
  if (work.ending === 'terminate()') await worker.terminate()
  await ended
  const isMeant = (error: unknown): boolean => error instanceof Error && error.message === MONTH_ERROR
  if (!served || !errors.every((error) => work.ending === 'an error' && isMeant(error)))
    throw new Error(`a worker failed: ${errors.join('; ')}`)
}

async function settle(): Promise<void> {
  const end = performance.now() + LONGEST
  while ((handlesLeft() ?? 0) > 0 && performance.now() < end) await sleep(NAP)
  for (let left = TURNS; left > 0; left -= 1) {
    globalThis.gc?.()
    await nextTurn()
  }
}

async function serveAll({ requests, workers, kind }: MonthOptions): Promise<Sample[]> {
  const serves = kind === 'requests'
  const each = serves ? Math.ceil(requests / workers) : 0
  const device = serves ? Device.get() : undefined
  const samples: Sample[] = []
  const every = Math.max(1, Math.round((workers * (1 - WARM_UP)) / SAMPLES))
  for (let number = 1; number <= workers; number += 1) {
    using stream = device === undefined ? undefined : new Stream({ device })
    using event = stream?.record()
    const ending = MONTH_ENDINGS[number % MONTH_ENDINGS.length] as MonthEnding
    const work: MonthWork = { requests: each, ending, stream: stream?.share(), event: event?.share() }
    await employ(kind === 'nothing' ? 'month-empty.js' : 'month-worker.js', work)
    if (number < workers * WARM_UP || (number % every !== 0 && number !== workers)) continue
    await settle()
    const figures = figuresOfProcess()
    // Workers that serve nothing are compared with those that serve as many requests.
    samples.push({ operations: (number * requests) / workers, figures })
    console.log(`${kind}: ${number} workers: ${toldFigures(figures)}`)
  }
  return samples
}

const samples = await serveAll(parseMonth(process.argv.slice(2)))
const last = samples.at(-1)
if (last === undefined) throw new Error('there are no samples')
process.send?.(growthOf(samples, last.figures))
