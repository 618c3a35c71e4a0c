/**
 * The clients of bench/server.ts, in a process of their own. Each keeps its connection, and sends a request when the one before is
 * answered. For each line `PORT CLIENTS MS FACTOR` on stdin it prints a `Load` as JSON, or `fail WHY`. An answer is to be the request
 * times the factor; each is checked for its length, and one in `CHECK_EVERY` of each client for every float, unless the factor is NaN.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { quantile } from './statistics.js'

export interface Load {
  readonly requests: number
  /** Those that are not counted among them. */
  readonly others: number
  /** Of the time in which they were answered. */
  readonly milliseconds: number
  /** Milliseconds from a request to its answer. */
  readonly median: number
  readonly p99: number
}

/** Of a request: 16 KiB. */
const FLOATS = 4096
const CHECK_EVERY = 50
/** Of the time, at its beginning: its answers are not counted. */
const WARM_UP_SHARE = 0.2
const ANSWER_LIMIT_MS = 10_000

class Client {
  readonly #socket: Socket
  readonly #factor: number
  readonly #floats: Float32Array
  readonly #request: Buffer

  constructor(socket: Socket, factor: number, nth: number) {
    this.#socket = socket
    this.#factor = factor
    // Products of small integers are exact. Those of each client are others, so that an answer to another's request is recognized.
    this.#floats = Float32Array.from({ length: FLOATS }, (_, i) => ((i + nth * 17) % 4099) - 2000)
    const head = `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${this.#floats.byteLength}\r\n\r\n`
    this.#request = Buffer.concat([Buffer.from(head), new Uint8Array(this.#floats.buffer)])
  }

  /** Sends requests as long as it may; calls back with the time of each answer, and the milliseconds to it. */
  async run(goesOn: () => boolean, answered: (now: number, milliseconds: number) => void): Promise<void> {
    for (let nth = 0; goesOn(); nth += 1) {
      const begin = performance.now()
      this.#socket.write(this.#request)
      const body = await this.#answer()
      const now = performance.now()
      answered(now, now - begin)
      if (nth % CHECK_EVERY === 0 && !Number.isNaN(this.#factor)) this.#check(body)
    }
  }

  /** The body of the next answer. */
  #answer(): Promise<Buffer> {
    const socket = this.#socket
    return new Promise((resolve, reject) => {
      let received: Buffer | undefined
      let bodyAt = 0
      const finish = (error?: Error): void => {
        socket.off('data', receive).off('error', fail).off('close', fail)
        if (error === undefined && received !== undefined) resolve(received.subarray(bodyAt))
        else reject(error)
      }
      const fail = (error?: unknown): void => {
        finish(error instanceof Error ? error : new Error('the server closed the connection'))
      }
      const receive = (piece: Buffer): void => {
        received = received === undefined ? piece : Buffer.concat([received, piece])
        if (bodyAt === 0) {
          const headEnd = received.indexOf('\r\n\r\n')
          if (headEnd < 0) return
          bodyAt = headEnd + 4
          const head = received.toString('latin1', 0, headEnd)
          const length = Number(/content-length: *(\d+)/i.exec(head)?.[1])
          if (!head.startsWith('HTTP/1.1 200 ') || length !== this.#floats.byteLength) {
            finish(new Error(`unexpected answer: ${received.toString('latin1', 0, 500)}`))
            return
          }
        }
        const missing = bodyAt + this.#floats.byteLength - received.length
        if (missing <= 0) finish(missing < 0 ? new Error('an answer is longer than its Content-Length') : undefined)
      }
      socket.on('data', receive).on('error', fail).on('close', fail)
    })
  }

  #check(body: Buffer): void {
    for (const [i, value] of this.#floats.entries()) {
      const found = body.readFloatLE(4 * i)
      if (found !== this.#factor * value) throw new Error(`float ${i} is ${found}, not ${this.#factor} * ${value}`)
    }
  }
}

async function load(port: number, count: number, milliseconds: number, factor: number): Promise<Load> {
  const sockets = Array.from({ length: count }, () => connect({ port, host: '127.0.0.1', noDelay: true }))
  const limit = setTimeout(() => {
    for (const socket of sockets) socket.destroy(new Error(`no answer within ${ANSWER_LIMIT_MS / 1000} s`))
  }, milliseconds + ANSWER_LIMIT_MS)
  try {
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    const begin = performance.now()
    const warm = begin + WARM_UP_SHARE * milliseconds
    let end = begin + milliseconds
    const times: number[] = []
    let others = 0
    // At least one is counted, however slow the server is.
    const goesOn = (): boolean => performance.now() < end || times.length === 0
    const answered = (now: number, time: number): void => {
      if (now < warm || (now > end && times.length > 0)) {
        others += 1
        return
      }
      times.push(time)
      end = Math.max(end, now)
    }
    await Promise.all(sockets.map((socket, nth) => new Client(socket, factor, nth).run(goesOn, answered)))
    const [median = 0, p99 = 0] = [quantile(times, 0.5), quantile(times, 0.99)]
    return { requests: times.length, others, milliseconds: end - warm, median, p99 }
  } finally {
    clearTimeout(limit)
    for (const socket of sockets) socket.destroy()
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [port = 0, clients = 0, milliseconds = 0, factor = 0] = line.split(' ').map(Number)
  try {
    console.log(JSON.stringify(await load(port, clients, milliseconds, factor)))
  } catch (error) {
    console.log(`fail ${error instanceof Error ? error.message.split('\n')[0] : error}`)
  }
}
