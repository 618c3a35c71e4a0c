/** A capture that was begun on another library's stream, which is destroyed before the capture is ended. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Event, ExternalStream } from 'cuda-streams'
import { type Workbench, workbenches } from '../helpers/workbench.js'

/** Begins a capture, records an event in it, and destroys the stream. */
function destroyedInCapture(bench: Workbench, closes: boolean): Event {
  const handle = bench.foreignStream(bench.device)
  const stream = new ExternalStream(handle, { device: bench.device })
  stream.beginCapture('relaxed')
  const event = stream.record()
  if (closes) stream.close()
  bench.destroyForeignStream(handle)
  return event
}

for (const bench of workbenches().benches) {
  for (const closes of [true, false]) {
    const name = `${closes ? 'its wrapper closed' : 'its wrapper open'} (${bench.title})`

    test(`S4 a stream that is destroyed in a capture is not asked any more: ${name}`, async () => {
      using event = destroyedInCapture(bench, closes)
      // The memory of the stream is another's by now.
      const handles = Array.from({ length: 4 }, () => bench.foreignStream(bench.device))
      for (const handle of handles) bench.destroyForeignStream(handle)
      await bench.device.finished()
      assert.throws(() => event.query(), { number: 1 })
      await assert.rejects(event.finished(), { number: 1 })
      // What is captured next is not taken for a part of it.
      using stream = bench.stream()
      stream.beginCapture('relaxed')
      using captured = stream.record()
      assert.throws(() => captured.query(), { number: 907 })
      assert.throws(() => stream.endCapture(), { number: 901 })
      await bench.device.finished()
    })
  }
}
