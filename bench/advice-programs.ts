/** Programs that are slow in ten ways, and the same programs changed as a timeline advises. */
import assert from 'node:assert/strict'
import { type Device, Stream } from 'cuda-streams'
import { nameStream, type StallKind } from 'cuda-streams/timeline'
import { busy, busyWith } from './busy-kernel.js'

export interface AdviceProgram {
  readonly title: string
  /** The kind of the stall with the largest gain. */
  readonly kind: StallKind
  readonly advises: RegExp
  /** The end of the verdict, in the simulator's time. */
  readonly verdict: RegExp
  /** Allocates what it needs. The result runs the program once, as it is or as advised, until all of its work is done. */
  readonly prepare: (device: Device) => (changed: boolean) => Promise<unknown>
}

export const ROUNDS = 16
/** Bytes of a copy, which takes 168 µs at 50 bytes a nanosecond. */
const BYTES = 8 * 2 ** 20
export const ONE = { grid: 1, block: 1 }

const [compute, slow, faster, late, beside] = [
  busy('compute', 150),
  busy('slow', 400),
  busy('slow', 320),
  busy('late', 250),
  busy('beside', 220),
]
const reading = busyWith('reading', 200, ['in u8*'])
const both = busyWith('both', 100, ['inout u8*', 'inout u8*'])

export const named = (device: Device, name: string, nonBlocking = true): Stream =>
  nameStream(new Stream({ device, nonBlocking }), name)

/** Time of JavaScript: a processor's, or that of the calls of a simulated driver. */
function callFor(nanoseconds: number, stream: Stream): void {
  if (stream.device.driver === 'sim') {
    for (let spent = 0; spent < nanoseconds; spent += 200) stream.record()
    return
  }
  const end = performance.now() + nanoseconds / 1e6
  while (performance.now() < end);
}

export const times = <T>(count: number, make: (index: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => make(at))
function at<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length]
  assert.ok(item !== undefined)
  return item
}

export const programs: readonly AdviceProgram[] = [
  {
    title: 'synchronize() between stages',
    kind: 'blockingCall',
    advises: /`stream\.wait\(other\)`/,
    verdict: /up to −61 % without `stream\.synchronize\(\)`$/,
    prepare(device) {
      const [upload, work, download] = ['upload', 'work', 'download'].map((name) => named(device, name))
      assert.ok(upload && work && download)
      const buffers = times(ROUNDS, () => device.alloc(BYTES))
      const [source, results] = [device.allocPinned(BYTES), times(ROUNDS, () => device.allocPinned(BYTES))]
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          const buffer = at(buffers, round)
          upload.copy(buffer, source)
          if (changed) work.wait(upload)
          else upload.synchronize()
          work.launch(compute, ONE, buffer)
          if (changed) download.wait(work)
          else work.synchronize()
          download.copy(at(results, round), buffer)
          if (!changed) download.synchronize()
        }
        await download.finished()
      }
    },
  },
  {
    title: 'an await of each item',
    kind: 'await',
    advises: /two are under way at a time/,
    verdict: /up to −48 % by two items under way at a time$/,
    prepare(device) {
      const streams = times(2, (index) => named(device, `item ${index}`))
      const buffers = times(2, () => device.alloc(BYTES))
      const pinned = times(2, () => device.allocPinned(BYTES))
      const results = times(2, () => device.allocPinned(BYTES))
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          const stream = at(streams, round)
          stream.copy(at(buffers, round), at(pinned, round))
          stream.launch(compute, ONE, at(buffers, round))
          stream.copy(at(results, round), at(buffers, round))
          if (!changed) await stream.finished()
          else if (round > 0) await at(streams, round - 1).finished()
        }
        await Promise.all(streams.map((stream) => stream.finished()))
      }
    },
  },
  {
    title: 'a missing second buffer',
    kind: 'wait',
    advises: /one more buffer/,
    verdict: /−44 % by one more buffer$/,
    prepare(device) {
      const [upload, work] = [named(device, 'upload'), named(device, 'work')]
      const buffers = times(2, () => device.alloc(BYTES))
      const source = device.allocPinned(BYTES)
      const free = times(2, () => device.createEvent())
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          const place = changed ? round : 0
          if (round > (changed ? 1 : 0)) upload.wait(at(free, place))
          upload.copy(at(buffers, place), source)
          work.wait(upload)
          work.launch(compute, ONE, at(buffers, place))
          work.record(at(free, place))
        }
        await work.finished()
      }
    },
  },
  {
    title: 'copies and kernels on one stream',
    kind: 'oneStream',
    advises: /Copy on a second stream/,
    verdict: /−44 % by copies on a second stream$/,
    prepare(device) {
      const [stream, copies] = [named(device, 'one'), named(device, 'copies')]
      const buffers = times(2, () => device.alloc(BYTES))
      const source = device.allocPinned(BYTES)
      const [ready, free] = [times(2, () => device.createEvent()), times(2, () => device.createEvent())]
      return async (changed) => {
        const upload = changed ? copies : stream
        for (let round = 0; round < ROUNDS; round += 1) {
          if (changed && round > 1) upload.wait(at(free, round))
          upload.copy(at(buffers, round), source)
          if (changed) {
            upload.record(at(ready, round))
            stream.wait(at(ready, round))
          }
          stream.launch(compute, ONE, at(buffers, round))
          if (changed) stream.record(at(free, round))
        }
        await stream.finished()
      }
    },
  },
  {
    title: 'the null stream among blocking streams',
    kind: 'nullStreamAwaited',
    advises: /in place of the null stream/,
    verdict: /−48 % by a stream of its own in place of the null stream$/,
    prepare(device) {
      const [a, b] = [named(device, 'a', false), named(device, 'b', false)]
      const own = named(device, 'own')
      const [one, two, three] = times(3, () => device.alloc(64))
      assert.ok(one && two && three)
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          a.launch(compute, ONE, one)
          ;(changed ? own : device.defaultStream).launch(late, ONE, two)
          b.launch(beside, ONE, three)
        }
        await device.finished()
      }
    },
  },
  {
    title: 'a graph that is launched again on one instance',
    kind: 'sameInstance',
    advises: /an instance for each stream/,
    verdict: /up to −50 % by an instance of the graph for each stream$/,
    prepare(device) {
      const streams = times(2, (index) => named(device, `launches ${index}`))
      const memory = device.alloc(64)
      const graph = at(streams, 0).capture(() => at(streams, 0).launch(reading, ONE, memory))
      const instances = times(2, () => graph.instantiate())
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) at(instances, changed ? round : 0).launch(at(streams, round))
        await device.finished()
      }
    },
  },
  {
    title: 'a slow kernel',
    kind: 'slowKernel',
    advises: /20 % less time/,
    verdict: /was busy \d+ %: nothing that waits can gain 1 %; −15 % by 'slow' in 20 % less time$/,
    prepare(device) {
      const [stream, other] = [named(device, 'one'), named(device, 'other')]
      const [one, two] = [device.alloc(64), device.alloc(64)]
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          stream.launch(changed ? faster : slow, ONE, one)
          other.launch(beside, ONE, two)
          stream.launch(compute, ONE, one)
        }
        await device.finished()
      }
    },
  },
  {
    title: 'a host function in the way',
    kind: 'hostFunction',
    advises: /no GPU work come behind JavaScript/,
    verdict: /up to −27 % by no work of the GPU behind host functions$/,
    prepare(device) {
      const [stream, told, calls] = [named(device, 'one'), named(device, 'told'), named(device, 'calls')]
      const memory = device.alloc(64)
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          stream.launch(compute, ONE, memory)
          if (changed) told.wait(stream)
          ;(changed ? told : stream).launchHostFunc(() => callFor(60_000, calls))
        }
        await Promise.all([stream.finished(), told.finished()])
      }
    },
  },
  {
    title: 'an event that is recorded too late',
    kind: 'wait',
    advises: /as soon as what is needed is done/,
    verdict: /−39 % by a wait for no more than what is needed$/,
    prepare(device) {
      const [a, b] = [named(device, 'a'), named(device, 'b')]
      const [one, two] = [device.alloc(64), device.alloc(64)]
      const [made, used] = [device.createEvent(), device.createEvent()]
      return async (changed) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          if (round > 0) a.wait(used)
          a.launch(both, ONE, one, two)
          if (changed) a.record(made)
          a.launch(late, ONE, two)
          if (!changed) a.record(made)
          b.wait(made)
          b.launch(beside, ONE, one)
          b.record(used)
        }
        await device.finished()
      }
    },
  },
  {
    title: 'bytes that are not pinned',
    kind: 'staging',
    advises: /`device\.allocPinned\(byteLength\)`/,
    verdict: /up to −\d+ % by bytes that are kept in pinned memory$/,
    prepare(device) {
      const [stream, calls] = [named(device, 'one'), named(device, 'calls')]
      const bytes = 24 * 2 ** 20
      const memory = device.alloc(bytes)
      const [array, pinned] = [new Uint8Array(bytes), device.allocPinned(bytes)]
      return async (changed) => {
        for (let round = 0; round < 4; round += 1) {
          if (changed) stream.copy(memory, pinned)
          const uploaded = changed ? stream : stream.upload(memory, array)
          callFor(1_000_000, calls)
          await (changed ? stream.finished() : uploaded)
        }
      }
    },
  },
]
