/** T10: the copies within pinned memory and the fills of it that the GPU makes, and those that the event loop makes as it runs host functions. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { PinnedBuffer, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'

const BYTES = 16
/** Queries after each of which a simulated GPU has had more time than any of these operations takes. */
const QUERIES = 1000
const ROWS = { shape: [2, 4], destinationStrides: [8], sourceStrides: [8] } as const

/** An operation on the first bytes of two pieces of pinned memory; it moves 1, or fills with it. */
interface Form {
  readonly name: string
  /** Who makes it outside of captures, and in a graph. */
  readonly eager: Maker
  readonly captured: Maker
  queue(stream: Stream, to: PinnedBuffer, from: PinnedBuffer): void
}
type Maker = 'the GPU' | 'the event loop'

const FORMS: readonly Form[] = [
  {
    name: 'a copy',
    eager: 'the GPU',
    captured: 'the event loop',
    queue: (stream, to, from) => void stream.copy(to, from),
  },
  {
    name: 'a copy of rows',
    eager: 'the event loop',
    captured: 'the event loop',
    queue: (stream, to, from) => void stream.copy(to.subarray(0, 12), from.subarray(0, 12), ROWS),
  },
  {
    name: 'many copies',
    eager: 'the GPU',
    captured: 'the event loop',
    queue: (stream, to, from) => {
      stream.copy([
        [to.subarray(0, 8), from.subarray(0, 8)],
        [to.subarray(8, BYTES), from.subarray(8, BYTES)],
      ])
    },
  },
  {
    name: 'a fill',
    eager: 'the GPU',
    captured: 'the GPU',
    queue: (stream, to) => void stream.fill(to, 1),
  },
  {
    name: 'a fill of rows',
    eager: 'the GPU',
    captured: 'the GPU',
    queue: (stream, to) => void stream.fill(to.subarray(0, 12), 1, { shape: [2, 4], strides: [8] }),
  },
]

/** The ways by which a graph with such an operation comes to be launched. */
type Way = (stream: Stream, queue: (to: PinnedBuffer) => void, to: PinnedBuffer, other: PinnedBuffer) => Disposable[]

const WAYS: Readonly<Record<string, Way>> = {
  'of a captured graph': (stream, queue, to) => {
    const graph = stream.capture(() => queue(to))
    const exec = graph.instantiate()
    stream.launch(exec)
    return [exec, graph]
  },
  'of a graph within a graph': (stream, queue, to) => {
    const inner = stream.capture(() => queue(to))
    const graph = stream.capture(() => void stream.launch(inner))
    const exec = graph.instantiate()
    stream.launch(exec)
    return [exec, graph, inner]
  },
  'added to a graph': (stream, queue, to, other) => {
    const graph = stream.capture(() => void stream.fill(other, 9))
    stream.capture(() => queue(to), { into: graph, after: [...graph.nodes] })
    const exec = graph.instantiate()
    stream.launch(exec)
    return [exec, graph]
  },
  'of an instance after an update': (stream, queue, to, other) => {
    const graph = stream.capture(() => queue(other))
    const exec = graph.instantiate()
    const newer = stream.capture(() => queue(to))
    exec.update(newer)
    stream.launch(exec)
    return [exec, graph, newer]
  },
}

onEveryBackend('copies within the host', (bench) => {
  const { device } = bench

  /** Queues what writes to `to`, and checks who makes it: what the event loop makes is not there before that has turned. */
  async function plays(maker: Maker, queue: (stream: Stream, to: PinnedBuffer, from: PinnedBuffer) => Disposable[]) {
    using stream = bench.stream()
    using to = device.allocPinned(BYTES)
    using from = device.allocPinned(BYTES)
    to.bytes.fill(0)
    from.bytes.fill(1)
    const made = queue(stream, to, from)
    if (maker === 'the GPU') while (!stream.query());
    else {
      for (let asked = 0; asked < QUERIES; asked += 1) assert.equal(stream.query(), false)
      assert.deepEqual(new Set(to.bytes), new Set([0]))
      while (!stream.query()) await turn()
    }
    assert.equal(to.bytes[0], 1)
    for (const each of made) each[Symbol.dispose]()
  }

  for (const { name, eager, captured, queue } of FORMS) {
    test(`T10 ${name} from pinned to pinned memory, queued on a stream: ${eager} makes it`, () =>
      plays(eager, (stream, to, from) => {
        queue(stream, to, from)
        return []
      }))
    for (const [way, play] of Object.entries(WAYS)) {
      test(`T10 ${name} from pinned to pinned memory ${way}: ${captured} makes it`, async () => {
        using other = device.allocPinned(BYTES)
        await plays(captured, (stream, to, from) => play(stream, (there) => queue(stream, there, from), to, other))
      })
    }
  }

  test('T10 a wait that blocks makes the copies of a graph, as it runs host functions', () => {
    using stream = bench.stream()
    using to = device.allocPinned(BYTES)
    using from = device.allocPinned(BYTES)
    from.bytes.fill(3)
    using graph = stream.capture(() => void stream.copy(to, from).copy(from, to))
    using exec = graph.instantiate()
    stream.launch(exec).launch(exec)
    stream.synchronize()
    assert.deepEqual(new Set(to.bytes), new Set([3]))
  })
})
