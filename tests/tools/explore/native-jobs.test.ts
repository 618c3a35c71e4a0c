/**
 * Jobs that Node does beside JavaScript, between two uses of a buffer that nothing orders: an exploration finds that, or says
 * that it is not complete; and it takes none of them, however long, for a promise that cannot come.
 */
import assert from 'node:assert/strict'
import { exec, spawn } from 'node:child_process'
import * as crypto from 'node:crypto'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { once } from 'node:events'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { after, describe, it } from 'node:test'
import { scheduler } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { BroadcastChannel, MessageChannel, Worker } from 'node:worker_threads'
import zlib from 'node:zlib'
import { Stream } from 'cuda-streams'
import { type ExploredProgram, explore } from 'cuda-streams/sim'
import type * as Koffi from 'koffi'
import { withoutPromiseHooks } from '../../helpers/run-time.js'

const FILE = fileURLToPath(import.meta.url)
const FOLDER = fs.mkdtempSync(join(tmpdir(), 'native-jobs-'))
after(() => fs.rmSync(FOLDER, { recursive: true }))
const LONG = 200

type Callback = (error: Error | null | undefined) => void
const called = (start: (done: Callback) => unknown): Promise<void> =>
  new Promise((resolve, reject) => void start((error) => (error ? reject(error) : resolve())))

async function connected(to: (server: net.Server) => net.Socket, at: object): Promise<void> {
  const server = net.createServer((socket) => socket.end('x')).listen(at)
  await once(server, 'listening')
  const socket = to(server)
  await once(socket, 'data')
  socket.destroy()
  server.close()
}

const JOBS: Readonly<Record<string, () => unknown>> = {
  'zlib.gzip()': () => called((done) => zlib.gzip('abc', done)),
  'zlib.brotliCompress()': () => called((done) => zlib.brotliCompress('abc', done)),
  'a stream of zlib': () => pipeline(Readable.from(['abc']), zlib.createGzip(), new PassThrough().resume()),
  CompressionStream: () =>
    new Response(new Blob(['abc']).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer(),
  'dns.lookup()': () => called((done) => dns.lookup('localhost', done)),
  'dns.promises.lookup()': () => dns.promises.lookup('localhost'),
  'dns.lookupService()': () => called((done) => dns.lookupService('127.0.0.1', 1, done)),
  'a dns.Resolver that is refused': async () => {
    const resolver = new dns.promises.Resolver({ timeout: 50, tries: 1 })
    resolver.setServers(['127.0.0.1:9'])
    await assert.rejects(resolver.resolve4('localhost'))
  },
  'fs.stat()': () => called((done) => fs.stat(FILE, done)),
  'fs.readdir()': () => called((done) => fs.readdir('/', done)),
  'fs.writeFile()': () => called((done) => fs.writeFile(join(FOLDER, 'written'), 'x', done)),
  'a FileHandle': async () => {
    const file = await fs.promises.open(FILE)
    await file.read(Buffer.alloc(8))
    await file.close()
  },
  'fs.promises.opendir()': async () => {
    for await (const _ of await fs.promises.opendir('/'));
  },
  'fs.createWriteStream()': async () => {
    const stream = fs.createWriteStream(join(FOLDER, 'streamed'))
    stream.end('x')
    await once(stream, 'finish')
  },
  'Blob.arrayBuffer()': () => new Blob(['abc']).arrayBuffer(),
  'fs.watchFile()': () =>
    new Promise<void>((resolve) => {
      const watched = join(FOLDER, `watched${Math.random()}`)
      fs.writeFileSync(watched, 'a')
      // What was written before the watcher has looked for the first time is no change.
      const writer = setInterval(() => fs.appendFileSync(watched, 'more'), 20)
      fs.watchFile(watched, { interval: 5 }, () => {
        clearInterval(writer)
        fs.unwatchFile(watched)
        resolve()
      })
    }),
  'crypto.randomFill()': () => called((done) => crypto.randomFill(Buffer.alloc(8), done)),
  'crypto.pbkdf2()': () => called((done) => crypto.pbkdf2('a', 'b', 1, 8, 'sha256', done)),
  'crypto.hkdf()': () => called((done) => crypto.hkdf('sha256', 'a', 'b', 'c', 8, done)),
  'crypto.generateKeyPair()': () => called((done) => crypto.generateKeyPair('ed25519', {}, done)),
  'crypto.checkPrime()': () => called((done) => crypto.checkPrime(7n, done)),
  'subtle.generateKey()': () =>
    crypto.subtle.generateKey({ name: 'AES-GCM', length: 128 }, true, ['encrypt', 'decrypt']),
  'child_process.exec()': () => called((done) => exec('true', done)),
  'child_process.spawn()': () => once(spawn('true'), 'exit'),
  'a socket': () =>
    connected((server) => net.connect(Reflect.get(Object(server.address()), 'port')), { host: '127.0.0.1', port: 0 }),
  'a socket of a path': () => {
    const path = join(FOLDER, `socket${Math.random()}`)
    return connected(() => net.connect(path), { path })
  },
  'a datagram': async () => {
    const socket = dgram.createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    socket.send('x', socket.address().port, '127.0.0.1')
    await once(socket, 'message')
    socket.close()
  },
  'a worker': () => once(new Worker('0', { eval: true }), 'exit'),
  'a MessageChannel': async () => {
    const { port1, port2 } = new MessageChannel()
    port2.postMessage(1)
    await once(port1, 'message')
    port1.close()
  },
  'a BroadcastChannel': async () => {
    const [one, other] = [new BroadcastChannel('jobs'), new BroadcastChannel('jobs')]
    other.postMessage(1)
    await new Promise((resolve) => {
      one.onmessage = resolve
    })
    one.close()
    other.close()
  },
  'scheduler.wait()': () => scheduler.wait(2),
  'a signal': async () => {
    const signalled = once(process, 'SIGCONT')
    process.kill(process.pid, 'SIGCONT')
    await signalled
  },
  'import()': () => import(`data:text/javascript,export const one = ${Math.random()}`),
}

/** Longer than an exploration waits where nothing is to come. */
const LONG_JOBS: Readonly<Record<string, () => unknown>> = {
  'fs.openAsBlob()': async () => (await fs.openAsBlob(FILE)).slice(0, 8).text(),
  'AbortSignal.timeout()': () => new Promise((resolve) => AbortSignal.timeout(LONG).addEventListener('abort', resolve)),
  'a timer without a reference': () => new Promise((resolve) => setTimeout(resolve, LONG).unref()),
  'a process': () => called((done) => exec(`sleep ${LONG / 1000}`, done)),
  'a worker': () => once(new Worker(`setTimeout(() => {}, ${LONG})`, { eval: true }), 'exit'),
  'a job of a native addon': async () => {
    const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
    const usleep = koffi.load(null).func('int usleep(uint microseconds)')
    await called((done) => usleep.async(LONG * 1000, done))
  },
}

const between =
  (job: () => unknown): ExploredProgram =>
  async ({ devices: [device] }) => {
    assert.ok(device)
    const [producer, consumer] = [new Stream({ device }), new Stream({ device })]
    const [data, result] = [device.alloc(16), device.alloc(16)]
    producer.fill(data, 7)
    await job()
    consumer.copy(result, data)
    return await consumer.download(result)
  }

const alone =
  (job: () => unknown): ExploredProgram =>
  async ({ devices: [device] }) => {
    assert.ok(device)
    await new Stream({ device }).finished()
    await job()
  }

describe("Node's own jobs", { timeout: 120_000, skip: withoutPromiseHooks }, () => {
  for (const [what, job] of Object.entries(JOBS)) {
    it(`between two uses: found, or said not to be complete: ${what}`, async () => {
      const { verdict, complete, message } = await explore(between(job))
      assert.ok(verdict === 'disagree' || (verdict === 'agree' && !complete), message)
    })
  }

  for (const [what, job] of Object.entries({ ...JOBS, ...LONG_JOBS })) {
    it(`is no deadlock: ${what}${JOBS[what] === job ? '' : ', for long'}`, async () => {
      const { verdict, message } = await explore(alone(job))
      assert.equal(verdict, 'agree', message)
    })
  }

  it('a job that is over hides no deadlock', async () => {
    const { verdict } = await explore(async () => {
      await called((done) => zlib.gzip('abc', done))
      zlib.gzipSync('abc')
      await (await fs.openAsBlob(FILE)).slice(0, 8).text()
      await new Promise<void>(() => {})
    })
    assert.equal(verdict, 'deadlock')
  })
})
