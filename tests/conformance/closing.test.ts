/** S2: what close() does, what still answers afterwards, and what the garbage collector closes. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { type Condition, cudaStream, type Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { driverOf } from '../../src/core/device.js'
import type { Driver } from '../../src/foundation/driver/driver.js'
import type { EventDriver } from '../../src/foundation/driver/event-driver.js'
import type { StreamDriver } from '../../src/foundation/driver/stream-driver.js'
import type { Interceptor } from '../../src/foundation/driver/wrappable-driver.js'
import { calls } from '../catalogue/catalogue.js'
import { Lab } from '../catalogue/lab.js'
import { outcomeOf, outcomeWithin, Scene } from '../catalogue/scene.js'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import { checkError, collected, collectUntil, refused, rejected, stillWorks } from './expect.js'

/** Notes what is destroyed: whether a handle is one still cannot be asked again and again, since another may take its place. */
class Witness implements Interceptor {
  constructor(readonly next: Driver) {}

  readonly handles = new Set<bigint>()

  readonly streams: Partial<StreamDriver> = {
    destroy: (stream) => {
      this.handles.add(BigInt(stream))
      this.next.streams.destroy(stream)
    },
  }

  readonly events: Partial<EventDriver> = {
    destroy: (event) => {
      this.handles.add(BigInt(event))
      this.next.events.destroy(event)
    },
  }
}

function witness(device: Device): { readonly handles: ReadonlySet<bigint>; readonly unwrap: () => void } {
  const front = driverOf(device)
  const { wrapper, unwrap } = front.wrap((inner) => new Witness(inner))
  return { handles: wrapper.handles, unwrap }
}

/** What closed streams and events still answer. */
const ANSWERING = ['constructor', 'handle', 'closed', 'equals', 'close', 'toString'].concat(
  [Symbol.dispose, Symbol.asyncDispose, Symbol.toStringTag, inspect.custom].map(String),
)
const MOST_TRIES = 300

interface ClosedStream extends Disposable {
  readonly stream: Stream
  /** Streams that were made since. */
  readonly others: readonly Stream[]
  /** The handle is that of one of them. */
  readonly isInUse: boolean
}

/** A stream, and how it is closed. */
interface OpenStream {
  readonly stream: Stream
  close(): ClosedStream
}

/** How a stream can be closed. */
function closableStreams({ device, stream: make }: Workbench): Record<string, () => OpenStream> {
  const under = (wrap: (stream: Stream) => Stream, isAnother = false, stream = make()): OpenStream => {
    const wrapper = wrap(stream)
    const close = (): ClosedStream => {
      stream.close()
      const others: Stream[] = []
      while (isAnother && others.length < MOST_TRIES && others.at(-1)?.handle !== wrapper.handle) others.push(make())
      const isInUse = others.some((other) => other.handle === wrapper.handle)
      const dispose = (): void => {
        for (const other of others) other.close()
      }
      return { stream: wrapper, others, isInUse, [Symbol.dispose]: dispose }
    }
    return { stream: wrapper, close }
  }
  const byHandle = (stream: Stream): Stream => new ExternalStream(stream.handle, { device })
  return {
    itself: () => under((stream) => stream),
    'under a wrapper': () => under((stream) => new ExternalStream(stream)),
    'under a wrapper of its handle': () => under(byHandle),
    'under a wrapper of a wrapper': () => under((stream) => new ExternalStream(byHandle(stream))),
    'under a wrapper, in a green context': () => {
      const [context] = device.split({ multiprocessors: [16] })
      return under(byHandle, false, new Stream({ context }))
    },
    'under a wrapper, and its handle is another’s,': () => under(byHandle, true),
  }
}

/** Calls of the catalogue that are made on a stream, or with one. */
const WITH_STREAM =
  /^Stream#(?!.*(close|\[Symbol))|^(GraphExec#(launch|upload)|Event#(record|wait)|Stream\.from|toDLPack)$/
const streamCalls = calls.filter(
  ({ apart, withoutStream, members }) =>
    apart === undefined && withoutStream !== true && members.some((member) => WITH_STREAM.test(member)),
)
assert.ok(streamCalls.length > 50)
const knownMembers = new Set(streamCalls.flatMap(({ members }) => members))

onEveryBackend('closing', (bench) => {
  const { device } = bench
  const callsNoLibrary = bench.name === 'cuda' ? false : 'the simulator calls no library'

  test('S2 close() may be called twice', () => {
    const stream = bench.stream()
    const event = device.createEvent()
    for (const closable of [stream, event]) {
      assert.equal(closable.closed, false)
      closable.close()
      assert.equal(closable.closed, true)
      closable.close()
      closable[Symbol.dispose]()
      assert.equal(closable.closed, true)
    }
  })

  test('S2 queued work still completes after close()', async () => {
    const stream = bench.stream()
    const other = bench.stream()
    const order: string[] = []
    using latch = bench.latch(stream)
    bench.busy(stream, 1000)
    stream.launchHostFunc(() => order.push('host function'))
    const event = stream.record()
    other.wait(event)
    const finished = stream.finished().then(() => order.push('finished'))
    stream.close()
    assert.equal(event.query(), false)
    assert.deepEqual(order, [])
    latch.open()
    await event.finished()
    await finished
    assert.deepEqual(order, ['host function', 'finished'])
    await other.finished()
  })

  test('S2 what a stream was in the middle of when it was closed is no past of the next one', async () => {
    using pinned = device.allocPinned(4)
    using behind = bench.stream()
    const bytes = pinned.view(Uint8Array)
    /** What brings a stream there and gives what ends it, and the byte in the end where the order is known. */
    const states: Readonly<Record<string, readonly [(stream: Stream) => () => void, last?: number]>> = {
      held: [
        (stream) => {
          const latch = bench.latch(stream)
          stream.fill(pinned, 1)
          behind.wait(stream)
          return () => latch.open()
        },
        1,
      ],
      'at a host function': [
        (stream) => {
          stream.launchHostFunc(() => bytes.fill(1))
          return () => {}
        },
      ],
      'with a promise pending': [
        (stream) => {
          void stream.fill(pinned, 1).finished()
          return () => {}
        },
      ],
      capturing: [
        (stream) => {
          stream.beginCapture('relaxed').fill(pinned, 1)
          return () => {}
        },
        2,
      ],
      'joined to a capture': [
        (stream) => {
          const origin = bench.stream().beginCapture('relaxed')
          stream.wait(origin.record()).fill(pinned, 1)
          return () => origin.close()
        },
        2,
      ],
      idle: [
        (stream) => {
          stream.fill(pinned, 1).synchronize()
          return () => {}
        },
        2,
      ],
    }
    for (const [state, [bring, last]] of Object.entries(states)) {
      bytes.fill(0)
      const stream = bench.stream()
      const end = bring(stream)
      stream.close()
      using next = bench.stream()
      assert.equal(next.isCapturing, false, state)
      next.fill(pinned, 2).synchronize()
      assert.equal(next.query(), true, state)
      if (last !== undefined) assert.equal(bytes[0], 2, state)
      end()
      await behind.finished()
      await device.finished()
      if (last !== undefined) assert.equal(bytes[0], last, state)
    }
  })

  test('S2 waits queued on an event hold after its close()', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using latch = bench.latch(stream)
    const event = stream.record()
    other.wait(event)
    const finished = event.finished()
    event.close()
    using behind = other.record()
    assert.equal(behind.query(), false)
    latch.open()
    await finished
    await behind.finished()
  })

  test('S2 handle, device, closed, equals and printing answer after close()', () => {
    const stream = bench.stream()
    const wrapper = new ExternalStream(stream)
    const event = device.createEvent()
    for (const closable of [wrapper, stream, event]) {
      const { handle } = closable
      closable.close()
      assert.equal(closable.handle, handle)
      assert.equal(closable.device, device)
      assert.equal(closable.closed, true)
      assert.equal(closable.equals(closable), true)
      assert.equal(closable.equals('x'), false)
      for (const text of [String(closable), `${closable}`, inspect(closable)]) {
        assert.match(text, /(Stream|Event)\(/)
        assert.match(text, new RegExp(`0x${handle.toString(16)}`))
        assert.match(text, /closed/)
      }
    }
  })

  for (const [way, open] of Object.entries(closableStreams(bench))) {
    const make = (): ClosedStream => open().close()
    test(`S2 every other use of a stream that is closed ${way} is ERR_CLOSED`, async () => {
      const lab = await Lab.open(bench)
      for (const call of streamCalls) {
        if ((await call.lacks?.({ lab, bench })) !== undefined) continue
        const { stream, close } = open()
        const kinds = (call.memory ?? []).map(() => 'device' as const)
        const scene = new Scene(lab, call, { stream: 'non-blocking' }, 'nothing', kinds, true, stream)
        try {
          const invoke = await call.prepare(scene)
          lab.settle()
          using _closed = close()
          const { outcome, error } = await outcomeWithin(outcomeOf(invoke))
          assert.equal(outcome, 'ERR_CLOSED', `${call.name}: ${inspect(error)}`)
          checkError(error, 'ERR_CLOSED', /Stream\(0x/, /closed/)
        } finally {
          scene.dispose()
        }
      }

      const event = device.createEvent()
      using other = bench.stream()
      const conditions: Condition[] = []
      using unused = other.capture(() => void conditions.push(other.createCondition()))
      const [condition] = conditions
      assert.ok(condition !== undefined && unused.nodeCount === 0)
      const never = (): never => assert.fail('it was run')
      using closed = make()
      const { stream } = closed
      const uses: Record<string, () => unknown> = {
        context: () => stream.context,
        capture: () => stream.capture(never),
        createCondition: () => stream.createCondition(),
        if: () => stream.if(condition, never),
        while: () => stream.while(condition, never),
        switch: () => stream.switch(condition, [never]),
        external: () => stream.external({ name: 'work' }, never),
        'record(event)': () => stream.record(event),
        use: () => stream.use(),
        enter: () => stream.enter(),
        run: () => stream.run(never),
        valueOf: () => stream.valueOf(),
        [String(cudaStream)]: () => stream[cudaStream](),
        '< other': () => stream < other,
      }
      for (const [name, use] of Object.entries(uses)) {
        await rejected(async () => use(), 'ERR_CLOSED', /Stream\(0x/, /closed/)
        assert.equal(event.query(), true, name)
      }
      const members = Reflect.ownKeys(Stream.prototype).map(String)
      assert.deepEqual(
        members.filter((name) => !ANSWERING.includes(name) && !(name in uses) && !knownMembers.has(`Stream#${name}`)),
        [],
      )
      assert.equal(stream.closed, true)
      assert.match(String(stream), /closed/)
      await stream[Symbol.asyncDispose]()
      stillWorks(bench, other)
    })

    test(`S2 a stream that is closed ${way}, as an argument, is ERR_CLOSED`, () => {
      using other = bench.stream()
      using event = device.createEvent()
      using buffer = device.alloc(64, { stream: other })
      using graph = other.capture(() => other.fill(buffer, 1))
      using exec = graph.instantiate()
      using closed = make()
      const { stream } = closed
      const { handle } = stream
      const uses: Record<string, () => unknown> = {
        'Stream.from': () => Stream.from(stream),
        'Stream.compare': () => Stream.compare(other, stream),
        'new ExternalStream(stream)': () => new ExternalStream(stream),
        createStream: () => device.createStream(stream),
        alloc: () => device.alloc(64, { stream }),
        'wait(stream)': () => other.wait(stream),
        'wait(stream, options)': () => other.wait(stream, { event, external: true }),
        'event.record': () => event.record(stream),
        'event.wait': () => event.wait(stream),
        'exec.launch': () => exec.launch(stream),
        'exec.upload': () => exec.upload(stream),
      }
      if (!closed.isInUse) uses['new ExternalStream(handle)'] = () => new ExternalStream(handle, { device })
      for (const [name, use] of Object.entries(uses)) {
        refused(use, 'ERR_CLOSED', new RegExp(handle.toString(16)), /closed/)
        assert.equal(event.query(), true, name)
      }
      stillWorks(bench, other)
    })
  }

  test('S2 a stream that was closed equals its wrappers as before, and no other that has its handle', () => {
    for (const [way, open] of Object.entries(closableStreams(bench))) {
      using closed = open().close()
      for (const other of closed.others) {
        assert.equal(closed.stream.equals(other), false, way)
        assert.equal(other.equals(closed.stream), false, way)
        stillWorks(bench, other)
      }
    }
    const stream = bench.stream()
    const wrapper = new ExternalStream(stream.handle, { device })
    stream.close()
    assert.equal(wrapper.equals(stream), true)
  })

  test('S2 a stream that its wrapper still calls with is closed afterwards', { skip: callsNoLibrary }, () => {
    const stream = bench.stream()
    using wrapper = new ExternalStream(stream)
    const gone = witness(device)
    wrapper.external({ name: 'work' }, (handle) => {
      stream.close()
      assert.deepEqual([wrapper.closed, gone.handles.has(handle)], [true, false])
      refused(() => wrapper.record(), 'ERR_CLOSED')
    })
    assert.equal(gone.handles.has(stream.handle), true)
    gone.unwrap()
  })

  test('S2 a capture that a wrapper began is given up with the stream, and another with its handle begins one', () => {
    const stream = bench.stream()
    const wrapper = new ExternalStream(stream)
    wrapper.beginCapture()
    stream.close()
    refused(() => wrapper.endCapture(), 'ERR_CLOSED')
    using next = bench.stream()
    next.beginCapture()
    wrapper.close()
    next
      .launchHostFunc(() => {})
      .endCapture()
      .close()
  })

  const closings: Readonly<Record<string, (event: Event) => Event>> = {
    itself: (event) => {
      event.close()
      return event
    },
    'under a wrapper': (event) => {
      const wrapper = Event.from(event.handle, { device })
      event.close()
      return wrapper
    },
    'under a wrapper, and its handle is another’s': (event) => {
      const wrapper = Event.from(event.handle, { device })
      event.close()
      for (let left = MOST_TRIES; left > 0; left -= 1) {
        const next = device.createEvent({ timing: true })
        if (next.handle === event.handle) break
      }
      return wrapper
    },
  }
  for (const [way, close] of Object.entries(closings)) {
    test(`S2 an event that is closed ${way} is ERR_CLOSED too, as an argument also`, async () => {
      using timed = device.createEvent({ timing: true })
      using stream = bench.stream()
      using other = bench.stream()
      const made = device.createEvent({ timing: true })
      made.record(stream)
      timed.record(stream)
      stream.synchronize()
      const { handle } = made
      const event = close(made)
      const uses: Record<string, () => unknown> = {
        query: () => event.query(),
        synchronize: () => event.synchronize(),
        finished: () => event.finished(),
        record: () => event.record(stream),
        wait: () => event.wait(stream),
        share: () => event.share(),
        elapsedSince: () => event.elapsedSince(timed),
        'as the start': () => timed.elapsedSince(event),
        ipcHandle: () => event.ipcHandle(),
        'stream.record': () => stream.record(event),
        'stream.wait': () => stream.wait(event),
        'stream.wait(stream)': () => stream.wait(other, { event }),
      }
      if (!way.includes('another')) uses['Event.from'] = () => Event.from(handle, { device })
      for (const [name, use] of Object.entries(uses)) {
        await rejected(async () => use(), 'ERR_CLOSED', new RegExp(handle.toString(16)), /closed/)
        assert.equal(stream.query(), true, name)
      }
      const members = Reflect.ownKeys(Event.prototype).map(String)
      assert.deepEqual(
        members.filter((name) => !ANSWERING.includes(name) && !(name in uses)),
        [],
      )
      assert.deepEqual([event.closed, event.equals(made)], [true, true])
      stillWorks(bench, stream)
      stillWorks(bench, other)
    })
  }

  test('S2 closing what the library keeps does nothing', () => {
    using stream = bench.stream()
    const perThread = device.run(() => Stream.perThread)
    const ofNull = device.run(() => Stream.null)
    const kept = [device.defaultStream, ofNull, perThread, stream.cachedEvent, device.defaultStream.cachedEvent]
    for (const closable of kept) {
      closable.close()
      closable[Symbol.dispose]()
      assert.equal(closable.closed, false)
      assert.equal(closable.query(), true)
    }
    assert.equal(ofNull, device.defaultStream)
    stillWorks(bench, device.defaultStream)
    stillWorks(bench, perThread)
    assert.equal(stream.record(stream.cachedEvent), stream.cachedEvent)
    assert.equal(stream.cachedEvent.timing, false)
  })

  test('S2 a closed stream that is current stays current, and its use fails loudly', () => {
    const stream = bench.stream()
    using event = device.createEvent()
    stream.run(() => {
      stream.close()
      assert.equal(Stream.current(device), stream)
      refused(() => Stream.current(device).record(), 'ERR_CLOSED', /closed/)
      refused(() => event.record(), 'ERR_CLOSED', /closed/)
      refused(() => event.wait(), 'ERR_CLOSED', /closed/)
    })
    assert.equal(Stream.current(device), device.defaultStream)
    const owner = bench.stream()
    new ExternalStream(owner).run(() => {
      owner.close()
      for (const use of [() => Stream.current(device).record(), () => event.record(), () => device.alloc(64)]) {
        refused(use, 'ERR_CLOSED', /closed/)
      }
    })
  })

  test('S2 using closes at the end of the block, await using once the work is done', async () => {
    let closed: Stream
    {
      using stream = bench.stream()
      closed = stream
    }
    assert.equal(closed.closed, true)
    using event = device.createEvent()
    {
      await using stream = bench.stream()
      closed = stream
      bench.busy(stream, 100_000)
      event.record(stream)
    }
    assert.equal(closed.closed, true)
    assert.equal(event.query(), true)
    await closed[Symbol.asyncDispose]()
  })

  test('S2 an unreachable stream is destroyed by the garbage collector', async () => {
    const gone = witness(device)
    const handle = (() => bench.stream().handle)()
    assert.equal(await collectUntil(() => gone.handles.has(handle)), true)
    gone.unwrap()
  })

  test('S2 an unreachable event is destroyed by the garbage collector', async () => {
    const gone = witness(device)
    const handle = (() => device.createEvent().handle)()
    assert.equal(await collectUntil(() => gone.handles.has(handle)), true)
    gone.unwrap()
  })

  test('S2 the garbage collector destroys nothing that is in use', async () => {
    const stream = bench.stream()
    using event = (() => stream.record())()
    const cached = stream.cachedEvent.handle
    assert.equal(await collected(() => stream.closed || event.closed), false)
    assert.equal(stream.cachedEvent.handle, cached)
    assert.equal(event.query(), true)
    stillWorks(bench, stream)
    stream.close()
  })
})
