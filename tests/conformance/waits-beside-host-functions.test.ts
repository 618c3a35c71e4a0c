/** C2: a blocking wait is for what was there when it began, whatever the host functions that it runs do to its object. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Event, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { stillWorks } from './expect.js'

interface Scene {
  /** Its host function does something to what is waited for. */
  readonly stream: Stream
  readonly blocking: Stream
  readonly other: Stream
  /** Recorded behind the host function. */
  readonly event: Event
}

onEveryBackend('waits that run host functions', (bench) => {
  const { device } = bench

  const waits: Readonly<Record<string, (scene: Scene) => void>> = {
    'stream.synchronize()': ({ stream }) => stream.synchronize(),
    'event.synchronize()': ({ event }) => event.synchronize(),
    'defaultStream.synchronize()': () => device.defaultStream.synchronize(),
  }
  /** Each returns what puts things right again. */
  const deeds: Readonly<Record<string, (scene: Scene) => () => void>> = {
    'begins a capture of the stream': ({ stream }) => {
      stream.beginCapture('relaxed')
      return () => stream.endCapture().close()
    },
    'lets the stream join a capture': ({ stream, other }) => {
      other.beginCapture('relaxed')
      stream.wait(other)
      return () => other.endCapture().close()
    },
    'begins a capture of a blocking stream': ({ blocking }) => {
      blocking.beginCapture('relaxed')
      return () => blocking.endCapture().close()
    },
    'begins a capture beside which nothing may be queried': ({ other }) => {
      other.beginCapture('global')
      return () => other.endCapture().close()
    },
    'records the event again': ({ other, event }) => {
      const held = bench.latch(other)
      other.record(event)
      return () => held.open()
    },
    'records the event in a capture': ({ other, event }) => {
      other.beginCapture('relaxed')
      other.record(event)
      return () => other.endCapture().close()
    },
    'closes the event': ({ event }) => {
      event.close()
      return () => {}
    },
    'closes the stream': ({ stream }) => {
      stream.close()
      return () => {}
    },
  }

  for (const [deed, act] of Object.entries(deeds)) {
    for (const [wait, block] of Object.entries(waits)) {
      test(`C2 ${wait} returns once a host function that ${deed} has run`, () => {
        const [stream, blocking, other] = [
          bench.stream({ nonBlocking: false }),
          bench.stream({ nonBlocking: false }),
          bench.stream(),
        ]
        for (const each of [stream, blocking, other]) stillWorks(bench, each)
        let restore: (() => void) | undefined
        const scene: Scene = { stream, blocking, other, event: device.createEvent() }
        stream.launchHostFunc(() => {
          restore = act(scene)
        })
        let behind = false
        stream.launchHostFunc(() => {
          behind = true
        })
        stream.record(scene.event)
        block(scene)
        assert.equal(behind, true, 'what comes before the wait has run')
        restore?.()
        for (const each of [stream, blocking, other]) {
          if (!each.closed) stillWorks(bench, each)
          each.close()
        }
        scene.event.close()
      })
    }
  }
})
