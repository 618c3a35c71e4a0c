/** Opens what the parent shared: importer.js <garbage | kinds | memory | ended | pending | values>. Says 'ok', or throws with what is wrong. */
import assert from 'node:assert/strict'
import { Device, DeviceBuffer, Event, Stream } from 'cuda-streams'

const [what] = process.argv.slice(2)
const bytes = Buffer.from(process.env['IPC_BYTES'] ?? '', 'hex')
const device = Device.get(0)
const open = (given: Uint8Array): DeviceBuffer => DeviceBuffer.fromIpcHandle(given, { device })

function assertRefused(given: Uint8Array, title: string, call: (bytes: Uint8Array) => unknown = open): void {
  assert.throws(
    () => call(given),
    (error: unknown) => {
      assert.equal((error as { code?: unknown }).code, 'ERR_INVALID_HANDLE', `${title}: ${String(error)}`)
      return true
    },
    title,
  )
}

/** Says each step, so that a log tells where a crash was. */
const step = (name: string): void => console.log(name)

if (what === 'garbage') {
  const random = Buffer.from(Array.from({ length: 80 }, (_, index) => (index * 197 + 31) % 256))
  const wrong = { zeros: Buffer.alloc(80), ones: Buffer.alloc(80, 255), random, short: random.subarray(0, 64) }
  for (const [name, given] of Object.entries(wrong)) {
    step(name)
    assertRefused(given, name)
  }
} else if (what === 'kinds') {
  // The parent sent the 64 bytes of an event, and the 80 of memory.
  const openEvent = (given: Uint8Array): Event => Event.fromIpcHandle(given, { device })
  const [ofEvent, ofMemory] = [bytes.subarray(0, 64), bytes.subarray(64)]
  step('the bytes of an event as memory')
  assertRefused(ofEvent, 'an event as memory')
  assertRefused(Buffer.concat([ofEvent, Buffer.alloc(8), Buffer.of(16, 0, 0, 0, 0, 0, 0, 0)]), '16 bytes of an event')
  step('the bytes of memory as an event')
  assertRefused(ofMemory.subarray(0, 64), 'memory as an event', openEvent)
  step('bytes that are cut')
  for (const call of [open, openEvent]) {
    for (const length of [0, 63, 65, 79]) {
      assert.throws(() => call(ofMemory.subarray(0, length)), { code: 'ERR_INVALID_ARG_VALUE' }, `${length} bytes`)
    }
  }
  assert.throws(() => openEvent(ofMemory), { code: 'ERR_INVALID_ARG_VALUE' }, '80 bytes as an event')
  step('each as what it is')
  using event = openEvent(ofEvent)
  using memory = open(ofMemory)
  using stream = new Stream({ device })
  assert.deepEqual(await stream.wait(event).download(memory), new Uint8Array(4096).fill(7))
} else if (what === 'values') {
  // The parent's stream stands until the first word is 1, and writes the second when it goes on.
  using stream = new Stream({ device })
  using theirs = open(bytes)
  step('writes')
  stream.fill(theirs.subarray(64, 128), 5).writeValue(theirs, 1)
  step('waits')
  stream.waitValue(theirs, 2n, { byteOffset: 8 })
  await stream.finished()
  assert.equal((await stream.download(theirs.subarray(128, 129)))[0], 6)
} else if (what === 'ended') {
  step('memory of a process that has ended')
  assertRefused(bytes, 'memory of a process that has ended')
} else if (what === 'pending') {
  // A stream stands at a host function, which only this thread can run.
  using stream = new Stream({ device })
  using used = device.alloc(2 ** 26, { interprocess: true })
  let ran = 0
  stream.launchHostFunc(() => {
    ran += 1
  })
  step('allocated')
  const buffer = device.alloc(2 ** 25, { interprocess: true })
  stream.fill(buffer, 1).fill(used, 1)
  step('exported')
  buffer.ipcHandle()
  step('closed')
  buffer.close()
  used.close()
  step('opened')
  const opened = open(bytes)
  stream.copy(opened.subarray(0, 10), opened.subarray(10, 20))
  step('closed')
  opened.close()
  assert.equal(ran, 0, 'the host function cannot have run yet')
  await stream.finished()
  assert.equal(ran, 1)
} else {
  // The parent shared the bytes from 1000 to 1099 of an allocation in which byte n is n % 251.
  using stream = new Stream({ device })
  const expected = (from: number, length: number): number[] =>
    Array.from({ length }, (_, index) => (from + index) % 251)
  const downloaded = async (buffer: DeviceBuffer): Promise<number[]> => [...(await stream.download(buffer))]

  step('a slice')
  const slice = open(bytes)
  assert.equal(slice.byteLength, 100)
  assert.equal(slice.device, device)
  assert.deepEqual(await downloaded(slice), expected(1000, 100))
  step("CUDA's own bytes")
  const whole = open(bytes.subarray(0, 64))
  assert.ok(whole.byteLength >= 4096, `${whole} is the whole allocation`)
  assert.equal(whole.pointer + 1000n, slice.pointer, 'it is mapped once')
  assert.deepEqual(await downloaded(whole.subarray(0, 2000)), expected(0, 2000))
  step('handed on')
  assert.deepEqual(Buffer.from(slice.ipcHandle()).toString('hex'), bytes.toString('hex'))
  assert.equal(Buffer.from(slice.subarray(10, 15).ipcHandle()).readBigUInt64LE(64), 1010n)
  step('closed while another is open')
  slice.close()
  assert.throws(() => slice.ipcHandle(), /closed/)
  assert.deepEqual(await downloaded(whole.subarray(1000, 1010)), expected(1000, 10))
  step('closed while a host function is pending')
  let ran = false
  stream.launchHostFunc(() => {
    ran = true
  })
  stream.copy(whole.subarray(3000, 3010), whole.subarray(0, 10))
  whole.close()
  open(bytes).close()
  await stream.finished()
  assert.ok(ran)
  step('opened while a stream captures')
  stream.beginCapture('global')
  const captured = open(bytes)
  stream.endCapture().close()
  assert.deepEqual(await downloaded(captured), expected(1000, 100))
  captured.close()
  step('more than there is')
  for (const [at, value] of [
    [64, 2n ** 40n],
    [72, 2n ** 63n],
  ] as const) {
    const wrong = Buffer.from(bytes)
    wrong.writeBigUInt64LE(value, at)
    assertRefused(wrong, `${value} at ${at}`)
  }
  step('opened again')
  using again = open(bytes)
  assert.deepEqual(await downloaded(again), expected(1000, 100))
}
console.log('ok')
