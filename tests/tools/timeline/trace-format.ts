/**
 * What the Trace Event format asks of a file, written down from its documentation: which fields each phase has, that the
 * slices of a thread nest, and that arrows begin and end inside slices.
 */
import assert from 'node:assert/strict'

interface Slice {
  readonly begin: number
  readonly end: number
}

const FIELDS: Readonly<Record<string, readonly string[]>> = {
  X: ['ph', 'cat', 'name', 'pid', 'tid', 'ts', 'dur', 'args'],
  M: ['ph', 'name', 'pid', 'tid', 'ts', 'args'],
  s: ['ph', 'cat', 'name', 'pid', 'tid', 'ts', 'id'],
  f: ['ph', 'cat', 'name', 'pid', 'tid', 'ts', 'id', 'bp'],
  b: ['ph', 'cat', 'name', 'pid', 'tid', 'ts', 'id', 'args'],
  e: ['ph', 'cat', 'name', 'pid', 'tid', 'ts', 'id'],
}
const METADATA = ['process_name', 'process_labels', 'process_sort_index', 'thread_name', 'thread_sort_index']

type Event = Readonly<Record<string, unknown>>

/** Throws where a file is not as it should be. */
export function checkTraceFile(json: string): void {
  const file: Record<string, unknown> = JSON.parse(json)
  assert.equal(file['schemaVersion'], 1)
  assert.ok(file['displayTimeUnit'] === 'ms' || file['displayTimeUnit'] === 'ns')
  assert.ok(Number.isFinite(file['baseTimeNanoseconds']))
  assert.ok(Array.isArray(file['deviceProperties']))
  const events = file['traceEvents']
  assert.ok(Array.isArray(events))
  for (const event of events) checkFields(event)
  const slices = slicesByThread(events)
  for (const [thread, own] of slices) checkNesting(thread, own)
  checkArrows(events, slices)
  checkPairs(events)
  checkNames(events, slices)
}

function checkFields(event: Event): void {
  const text = JSON.stringify(event)
  const fields = FIELDS[String(event['ph'])]
  assert.ok(fields, `unknown phase: ${text}`)
  assert.deepEqual(Object.keys(event).sort(), [...fields].sort(), text)
  for (const name of ['pid', 'tid']) assert.ok(Number.isSafeInteger(event[name]), text)
  for (const name of ['ts', 'dur']) {
    const value = event[name]
    if (value === undefined) continue
    assert.ok(typeof value === 'number' && Number.isFinite(value) && value >= 0, text)
    // A slice is short by a few tenths of a nanosecond.
    assert.equal(Number(value.toFixed(name === 'ts' ? 3 : 4)), value, `more than nanoseconds: ${text}`)
  }
  if (event['id'] !== undefined) assert.ok(Number.isSafeInteger(event['id']), text)
  if (event['ph'] === 'f') assert.equal(event['bp'], 'e', text)
  if (event['ph'] === 'M') assert.ok(METADATA.includes(String(event['name'])), text)
}

const threadOf = (event: Event): string => `${event['pid']}/${event['tid']}`
/** Nanoseconds, as whole numbers. */
const timeOf = (event: Event, field = 'ts'): number => Math.round(Number(event[field] ?? 0) * 1000)

function slicesByThread(events: readonly Event[]): Map<string, Slice[]> {
  const threads = new Map<string, Slice[]>()
  for (const event of events) {
    if (event['ph'] !== 'X') continue
    const begin = timeOf(event)
    const slice = { begin, end: begin + timeOf(event, 'dur') }
    threads.set(threadOf(event), [...(threads.get(threadOf(event)) ?? []), slice])
  }
  return threads
}

/** Of two slices of a thread one lies inside the other, or they do not touch. */
function checkNesting(thread: string, slices: readonly Slice[]): void {
  const open: Slice[] = []
  for (const slice of [...slices].sort((a, b) => a.begin - b.begin || b.end - a.end)) {
    while (open.length > 0 && (open.at(-1)?.end ?? 0) <= slice.begin) open.pop()
    const around = open.at(-1)
    assert.ok(around === undefined || slice.end <= around.end, `slices of ${thread} overlap at ${slice.begin} ns`)
    open.push(slice)
  }
}

function checkArrows(events: readonly Event[], slices: ReadonlyMap<string, readonly Slice[]>): void {
  const starts = new Map<string, Event>()
  const ends = new Map<string, Event>()
  for (const event of events) {
    if (event['ph'] !== 's' && event['ph'] !== 'f') continue
    const arrows = event['ph'] === 's' ? starts : ends
    const key = `${event['cat']} ${event['name']} ${event['id']}`
    assert.ok(!arrows.has(key), `two arrows have the id ${key}`)
    arrows.set(key, event)
    const at = timeOf(event)
    const inside = (slices.get(threadOf(event)) ?? []).some(({ begin, end }) => begin <= at && at <= end)
    assert.ok(inside, `an arrow hangs in the air: ${JSON.stringify(event)}`)
  }
  assert.deepEqual([...starts.keys()].sort(), [...ends.keys()].sort())
  for (const [key, start] of starts) {
    assert.ok(timeOf(start) <= timeOf(ends.get(key) ?? {}), `the arrow ${key} goes back in time`)
  }
}

function checkPairs(events: readonly Event[]): void {
  const open = new Map<unknown, number>()
  for (const event of events) {
    if (event['ph'] === 'b') open.set(event['id'], timeOf(event))
    if (event['ph'] !== 'e') continue
    assert.ok((open.get(event['id']) ?? Number.POSITIVE_INFINITY) <= timeOf(event), 'ends before it begins')
    open.delete(event['id'])
  }
  assert.equal(open.size, 0, 'begins, and does not end')
}

/** Every thread with slices has a name. */
function checkNames(events: readonly Event[], slices: ReadonlyMap<string, unknown>): void {
  const named = new Set(events.filter(({ name }) => name === 'thread_name').map(threadOf))
  for (const thread of slices.keys()) assert.ok(named.has(thread), `thread ${thread} has no name`)
}
