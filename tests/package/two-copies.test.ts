/** Two copies of the package in one program, as two of its dependencies may bring them: messages say which object is of which. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import * as ours from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { PTX, SIGNATURE } from '../catalogue/adding.js'
import { refused } from '../conformance/expect.js'
import { anotherCopy } from '../helpers/another-copy.js'

const load = anotherCopy()

it('an object of another copy is refused with the files of both', async () => {
  const theirs = (await load('index.js')) as typeof ours
  const sim = (await load('sim.js')) as { simulate: typeof simulate }
  const [device] = simulate().devices
  const [other] = sim.simulate().devices
  assert.ok(device && other)
  const [stream, away] = [new ours.Stream({ device }), new theirs.Stream({ device: other })]
  const [memory, remote] = [device.alloc(8, { stream }), other.alloc(8, { stream: away })]
  const event = away.record()
  const graph = away.capture(() => away.fill(remote, 1))
  const kernel = theirs.Module.load(PTX, { device: other }).kernel('add', SIGNATURE)
  const launch = stream.launch.bind(stream) as (...args: readonly unknown[]) => unknown
  const uses: Readonly<Record<string, () => unknown>> = {
    DeviceBuffer: () => stream.copy(memory, remote as never),
    PinnedBuffer: () => stream.fill(other.allocPinned(8) as never, 1),
    Event: () => stream.wait(event as never),
    Stream: () => device.alloc(8, { stream: away as never }),
    Device: () => new ours.Stream({ device: other as never }),
    Kernel: () => launch(kernel, { grid: 1 }),
    GraphExec: () => launch(graph.instantiate()),
  }
  for (const [name, use] of Object.entries(uses)) {
    const says = new RegExp(
      `a ${name} of another copy of cuda-streams, which is file:.*copy-.*, and this is file:.*one copy$`,
    )
    refused(use, 'ERR_INVALID_ARG_TYPE', says)
  }
  // What is simulated has no handle beyond its copy, not even a default stream, whose handle each copy has.
  const simulated: Readonly<Record<string, readonly (() => unknown)[]>> = {
    Stream: [
      () => stream.wait(away),
      () => stream.wait(away, { external: true }),
      () => ours.Stream.from(away),
      () => new ours.ExternalStream(away, { device }),
      () => device.createStream(away),
      () => ours.Stream.from(other.defaultStream),
      () => stream.wait(other.defaultStream),
    ],
    Event: [() => stream.wait(event), () => stream.record(event), () => stream.wait(stream, { event })],
  }
  for (const [name, calls] of Object.entries(simulated)) {
    const says = new RegExp(
      `not a ${name} of another copy.* file:.* and this is file:.*: what is simulated stays in its copy; `,
    )
    for (const call of calls) refused(call, 'ERR_INVALID_ARG_TYPE', says)
  }
  refused(
    () => ours.Stream.prototype.fill.call(away as never, memory, 1),
    'ERR_INVALID_ARG_TYPE',
    /on a Stream itself, not on a Stream of another copy/,
  )
  // What the objects of both say of themselves is as before.
  assert.match(String(away), /^Stream\(0x/)
  assert.deepEqual(Object.keys(event), Object.keys(stream.record()))
})
