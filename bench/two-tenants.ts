/**
 * `node dist/bench/two-tenants.js`, on a GPU: two tenants of one device, one that fills it with kernels of 0.8 ms, and one that
 * asks for a kernel of 5 µs now and then and waits for it. How long does the small one wait, and what does the large one
 * pay, side by side on plain streams, with a priority, and on green contexts?
 */
import { availableParallelism } from 'node:os'
import { Device, defineKernel, type Stream } from 'cuda-streams'

const ROUNDS = 300
const SMALL = { grid: 8, block: 1024 }
const SMALL_NANOSECONDS = 5_000n
/** Kernels of the large tenant that are queued at one time. */
const AHEAD = 8
const WAVES = 8
const WAVE_NANOSECONDS = 100_000n
const SHARE = 16

const spin = defineKernel({
  name: 'spin',
  source: `extern "C" __global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
  }`,
  signature: ['u64'],
  simulateGrid() {},
})

interface Row {
  readonly median: number
  readonly worst: number
  /** Kernels of the large tenant a second. */
  readonly large: number
}

function measure(device: Device, small: Stream, large: Stream | undefined): Row {
  // Two blocks of 1024 threads fill a multiprocessor, so it is as much work wherever it runs.
  const grid = 2 * WAVES * device.context.multiprocessors
  const times: number[] = []
  let queued = 0
  device.synchronize()
  const begun = performance.now()
  for (let round = 0; round < ROUNDS; round += 1) {
    if (large !== undefined && (queued === 0 || large.query())) {
      for (let left = AHEAD; left > 0; left -= 1) large.launch(spin, { grid, block: 1024 }, WAVE_NANOSECONDS)
      queued += AHEAD
    }
    const asked = performance.now()
    small.launch(spin, SMALL, SMALL_NANOSECONDS).synchronize()
    times.push((performance.now() - asked) * 1000)
  }
  device.synchronize()
  const seconds = (performance.now() - begun) / 1000
  times.sort((a, b) => a - b)
  return { median: times[ROUNDS / 2] ?? 0, worst: times[Math.floor(ROUNDS * 0.99)] ?? 0, large: queued / seconds }
}

async function main(): Promise<void> {
  const device = Device.get(0)
  if (device.driver !== 'cuda') throw new Error('this measures a GPU: the simulator has virtual time')
  await spin.prepare(device)
  const plain = [device.createStream(), device.createStream()] as const
  const first = device.createStream({ priority: device.priorityRange.greatest })
  const [share, rest] = device.split({ multiprocessors: [SHARE] })
  const [small, large] = [device.createStream({ context: share }), device.createStream({ context: rest })]
  const rows: readonly (readonly [what: string, small: Stream, large: Stream | undefined])[] = [
    ['alone, plain stream', plain[0], undefined],
    ['alone, in a green context', small, undefined],
    ['both on plain streams', plain[0], plain[1]],
    ['both on plain streams, the small one with the greatest priority', first, plain[1]],
    ['the small one in a green context, the large one on a plain stream', small, plain[1]],
    ['both in green contexts', small, large],
  ]
  console.log(`${device.name}: ${share.multiprocessors} and ${rest.multiprocessors} multiprocessors; ${ROUNDS} rounds`)
  console.log(
    `Node ${process.version}, ${availableParallelism()} cores; microseconds until the small tenant's kernel is done\n`,
  )
  console.log(`${''.padEnd(66)}${'median'.padStart(8)}${'99 %'.padStart(8)}${'large, kernels/s'.padStart(18)}`)
  for (const [what, one, other] of rows) {
    measure(device, one, other)
    const { median, worst, large: rate } = measure(device, one, other)
    const figures = [median.toFixed(0).padStart(8), worst.toFixed(0).padStart(8), rate.toFixed(0).padStart(18)]
    console.log(`${what.padEnd(66)}${figures.join('')}`)
  }
}

await main()
