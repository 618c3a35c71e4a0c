/**
 * `causal`: JavaScript's waits order only what comes of them. A buffer is filled on one stream, JavaScript does something,
 * and it is copied on another, which does not wait: exploration says whether that orders the two. Where it does not, the
 * sanitizer without `causal` is silent if the fill was done by chance, and with it reports; where it does, both are silent.
 */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type Device, type DeviceBuffer, type Event, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerStatistics } from 'cuda-streams/sanitizer'
import { explore, simulate } from 'cuda-streams/sim'
import { withoutPromiseHooks } from '../../helpers/run-time.js'

const BYTES = 16

interface Scene {
  readonly device: Device
  readonly producer: Stream
  readonly other: Stream
  readonly filled: Event
  readonly data: DeviceBuffer
}
type Pass = (scene: Scene, then: () => void) => unknown

/** By the time that this is over, the work of any stream is done, and its host functions have run. */
async function aWhile(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await nextTurn()
}

async function perform(device: Device, pass: Pass): Promise<unknown> {
  const [producer, consumer, other] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
  const [data, result] = [device.alloc(BYTES), device.alloc(BYTES)]
  device.defaultStream.fill(data, 1)
  device.synchronize()
  producer.fill(data, 7)
  let copied: Promise<Uint8Array> | undefined
  const copy = (): void => {
    consumer.copy(result, data)
    copied = consumer.download(result)
  }
  await pass({ device, producer, other, filled: producer.record(), data }, copy)
  if (copied === undefined) copy()
  return copied
}

async function reported(pass: Pass, causal: boolean): Promise<readonly string[]> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using sanitizer = Sanitizer.start({ device, causal })
  await perform(device, pass)
  return sanitizer.reports.map(({ kind, first, second }) => `${kind} of ${first?.what} and ${second.what}`)
}

const log = (): void => {}

/** The fill is done by the time of the copy, by chance. */
const CHANCE: Readonly<Record<string, Pass>> = {
  'then() of a promise that is not awaited': async ({ producer }) => {
    void producer.finished().then(log)
    await aWhile()
  },
  'a promise of an event': async ({ filled }) => {
    void filled.finished().then(log, log)
    await aWhile()
  },
  'a promise of the device': async ({ device }) => {
    void device.finished().finally(log)
    await aWhile()
  },
  'an async function that is not awaited': async ({ producer }) => {
    const logged = async (): Promise<void> => {
      await producer.finished()
      log()
    }
    void logged()
    await aWhile()
  },
  'a promise of another stream, and one that is not awaited': async ({ producer, other }) => {
    void producer.finished().then(log)
    await aWhile()
    await other.finished()
  },
  'a host function': async ({ producer }) => {
    producer.launchHostFunc(log)
    await aWhile()
  },
  'a host function behind a wait, on a third stream': async ({ producer, other }) => {
    other.wait(producer)
    other.launchHostFunc(log)
    await aWhile()
  },
  'a download that is not awaited': async ({ producer, data }) => {
    producer.download(data).catch(log)
    await aWhile()
  },
  'query() that is asked once': async ({ producer }) => {
    await aWhile()
    producer.query()
  },
  'query() of an event that is asked once': async ({ filled }) => {
    await aWhile()
    filled.query()
  },
  'a race that a timer wins, and a while': async ({ producer, other }) => {
    await Promise.race([producer.finished(), other.finished()])
    await aWhile()
  },
}

/** The copy comes of the wait for the fill. */
const INTENT: Readonly<Record<string, Pass>> = {
  'synchronize()': ({ producer }) => producer.synchronize(),
  'synchronize() of an event': ({ filled }) => filled.synchronize(),
  'synchronize() of the device': ({ device }) => device.synchronize(),
  'a stream that was closed, and then the device': async ({ device, producer }) => {
    void producer.finished().then(() => producer.close())
    await aWhile()
    device.synchronize()
  },
  'await finished()': ({ producer }) => producer.finished(),
  'await finished() of an event': ({ filled }) => filled.finished(),
  'await finished() of the device': ({ device }) => device.finished(),
  'a third stream that waits, and is awaited': ({ producer, other }) => {
    other.wait(producer)
    return other.finished()
  },
  'await download()': ({ producer, data }) => producer.download(data),
  'then()': ({ producer }, then) => producer.finished().then(then),
  'then() of then()': ({ producer }, then) => producer.finished().then(log).finally(log).then(then),
  'an async function, and others around it': async ({ producer }) => {
    const inner = async (): Promise<number> => {
      await producer.finished()
      return 1
    }
    const outer = async (): Promise<number> => (await inner()) + 1
    await outer()
    await aWhile()
  },
  'a promise that is awaited later': async ({ producer }) => {
    const finished = producer.finished()
    await aWhile()
    await finished
  },
  'one promise that two await': async ({ producer }) => {
    const ready = producer.finished()
    await Promise.all([ready.then(log), aWhile()])
    await ready
  },
  'Promise.all(), whose last is another': ({ producer }) => Promise.all([producer.finished(), 5, aWhile()]),
  'Promise.all(), the other way round': ({ producer }) => Promise.all([aWhile(), producer.finished()]),
  'Promise.allSettled()': ({ producer }) => Promise.allSettled([producer.finished(), aWhile(), Promise.reject(log)]),
  'Promise.any()': ({ producer }) => Promise.any([Promise.reject(log), producer.finished()]),
  'new Promise()': ({ producer }) => new Promise((resolve) => resolve(producer.finished())),
  'a host function that settles a promise': ({ producer }) =>
    new Promise<void>((resolve) => void producer.launchHostFunc(resolve)),
  'a host function that queues': ({ producer }, then) =>
    new Promise<void>((resolve) => {
      producer.launchHostFunc(() => {
        then()
        resolve()
      })
    }),
  'a host function that waits, and the work behind it': ({ producer, other }) =>
    new Promise<void>((resolve) => {
      other.launchHostFunc(() => {
        producer.synchronize()
        resolve()
      })
    }),
  'a host function that waits, in a wait for its stream': ({ producer, other }) => {
    other.launchHostFunc(() => producer.synchronize())
    other.synchronize()
  },
  'a host function that waits, in a stream that is awaited': ({ producer, other }) => {
    other.launchHostFunc(() => producer.synchronize())
    return other.finished()
  },
  'drainHostFunctions()': ({ producer, device }) => {
    producer.launchHostFunc(log)
    device.drainHostFunctions()
  },
  'drainHostFunctions(), where the function has run before': async ({ producer, device }) => {
    producer.launchHostFunc(log)
    await aWhile()
    device.drainHostFunctions()
  },
  'drainHostFunctions(), of a third stream that waits': ({ producer, other, device }) => {
    other.wait(producer).launchHostFunc(log)
    device.drainHostFunctions()
  },
  'drainHostFunctions(), where one waits, or queues the next': ({ producer, other, device }) => {
    other.launchHostFunc(() => {
      producer.launchHostFunc(log)
    })
    device.drainHostFunctions()
  },
  'drainHostFunctions(), where one waits': ({ producer, other, device }) => {
    other.launchHostFunc(() => producer.synchronize())
    device.drainHostFunctions()
  },
  'drainHostFunctions() of a graph': ({ producer, device }) => {
    producer.launch(producer.capture(() => producer.launchHostFunc(log)).instantiate())
    device.drainHostFunctions()
  },
  'timers, ticks and tasks behind a wait': async ({ producer }, then) => {
    producer.synchronize()
    await new Promise<void>((resolve) => {
      setTimeout(() => setImmediate(() => process.nextTick(() => queueMicrotask(() => resolve(then())))), 1)
    })
  },
  'an interval, whose turns come one after the other': ({ producer }, then) =>
    new Promise<void>((resolve) => {
      let turns = 0
      const timer = setInterval(() => {
        turns += 1
        if (turns === 1) producer.synchronize()
        if (turns < 3) return
        clearInterval(timer)
        resolve(then())
      }, 1)
    }),
  'an event that a callback emits': async ({ producer }) => {
    const emitter = new EventEmitter()
    void producer.finished().then(() => emitter.emit('done'))
    await once(emitter, 'done')
  },
  'a generator': async ({ producer }) => {
    async function* items(): AsyncGenerator<number> {
      yield 1
      await producer.finished()
      yield 2
    }
    for await (const item of items()) log.call(item)
  },
  'a lock that is given on': async ({ producer }) => {
    const waiting: (() => void)[] = []
    const acquire = (): Promise<void> => new Promise((resolve) => void waiting.push(resolve))
    void producer.finished().then(() => waiting.shift()?.())
    await acquire()
  },
  'query() until it is true': async ({ producer }) => {
    while (!producer.query()) await nextTurn()
  },
  'query() of an event until it is true': async ({ filled }) => {
    while (!filled.query()) await nextTurn()
  },
  'query() behind a wait': ({ producer }) => {
    producer.synchronize()
    assert.ok(producer.query())
  },
}

/** No other order comes to something else, and yet nothing says so but a variable, or the order of the event loop. */
const UNSEEN: Readonly<Record<string, Pass>> = {
  'a flag that a host function sets': async ({ producer }) => {
    let isDone = false
    producer.launchHostFunc(() => {
      isDone = true
    })
    while (!isDone) await nextTurn()
  },
  'promises that the program counts': ({ producer, other }) =>
    new Promise<void>((resolve) => {
      let left = 2
      const over = (): void => {
        left -= 1
        if (left === 0) resolve()
      }
      void producer.finished().then(over)
      void other.finished().then(aWhile).then(over)
    }),
  'a wait in a callback of a timer': async ({ producer }) => {
    setTimeout(() => producer.synchronize(), 1)
    await sleep(10)
  },
}

const explored = (pass: Pass) =>
  explore(({ devices: [device] }) => {
    assert.ok(device)
    return perform(device, pass)
  })

const skip = withoutPromiseHooks

describe('what orders by chance', { skip }, () => {
  for (const [title, pass] of Object.entries(CHANCE)) {
    it(title, async () => {
      assert.equal((await explored(pass)).verdict, 'disagree', 'another order comes to something else')
      assert.deepEqual(await reported(pass, false), [], 'this run hides it')
      assert.deepEqual(await reported(pass, true), ['race of fill and copy'])
    })
  }
})

describe('what the program waits for', { skip }, () => {
  for (const [title, pass] of Object.entries(INTENT)) {
    it(title, async () => {
      const { verdict, message } = await explored(pass)
      assert.equal(verdict, 'agree', message)
      assert.deepEqual(await reported(pass, false), [])
      assert.deepEqual(await reported(pass, true), [])
    })
  }
})

describe('what is reported though it is right, as the page says', { skip }, () => {
  for (const [title, pass] of Object.entries(UNSEEN)) {
    it(title, async () => {
      assert.equal((await explored(pass)).verdict, 'agree')
      assert.deepEqual(await reported(pass, false), [])
      assert.deepEqual(await reported(pass, true), ['race of fill and copy'])
    })
  }
})

it('what the library asks for itself is no wait of the program, with `causal` or without', async () => {
  const uploads: Pass = async ({ producer, data, device }) => {
    const elsewhere = device.alloc(BYTES)
    producer.upload(data, new Uint8Array(BYTES))
    await aWhile()
    producer.upload(elsewhere, new Uint8Array(BYTES)) // asks whether its staging memory is free
  }
  assert.deepEqual(await reported(uploads, false), ['race of upload and copy'])
})

it('is refused where JavaScript does not tell what comes of a promise', () => {
  if (skip === false) return
  assert.throws(() => Sanitizer.start({ causal: true }), { code: 'ERR_UNSUPPORTED', message: /on Node/ })
})

it('remembers no more for more parts of a program', { skip }, async () => {
  const after = async (parts: number): Promise<SanitizerStatistics> => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device, causal: true, stacks: 'none' })
    const weights = device.alloc(BYTES)
    device.synchronize()
    const answer = async (): Promise<void> => {
      using stream = new Stream({ device })
      using result = device.alloc(BYTES, { stream })
      stream.copy(result, weights)
      await stream.finished()
    }
    for (let part = 0; part < parts; part += 4) await Promise.race(Array.from({ length: 4 }, answer))
    await device.finished()
    assert.deepEqual(sanitizer.reports, [])
    return sanitizer.statistics
  }
  const [few, many] = [await after(1000), await after(3000)]
  assert.ok(many.components <= few.components + 8 && many.components < 150, `${few.components}, ${many.components}`)
  assert.ok(many.ranges <= few.ranges + 8 && many.events <= few.events + 8, JSON.stringify([few, many]))
})

it('leaves Promise as it was', { skip }, () => {
  const { all, allSettled } = Promise
  using simulation = simulate()
  const [device] = simulation.devices
  const sanitizers = [1, 2].map(() => Sanitizer.start({ device, causal: true }))
  assert.notEqual(Promise.all, all)
  for (const sanitizer of sanitizers) sanitizer.stop()
  assert.deepEqual([Promise.all, Promise.allSettled], [all, allSettled])
})
