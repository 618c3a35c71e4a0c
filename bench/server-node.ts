/**
 * A server that bench/server.ts measures: `node server-node.js WAY`. A request has an array of floats, and the answer is nine times
 * that array: it is uploaded, multiplied by two kernels, and downloaded. Prints `ready PORT FACTS`, and leaves when stdin closes.
 */
import { readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Device, defineKernel, Stream } from 'cuda-streams'
import { root } from './root.js'

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

type Answer = (body: Uint8Array) => Uint8Array | Promise<Uint8Array>

function work(stream: Stream, body: Uint8Array): Promise<Uint8Array> {
  const n = body.length / Float32Array.BYTES_PER_ELEMENT
  using data = stream.bufferFrom(body)
  stream.launch(scale, { threads: n }, data, 3, n).launch(scale, { threads: n }, data, 3, n)
  return stream.download(data)
}

const WAYS: Readonly<Record<string, (device: Device) => Answer>> = {
  /** Requests take turns on some streams. */
  pool(device) {
    const streams = Array.from({ length: STREAMS }, () => new Stream({ device }))
    return (body) => {
      const stream = streams.shift() ?? new Stream({ device })
      streams.push(stream)
      return work(stream, body)
    }
  },
  /** Each request makes a stream for itself. */
  each: (device) => (body) => {
    using stream = new Stream({ device })
    return work(stream, body)
  },
}

async function open(way: string): Promise<readonly [facts: object, answer: Answer]> {
  const make = WAYS[way]
  if (make === undefined) return [{ version: process.version }, (body) => body]
  const device = Device.get()
  await scale.prepare(device)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  return [{ version, node: process.version, driver: device.driver, gpu: device.name }, make(device)]
}

async function reply(response: ServerResponse, body: Uint8Array): Promise<void> {
  try {
    const result = await answer(body)
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': result.length })
    response.end(result)
  } catch (error) {
    response.writeHead(500).end(String(error))
  }
}

const [facts, answer] = await open(process.argv[2] ?? 'pool')
const server = createServer((request, response) => {
  const pieces: Uint8Array[] = []
  request.on('data', (piece: Uint8Array) => pieces.push(piece))
  request.on('end', () => void reply(response, Buffer.concat(pieces)))
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(`ready ${typeof address === 'object' ? address?.port : ''} ${JSON.stringify(facts)}`)
})
process.stdin.on('end', () => process.exit()).resume()
