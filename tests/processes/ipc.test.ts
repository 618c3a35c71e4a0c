/** Memory and events that processes share, with real processes. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { DeviceBuffer, Event } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { type Ended, runRanks, start, told } from './run-ranks.js'

const child = (name: string): string => `tests/processes/children/${name}.js`

function assertOk(ended: Ended): void {
  assert.equal(ended.code, 0, told(ended))
  assert.ok(ended.stdout.split('\n').includes('ok'), told(ended))
}

onEveryBackend('memory and events between processes', (bench) => {
  const { device } = bench
  const env = { CUDA_STREAMS_DRIVER: bench.name }

  it('are in order by an interprocess event, both ways, and not without the wait', async () => {
    const ended = await runRanks(2, child('relay'), [], env)
    for (const one of ended) assert.equal(one.code, 0, told(one))
    const [{ rounds, waited, unwaited }] = ended.map(({ stdout }) => JSON.parse(stdout)) as [Record<string, number>]
    assert.equal(waited, rounds, `with the wait ${waited} of ${rounds} rounds were right`)
    assert.equal(unwaited, 0, `without the wait ${unwaited} of ${rounds} rounds were right`)
  })

  it('memory is opened whole or in part, again and again, and closed at any time', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4096, { interprocess: true })
    stream.upload(
      buffer,
      Uint8Array.from({ length: 4096 }, (_, index) => index % 251),
    )
    await stream.finished()
    const IPC_BYTES = Buffer.from(buffer.subarray(1000, 1100).ipcHandle()).toString('hex')
    assertOk(await start(child('importer'), ['memory'], { ...env, IPC_BYTES }))
    const copied = await stream.download(buffer.subarray(3000, 3010))
    assert.deepEqual([...copied], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 'what the other process wrote is seen here')
  })

  it('values are waited for and written by streams of two processes', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4096, { interprocess: true })
    await stream.fill(buffer, 0).finished()
    const IPC_BYTES = Buffer.from(buffer.ipcHandle()).toString('hex')
    stream.waitValue(buffer, 1).copy(buffer.subarray(128, 192), buffer.subarray(64, 128))
    const copied = stream.download(buffer.subarray(128, 192))
    stream.fill(buffer.subarray(128, 192), 6).writeValue(buffer, 2n, { byteOffset: 8 })
    const ended = start(child('importer'), ['values'], { ...env, IPC_BYTES })
    assert.deepEqual(await copied, new Uint8Array(64).fill(5), 'what the other process wrote before its value')
    assertOk(await ended)
  })

  it('nothing waits for a host function that this thread would have to run', async () => {
    using buffer = device.alloc(4096, { interprocess: true })
    const IPC_BYTES = Buffer.from(buffer.ipcHandle()).toString('hex')
    assertOk(await start(child('importer'), ['pending'], { ...env, IPC_BYTES }))
  })

  it('bytes that are no handle are refused, and do not end the process', async () => {
    assertOk(await start(child('importer'), ['garbage'], env))
  })

  it('bytes of an event open no memory, nor bytes of memory an event, and neither changes the other', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4096, { interprocess: true })
    using event = device.createEvent({ interprocess: true })
    await stream.fill(buffer, 7).record(event).finished()
    const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
    const IPC_BYTES = hex(event.ipcHandle()) + hex(buffer.ipcHandle())
    for (const [open, bytes] of [
      [() => DeviceBuffer.fromIpcHandle(event.ipcHandle()), 'an event of this process'],
      [() => Event.fromIpcHandle(buffer.ipcHandle().slice(0, 64)), 'memory of this process'],
    ] as const) {
      assert.throws(open, { code: 'ERR_INVALID_HANDLE' }, bytes)
    }
    assertOk(await start(child('importer'), ['kinds'], { ...env, IPC_BYTES }))
    assert.deepEqual(await stream.download(buffer), new Uint8Array(4096).fill(7))
    assert.ok(event.query(), 'the record is as it was')
  })

  it('memory of a process that has ended is refused', async () => {
    const exporter = await start(child('exporter'), [], env)
    assert.equal(exporter.code, 0, told(exporter))
    assertOk(await start(child('importer'), ['ended'], { ...env, IPC_BYTES: exporter.stdout.trim() }))
  })
})
