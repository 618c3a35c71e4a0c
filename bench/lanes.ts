/**
 * What threads as lanes of SIMD save: `node dist/bench/lanes.js [kernel]`. Each kernel of bench/ptx.ts runs as it is compiled, with its threads one
 * after the other, and with its accesses recorded and read; the least of the launches is given in milliseconds of the processor, beside the same
 * loops in C.
 */
import type { LaneUse } from '../src/ptx/lane-shapes.js'
import { Machine, ptxOf } from '../tests/ptx/machine.js'
import { loopsInC, ROWS, type Row } from './ptx-kernels.js'

const ROUNDS = 30

interface Variant {
  readonly launch: () => void
  readonly results: () => Uint8Array[]
  readonly times: number[]
}

function variant({ file, kernel, options, parameters }: Row, lanes: LaneUse, recorded = false): Variant {
  const machine = new Machine()
  const module = machine.load(ptxOf(`${file}.sm_75`))
  const values = parameters.map((each) => (typeof each === 'object' ? machine.put(each) : each))
  const times: number[] = []
  const launch = (): void => {
    const start = process.cpuUsage()
    const launch = machine.run(module, kernel, { ...options, lanes, recorded }, values)
    if (recorded) launch.accesses()
    const { user, system } = process.cpuUsage(start)
    times.push((user + system) / 1000)
  }
  const results = (): Uint8Array[] =>
    parameters.flatMap((each, index) =>
      typeof each === 'object' ? new Uint8Array(machine.get(Number(values[index]), each).buffer) : [],
    )
  return { launch, results, times }
}

const quotient = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? undefined : one / other
const [wanted = ''] = process.argv.slice(2)
const inC = [['-O2'], ['-O3', '-march=native']].map((options) => loopsInC(options))
console.log(`Node ${process.version}; milliseconds of the processor, the least of ${ROUNDS} launches`)
console.log(
  '| kernel | threads | lanes | times as fast | gcc -O2 | gcc -O3 -march=native | lanes, times gcc -O2 | recorded, times |',
)
console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
for (const row of ROWS.filter(({ kernel }) => kernel.includes(wanted))) {
  const [threads, lanes, recorded] = [variant(row, 'never'), variant(row, 'paying'), variant(row, 'paying', true)]
  // Launches of one kind follow each other, as the rounds of the loops in C do: what they read is in the caches then.
  for (const each of [threads, lanes, recorded]) for (let round = 0; round < ROUNDS; round++) each.launch()
  const others = lanes.results()
  if (!threads.results().every((bytes, index) => Buffer.compare(bytes, others[index] ?? bytes) === 0)) {
    throw new Error(`Lanes have another result: ${row.name}`)
  }
  const [slow, fast, exact] = [threads, lanes, recorded].map(({ times }) => Math.min(...times))
  const loops = inC.map((times) => times.get(row.kernel))
  const cells = [slow, fast, quotient(slow, fast), ...loops, quotient(fast, loops[0]), quotient(exact, fast)]
  console.log(`| ${row.name} | ${cells.map((each) => each?.toFixed(1) ?? '').join(' | ')} |`)
}
