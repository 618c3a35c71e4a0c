/** Traces of several threads become one, in which no row, arrow or operation of one is taken for that of another. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { mergeTraces, nameStream, Timeline, type TraceEvent, type TraceFile } from 'cuda-streams/timeline'

async function recorded(name: string): Promise<TraceFile> {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const [one, other] = [new Stream({ device }), new Stream({ device })]
  nameStream(one, name)
  const buffer = device.alloc(1024, { stream: one })
  const timeline = await Timeline.record(
    async () => {
      one.fill(buffer, 1)
      other.wait(one).fill(buffer, 2)
      await other.finished()
    },
    { device },
  )
  return timeline.toTraceEvents()
}

const rowOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`
const ofKind = (events: readonly TraceEvent[], ...kinds: readonly TraceEvent['ph'][]): readonly TraceEvent[] =>
  events.filter(({ ph }) => kinds.includes(ph))

it('keeps the rows of each thread apart, with its name', async () => {
  const [main, worker] = [await recorded('encode'), await recorded('decode')]
  const { traceEvents } = mergeTraces({ main, 'worker 1': worker })
  const names = traceEvents.filter(({ name }) => name === 'thread_name')
  assert.equal(new Set(names.map(rowOf)).size, names.length)
  const texts = names.map(({ args }) => args?.['name'])
  for (const text of ['JavaScript, main', 'encode, main', 'JavaScript, worker 1', 'decode, worker 1']) {
    assert.ok(texts.includes(text), text)
  }
  const slices = ofKind(traceEvents, 'X')
  assert.equal(slices.length, ofKind(main.traceEvents, 'X').length + ofKind(worker.traceEvents, 'X').length)
  const named = new Set(names.map(rowOf))
  for (const slice of slices) assert.ok(named.has(rowOf(slice)), 'each slice is in a row that has a name')
})

it('keeps arrows and operations apart', async () => {
  const [main, worker] = [await recorded('encode'), await recorded('decode')]
  const { traceEvents } = mergeTraces({ main, worker })
  const begins = ofKind(traceEvents, 's', 'b')
  assert.ok(begins.length > 2)
  assert.equal(new Set(begins.map(({ ph, cat, id }) => `${ph} ${cat} ${id}`)).size, begins.length)
  const correlations = (events: readonly TraceEvent[]) =>
    new Set(events.flatMap(({ args }) => args?.['correlation'] ?? []))
  assert.equal(
    correlations(traceEvents).size,
    correlations(main.traceEvents).size + correlations(worker.traceEvents).size,
  )
})

it('gives all threads the clock of the first', async () => {
  const early = await recorded('early')
  const late = { ...early, baseTimeNanoseconds: early.baseTimeNanoseconds + 5_120_000 }
  const merged = mergeTraces({ late, early })
  assert.equal(merged.baseTimeNanoseconds, early.baseTimeNanoseconds)
  const times = (events: readonly TraceEvent[]) => ofKind(events, 'X').map(({ ts }) => ts)
  const expected = [
    ...times(early.traceEvents).map((ts) => Math.round((ts + 5120) * 1000) / 1000),
    ...times(early.traceEvents),
  ]
  assert.deepEqual(times(merged.traceEvents), expected)
})

it('refuses what is no trace', async () => {
  const trace = await recorded('one')
  for (const wrong of [
    undefined,
    null,
    {},
    { main: {} },
    { main: trace, worker: undefined },
    { main: JSON.stringify(trace) },
  ]) {
    assert.throws(() => Reflect.apply(mergeTraces, undefined, [wrong]), { code: 'ERR_INVALID_ARG_TYPE' })
  }
})
