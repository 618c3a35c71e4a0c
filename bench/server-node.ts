/**
 * A server that bench/server.ts measures: `node server-node.js WAY [http]`. A request has an array of floats, and the answer is nine times
 * that array: it is uploaded, multiplied by two kernels, and downloaded. Prints `ready PORT FACTS`, and leaves when stdin closes. A line on
 * stdin begins a profile, and the next one ends it, which is then printed as JSON.
 *
 * The HTTP is the least that does, as in bench/server.py: requests would otherwise take longer in the framework than in the library,
 * and the framework would be what is compared. With `http` it is that of node:http, as most servers have it.
 */
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Device, defineKernel, Stream } from 'cuda-streams'
import { root } from './root.js'
import { Profile } from './server-profile.js'

/** bench/server.py has as many. */
const STREAMS = 16

const scale = defineKernel({
  name: 'scale',
  ptx: `.version 7.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n) {
  .reg .pred %p; .reg .f32 %f<3>; .reg .b32 %r<5>; .reg .b64 %rd<4>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n];
  setp.ge.u32 %p, %r1, %r4;
  @%p bra done;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd2];
  ld.param.f32 %f2, [factor];
  mul.f32 %f1, %f1, %f2;
  st.global.f32 [%rd2], %f1;
done:
  ret;
}`,
  signature: ['inout f32*', 'f32', 'u32'],
})

/** Fills an array with the answer to a request. */
type Answer = (body: Uint8Array, into: Uint8Array) => unknown

function work(stream: Stream, body: Uint8Array, into: Uint8Array): Promise<Uint8Array> {
  const n = body.length / Float32Array.BYTES_PER_ELEMENT
  using data = stream.bufferFrom(body)
  stream.launch(scale, { threads: n }, data, 3, n).launch(scale, { threads: n }, data, 3, n)
  return stream.download(data, into)
}

const WAYS: Readonly<Record<string, (device: Device) => Answer>> = {
  /** Requests take turns on some streams. */
  pool(device) {
    const streams = Array.from({ length: STREAMS }, () => new Stream({ device }))
    return (body, into) => {
      const stream = streams.shift() ?? new Stream({ device })
      streams.push(stream)
      return work(stream, body, into)
    }
  },
  /** Each request makes a stream for itself. */
  each: (device) => (body, into) => {
    using stream = new Stream({ device })
    return work(stream, body, into)
  },
}

async function open(way: string): Promise<readonly [facts: object, answer: Answer]> {
  const make = WAYS[way]
  if (make === undefined) return [{ version: process.version }, (body, into) => into.set(body)]
  const device = Device.get()
  await scale.prepare(device)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  return [{ version, node: process.version, driver: device.driver, gpu: device.name }, make(device)]
}

const TYPE = 'application/octet-stream'
let served = 0

/** A client's requests, one after the other. */
function talk(socket: Socket): void {
  let received: Buffer | undefined
  // A client that asks again has the answer before, so that all go through one array. The download fills it behind the head.
  let reply: Buffer | undefined

  async function respond(body: Uint8Array): Promise<void> {
    const head = `HTTP/1.1 200 OK\r\nContent-Type: ${TYPE}\r\nContent-Length: ${body.length}\r\n\r\n`
    if (reply?.length !== head.length + body.length) reply = Buffer.allocUnsafe(head.length + body.length)
    reply.write(head, 'latin1')
    try {
      await answer(body, reply.subarray(head.length))
      socket.write(reply)
    } catch (error) {
      socket.end(`HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n${error}`)
    }
    served += 1
  }

  socket.on('data', (piece: Buffer) => {
    received = received === undefined ? piece : Buffer.concat([received, piece])
    const bodyAt = received.indexOf('\r\n\r\n') + 4
    const [, digits] = /content-length: *(\d+)/i.exec(received.toString('latin1', 0, bodyAt)) ?? []
    if (digits === undefined || received.length < bodyAt + Number(digits)) return
    void respond(received.subarray(bodyAt, bodyAt + Number(digits)))
    received = undefined
  })
  socket.on('error', () => socket.destroy())
}

const overNodeHttp = (): Server =>
  createHttpServer((request, response) => {
    const pieces: Uint8Array[] = []
    request.on('data', (piece: Uint8Array) => pieces.push(piece))
    request.on('end', async () => {
      const body = Buffer.concat(pieces)
      const into = Buffer.allocUnsafe(body.length)
      try {
        await answer(body, into)
        response.writeHead(200, { 'Content-Type': TYPE, 'Content-Length': into.length }).end(into)
      } catch (error) {
        response.writeHead(500).end(String(error))
      }
      served += 1
    })
  })

const [, , way = 'pool', framework] = process.argv
const [facts, answer] = await open(way)
const server = framework === 'http' ? overNodeHttp() : createServer({ noDelay: true }, talk)
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(`ready ${typeof address === 'object' ? address?.port : ''} ${JSON.stringify(facts)}`)
})
let profile: Profile | undefined
for await (const _ of createInterface({ input: process.stdin })) {
  if (profile !== undefined) console.log(JSON.stringify(await profile.end(served)))
  profile = profile === undefined ? await Profile.begin(served) : undefined
}
process.exit()
