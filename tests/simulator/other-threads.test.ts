/** Handles of a simulation mean nothing elsewhere: in another thread, or to another copy of the library in this one. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { simulate } from 'cuda-streams/sim'
import { Ranges } from '../../src/simulator/handles.js'

const LIBRARY = import.meta.resolve('cuda-streams')
const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim' }

/** What a thread says that has made a stream, an event and a buffer of its own, of those of this one. */
async function toldByThread(handles: readonly bigint[]): Promise<string[]> {
  const code = `
    const { workerData, parentPort } = require('node:worker_threads')
    import('${LIBRARY}').then(({ Device, DeviceBuffer, Event, ExternalStream }) => {
      const device = Device.get()
      const own = [device.createStream(), device.createEvent(), device.alloc(64)]
      const [stream, event, memory] = workerData
      const said = [
        () => new ExternalStream(stream),
        () => Event.from(event),
        () => DeviceBuffer.from(memory, 64),
      ].map((wrap) => { try { return String(wrap()) } catch (error) { return error.code } })
      parentPort.postMessage(said)
      own.length = 0
    })`
  const worker = new Worker(code, { eval: true, workerData: handles, env })
  const [said] = (await once(worker, 'message')) as [string[]]
  await worker.terminate()
  return said
}

describe('handles of the simulator', () => {
  it('of this thread are refused in another, and do not name what was made there', async () => {
    const [device] = simulate().devices
    assert.ok(device)
    const buffer = device.alloc(64)
    const said = await toldByThread([device.createStream().handle, device.createEvent().handle, buffer.pointer])
    assert.deepEqual(said, ['ERR_INVALID_HANDLE', 'ERR_INVALID_HANDLE', 'ERR_INVALID_HANDLE'])
  })

  it('of another copy of the library are refused too', async () => {
    const copy: typeof import('../../src/simulator/handles.js') = await import(
      '../../src/simulator/handles.js?copy' as string
    )
    const [mine, theirs] = [new Ranges(), new copy.Ranges()]
    const taken = [mine.take(1).base, theirs.take(1).base, mine.take(1).base, theirs.take(1).base]
    assert.notEqual(copy.Ranges, Ranges)
    assert.equal(new Set(taken).size, 4, `${taken}`)
  })
})
