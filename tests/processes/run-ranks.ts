/** Starts a script several times, as a launcher would, and waits for all. */
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
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

/** Ports that no system gives to a connection by itself: what a parallel test connects or listens to takes none of them. */
const FIRST_PORT = 12_000
const PORTS = 20_000

/** Of two neighbours at which no process listens the upper one: that of the rendezvous, below which torchrun has its store. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + randomInt(PORTS)
    if ((await isFree(port - 1)) && (await isFree(port))) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false
    throw error
  }
  server.close()
  await once(server, 'close')
  return true
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
