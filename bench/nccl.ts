/**
 * The bandwidth of allReduce between two GPUs: two Node processes beside two of PyTorch, which take turns on the same
 * GPUs. `node dist/bench/nccl.js`. Bus bandwidth counts what crosses the links: bytes / time * 2 (n - 1) / n, for n ranks.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Device } from 'cuda-streams'
import { ProgressLine } from '../src/base/progress-line.js'
import { median, table } from './table.js'

const RANKS = 2
const ROUNDS = 15
const SIZES = [
  { title: '1 GiB', bytes: 2 ** 30, count: 20 },
  { title: '16 MiB', bytes: 2 ** 24, count: 100 },
  { title: '1 KiB', bytes: 2 ** 10, count: 200 },
]
const PYTHON_RANK = fileURLToPath(new URL('../../bench/nccl_rank.py', import.meta.url))
const NODE_RANK = fileURLToPath(new URL('./nccl-rank.js', import.meta.url))

class Rank {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>
  #complaint = ''

  constructor(command: string, args: readonly string[]) {
    // The same for both: multicast over NVLink is not to be had on every machine that has two GPUs.
    const env = { NCCL_NVLS_ENABLE: '0', ...process.env }
    this.#child = spawn(command, [...args], { env, stdio: 'pipe' })
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
    this.#child.stderr.on('data', (text) => {
      this.#complaint = (this.#complaint + text).slice(-4000)
    })
    // What was wrong is told by the missing line.
    this.#child.stdin.on('error', () => {})
    this.#child.on('error', (error) => {
      this.#complaint += error.message
    })
  }

  say(line: string): void {
    this.#child.stdin.write(`${line}\n`)
  }

  /** The rest of the next line that begins with the word. */
  async hear(word: string): Promise<string> {
    for (;;) {
      const { value, done } = await this.#lines.next()
      if (done) throw new Error(`it ended before '${word}': ${this.#complaint}`)
      if (`${value}`.startsWith(word)) return `${value}`.slice(word.length).trim()
    }
  }

  leave(): void {
    this.#child.stdin.end()
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}

interface Contestant {
  readonly name: string
  readonly version: string
  readonly ranks: readonly Rank[]
}

async function startNode(): Promise<Contestant> {
  const ranks = [0, 1].map((rank) => new Rank(process.execPath, [NODE_RANK, String(rank)]))
  const [first, second] = ranks as [Rank, Rank]
  second.say(await first.hear('id'))
  return started('cuda-streams', ranks)
}

async function startPython(): Promise<Contestant> {
  const port = await freePort()
  const { BENCH_PYTHON: python = 'python3' } = process.env
  return started(
    'PyTorch',
    [0, 1].map((rank) => new Rank(python, [PYTHON_RANK, String(rank), String(port)])),
  )
}

async function started(name: string, ranks: readonly Rank[]): Promise<Contestant> {
  try {
    const versions = await Promise.all(ranks.map((rank) => rank.hear('ready')))
    return { name, version: versions[0] ?? '', ranks }
  } catch (error) {
    for (const rank of ranks) rank.kill()
    throw error
  }
}

/** Milliseconds of one allReduce, by the slower rank. */
async function round({ ranks }: Contestant, bytes: number, count: number): Promise<number> {
  for (const rank of ranks) rank.say(`round ${bytes} ${count}`)
  return Math.max(...(await Promise.all(ranks.map(async (rank) => Number(await rank.hear(''))))))
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

async function main(): Promise<void> {
  if (Device.get(0).driver !== 'cuda' || Device.count() < RANKS) {
    console.log(`Two GPUs are needed; here are ${Device.get(0).driver === 'cuda' ? Device.count() : 0}.`)
    return
  }
  const attempts = await Promise.allSettled([startNode(), startPython()])
  const contestants = attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []))
  for (const attempt of attempts) if (attempt.status === 'rejected') console.log(`Not here: ${attempt.reason}`)
  for (const { name, version } of contestants) console.log(`${name}: ${version}`)
  const line = new ProgressLine()
  const lines = []
  for (const { title, bytes, count } of SIZES) {
    const samples = new Map(contestants.map(({ name }) => [name, [] as number[]]))
    for (const contestant of contestants) await round(contestant, bytes, count)
    for (let turn = 0; turn < ROUNDS; turn += 1) {
      line.show(() => `${title}: round ${turn} of ${ROUNDS}`)
      // Whoever goes first in one round goes last in the next.
      const order = turn % 2 === 0 ? contestants : [...contestants].reverse()
      for (const contestant of order) samples.get(contestant.name)?.push(await round(contestant, bytes, count))
    }
    for (const { name } of contestants) {
      const milliseconds = median(samples.get(name) ?? []) ?? Number.NaN
      const algorithm = bytes / milliseconds / 1e6
      const bus = (algorithm * 2 * (RANKS - 1)) / RANKS
      lines.push([`${title}, ${name}`, (milliseconds * 1000).toFixed(1), algorithm.toFixed(2), bus.toFixed(2)])
    }
  }
  line.erase()
  console.log(table(['allReduce, f32, 2 ranks', 'µs', 'algorithm GB/s', 'bus GB/s'], lines))
  for (const { ranks } of contestants) for (const rank of ranks) rank.leave()
}

await main()
