/** Ten thousand calls with something wrong in each: every one must be refused by name, and leave no trace. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { cudaStream, Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { busy, destroyForeignStream, fault, foreignStream, latch, simulate, simulationOf } from 'cuda-streams/sim'
import fc from 'fast-check'
import { runs } from '../helpers/effort.js'
import { simWorkbench, type Workbench } from '../helpers/workbench.js'
import * as wrong from './wrong-values.js'

/** Of fast-check: which calls are tried. CUDA_STREAMS_TEST_SEED tries others. */
export const SEED = Number(process.env['CUDA_STREAMS_TEST_SEED'] ?? 20_251_120)
export const CALLS = runs({ quick: 2000, normal: 4000, nightly: 10_000 })
const MISTAKES =
  /^(ERR_(INVALID_ARG_TYPE|INVALID_ARG_VALUE|OUT_OF_RANGE|CLOSED|DEVICE_MISMATCH|INVALID_HANDLE|UNSUPPORTED)|CUDA_ERROR_\w+)$/

type Wrong = fc.Arbitrary<unknown>

interface Parameter {
  readonly right: () => unknown
  readonly wrong: Wrong
}

/** One function of the library, as an untyped caller sees it. */
interface Target {
  readonly name: string
  readonly call: (...args: never[]) => unknown
  readonly parameters: readonly Parameter[]
}

/** One call that is wrong somewhere. */
class Attempt {
  readonly target: Target
  readonly args: readonly unknown[]

  constructor(target: Target, args: readonly unknown[]) {
    this.target = target
    this.args = args
  }

  make(): unknown {
    return this.target.call(...(this.args.map(wrong.resolved) as never[]))
  }

  toString(): string {
    return `${this.target.name} with (${this.args.map(wrong.shown).join(', ')})`
  }

  [fc.toStringMethod](): string {
    return this.toString()
  }
}

const target = (name: string, call: (...args: never[]) => unknown, ...parameters: Parameter[]): Target => ({
  name,
  call,
  parameters,
})
const parameter = (right: unknown, ...arbitraries: Wrong[]): Parameter => ({
  right: () => right,
  wrong: wrong.either(...arbitraries),
})

/** One argument is wrong for sure, and each of the others now and then. */
function attempts(of: Target): fc.Arbitrary<Attempt> {
  const { parameters } = of
  const choices = parameters.map((one) => fc.tuple(fc.integer({ min: 0, max: 3 }), one.wrong))
  return fc.tuple(fc.nat(parameters.length - 1), fc.tuple(...choices)).map(([sure, chosen]) => {
    const args = parameters.map((one, index) => {
      const [also, value] = chosen[index] ?? [1, undefined]
      return index === sure || also === 0 ? value : one.right()
    })
    return new Attempt(of, args)
  })
}

/** The objects that the calls are made on and with. */
class Fixture {
  readonly bench: Workbench
  readonly other = simWorkbench({ devices: 2 })
  readonly stream: Stream
  readonly second: Stream
  readonly event: Event
  readonly timed: Event
  readonly foreign: bigint
  readonly otherStream: Stream
  readonly otherEvent: Event
  readonly otherForeign: bigint
  readonly closedStream: Stream
  readonly closedWrapper: ExternalStream
  readonly closedEvent: Event
  /** Of the same driver, but on another device, where there is one. */
  readonly far: readonly { readonly stream: Stream; readonly device: Device }[]

  constructor(bench: Workbench) {
    this.bench = bench
    this.stream = bench.stream()
    this.second = bench.stream()
    this.event = this.stream.record()
    this.timed = this.stream.record({ timing: true })
    this.foreign = bench.foreignStream(bench.device)
    this.otherStream = this.other.stream()
    this.otherEvent = this.otherStream.record()
    this.otherForeign = this.other.foreignStream(this.other.device)
    this.far = bench.devices.slice(1, 2).map((device) => {
      return { device, stream: device.createStream() }
    })
    // What streams keep for themselves is made now, so that nothing takes the handles of the closed ones.
    for (const stream of [this.stream, this.second, this.otherStream]) stream.cachedEvent.query()
    this.closedStream = bench.stream()
    this.closedEvent = this.closedStream.record()
    this.closedWrapper = new ExternalStream(this.closedStream)
    this.closedEvent.close()
    this.closedWrapper.close()
    this.closedStream.close()
    bench.device.synchronize()
  }

  /** The objects work as on the first day. */
  async assertWorks(): Promise<void> {
    const { stream, second, event, timed, bench, otherStream } = this
    const seen: string[] = []
    bench.busy(stream, 1000)
    stream.launchHostFunc((value) => seen.push(value), 'first')
    assert.equal(stream.record(event), event)
    second.wait(event).addCallback((where, status) => seen.push(`${where === second}, ${status}`), undefined)
    await second.finished()
    assert.deepEqual(seen, ['first', 'true, 0'])
    stream.synchronize()
    assert.ok(stream.query() && second.query() && event.query())
    const later = stream.record({ timing: true })
    await later.finished()
    assert.ok(later.elapsedSince(timed) >= 0)
    later.close()
    const wrapper = Stream.from(this.foreign, { device: bench.device })
    assert.equal(wrapper.query(), true)
    wrapper.close()
    busy(otherStream, 10)
    otherStream.synchronize()
    assert.equal(
      bench.device.run(() => Stream.current()),
      bench.device.defaultStream,
    )
    assert.equal(Stream.current(bench.device), bench.device.defaultStream)
  }

  /** The handles that the next stream and event get: the same again where none was left behind. */
  nextHandles(): readonly bigint[] {
    const [stream, event] = [this.bench.stream(), this.bench.device.createEvent()]
    const handles = [stream.handle, event.handle]
    stream.close()
    event.close()
    return handles
  }
}

function targetsOf(f: Fixture): Target[] {
  const { bench, stream, second, event, otherStream, closedStream, closedWrapper } = f
  const { device } = bench
  const live = (): bigint => second.handle
  const fars = f.far.map((far) => far.stream)
  const ofOurs = (...values: readonly unknown[]): Wrong => wrong.oneOf(...values)

  const noStream = wrong.either(wrong.nothingOfOurs, ofOurs(closedStream, closedWrapper, event, device))
  const noSource = wrong.either(
    wrong.noSource(live),
    ofOurs(closedStream, closedWrapper, closedStream.handle, event, device),
    // On a GPU an event's handle is mapped memory, which is not told from a stream.
    ofOurs(bench.name === 'sim' ? event.handle : -1n),
  )
  const notOwnDevice = wrong.either(wrong.noDevice, ofOurs(f.other.device, event, ...f.far.map((far) => far.device)))
  const noNewDevice = wrong.either(wrong.noDevice, ofOurs(-1, event, stream))
  const flags = { timing: wrong.noBoolean, blockingSync: wrong.noBoolean, interprocess: wrong.noBoolean }
  const excluding = wrong.oneOf({ timing: true, interprocess: true })

  const callback = parameter(() => {}, wrong.noFunction)
  const wrapping = parameter(undefined, wrong.wrongOptions({ device: notOwnDevice, owner: wrong.noOwner }))
  const source = (right: unknown): Parameter => parameter(right, noSource)
  const streamOptions = { priority: wrong.noPriority, nonBlocking: wrong.noBoolean }

  return [
    target(
      'new Device',
      (...args) => Reflect.construct(Device, args),
      parameter({}, wrong.nothingOfOurs, ofOurs(device)),
    ),
    target('Device.get', (ordinal) => Device.get(ordinal), parameter(0, wrong.noOrdinal, ofOurs(device))),
    target(
      'device.createStream',
      (options) => device.createStream(options),
      parameter(
        undefined,
        wrong.wrongOptions(streamOptions),
        wrong.brokenProtocols(live).filter(isSource),
        ofOurs(closedStream, otherStream, ...fars),
      ),
    ),
    target(
      'device.createEvent',
      (options) => device.createEvent(options),
      parameter(undefined, wrong.wrongOptions(flags), excluding),
    ),
    target('device.run', (fn) => device.run(fn), callback),
    target('device.attribute', (name) => device.attribute(name), parameter('warpSize', wrong.noAttribute)),

    target(
      'new Stream',
      (options) => new Stream(options),
      parameter({}, wrong.wrongOptions({ ...streamOptions, device: noNewDevice })),
    ),
    target('Stream.from(handle)', (from, options) => Stream.from(from, options), source(f.foreign), wrapping),
    target(
      'Stream.from(stream)',
      (from, options) => Stream.from(from, options),
      parameter(stream, ofOurs(closedStream, closedWrapper)),
      parameter(undefined, wrong.wrongOptions({ device: notOwnDevice })),
    ),
    target(
      'new ExternalStream(handle)',
      (from, options) => new ExternalStream(from, options),
      source(f.foreign),
      wrapping,
    ),
    target(
      'new ExternalStream(stream)',
      (from, options) => new ExternalStream(from, options),
      source(stream),
      wrapping,
    ),
    target('Stream.current', (where) => Stream.current(where), parameter(device, noNewDevice)),
    target('Stream.compare', (a, b) => Stream.compare(a, b), parameter(stream, noStream), parameter(second, noStream)),
    target(
      'stream.record(options)',
      (options) => stream.record(options),
      parameter(undefined, wrong.wrongOptions({ ...flags, external: wrong.noBoolean }), excluding),
    ),
    target('stream.run', (fn) => stream.run(fn), callback),

    target(
      'new Event',
      (options) => new Event(options),
      parameter({}, wrong.wrongOptions({ ...flags, device: noNewDevice }), excluding),
    ),
    target(
      'Event.from',
      (handle, options) => Event.from(handle, options),
      // The handle of a closed event is not among them: it may be that of an event made since (foreign-handles.test.ts).
      parameter(event.handle, wrong.noEventHandle, ofOurs(stream, device)),
      wrapping,
    ),
    target(
      'Event.fromIpcHandle',
      (bytes, options) => Event.fromIpcHandle(bytes, options),
      parameter(new Uint8Array(64), wrong.noBytes, wrong.foreignBytes),
      parameter(undefined, wrong.wrongOptions({ device: noNewDevice })),
    ),

    ...targetsOfSimulator(f),
  ]
}

/** Would it be refused where an options object is allowed too? */
export function isNoOptionsObject(value: unknown): boolean {
  return (typeof value !== 'object' || value === null || Array.isArray(value)) && value !== undefined
}

/** Has it a protocol at all? What has none is an options object without any. */
function isSource(value: unknown): boolean {
  const made = wrong.resolved(value)
  if ((typeof made !== 'object' && typeof made !== 'function') || made === null) return false
  const names: readonly PropertyKey[] = [cudaStream, '__cuda_stream__']
  return names.some((name) => {
    const descriptor = Object.getOwnPropertyDescriptor(made, name)
    return descriptor?.get !== undefined || typeof descriptor?.value === 'function'
  })
}

function targetsOfSimulator(f: Fixture): Target[] {
  const { bench, stream, otherStream, closedStream, event } = f
  const real = bench.name === 'cuda' ? { streams: [stream], devices: [bench.device] } : { streams: [], devices: [] }
  const noStream = wrong.either(wrong.nothingOfOurs, wrong.oneOf(closedStream, event, ...real.streams))
  const noDevice = wrong.either(wrong.nothingOfOurs, wrong.oneOf(0, 1, stream, ...real.devices))
  const on = parameter(otherStream, noStream)
  const count = wrong.either(wrong.noInteger, wrong.oneOf(0, -0, -1, 65, 2 ** 31))
  return [
    target(
      'simulate',
      (options) => simulate(options),
      parameter({}, wrong.wrongOptions({ devices: count, seed: wrong.noInteger })),
    ),
    target('simulationOf', (device) => simulationOf(device), parameter(f.other.device, noDevice)),
    target('busy', (where, time) => busy(where, time), on, parameter(1, wrong.noDuration)),
    target('latch', (where) => latch(where), on),
    target('fault', (where, number) => fault(where, number), on, parameter(700, wrong.noResult)),
    target(
      'foreignStream',
      (device, options) => foreignStream(device, options),
      parameter(f.other.device, noDevice),
      parameter(undefined, wrong.wrongOptions({ priority: wrong.noPriority, nonBlocking: wrong.noBoolean })),
    ),
    target(
      'destroyForeignStream',
      (handle) => destroyForeignStream(handle),
      parameter(
        f.otherForeign,
        wrong.noSource(() => f.otherForeign),
        wrong.oneOf(otherStream, otherStream.handle, 0n, 1n, 2n),
      ),
    ),
    target(
      'device.createStream({ device })',
      (options) => f.bench.device.createStream(options),
      parameter({}, wrong.wrongOptions({ device: wrong.noDevice })),
    ),
    target(
      'Stream.from(stream, { owner })',
      (options) => Stream.from(f.stream, options),
      parameter({}, wrong.wrongOptions({ owner: wrong.noOwner })),
    ),
  ]
}

/** What the library says of a wrong argument: an error with a code, of the class that goes with it. */
function assertRefusal(error: unknown, attempt: Attempt): void {
  if (error instanceof wrong.Hostility) return
  const said = inspect(error)
  assert.ok(error instanceof Error && 'code' in error && typeof error.code === 'string', `${attempt} threw ${said}`)
  assert.match(error.code, MISTAKES, `${attempt} threw ${said}`)
  assert.ok(error.message.length > 10, `${attempt} threw ${said}`)
  if (/ARG_(TYPE|VALUE)/.test(error.code)) assert.ok(error instanceof TypeError, said)
  if (/OUT_OF_RANGE/.test(error.code)) assert.ok(error instanceof RangeError, said)
}

async function assertRefused(attempt: Attempt): Promise<void> {
  let result: unknown
  try {
    result = attempt.make()
  } catch (error) {
    assert.ok(!attempt.target.name.endsWith('finished'), `${attempt} threw, and did not reject: ${inspect(error)}`)
    assertRefusal(error, attempt)
    return
  }
  if (!(result instanceof Promise)) assert.fail(`${attempt} returned ${inspect(result)}`)
  await result.then(
    () => assert.fail(`${attempt} resolved`),
    (error) => assertRefusal(error, attempt),
  )
}

/** What is closed still says what it was: all other uses of it are tried in closing.test.ts. */
function assertClosed(f: Fixture): void {
  for (const closed of [f.closedStream, f.closedWrapper, f.closedEvent]) {
    assert.equal(closed.closed, true)
    assert.equal(typeof closed.handle, 'bigint')
    assert.equal(closed.device, f.bench.device)
    assert.match(`${closed}`, /closed/)
    assert.equal(closed.equals(closed as never), true)
    closed.close()
  }
}

/** equals() takes anything, and is false for what is none. */
const notEqual = wrong.either(
  wrong.nothingOfOurs,
  wrong.oneOf(undefined, 0n, 1n),
  wrong.brokenProtocols(() => 0n),
)

function assertNotEqual(f: Fixture, value: unknown): void {
  for (const own of [f.stream, f.event, f.closedStream, f.closedEvent, f.bench.device.defaultStream]) {
    try {
      assert.equal(own.equals(wrong.resolved(value)), false)
    } catch (error) {
      if (!(error instanceof wrong.Hostility)) throw error
    }
  }
}

async function refuseAll(f: Fixture, targets: readonly Target[], calls: number): Promise<void> {
  let made = 0
  const tried = new Set<Target>()
  await fc.assert(
    fc.asyncProperty(fc.oneof(...targets.map(attempts)), async (attempt) => {
      made += 1
      tried.add(attempt.target)
      // Ordinals are of the current device's driver.
      await f.bench.device.run(() => assertRefused(attempt))
    }),
    { seed: SEED, numRuns: calls, endOnFailure: true },
  )
  assert.ok(made >= calls)
  assert.equal(tried.size, targets.length)
  console.log(`${made} calls of ${targets.length} functions, fast-check seed ${SEED}`)
}

/** What could keep the process alive; the pipes of its output come and go. */
function lastingResources(): readonly string[] {
  return process
    .getActiveResourcesInfo()
    .filter((name) => !/(Pipe|TTY|FS\w*)Wrap$/.test(name))
    .toSorted()
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) {
    globalThis.gc?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

export async function wrongArguments(bench: Workbench): Promise<void> {
  const fixture = new Fixture(bench)
  await fixture.assertWorks()
  await settle()
  const handles = fixture.nextHandles()
  const resources = lastingResources()
  await refuseAll(fixture, targetsOf(fixture), CALLS)
  assertClosed(fixture)
  fc.assert(
    fc.property(notEqual, (value) => assertNotEqual(fixture, value)),
    { seed: SEED, numRuns: 1000 },
  )
  await settle()
  assert.deepEqual(lastingResources(), resources)
  // The simulator hands out again what was given back last; a GPU need not.
  if (bench.name === 'sim') assert.deepEqual(fixture.nextHandles(), handles, 'a stream or an event was left behind')
  await fixture.assertWorks()
}
