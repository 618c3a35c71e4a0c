/** What Warp’s tests ask of copies and fills, from anywhere to anywhere, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Device, DeviceBuffer, type PinnedBuffer, type Stream } from 'cuda-streams'
import { ONE_DEVICE, secondDevice } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

type Place = 'pageable' | 'pinned' | 'device' | 'second device'
const PLACES: readonly Place[] = ['pageable', 'pinned', 'device', 'second device']

onEveryBackend('Warp copies', (bench) => {
  const { device } = bench
  const length = 100_000

  const memoryOf = (place: Place, stream: Stream): DeviceBuffer | PinnedBuffer =>
    place === 'pinned'
      ? device.allocPinned(2 * length)
      : (place === 'device' ? device : (secondDevice(bench) ?? device)).alloc(2 * length, {
          stream: place === 'device' ? stream : (secondDevice(bench) ?? device).defaultStream,
        })

  let offset = 0
  for (const from of PLACES) {
    for (const to of PLACES) {
      if (from === 'pageable' && to === 'pageable') continue
      for (const part of ['whole', 'slice'] as const) {
        for (const how of ['queued', 'captured'] as const) {
          if (how === 'captured' && (from === 'pageable' || to === 'pageable')) continue
          offset += 1
          const seed = offset
          test(`${from} to ${to}, ${part}, ${how}`, async (context) => {
            const second = secondDevice(bench)
            if (second === undefined && (from === 'second device' || to === 'second device')) {
              return context.skip(ONE_DEVICE)
            }
            if (bench.name === 'cuda' && how === 'captured' && [from, to].includes('second device')) {
              return context.skip('pools that are not open to each other cannot be copied between inside a graph')
            }
            using stream = bench.stream()
            const data = Uint8Array.from({ length: 2 * length }, (_, index) => (index * 7 + seed) & 255)
            const [start, count] = part === 'whole' ? [0, 2 * length] : [length - 3, length]
            const wanted = data.slice(start, start + count)
            using source = from === 'pageable' ? undefined : memoryOf(from, stream)
            using target = to === 'pageable' ? undefined : memoryOf(to, stream)
            if (source !== undefined) await stream.upload(source, data)
            if (target !== undefined) stream.fill(target, 0)
            await stream.finished()
            let got: Uint8Array
            if (target === undefined) {
              assert.ok(source)
              got = await stream.download(source.subarray(start, start + count))
            } else {
              const into = target.subarray(start, start + count)
              if (source === undefined) {
                const array = data.slice()
                void stream.upload(into, array.subarray(start, start + count))
                array.fill(0)
              } else if (how === 'queued') {
                stream.copy(into, source.subarray(start, start + count))
              } else {
                using graph = stream.capture(() => void stream.copy(into, source.subarray(start, start + count)))
                using exec = graph.instantiate()
                exec.launch(stream)
              }
              const all = await stream.download(target)
              got = all.subarray(start, start + count)
              const beside = [...all.subarray(0, start), ...all.subarray(start + count)]
              assert.ok(
                beside.every((byte) => byte === 0),
                'nothing beside the slice was written',
              )
            }
            assert.equal(Buffer.compare(got, wanted), 0)
          })
        }
      }
    }
  }

  test('copying to pinned memory returns at once; its bytes are there when the stream says so', async () => {
    using stream = bench.stream()
    using there = device.alloc(4 * length, { stream })
    using one = device.allocPinned(4 * length)
    using two = device.allocPinned(4 * length)
    one.bytes.fill(1)
    two.bytes.fill(0)
    using latch = bench.latch(stream)
    stream.copy(there, one).copy(two, there)
    assert.equal(two.bytes[0], 0)
    latch.open()
    await stream.finished()
    assert.deepEqual(new Set(two.bytes), new Set([1]))
  })

  test('fills in a graph and beside it, whole arrays and parts', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(400, { stream })
    stream.fill(buffer, 1)
    await stream.finished()
    using graph = stream.capture(() => {
      stream.fill(buffer, 0).fill(buffer.subarray(100, 300), 17).fill(buffer.subarray(200, 204), -1, { width: 4 })
    })
    assert.equal(graph.nodeCount, 3)
    using exec = graph.instantiate()
    exec.launch(stream)
    const bytes = await stream.download(buffer)
    const expected = new Uint8Array(400).fill(17, 100, 300).fill(255, 200, 204)
    assert.equal(Buffer.compare(bytes, expected), 0)
  })

  test('memory of another library keeps its device and is copied like ours', async () => {
    using stream = bench.stream()
    using theirs = device.alloc(64, { stream })
    stream.fill(theirs, 9)
    await stream.finished()
    using wrapped = DeviceBuffer.from(theirs.pointer, 64, { device })
    using result = device.allocPinned(64)
    stream.copy(result, wrapped)
    await stream.finished()
    assert.deepEqual(new Set(result.bytes), new Set([9]))
    assert.equal(Device.get(0).ordinal, 0)
  })
})
