/** Code that compares or copies objects by their properties: ours are never equal, and cannot be copied. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { MessageChannel } from 'node:worker_threads'
import { defineKernel, Event, ExternalStream, Stream } from 'cuda-streams'
import { Communicator } from 'cuda-streams/nccl'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { onEveryBackend } from '../helpers/suite.js'
import { simWorkbench } from '../helpers/workbench.js'
import { aboutLibraries } from '../libraries/about-libraries.js'

onEveryBackend('objects that are looked at', (bench) => {
  const { device } = bench

  test('A4 two that were made alike are not deep-equal', () => {
    using stream = bench.stream()
    const graph = stream.capture(() => {})
    const pairs: readonly (readonly [unknown, unknown])[] = [
      [stream, bench.stream()],
      [new ExternalStream(stream.handle, { device }), new ExternalStream(stream.handle, { device })],
      [device.createEvent(), device.createEvent()],
      [Event.from(stream.record().handle, { device }), device.createEvent()],
      [device.alloc(8), device.alloc(8)],
      [device.allocPinned(8), device.allocPinned(8)],
      [graph, stream.capture(() => {})],
      [graph.instantiate(), graph.instantiate()],
    ]
    for (const [one, other] of pairs) {
      assert.equal(isDeepStrictEqual(one, one), true)
      assert.equal(isDeepStrictEqual(one, other), false, `${one} and ${other}`)
      assert.notDeepEqual({ at: [one] }, { at: [other] })
    }
    const [first, second] = [simulate().devices, simulate().devices]
    assert.equal(isDeepStrictEqual(first, second), false, 'devices of two simulations')
  })

  test('A4 structuredClone() and postMessage() refuse them, and say what to send instead', () => {
    using stream = bench.stream()
    const graph = stream.capture(() => {})
    const { port1 } = new MessageChannel()
    const all: readonly object[] = [
      ...[device, stream, new ExternalStream(stream), device.createEvent(), device.alloc(8), device.allocPinned(8)],
      ...[graph, graph.instantiate(), stream.cachedEvent, device.defaultStream],
      defineKernel({ name: 'k', source: '', signature: [], simulateGrid() {} }),
    ]
    for (const one of all) {
      for (const copy of [() => structuredClone(one), () => port1.postMessage({ one })]) {
        assert.throws(copy, { name: 'DataCloneError', message: /share\(\)/ }, String(one))
      }
    }
    port1.close()
    assert.doesNotThrow(() => structuredClone(stream.share()))
  })
})

test('A4 so do the objects of the other entry points', async () => {
  const { device } = simWorkbench()
  const [communicator] = await Communicator.createAll([device])
  const recording = Timeline.start({ device })
  const all = [
    ...aboutLibraries.flatMap(({ objects }) => objects(new Stream({ device }))),
    ...[communicator, Sanitizer.start({ device }), recording],
    await Timeline.record(() => {}, { device }),
  ]
  for (const one of all) {
    assert.throws(() => structuredClone(one), { name: 'DataCloneError', message: /share\(\)/ }, String(one))
  }
})
