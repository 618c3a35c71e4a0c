/** Ways in which a program lets time pass without naming work of the GPU, and what exploration says of each. */
import assert from 'node:assert/strict'
import { randomBytes, scrypt, scryptSync, subtle } from 'node:crypto'
import { EventEmitter, on, once } from 'node:events'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { after, describe, it } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import { type Device, Stream } from 'cuda-streams'
import { type Exploration, type ExploredProgram, explore, latch, replay } from 'cuda-streams/sim'

const FILE = fileURLToPath(import.meta.url)

interface Scene {
  readonly device: Device
  readonly producer: Stream
  readonly consumer: Stream
}

/** A buffer is filled on one stream, time passes, and it is copied on another, which does not wait. */
const between =
  (pass: (scene: Scene) => unknown): ExploredProgram =>
  async ({ devices: [device] }) => {
    assert.ok(device)
    const [producer, consumer] = [new Stream({ device }), new Stream({ device })]
    const [data, result] = [device.alloc(16), device.alloc(16)]
    producer.fill(data, 7)
    await pass({ device, producer, consumer })
    consumer.copy(result, data)
    return await consumer.download(result)
  }

async function* items(): AsyncGenerator<number> {
  yield 1
  await nextTurn()
  yield 2
}

/** What was done by the time is a choice, so that the missing wait is found. */
const CHOICES: Readonly<Record<string, (scene: Scene) => unknown>> = {
  nothing: () => undefined,
  'await of a value': async () => await null,
  'process.nextTick()': () => new Promise<void>((resolve) => process.nextTick(resolve)),
  'a promise that the program resolves': () => new Promise<void>((resolve) => queueMicrotask(resolve)),
  'setImmediate()': () => new Promise((resolve) => setImmediate(resolve)),
  'five turns, one after the other': async () => {
    for (let nth = 0; nth < 5; nth += 1) await nextTurn()
  },
  'setTimeout() of 0': () => new Promise<void>((resolve) => void setTimeout(resolve, 0)),
  'setTimeout() of 10': () => sleep(10),
  'setInterval()': () =>
    new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        clearInterval(timer)
        resolve()
      }, 1)
    }),
  'fs promises': () => readFile(FILE),
  'randomBytes(), at once': () => randomBytes(8),
  'randomBytes() with a callback': () => new Promise((resolve) => randomBytes(8, resolve)),
  'scryptSync()': () => scryptSync('a', 'b', 8),
  'scrypt()': () => new Promise((resolve) => scrypt('a', 'b', 8, resolve)),
  'subtle.digest()': () => subtle.digest('SHA-256', new Uint8Array(8)),
  'for await of a file': async () => {
    for await (const _ of createReadStream(FILE));
  },
  'for await of a generator': async () => {
    for await (const _ of items());
  },
  'for await of events': async () => {
    const emitter = new EventEmitter()
    setImmediate(() => emitter.emit('event'))
    for await (const _ of on(emitter, 'event')) break
  },
  'Promise.race() of finished() and a timer': ({ producer }) => Promise.race([producer.finished(), sleep(2)]),
  'query() that is asked once': ({ producer }) => producer.query(),
  'query() of the wrong stream, in a loop': async ({ consumer }) => {
    while (!consumer.query()) await nextTurn()
  },
}

/** They order the two, and every order that could matter is run. */
const WAITS: Readonly<Record<string, (scene: Scene) => unknown>> = {
  'finished()': ({ producer }) => producer.finished(),
  'a turn, then finished()': async ({ producer }) => {
    const finished = producer.finished()
    await nextTurn()
    await finished
  },
  'a turn after synchronize()': async ({ producer }) => {
    producer.synchronize()
    await nextTurn()
  },
  'a host function that resolves': ({ producer }) =>
    new Promise<void>((resolve) => void producer.launchHostFunc(resolve)),
  'a timer that is cleared before it comes': async ({ producer }) => {
    clearTimeout(setTimeout(() => assert.fail(), 100))
    await producer.finished()
  },
}

/** What cannot be tried in every order is said: the pattern is the reason. */
const INCOMPLETE: readonly (readonly [string, RegExp, (scene: Scene) => unknown])[] = [
  [
    'query() in a loop',
    /^the program queries again and again, at .*turns\.test/,
    ({ producer }) => {
      while (!producer.query());
    },
  ],
  [
    'query() in a loop of turns',
    /^the program queries again and again/,
    async ({ producer }) => {
      while (!producer.query()) await nextTurn()
    },
  ],
  [
    'a flag in a loop of turns',
    /^the program has the event loop turn again and again/,
    async ({ producer }) => {
      let isDone = false
      void producer.finished().then(() => {
        isDone = true
      })
      while (!isDone) await nextTurn()
    },
  ],
  [
    'a message of a channel',
    /^the program goes on by what explore\(\) cannot see or hold back, at .*turns\.test/,
    async ({ producer }) => {
      producer.synchronize()
      const { port1, port2 } = new MessageChannel()
      port2.postMessage(1)
      await once(port1, 'message')
      port1.close()
    },
  ],
  [
    'a message of a worker',
    /^the program goes on by what explore\(\) cannot see or hold back/,
    async () => {
      const worker = new Worker("require('node:worker_threads').parentPort.postMessage(1)", { eval: true })
      await once(worker, 'message')
    },
  ],
  [
    'two turns at one time',
    /^several turns of the event loop come at once/,
    ({ producer }) => Promise.all([nextTurn(), nextTurn(), producer.finished()]),
  ],
  [
    'a timer that looks for mishaps',
    /^a timer of 20000 ms is taken to come after all else, at .*turns\.test/,
    async ({ producer }) => {
      const watchdog = setTimeout(() => assert.fail(), 20_000)
      await producer.finished()
      clearTimeout(watchdog)
    },
  ],
]

describe('between two uses', { timeout: 60_000 }, () => {
  for (const [what, pass] of Object.entries(CHOICES)) {
    it(`the GPU may have done anything or nothing: ${what}`, async () => {
      const program = between(pass)
      const { verdict, message, disagreement } = await explore(program)
      assert.equal(verdict, 'disagree', message)
      assert.match(disagreement?.missing ?? '', /stream2\.wait\(stream1\)/)
      const again = await replay(program, disagreement?.second.schedule ?? '')
      assert.deepEqual(again.outcome, disagreement?.second.outcome)
    })
  }

  for (const [what, pass] of Object.entries(CHOICES)) {
    it(`not every order was run, whatever the run time tells of turns: ${what}`, async () => {
      const { complete, message } = await explore(between(pass))
      assert.equal(complete, false, message)
    })
  }

  for (const [what, pass] of Object.entries(WAITS)) {
    it(`the program waits, and all orders are run: ${what}`, async () => {
      const { verdict, complete, incomplete, message } = await explore(between(pass))
      assert.deepEqual(
        { verdict, complete, incomplete },
        { verdict: 'agree', complete: true, incomplete: undefined },
        message,
      )
    })
  }

  for (const [what, why, pass] of INCOMPLETE) {
    it(`is said not to be complete, and why: ${what}`, async () => {
      const { verdict, complete, incomplete = '', message } = await explore(between(pass))
      assert.deepEqual({ verdict, complete }, { verdict: 'agree', complete: false }, message)
      assert.match(incomplete, why)
      assert.ok(message.includes(incomplete))
    })
  }
})

const withStream =
  (wait: (stream: Stream, device: Device) => unknown): ExploredProgram =>
  async ({ devices: [device] }) => {
    assert.ok(device)
    await wait(new Stream({ device }), device)
  }

let isOver = false
after(() => {
  isOver = true
})

/** No limit in time: each of them ends by itself. */
const ENDLESS: Readonly<Record<string, ExploredProgram>> = {
  'a promise that nothing resolves': () => new Promise<void>(() => {}),
  'a wake-up that is lost under some orders': async ({ devices: [device] }) => {
    assert.ok(device)
    const [first, second] = [new Stream({ device }), new Stream({ device })]
    let isReady = false
    let wake: (() => void) | undefined
    first.launchHostFunc(() => {
      isReady = true
      wake?.()
    })
    await second.finished()
    if (isReady) return
    await nextTurn()
    await new Promise<void>((resolve) => {
      wake = resolve
    })
  },
  'query() behind a latch, in turns': withStream(async (stream) => {
    latch(stream)
    while (!stream.query()) await nextTurn()
  }),
  'query() behind a latch, without turns': withStream((stream) => {
    latch(stream)
    while (!stream.query());
  }),
  'query() of two streams in turn': withStream((stream, device) => {
    const streams = [stream, new Stream({ device })]
    for (const each of streams) latch(each)
    for (let nth = 0; !streams[nth % 2]?.query(); nth += 1);
  }),
  'query() behind a host function, without turns': withStream((stream) => {
    stream.launchHostFunc(() => {})
    while (!stream.query());
  }),
  'pinned memory that is looked at again and again': withStream((stream, device) => {
    const pinned = device.allocPinned(1)
    latch(stream)
    stream.fill(pinned, 1)
    while (pinned.bytes[0] !== 1);
  }),
  'turns without end': async () => {
    // Nothing can end it, neither after the verdict.
    while (!isOver) await nextTurn()
  },
}

const summary = ({ verdict, complete }: Exploration): unknown => ({ verdict, complete })

describe('what cannot come', { timeout: 60_000 }, () => {
  for (const [what, program] of Object.entries(ENDLESS)) {
    it(`is a deadlock, without a limit in time: ${what}`, async () => {
      const exploration = await explore(program)
      assert.deepEqual(summary(exploration), { verdict: 'deadlock', complete: false }, exploration.message)
      assert.equal((await replay(program, exploration.deadlock?.schedule ?? '')).outcome.kind, 'deadlock')
    })
  }

  it('is none: a promise from outside, before which the thread stood still', async () => {
    const outside = new Promise<void>((resolve) => {
      setTimeout(() => {
        for (const until = Date.now() + 100; Date.now() < until; );
        setTimeout(resolve, 1)
      }, 20)
    })
    assert.equal((await explore(() => outside)).verdict, 'agree')
  })

  it('is none: pinned memory that is closed and was not used', async () => {
    const closes = withStream((_stream, device) => device.allocPinned(16).close())
    assert.equal((await explore(closes)).verdict, 'agree')
  })

  it('is none: what looks a thousand times, each time at something else that stands', async () => {
    const looks = withStream(async (stream) => {
      const held = latch(stream)
      const events = Array.from({ length: 1100 }, () => stream.record())
      assert.equal(events.filter((event) => event.query()).length, 0)
      held.open()
      await stream.finished()
    })
    assert.equal((await explore(looks, { maxRuns: 1 })).verdict, 'agree')
  })
})

describe('a limit in time', { timeout: 60_000 }, () => {
  for (const [what, work] of Object.entries({
    'queuing work': (stream: Stream) => stream.launchHostFunc(() => {}),
    allocating: ({ device }: Stream) => device.alloc(4).close(),
  })) {
    it(`ends a program that never returns to the event loop, in its calls: ${what}`, async () => {
      const spins = withStream((stream) => {
        for (;;) work(stream)
      })
      const exploration = await explore(spins, { maxMilliseconds: 10 })
      assert.deepEqual(summary(exploration), { verdict: 'unfinished', complete: false })
    })
  }
})
