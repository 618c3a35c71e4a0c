/**
 * O1 where records and waits are made again and again. Those of a stream and an event that were used before go to the driver by a shorter way: here something
 * comes in between that it has to notice.
 */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { type Event, ExternalStream, type Stream } from 'cuda-streams'
import { sanitize } from 'cuda-streams/sanitizer'
import type * as Koffi from 'koffi'
import { driverOf } from '../../src/core/device.js'
import { DRIVER_FILE } from '../helpers/driver-file.js'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, refused, refusedByDriver, until } from './expect.js'

interface Used {
  readonly stream: Stream
  readonly other: Stream
  readonly event: Event
}

/** The ways in which the other stream comes after the first. */
const BEHIND = [
  ({ stream, other, event }: Used) => other.wait(stream.record(event)),
  ({ stream, other }: Used) => other.wait(stream),
]

onEveryBackend('records and waits again and again', (bench) => {
  const { device } = bench

  /** Two streams and an event, which were used for all three calls more than once. */
  function used(): Used {
    const [stream, other] = [bench.stream(), bench.stream()]
    const event = stream.record()
    const all = { stream, other, event }
    for (let i = 0; i < 3; i += 1) callAll(all)
    device.synchronize()
    return all
  }

  const callAll = ({ stream, other, event }: Used): void => {
    stream.record(event)
    other.wait(event)
    other.wait(stream)
  }

  const closeAll = ({ stream, other, event }: Used): void => {
    for (const each of [event, stream, other]) each.close()
  }

  test('O1 what is recorded and waited for in a capture becomes part of it, and nothing outside waits for it', () => {
    const all = used()
    const { stream, other, event } = all
    const fills = device.alloc(8, { stream })
    const graph = stream.capture(() => {
      stream.record(event)
      other.wait(event)
      other.fill(fills.subarray(0, 4), 1)
      stream.wait(other).fill(fills.subarray(4), 2)
    })
    assert.equal(graph.nodes.length, 2)
    refusedByDriver(() => other.wait(event), 1)
    callAll(all)
    stream.synchronize()
    graph.close()
    fills.close()
    closeAll(all)
  })

  test('O1 no graph is launched that waits for an event whose record is in a capture', () => {
    const all = used()
    const { stream, other, event } = all
    const buffer = device.alloc(8, { stream })
    const exec = other.capture(() => other.wait(event, { external: true }).fill(buffer, 1)).instantiate()
    callAll(all)
    stream.beginCapture()
    stream.fill(buffer, 2).record(event)
    assert.match(refusedByDriver(() => other.launch(exec), 900).message, /latest record is part of a capture/)
    stream.endCapture().close()
    stream.record(event)
    other.launch(exec).synchronize()
    exec.close()
    buffer.close()
    closeAll(all)
  })

  test('O1 so they do in a capture that a wrapper of the stream has begun', () => {
    const all = used()
    const { stream, other, event } = all
    const theirs = new ExternalStream(stream.handle)
    theirs.beginCapture()
    stream.record(event)
    other.wait(event)
    assert.equal(other.isCapturing, true)
    stream.wait(other)
    theirs.endCapture().close()
    callAll(all)
    stream.synchronize()
    closeAll(all)
  })

  test('O1 so they do in a capture that other code has begun', { skip: device.driver === 'sim' }, () => {
    const all = used()
    const { stream, other, event } = all
    const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
    const libcuda = koffi.load(DRIVER_FILE)
    const begin = libcuda.func('cuStreamBeginCapture_v2', 'int', ['uintptr_t', 'int'])
    const end = libcuda.func('cuStreamEndCapture', 'int', ['uintptr_t', 'uintptr_t'])
    assert.equal(begin(Number(stream.handle), 0), 0)
    stream.record(event)
    other.wait(event)
    assert.equal(other.isCapturing, true)
    stream.wait(other)
    assert.equal(end(Number(stream.handle), Number(koffi.alloc('uint64', 1))), 0)
    callAll(all)
    stream.synchronize()
    closeAll(all)
  })

  test('O1 an interceptor that comes later sees each of them, until it is taken out', () => {
    const all = used()
    const seen: string[] = []
    const { unwrap } = driverOf(device).wrap((next) => ({
      events: {
        record: (...args) => {
          seen.push('record')
          next.events.record(...args)
        },
      },
      streams: {
        waitEvent: (...args) => {
          seen.push('wait for an event')
          next.streams.waitEvent(...args)
        },
        waitStream: (...args) => {
          seen.push('wait for a stream')
          next.streams.waitStream(...args)
        },
      },
    }))
    callAll(all)
    assert.deepEqual(seen, ['record', 'wait for an event', 'wait for a stream'])
    unwrap()
    callAll(all)
    assert.equal(seen.length, 3)
    device.synchronize()
    closeAll(all)
  })

  test('V6 a sanitizer that comes later knows that they order work', async () => {
    const all = used()
    const { stream, other, event } = all
    const buffer = device.alloc(64, { stream })
    other.wait(stream)
    for (const order of [() => other.wait(stream.record(event)), () => other.wait(stream)]) {
      await sanitize(
        () => {
          stream.fill(buffer, 1)
          order()
          other.fill(buffer, 2)
          stream.wait(other)
        },
        { device },
      )
    }
    await assert.rejects(
      sanitize(
        () => {
          stream.fill(buffer, 1)
          other.fill(buffer, 2)
        },
        { device },
      ),
      (error) => checkError(error, 'ERR_RACE') !== undefined,
    )
    device.synchronize()
    buffer.close()
    closeAll(all)
  })

  test('H2 inside a host function that they come after, a wait for what is behind them is a deadlock', () => {
    for (const behind of BEHIND) {
      const all = used()
      let ran = 0
      all.stream.launchHostFunc(() => {
        ran += 1
        refused(() => all.other.synchronize(), 'ERR_DEADLOCK')
      })
      behind(all)
      all.other.synchronize()
      assert.equal(ran, 1)
      callAll(all)
      device.synchronize()
      closeAll(all)
    }
  })

  test('P2 they carry on the reason of a promise that was rejected before them', async () => {
    for (const behind of BEHIND) {
      const all = used()
      const reason = new Error('no bytes')
      all.stream.wait(Promise.reject(reason))
      await until(() => all.stream.query())
      behind(all)
      await assert.rejects(all.other.finished(), reason)
      closeAll(all)
    }
  })

  test('S2 what is closed is refused: the event, the stream, and the one that is waited for', () => {
    const all = used()
    const { stream, other, event } = all
    event.close()
    refused(() => stream.record(event), 'ERR_CLOSED')
    refused(() => other.wait(event), 'ERR_CLOSED')
    stream.close()
    const another = other.record()
    other.record(another)
    refused(() => stream.record(another), 'ERR_CLOSED')
    refused(() => stream.wait(another), 'ERR_CLOSED')
    refused(() => stream.wait(other), 'ERR_CLOSED')
    refused(() => other.wait(stream), 'ERR_CLOSED')
    another.close()
    closeAll(all)
  })

  test('S2 a stream that is closed while other code has its handle is closed at once', {
    skip: device.driver === 'sim',
  }, () => {
    const all = used()
    const { stream, other, event } = all
    stream.external({ name: 'theirs' }, (handle) => {
      assert.notEqual(handle, 0n)
      stream.close()
      refused(() => stream.record(event), 'ERR_CLOSED')
      refused(() => other.wait(stream), 'ERR_CLOSED')
    })
    closeAll(all)
  })

  test('O1 an event that other streams have recorded since is waited for where it was recorded last', async () => {
    const all = used()
    const { stream, other, event } = all
    const third = bench.stream()
    using latch = bench.latch(third)
    third.record(event)
    other.wait(event)
    assert.equal(other.query(), false)
    stream.record(event)
    third.close()
    latch.open()
    await other.finished()
    closeAll(all)
  })
})
