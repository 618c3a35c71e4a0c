/**
 * cuda-streams as a contestant, in a process of its own: `node child.js PACKAGE PTX` with the folder of the package, which may be
 * another version. It speaks as bench/contestant.c does, but says 'ready' with facts as JSON before its keys.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { openBareDriver, ptx } from './bare-driver.js'
import { type CudaStreams, openRows, type Rows } from './rows.js'
import { openSimulatedRows } from './simulated.js'

/** Leaves events to the garbage collector, which are not to be destroyed in the time of the rows after it. */
const LEAVES_EVENTS = 'record-dropped'
/** V8 compiles a row only after many calls; a server has made them long ago. */
const WARM_UP_MS = 60

const [folder = '', ptxFile = '', quick] = process.argv.slice(2)
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
if (device.driver === 'cuda') {
  const bare = openBareDriver()
  writeFileSync(ptxFile, ptx)
  onGpu = openRows(cuda, device, bare)
  facts['cuda'] = `${Math.floor(bare.cudaVersion / 1000)}.${(bare.cudaVersion % 1000) / 10}`
  facts['libcuda'] = bare.libcuda
  facts['queues'] = process.env['CUDA_DEVICE_MAX_CONNECTIONS'] ?? ''
}
const say = (line: string): void => void process.stdout.write(`${line}\n`)
say(`ready ${JSON.stringify(facts)}\t${[...(onGpu?.keys ?? []), ...simulated.keys].join(' ')}`)

for await (const line of createInterface({ input: process.stdin })) {
  const [, key = '', calls = ''] = line.split(' ')
  try {
    say(`ns ${await run(key, Number(calls))}`)
  } catch (error) {
    say(`fail ${error instanceof Error ? error.message.split('\n')[0] : error}`)
  }
}
process.exit()

async function run(key: string, calls: number): Promise<number> {
  const rows = onGpu?.keys.includes(key) ? onGpu : simulated
  // What the row before left behind is not this row's: neither garbage, nor what is called once garbage is collected.
  collectGarbage({ type: 'minor' })
  await turn()
  if (rows === onGpu) {
    if (quick !== 'quick') rows.warmUp?.(key)
    const end = performance.now() + (quick === 'quick' ? 0 : WARM_UP_MS)
    do await rows.time(key, calls)
    while (performance.now() < end)
  }
  const result = await rows.time(key, calls)
  if (key === LEAVES_EVENTS) {
    await turn()
    collectGarbage()
    await turn()
  }
  return result
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
