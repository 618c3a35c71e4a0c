/** allReduce between two GPUs, by cuda-streams and by PyTorch. */
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
    if (line.startsWith(`${word} `)) return line.slice(word.length).trim()
    if (line.startsWith('fail ')) throw new Error(line.slice(5))
  }
}

/** Multicast over NVLink is not to be had on every machine that has two GPUs: the same for both. */
const environmentOf = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ NCCL_NVLS_ENABLE: '0', ...environment })

/** Two processes with a GPU each, and one with both: contestants of the same name, with rows of their own. */
export function startOurRanks({ name, kind, folder, program, environment }: Ours): Promise<(Contestant | Absent)[]> {
  const script = fileURLToPath(new URL('./nccl-rank.js', import.meta.url))
  const rank = (which: string): Child => new Child(program, [script, which, folder], environmentOf(environment))
  const [first, second] = [rank('0'), rank('1')]
  const introduce = async (): Promise<void> => second.say(await hear(first, 'id', START_LIMIT_MS))
  return Promise.all([
    started(name, kind, 'all-reduce-', [first, second], introduce),
    started(name, kind, 'both-', [rank('both')]),
  ])
}

export async function startPythonRanks(
  sources: string,
  python: string,
  environment: NodeJS.ProcessEnv,
): Promise<(Contestant | Absent)[]> {
  const port = String(await freePort())
  const rank = (which: string): Child =>
    new Child(python, [join(sources, 'nccl_rank.py'), which, port], environmentOf(environment))
  return Promise.all([
    started('PyTorch', 'Python', 'all-reduce-', [rank('0'), rank('1')]),
    started('PyTorch', 'Python', 'both-', [rank('both')]),
  ])
}

async function started(
  name: string,
  kind: Contestant['kind'],
  rows: string,
  ranks: readonly Child[],
  introduce: () => Promise<void> = () => Promise.resolve(),
): Promise<Contestant | Absent> {
  const leave = async (): Promise<string | undefined> =>
    (await Promise.all(ranks.map((rank) => rank.leave()))).find((reason) => reason !== undefined)
  try {
    await introduce()
    const [version = ''] = await Promise.all(ranks.map((rank) => hear(rank, 'ready', START_LIMIT_MS)))
    const keys = groups.flatMap(({ rows }) => rows.map(({ key }) => key)).filter((key) => key.startsWith(rows))
    return {
      name,
      kind,
      facts: { nccl: version },
      keys: new Set(keys),
      /** By the slower rank. */
      async run(key, calls) {
        for (const rank of ranks) rank.say(`run ${key} ${calls}`)
        const answers = await Promise.all(ranks.map((rank) => hear(rank, 'ns', ROUND_LIMIT_MS)))
        return { taken: Math.max(...answers.map(Number)) }
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
