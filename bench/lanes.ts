/**
 * What threads as lanes of SIMD save: `node dist/bench/lanes.js [kernel]`. Each kernel of bench/ptx.ts runs as it is compiled, and with its
 * threads one after the other, in turns; the median of the launches is given in milliseconds of the processor.
 */
import type { LaneUse } from '../src/ptx/lane-shapes.js'
import { Machine, ptxOf } from '../tests/ptx/machine.js'
import { loopsInC, ROWS, type Row } from './ptx-kernels.js'

const ROUNDS = 15

interface Variant {
  readonly launch: () => Uint8Array[]
  readonly times: number[]
}

function variant({ file, kernel, options, parameters }: Row, lanes: LaneUse): Variant {
  const machine = new Machine()
  const module = machine.load(ptxOf(`${file}.sm_75`))
  const values = parameters.map((each) => (typeof each === 'object' ? machine.put(each) : each))
  const times: number[] = []
  const launch = (): Uint8Array[] => {
    const start = process.cpuUsage()
    machine.run(module, kernel, { ...options, lanes }, values)
    const { user, system } = process.cpuUsage(start)
    times.push((user + system) / 1000)
    return parameters.flatMap((each, index) =>
      typeof each === 'object' ? new Uint8Array(machine.get(Number(values[index]), each).buffer) : [],
    )
  }
  return { launch, times }
}

const median = (times: readonly number[]): number => [...times].sort((a, b) => a - b)[times.length >> 1] ?? 0

const [wanted = ''] = process.argv.slice(2)
const inC = wanted === '' ? loopsInC() : new Map<string, number>()
console.log(`Node ${process.version}; milliseconds of the processor, the median of ${ROUNDS} launches`)
console.log('| kernel | threads | lanes | times as fast | C, gcc -O2 |\n| --- | ---: | ---: | ---: | ---: |')
for (const row of ROWS.filter(({ kernel }) => kernel.includes(wanted))) {
  const [threads, lanes] = [variant(row, 'never'), variant(row, 'paying')]
  for (let round = 0; round < ROUNDS; round++) {
    // Whoever comes second finds other caches, and pays for the garbage of the first.
    const first = round % 2 === 0 ? threads.launch() : undefined
    const other = lanes.launch()
    const one = first ?? threads.launch()
    if (!one.every((bytes, index) => Buffer.compare(bytes, other[index] ?? bytes) === 0)) {
      throw new Error(`Lanes have another result: ${row.name}`)
    }
  }
  const [slow, fast] = [median(threads.times.slice(3)), median(lanes.times.slice(3))]
  const loop = inC.get(row.kernel)?.toFixed(1) ?? ''
  console.log(`| ${row.name} | ${slow.toFixed(1)} | ${fast.toFixed(1)} | ${(slow / fast).toFixed(2)} | ${loop} |`)
}
