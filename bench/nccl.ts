/** allReduce between two GPUs: two Node processes, and two of PyTorch, each pair a contestant. */
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Contestant, groups } from './catalogue.js'
import type { Absent, Ours } from './contestants.js'
import { Child } from './line-process.js'

export const RANKS = 2
const START_LIMIT_MS = 60_000
const ROUND_LIMIT_MS = 30_000

/** What NCCL itself prints goes by. */
async function hear(rank: Child, word: string, limitMs: number): Promise<string> {
  for (;;) {
    const line = await rank.line(limitMs)
    if (line.startsWith(word)) return line.slice(word.length).trim()
  }
}

/** Multicast over NVLink is not to be had on every machine that has two GPUs: the same for both. */
const environmentOf = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ NCCL_NVLS_ENABLE: '0', ...environment })

export async function startOurRanks({ name, kind, folder, program, environment }: Ours): Promise<Contestant | Absent> {
  const script = fileURLToPath(new URL('./nccl-rank.js', import.meta.url))
  const [first, second] = [0, 1].map(
    (rank) => new Child(program, [script, String(rank), folder], environmentOf(environment)),
  ) as [Child, Child]
  return started(name, kind, [first, second], async () => {
    second.say(await hear(first, 'id', START_LIMIT_MS))
  })
}

export async function startPythonRanks(
  sources: string,
  python: string,
  environment: NodeJS.ProcessEnv,
): Promise<Contestant | Absent> {
  const port = String(await freePort())
  const ranks = [0, 1].map(
    (rank) => new Child(python, [join(sources, 'nccl_rank.py'), String(rank), port], environmentOf(environment)),
  )
  return started('PyTorch', 'Python', ranks, () => Promise.resolve())
}

async function started(
  name: string,
  kind: Contestant['kind'],
  ranks: readonly Child[],
  introduce: () => Promise<void>,
): Promise<Contestant | Absent> {
  const leave = async (): Promise<void> => void (await Promise.all(ranks.map((rank) => rank.leave())))
  try {
    await introduce()
    const [version = ''] = await Promise.all(ranks.map((rank) => hear(rank, 'ready', START_LIMIT_MS)))
    const keys = groups.flatMap(({ rows }) => rows.map(({ key }) => key)).filter((key) => key.startsWith('all-reduce-'))
    return {
      name,
      kind,
      facts: { nccl: version },
      keys: new Set(keys),
      /** By the slower rank. */
      async run(key, calls) {
        for (const rank of ranks) rank.say(`run ${key} ${calls}`)
        const answers = await Promise.all(ranks.map((rank) => hear(rank, 'ns', ROUND_LIMIT_MS)))
        return Math.max(...answers.map(Number))
      },
      close: leave,
    }
  } catch (error) {
    await leave()
    return { name: `${name}, NCCL`, reason: error instanceof Error ? error.message : String(error) }
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
