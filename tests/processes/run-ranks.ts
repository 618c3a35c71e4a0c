/** Starts a script several times, as a launcher would, and waits for all. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

export interface Ended {
  readonly code: number | null
  /** Set where it was killed, after the longest time that it may take. */
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A port at which no process listens. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port')
  return address.port
}

/** `script` is relative to dist/. */
export function start(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  seconds = 60,
): Promise<Ended> {
  const path = fileURLToPath(new URL(`../../${script}`, import.meta.url))
  const child = spawn(process.execPath, ['--expose-gc', path, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: '', NODE_TEST_CONTEXT: undefined, ...env },
    timeout: seconds * 1000,
    killSignal: 'SIGKILL',
  })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...output }))
  })
}

/** As torchrun does: RANK and the rest, all on this machine. */
export async function runRanks(
  size: number,
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<readonly Ended[]> {
  const port = String((await freePort()) - 1)
  const common = { ...env, WORLD_SIZE: String(size), MASTER_ADDR: '127.0.0.1', MASTER_PORT: port }
  return Promise.all(
    Array.from({ length: size }, (_, rank) =>
      start(script, args, { ...common, RANK: String(rank), LOCAL_RANK: String(rank) }),
    ),
  )
}

/** What a rank said and how it ended, for the message of an assertion. */
export function told(ended: Ended): string {
  return `code ${ended.code}, signal ${ended.signal}\nstdout:\n${ended.stdout}\nstderr:\n${ended.stderr}`
}
