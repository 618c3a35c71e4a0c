/** A stream that is closed takes nothing with it that a report needs, and leaves nothing that hides or invents one. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { withoutPromiseHooks } from '../../helpers/run-time.js'

const BYTES = 64
/** So many streams that come and go use each number of a component again. */
const PASSING = 100

interface Stage {
  readonly device: Device
  readonly data: DeviceBuffer
  stream(nonBlocking?: boolean): Stream
  /** Streams with work come and go, which nothing waits for. Those that stay follow some of them. */
  pass(): void
}

type Program = (stage: Stage) => void | Promise<void>

async function reportsOf(program: Program, causal: boolean): Promise<readonly SanitizerReport[]> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const data = device.alloc(BYTES)
  device.synchronize()
  using sanitizer = Sanitizer.start({ device, stacks: 'all', causal })
  const stream = (nonBlocking = true): Stream => new Stream({ device, nonBlocking })
  const stay: Stream[] = []
  const pass = (): void => {
    for (let nth = 0; nth < PASSING; nth += 1) {
      const passing = stream()
      const own = device.alloc(BYTES, { stream: passing })
      passing.fill(own, 1)
      own.close()
      if (nth % 25 === 0) {
        const one = stream()
        one.wait(passing)
        stay.push(one)
      }
      passing.close()
    }
  }
  await program({ device, data, stream, pass })
  const { components } = sanitizer.statistics
  assert.ok(components < 80, `${components} components`)
  return sanitizer.reports
}

/** Work of a stream that is closed at once, and that nothing has waited for. */
function left({ data, stream }: Stage, nonBlocking = true): void {
  const closed = stream(nonBlocking)
  closed.fill(data, 1)
  closed.close()
}

const RACES: Readonly<Record<string, Program>> = {
  'work of a closed stream that nothing has waited for': (stage) => {
    left(stage)
    stage.pass()
    stage.stream().fill(stage.data, 2)
  },
  'work of a closed stream, and a stream that waits for others that came later': (stage) => {
    left(stage)
    stage.pass()
    const other = stage.stream()
    for (let nth = 0; nth < 3; nth += 1) {
      const later = stage.stream()
      stage.pass()
      other.wait(later)
      later.close()
    }
    other.fill(stage.data, 2)
  },
  'work of a closed stream that does not block, and the null stream': (stage) => {
    left(stage)
    stage.pass()
    stage.device.defaultStream.fill(stage.data, 2)
  },
  'a read of a closed stream': (stage) => {
    const closed = stage.stream()
    const copy = stage.device.alloc(BYTES, { stream: closed })
    closed.copy(copy, stage.data)
    closed.close()
    stage.pass()
    stage.stream().fill(stage.data, 2)
  },
  'work behind an event that was recorded before it': (stage) => {
    const closed = stage.stream()
    const event = closed.record()
    closed.fill(stage.data, 1)
    closed.close()
    stage.pass()
    const other = stage.stream()
    other.wait(event)
    other.fill(stage.data, 2)
  },
}

const ORDERED: Readonly<Record<string, Program>> = {
  'an event of a closed stream': (stage) => {
    const closed = stage.stream()
    closed.fill(stage.data, 1)
    const event = closed.record()
    closed.close()
    stage.pass()
    const other = stage.stream()
    other.wait(event)
    other.fill(stage.data, 2)
  },
  'an event of a closed stream that waited for another': (stage) => {
    const [first, second] = [stage.stream(), stage.stream()]
    first.fill(stage.data, 1)
    second.wait(first)
    first.close()
    stage.pass()
    const event = second.record()
    second.close()
    stage.pass()
    const other = stage.stream()
    other.wait(event)
    other.fill(stage.data, 2)
  },
  'a wait for the device': (stage) => {
    left(stage)
    stage.pass()
    stage.device.synchronize()
    stage.stream().fill(stage.data, 2)
  },
  'a promise of a stream that is closed before it settles': async (stage) => {
    const [first, closed] = [stage.stream(), stage.stream()]
    first.fill(stage.data, 1)
    closed.wait(first)
    first.close()
    const done = closed.finished()
    closed.close()
    stage.pass()
    await done
    stage.stream().fill(stage.data, 2)
  },
  'the null stream, behind a blocking stream that is closed': (stage) => {
    left(stage, false)
    stage.pass()
    stage.device.defaultStream.fill(stage.data, 2)
  },
  'launches of a graph, one of them on a closed stream': (stage) => {
    const closed = stage.stream()
    using graph = closed.capture(() => closed.fill(stage.data, 1))
    using exec = graph.instantiate()
    exec.launch(closed)
    closed.close()
    stage.pass()
    const other = stage.stream()
    exec.launch(other)
    other.fill(stage.data, 2)
  },
  'a value that a closed stream has waited for': (stage) => {
    using flags = stage.device.allocPinned(8)
    const [writing, waiting] = [stage.stream(), stage.stream()]
    waiting.waitValue(flags, 1)
    const event = waiting.record()
    waiting.close()
    stage.pass()
    writing.fill(stage.data, 1)
    writing.writeValue(flags, 1)
    writing.close()
    stage.pass()
    stage.device.synchronize()
    const other = stage.stream()
    other.wait(event)
    other.fill(stage.data, 2)
  },
}

for (const causal of [false, true]) {
  describe(`streams that are closed${causal ? ', causal' : ''}`, { skip: causal && withoutPromiseHooks }, () => {
    for (const [name, program] of Object.entries(RACES)) {
      it(`are reported: ${name}`, async () => {
        const reports = await reportsOf(program, causal)
        assert.equal(reports.length, 1, reports.map(({ message }) => message).join('\n'))
        assert.equal(reports[0]?.kind, 'race')
      })
    }
    for (const [name, program] of Object.entries(ORDERED)) {
      it(`come before what waits for them: ${name}`, async () => {
        assert.deepEqual(
          (await reportsOf(program, causal)).map(({ message }) => message),
          [],
        )
      })
    }
  })
}
