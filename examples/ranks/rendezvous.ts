/**
 * Where processes that were started together meet, to hand out what CUDA cannot carry itself: NCCL's id, IPC handles, a
 * few numbers. Rank 0 listens, all connect, and each step is one exchange in which everybody takes part.
 */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Place } from './environment.js'
import { frames, send } from './frames.js'

export interface JoinOptions {
  /** Milliseconds until all must be there. Default: a minute. */
  readonly timeout?: number
}

const GREETING = 'cuda-streams ranks 1'
const RETRY_AFTER = 50

export class Rendezvous {
  readonly rank: number
  readonly size: number
  readonly #socket: Socket
  readonly #incoming: AsyncGenerator<Buffer, void>

  private constructor({ rank, size }: Place, socket: Socket) {
    this.rank = rank
    this.size = size
    this.#socket = socket
    this.#incoming = frames(socket)
  }

  /** Resolves when all ranks are there. */
  static async join(place: Place, options: JoinOptions = {}): Promise<Rendezvous> {
    const { rank, size } = place
    const deadline = performance.now() + (options.timeout ?? 60_000)
    const hub = rank === 0 ? await listen(place) : undefined
    const socket = await reach(place, deadline)
    const rendezvous = new Rendezvous(place, socket)
    const late = setTimeout(() => socket.destroy(), Math.max(1, deadline - performance.now()))
    try {
      await send(socket, Buffer.from(JSON.stringify({ greeting: GREETING, rank, size })))
      await rendezvous.barrier()
      return rendezvous
    } catch (cause) {
      hub?.close()
      socket.destroy()
      throw new Error(`rank ${rank} of ${size} did not meet all others at ${place.address}:${place.port}`, { cause })
    } finally {
      clearTimeout(late)
    }
  }

  /** Every rank gives bytes, and gets those of all, in the order of the ranks. Rejects where one is gone. */
  async allGather(bytes: Uint8Array): Promise<readonly Buffer[]> {
    const left = `rank ${this.rank}: another rank has left before the exchange was over`
    const all: Buffer[] = []
    try {
      await send(this.#socket, bytes)
      while (all.length < this.size) {
        const next = await this.#incoming.next()
        if (next.done === true) break
        all.push(next.value)
      }
    } catch (cause) {
      throw new Error(left, { cause })
    }
    if (all.length < this.size) throw new Error(left)
    return all
  }

  /** Every rank gets the bytes that rank 0 gives. */
  async broadcast(bytes: Uint8Array | undefined): Promise<Buffer> {
    const [first] = await this.allGather(bytes ?? new Uint8Array(0))
    return first ?? Buffer.alloc(0)
  }

  /** Resolves when every rank has called it. */
  async barrier(): Promise<void> {
    await this.allGather(new Uint8Array(0))
  }

  /** To be called by each rank at the end. */
  close(): void {
    this.#socket.destroySoon()
  }
}

/** The side of rank 0: hands out a step when all have given theirs. */
class Hub {
  readonly #size: number
  readonly #server: Server
  readonly #connections = new Set<Socket>()
  readonly #sockets = new Map<number, Socket>()
  readonly #given = new Map<number, Buffer>()
  #left = 0

  constructor(size: number, server: Server) {
    this.#size = size
    this.#server = server
  }

  /** Serves one connection until it ends. */
  async serve(socket: Socket): Promise<void> {
    this.#connections.add(socket)
    const incoming = frames(socket)
    let rank: number | undefined
    try {
      const greeting = await incoming.next()
      rank = greeting.done === true ? undefined : this.#greeted(greeting.value, socket)
      if (rank === undefined) return
      for await (const bytes of incoming) await this.#give(rank, bytes)
    } catch {
      // The connection is broken: the rank is gone, as if it had closed.
    } finally {
      this.#connections.delete(socket)
      socket.end()
      if (rank !== undefined) this.#leave()
    }
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#connections) socket.destroy()
  }

  /** The rank that has come; undefined for anybody who does not belong here, and is sent away. */
  #greeted(bytes: Buffer, socket: Socket): number | undefined {
    const { greeting, rank, size } = parsed(bytes.toString())
    if (greeting !== GREETING || size !== this.#size || typeof rank !== 'number') return undefined
    if (!(Number.isInteger(rank) && rank >= 0 && rank < this.#size) || this.#sockets.has(rank)) return undefined
    this.#sockets.set(rank, socket)
    return rank
  }

  async #give(rank: number, bytes: Buffer): Promise<void> {
    this.#given.set(rank, bytes)
    if (this.#left > 0) this.close()
    if (this.#given.size < this.#size) return
    const all = Array.from({ length: this.#size }, (_, index) => this.#given.get(index) ?? Buffer.alloc(0))
    this.#given.clear()
    await Promise.all(
      Array.from(this.#sockets.values(), async (socket) => {
        for (const piece of all) await send(socket, piece)
      }),
    )
  }

  /** Whoever waits for a rank that is gone would wait for ever. */
  #leave(): void {
    this.#left += 1
    if (this.#left === this.#size || this.#given.size > 0) this.close()
  }
}

async function listen({ size, address, port }: Place): Promise<Hub> {
  const server = createServer()
  const hub = new Hub(size, server)
  server.on('connection', (socket) => void hub.serve(watched(socket.setNoDelay())))
  const loopback = /^(localhost$|127\.|::1$)/.test(address)
  server.listen({ port, ...(loopback ? { host: address } : {}) })
  try {
    await once(server, 'listening')
  } catch (cause) {
    throw new Error(`rank 0 cannot listen at port ${port}: set RENDEZVOUS_PORT to a free one for all ranks`, { cause })
  }
  return hub
}

/** Connects, again and again until rank 0 listens. */
async function reach({ address, port }: Place, deadline: number): Promise<Socket> {
  for (;;) {
    const socket = watched(connect({ host: address, port, noDelay: true }))
    try {
      await once(socket, 'connect')
      return socket
    } catch (cause) {
      socket.destroy()
      if (performance.now() > deadline) throw new Error(`rank 0 does not listen at ${address}:${port}`, { cause })
    }
    await pause(RETRY_AFTER)
  }
}

/** Whoever reads hears of an error; where nobody reads at the time, it shall not end the process. */
function watched(socket: Socket): Socket {
  return socket.on('error', () => {})
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}
