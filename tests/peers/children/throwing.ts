/** A thread of tests/peers/cuda-core-host-functions.test.ts: a function throws inside a graph, and what comes of it. */
import { parentPort } from 'node:worker_threads'
import { Device } from 'cuda-streams'

const reported: string[] = []
process.on('uncaughtException', (error) => void reported.push(error.message))

const device = Device.get(0)
const stream = device.createStream()
const buffer = device.alloc(16, { stream })
const host = device.allocPinned(16)
const ran: string[] = []
await stream.finished()
const exec = stream
  .capture(() => {
    stream.fill(buffer, 0x33)
    stream.launchHostFunc(() => {
      ran.push('throws')
      throw new Error('mine')
    })
    stream.copy(host, buffer)
    stream.launchHostFunc(() => ran.push('later'))
  })
  .instantiate()
exec.launch(stream).launch(stream)
stream.synchronize()
await stream.finished()
await new Promise(setImmediate)
parentPort?.postMessage({ ran, reported, bytes: [...new Set(host.bytes)] })
