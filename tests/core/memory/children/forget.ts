/** Programs that forget buffers of device memory, each more than a device of 64 GiB has. Started by forgotten.test.ts. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { CudaError, Device, type DeviceBuffer, Stream } from 'cuda-streams'

const GIB = 2 ** 30
const BYTES = GIB / 16
const MORE_THAN_ALL = 1100

const device = Device.get()
const stream = new Stream()
assert.equal(device.memory.total, 64 * GIB)

const allocate = (byteLength: number): DeviceBuffer => device.alloc(byteLength, { stream })

const MIB = 2 ** 20
/** The fake driver has 64 MiB of it. */
const PINNED = 16 * MIB

function holdPinned(count: number): number {
  return Array.from({ length: count }, () => device.allocPinned(PINNED)).length
}

function holdInterprocess(count: number): number {
  return Array.from({ length: count }, () => device.alloc(GIB, { interprocess: true })).length
}

function allocateMany(count: number, byteLength: number): DeviceBuffer[] {
  return Array.from({ length: count }, () => allocate(byteLength))
}

/** Makes it certain that the buffers were made in another function, whose frame is gone. */
function hold(count: number): number {
  return allocateMany(count, GIB).length
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof CudaError && error.number === 2 && /Close what is no longer used/.test(error.message)
}

const programs: Readonly<Record<string, () => Promise<void> | void>> = {
  async 'at each turn'() {
    let most = 0
    for (let made = 0; made < MORE_THAN_ALL; made += 1) {
      allocate(BYTES)
      most = Math.max(most, device.memoryPool.used)
      await turn()
    }
    console.log(`at most ${Math.ceil(most / GIB)} GiB`)
  },
  'within one turn'() {
    for (let made = 0; made < MORE_THAN_ALL; made += 1) allocate(BYTES)
  },
  async 'in an earlier turn'() {
    assert.equal(hold(48), 48)
    await turn()
    await turn()
    assert.equal(hold(48), 48)
  },
  async 'interprocess, in an earlier turn'() {
    assert.equal(holdInterprocess(48), 48)
    await turn()
    await turn()
    assert.equal(holdInterprocess(48), 48)
    assert.throws(() => device.alloc(65 * GIB, { interprocess: true }), isOutOfMemory)
  },
  async 'pinned, in an earlier turn'() {
    assert.equal(holdPinned(3), 3)
    await turn()
    await turn()
    // Other lengths than those that are kept for the next request.
    const all = device.allocPinned(64 * MIB)
    assert.throws(() => device.allocPinned(PINNED), { code: 'CUDA_ERROR_OUT_OF_MEMORY' })
    all.close()
    assert.equal(holdPinned(4), 4)
  },
  async 'pinned memory whose views are used stays'() {
    const views = [1, 2, 3].map(() => device.allocPinned(PINNED).view(Uint8Array).fill(7))
    await turn()
    assert.throws(() => device.allocPinned(2 * PINNED), { code: 'CUDA_ERROR_OUT_OF_MEMORY' })
    assert.deepEqual(
      views.map((view) => [view.length, view.at(-1)]),
      views.map(() => [PINNED, 7]),
    )
  },
  async 'what is reachable stays'() {
    const buffers = allocateMany(63, GIB)
    const slice = ((): DeviceBuffer => allocate(GIB).subarray(0, 16))()
    await turn()
    assert.throws(() => allocate(GIB), isOutOfMemory)
    assert.equal(device.memoryPool.used, 64 * GIB)
    await stream.fill(slice, 7).finished()
    assert.deepEqual([...(await stream.download(slice))], new Array(16).fill(7))
    buffers.pop()?.close()
    allocate(GIB).close()
    for (const buffer of buffers) buffer.close()
  },
  async 'what a graph uses stays'() {
    const graph = stream.capture(() => stream.fill(allocate(GIB), 7))
    await turn()
    assert.equal(hold(62), 62)
    assert.equal(hold(3), 3)
    await stream.launch(graph.instantiate()).finished()
  },
  'what a call uses stays'() {
    stream.external({ name: 'work', memory: [{ buffer: allocate(GIB) }] }, () => {
      assert.equal(hold(62), 62)
      assert.equal(hold(3), 3)
      // What was forgotten, but not what the call uses, is free again.
      assert.equal(device.memoryPool.used, 4 * GIB)
    })
  },
}

await programs[process.argv[2] ?? '']?.()
console.log('done')
