/**
 * cuda-streams as a contestant, in a process of its own: `node child.js PACKAGE PTX ADDON` with the folder of the package, which may be
 * another version, and bench/contestant.c as an addon ('' for none). It speaks as that does as a program, but says 'ready' with facts as
 * JSON before its keys, and answers 'pairs ' with JSON where C plays the row in this process, too.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { openBareDriver, ptx } from './bare-driver.js'
import { pairedRows, type Row } from './catalogue.js'
import { type PairOptions, playPairs } from './pairs.js'
import { type CudaStreams, openRows, type Rows } from './rows.js'
import { openSimulatedRows } from './simulated.js'

/** Leaves events to the garbage collector, which are not to be destroyed in the time of the rows after it. */
const LEAVES_EVENTS = 'record-dropped'
const [folder = '', ptxFile = '', addon = '', quick] = process.argv.slice(2)
/** Beside C, and of the warm-up for all. Each call is one entry of a hardware queue, or two. */
const TURN: PairOptions =
  quick === 'quick'
    ? { mostCalls: 10, warmUpMs: 0, pairs: 1, limitMs: 0 }
    : { mostCalls: 400, warmUpMs: 60, pairs: 20, limitMs: 150 }

/** bench/contestant.c. */
interface C {
  /** The keys of its rows. */
  setUp(libcuda: string, ptxFile: string): string
  /** Nanoseconds of all calls, after which nothing is queued. */
  time(key: string, calls: number): number
}

const { resolve } = createRequire(join(folder, 'package.json'))
const cuda: CudaStreams = await import(pathToFileURL(resolve('cuda-streams')).href)
const sim: typeof import('cuda-streams/sim') = await import(pathToFileURL(resolve('cuda-streams/sim')).href)

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void

const device = cuda.Device.get(0)
const simulated = openSimulatedRows(sim)
const facts: Record<string, string> = {
  version: JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version,
  node: process.version,
  driver: device.driver,
  gpu: device.name,
  devices: String(cuda.Device.count()),
}
let onGpu: Rows | undefined
let c: C | undefined
let keysOfC: readonly string[] = []
if (device.driver === 'cuda') {
  const bare = openBareDriver()
  writeFileSync(ptxFile, ptx)
  onGpu = openRows(cuda, device, bare)
  if (addon !== '') {
    c = createRequire(import.meta.url)(addon) as C
    keysOfC = c.setUp(bare.libcuda, ptxFile).split(' ')
  }
  facts['cuda'] = `${Math.floor(bare.cudaVersion / 1000)}.${(bare.cudaVersion % 1000) / 10}`
  facts['libcuda'] = bare.libcuda
  facts['queues'] = process.env['CUDA_DEVICE_MAX_CONNECTIONS'] ?? ''
}
const say = (line: string): void => void process.stdout.write(`${line}\n`)
say(`ready ${JSON.stringify(facts)}\t${[...(onGpu?.keys ?? []), ...simulated.keys].join(' ')}`)

for await (const line of createInterface({ input: process.stdin })) {
  const [, key = '', calls = ''] = line.split(' ')
  try {
    say(await run(key, Number(calls)))
  } catch (error) {
    say(`fail ${error instanceof Error ? error.message.split('\n')[0] : error}`)
  }
}

async function run(key: string, calls: number): Promise<string> {
  // What the row before left behind is not this row's: neither garbage, nor what is called once garbage is collected.
  collectGarbage({ type: 'minor' })
  await turn()
  if (onGpu === undefined || !onGpu.keys.includes(key)) return `ns ${await simulated.time(key, calls)}`
  if (quick !== 'quick') onGpu.warmUp?.(key)
  const pair = pairedRows.find((row) => row.key === key)
  const keyOfC = pair?.against ?? key
  if (c !== undefined && pair !== undefined && keysOfC.includes(keyOfC)) return beside(onGpu, c, pair, keyOfC)
  const end = performance.now() + TURN.warmUpMs
  do await onGpu.time(key, calls)
  while (performance.now() < end)
  const result = await onGpu.time(key, calls)
  if (key === LEAVES_EVENTS) {
    await turn()
    collectGarbage()
    await turn()
  }
  return `ns ${result}`
}

async function beside(ours: Rows, { time }: C, { key, mostCalls }: Row, keyOfC: string): Promise<string> {
  const burst = async (calls: number): Promise<number> => calls * (await ours.time(key, calls))
  const options = { ...TURN, mostCalls: mostCalls ?? TURN.mostCalls }
  return `pairs ${JSON.stringify(await playPairs(burst, (calls) => time(keyOfC, calls), options))}`
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
