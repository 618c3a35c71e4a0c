/** Work that other code queues by CUDA's own handle: in order, counted as a use of its memory, and refused where it cannot be. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { after, it } from 'node:test'
import type { DeviceBuffer, ExternalWork, FillNode } from 'cuda-streams'
import type * as Koffi from 'koffi'
import { collectingUncaught } from '../../../src/foundation/base/uncaught.js'
import { refused, turns } from '../../conformance/expect.js'
import { DRIVER_FILE } from '../../helpers/driver-file.js'
import { onEveryBackend } from '../../helpers/suite.js'

/** As a user would call a library: here libcuda itself, which sets every byte. */
function memset(): (pointer: bigint, value: number, length: number, stream: bigint) => number {
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  return koffi.load(DRIVER_FILE).func('int cuMemsetD8Async(uintptr_t, uint8_t, size_t, uintptr_t)') as ReturnType<
    typeof memset
  >
}

onEveryBackend('external work', (bench) => {
  const stream = bench.stream()
  after(() => stream.close())
  const native = bench.name === 'cuda' ? memset() : undefined

  function set(buffer: DeviceBuffer, value: number): void {
    const work: ExternalWork = {
      name: 'memset',
      memory: [{ buffer, access: 'out' }],
      simulate: ([bytes]) => bytes?.fill(value),
    }
    stream.external(work, (handle) => {
      assert.equal(handle, stream.handle)
      assert.equal(native?.(buffer.pointer, value, buffer.byteLength, handle), 0)
    })
  }

  it('runs in the order of the stream', async () => {
    using buffer = bench.device.alloc(8, { stream })
    using copy = bench.device.alloc(8, { stream })
    for (let round = 1; round <= 20; round += 1) {
      bench.busy(stream, 20_000)
      stream.fill(buffer, 200)
      set(buffer, round)
      stream.copy(copy, buffer)
      assert.deepEqual([...(await stream.download(copy))], Array(8).fill(round))
    }
  })

  it('is a use of its memory, which waits for the allocation and is freed after it', async () => {
    using other = bench.stream()
    for (let round = 1; round <= 20; round += 1) {
      bench.busy(other, 50_000)
      const buffer = bench.device.alloc(8, { stream: other })
      bench.busy(stream, 50_000)
      set(buffer, round)
      using copy = bench.device.alloc(8, { stream })
      stream.copy(copy, buffer)
      buffer.close()
      using next = bench.device.alloc(8, { stream: other })
      other.fill(next, 255)
      assert.deepEqual([...(await stream.download(copy))], Array(8).fill(round))
    }
  })

  it('is switched off as a node of a graph while launches are under way', async () => {
    using buffer = bench.device.alloc(8, { stream })
    using copy = bench.device.alloc(8, { stream })
    stream.fill(buffer, 1)
    using graph = stream.capture(() => {
      set(buffer, 9)
      stream.copy(copy, buffer)
    })
    using exec = graph.instantiate()
    const [node] = graph.nodes as [FillNode]
    exec.setEnabled(node, false)
    {
      using _held = bench.latch(stream)
      for (let launches = 3; launches > 0; launches -= 1) stream.launch(exec)
    }
    assert.deepEqual([...(await stream.download(copy))], Array(8).fill(1))
    exec.setEnabled(node, true).launch(stream)
    assert.deepEqual([...(await stream.download(copy))], Array(8).fill(9))
  })

  it('is captured, and runs with each launch', async () => {
    using buffer = bench.device.alloc(4, { stream })
    stream.fill(buffer, 0)
    stream.synchronize()
    using graph = stream.capture(() => set(buffer, 9))
    assert.equal(graph.nodeCount, 1)
    assert.deepEqual([...(await stream.download(buffer))], [0, 0, 0, 0])
    using exec = graph.instantiate()
    exec.launch(stream)
    assert.deepEqual([...(await stream.download(buffer))], [9, 9, 9, 9])
  })

  it('finds room behind host functions, however much of it there is', async () => {
    using buffer = bench.device.alloc(4, { stream })
    let ran = 0
    for (let count = 0; count < 300; count += 1) {
      stream.launchHostFunc(() => {
        ran += 1
      })
      for (let times = 0; times < 5; times += 1) set(buffer, count % 256)
    }
    assert.deepEqual([...(await stream.download(buffer))], Array(4).fill(299 % 256))
    assert.equal(ran, 300)
  })

  it('what the function throws comes through, and the stream goes on', async () => {
    if (native === undefined) return
    const mistake = new Error('mine')
    assert.throws(
      () =>
        stream.external({ name: 'x' }, () => {
          throw mistake
        }),
      mistake,
    )
    await stream.finished()
  })

  it('what simulate throws is an uncaught exception, not one of synchronize(), and the stream goes on', async () => {
    if (bench.name !== 'sim') return
    const mistake = new Error('mine')
    const simulate = (): void => {
      throw mistake
    }
    const caught: unknown[] = []
    collectingUncaught(
      (error) => caught.push(error),
      () => {
        stream.external({ name: 'x', simulate }, () => {})
        stream.synchronize()
      },
    )
    assert.deepEqual(caught, [mistake])
    using buffer = bench.device.alloc(4, { stream })
    set(buffer, 5)
    assert.deepEqual([...(await stream.download(buffer))], [5, 5, 5, 5])
  })

  it('wrong arguments are refused by name, and the function is not called', async () => {
    const call = (): void => assert.fail('it was called')
    const external = (work: unknown, fn: unknown = call) => stream.external(work as ExternalWork, fn as () => void)
    const name = 'x'
    refused(() => external(undefined), 'ERR_INVALID_ARG_TYPE', /work/)
    refused(() => external({}), 'ERR_INVALID_ARG_TYPE', /work\.name/)
    refused(() => external({ name }, 5), 'ERR_INVALID_ARG_TYPE', /call/)
    refused(() => external({ name, memory: 5 }), 'ERR_INVALID_ARG_TYPE', /work\.memory/)
    refused(() => external({ name, memory: [5] }), 'ERR_INVALID_ARG_TYPE', /work\.memory\[0\]/)
    refused(() => external({ name, memory: [{ buffer: 5 }] }), 'ERR_INVALID_ARG_TYPE', /memory\[0\]\.buffer/)
    using buffer = bench.device.alloc(4, { stream })
    refused(() => external({ name, memory: [{ buffer, access: 'x' }] }), 'ERR_INVALID_ARG_VALUE', /access.*'x'/)
    refused(() => external({ name, simulate: 5 }), 'ERR_INVALID_ARG_TYPE', /work\.simulate/)
    refused(() => external({ name, nanoseconds: '1' }), 'ERR_INVALID_ARG_TYPE', /work\.nanoseconds/)
    for (const nanoseconds of [-1, 2 ** 53, Number.MAX_VALUE, Number.NaN, Number.POSITIVE_INFINITY]) {
      refused(() => external({ name, nanoseconds }), 'ERR_OUT_OF_RANGE', /work\.nanoseconds/)
    }
    const closed = bench.device.alloc(4, { stream })
    closed.close()
    refused(() => external({ name, memory: [{ buffer: closed }] }), 'ERR_CLOSED')
    const gone = bench.stream()
    gone.close()
    refused(() => gone.external({ name }, call), 'ERR_CLOSED')
    if (bench.name === 'sim') refused(() => external({ name }), 'ERR_UNSUPPORTED', /^x needs a real GPU/)
    await turns(2)
  })
})
