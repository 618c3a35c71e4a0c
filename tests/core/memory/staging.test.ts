/** What staging does besides moving bytes: what it hears of a GPU that has faulted, and when it gives its memory back. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { defineKernel } from 'cuda-streams'
import { latch, simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import { root } from '../../helpers/root.js'
import { runsModule } from '../../helpers/run-time.js'

test('upload() rejects where the GPU has faulted by the time when nothing is left aside', async (t) => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  using stream = device.createStream()
  using buffer = device.alloc(64, { stream })
  const fault = new Error('the GPU has faulted')
  const driver = driverOf(device)
  const check = t.mock.method(driver.devices, 'contextCheck', () => {
    throw fault
  })
  await assert.rejects(stream.upload(buffer, new Uint8Array(64)), fault)
  check.mock.restore()
  await stream.upload(buffer, new Uint8Array(64))
})

test('an upload of which a part was queued does not throw: its promise rejects', async () => {
  const LENGTH = 200 * 2 ** 20
  for (const [what, code] of [
    ['the buffer', 'ERR_CLOSED'],
    ['the source', 'ERR_INVALID_ARG_VALUE'],
  ] as const) {
    const [device] = simulate().devices
    assert.ok(device !== undefined)
    using stream = device.createStream()
    const buffer = device.alloc(LENGTH, { stream })
    const source = new Uint8Array(LENGTH)
    let ran = 0
    // There is room for the copies of 128 MiB, and none for the others before some of these have run.
    for (let queued = 0; queued < 985; queued += 1) {
      stream.launchHostFunc(() => {
        ran += 1
        if (ran !== 10) return
        if (what === 'the buffer') buffer.close()
        else structuredClone(source.buffer, { transfer: [source.buffer] })
      })
    }
    const uploaded = stream.upload(buffer, source)
    assert.ok(ran >= 10, 'they ran while it had no room')
    await assert.rejects(uploaded, { code })
    await stream.finished()
  }
})

test('that promise is not to be ignored', () => {
  const program = `
    import { simulate } from 'cuda-streams/sim'
    const [device] = simulate().devices
    const stream = device.createStream()
    const buffer = device.alloc(${200 * 2 ** 20}, { stream })
    for (let queued = 0; queued < 985; queued += 1) stream.launchHostFunc(() => buffer.close())
    process.on('unhandledRejection', (error) => console.log('unhandled:', error.code))
    stream.upload(buffer, new Uint8Array(buffer.byteLength))`
  const { stdout, stderr } = spawnSync(process.execPath, runsModule(program), { cwd: root, encoding: 'utf8' })
  assert.equal(stdout, 'unhandled: ERR_CLOSED\n', stderr)
})

test('a stream that is closed gives its staging memory back, once nothing needs it any more', async (t) => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  using buffer = device.alloc(64)
  using long = device.alloc(20 * 2 ** 20)
  const { mock: closed } = t.mock.method(driverOf(device).memory, 'closePinned')

  const quiet = device.createStream()
  await quiet.upload(buffer, new Uint8Array(64))
  await quiet.download(buffer)
  assert.equal(closed.callCount(), 0)
  quiet.close()
  assert.equal(closed.callCount(), 2, 'a chunk for each direction')

  closed.resetCalls()
  const held = device.createStream()
  const latched = latch(held)
  const uploaded = held.upload(long, new Uint8Array(long.byteLength))
  held.close()
  assert.equal(closed.callCount(), 0, 'a host function fills a chunk still')
  latched.open()
  await uploaded
  assert.equal(closed.callCount(), 4, 'the whole ring')
})

test('a transfer behind a kernel that faults rejects with what the kernel did: block, thread, distance and line', async () => {
  const ptx = `.version 7.0
.target sm_75
.address_size 64
.visible .entry clear(.param .u64 clear_param_0)
{
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<4>;
	ld.param.u64 	%rd1, [clear_param_0];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd2, %r1, 4;
	add.s64 	%rd3, %rd1, %rd2;
	st.global.u32 	[%rd3], 0;
	ret;
}
`
  const clear = defineKernel({ name: 'clear', ptx, signature: ['out u32*'] })
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device !== undefined)
  const stream = device.createStream()
  const buffer = device.alloc(64, { stream })
  stream.launch(clear, { grid: 1, block: 20 }, buffer)
  const wanted =
    /^Kernel 'clear' faulted: CUDA_ERROR_ILLEGAL_ADDRESS \(700\), which cuMemcpyAsync reports\. .*, 0 bytes behind the end of .* of 64 bytes, in clear, block \(0,0,0\), thread \(16,0,0\), .* line 12 of the PTX \(compiled with options: \['-lineinfo'\], .*\)\. The context is lost/
  await assert.rejects(stream.download(buffer), { code: 'CUDA_ERROR_ILLEGAL_ADDRESS', message: wanted })
})

test('a few bytes take little staging memory, and what has no room there comes in the same order', async (t) => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  const allocate = t.mock.method(driverOf(device).memory, 'allocatePinned')
  const taken = (): number[] => allocate.mock.calls.map(({ arguments: [byteLength] }) => byteLength)
  using stream = device.createStream()
  using buffer = device.alloc(64 * 1024, { stream })
  await stream.upload(buffer, new Uint8Array(buffer.byteLength))
  await stream.download(buffer)
  assert.deepEqual(taken(), [64 * 1024, 64 * 1024], 'a small chunk for each direction')

  allocate.mock.resetCalls()
  const latched = latch(stream)
  const order: number[] = []
  const VALUES = Array.from({ length: 12 }, (_, index) => 2 + index)
  const downloads = VALUES.map(async (value) => {
    void stream.upload(buffer, new Uint8Array(buffer.byteLength).fill(value))
    const bytes = await stream.download(buffer)
    order.push(value)
    return bytes
  })
  latched.open()
  for (const [index, bytes] of (await Promise.all(downloads)).entries()) {
    assert.deepEqual(new Set(bytes), new Set([VALUES[index]]))
  }
  assert.ok(taken().includes(4 * 2 ** 20), 'what waits fills more than the small chunks')
  assert.deepEqual(order, VALUES)
})

test('a download for which there is room needs no host function and no stream beside its own', async (t) => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  using stream = device.createStream()
  using buffer = device.alloc(64 * 1024, { stream })
  const driver = driverOf(device)
  const queue = t.mock.method(driver.work, 'queue')
  const create = t.mock.method(driver.streams, 'create')
  const latched = latch(stream)
  const downloads = [1, 2, 3].map((value) => stream.fill(buffer, value).download(buffer))
  latched.open()
  const downloaded = await Promise.all(downloads)
  assert.deepEqual(
    downloaded.map((bytes) => new Set(bytes)),
    [1, 2, 3].map((value) => new Set([value])),
  )
  const kinds = queue.mock.calls.map(({ arguments: [work] }) => work.kind).filter((kind) => kind !== 'hostFunction')
  assert.deepEqual(kinds, ['fill', 'copy', 'fill', 'copy', 'fill', 'copy'])
  const internal = queue.mock.calls.filter(
    ({ arguments: [work] }) => work.kind === 'hostFunction' && work.call.internal === true,
  )
  assert.equal(internal.length, 0)
  assert.equal(create.mock.callCount(), 0)
})

test('where downloads have taken all staging memory, the next wait until JavaScript has read those before, and all get their own bytes', async (t) => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  using stream = device.createStream()
  using buffer = device.alloc(2 ** 20, { stream })
  const allocate = t.mock.method(driverOf(device).memory, 'allocatePinned')
  const latched = latch(stream)
  const order: number[] = []
  const downloads = Array.from({ length: 40 }, async (_, value) => {
    const bytes = await stream.fill(buffer, value).download(buffer)
    order.push(value)
    return bytes
  })
  latched.open()
  for (const [value, bytes] of (await Promise.all(downloads)).entries()) {
    assert.ok(
      bytes.every((byte) => byte === value),
      `download ${value} has ${bytes[0]}`,
    )
  }
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
    'in the order of the calls',
  )
  assert.equal(allocate.mock.callCount(), 4, 'no more than the ring has')
  assert.deepEqual(new Set(await stream.fill(buffer, 77).download(buffer)), new Set([77]))
})

test('an array that is detached before its download is done is refused, and its place is free again', async () => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  using stream = device.createStream()
  using buffer = device.alloc(64, { stream })
  const latched = latch(stream)
  const into = new Uint8Array(64)
  const refused = stream.download(buffer, into)
  structuredClone(into.buffer, { transfer: [into.buffer] })
  latched.open()
  await assert.rejects(refused, { code: 'ERR_INVALID_ARG_VALUE', message: /detached or shortened/ })
  assert.equal((await stream.fill(buffer, 5).download(buffer))[63], 5)
})
