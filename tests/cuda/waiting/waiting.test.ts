/** Host functions that are run before a call of another library, and while one waits: on fake semaphores. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamRecord } from '../../../src/cuda/handles/stream-records.js'
import { Lock } from '../../../src/cuda/host-functions/process-registry.js'
import { QueueDepth } from '../../../src/cuda/host-functions/queue-depth.js'
import { Semaphores } from '../../../src/cuda/host-functions/semaphores.js'
import { clock } from '../../../src/foundation/base/event-loop.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { refused, turns } from '../../conformance/expect.js'
import { anyStream, registryWith } from '../fake-parts.js'
import { nothingCaptures, waitingOf } from './waiting-parts.js'

const DEADLOCK_AFTER = 50
const EVENT = 7 as EventHandle
/** CUDA_ERROR_NOT_READY. */
const NOT_READY = 600

interface Call {
  readonly semaphore: FakeSemaphore
  readonly run: () => void
}
interface FakeSemaphore {
  calls: Call[]
  readonly context: number
}

/** One semaphore of host functions, each of which is due when it is the first. */
function fakeParts(isDue: () => boolean = () => true) {
  const semaphore: FakeSemaphore = { calls: [], context: 1 }
  const semaphores = {
    running: [] as Call[],
    get pending() {
      return semaphore.calls.length
    },
    get active() {
      return semaphore.calls.length === 0 ? [] : [semaphore]
    },
    runReady() {
      const [first] = semaphore.calls
      if (first === undefined || !isDue()) return false
      first.run()
      semaphore.calls.splice(semaphore.calls.indexOf(first), 1)
      return true
    },
  }
  const parts = {
    semaphores,
    registry: registryWith(),
    deadlockAfter: DEADLOCK_AFTER,
    spinWait: () => {},
    relaxed: { run: (fn: () => unknown) => fn() },
    library: { cuEventQuery: () => 0 },
    pool: { unrecorded: () => 0 },
    depth: { clear: () => {}, refresh: () => {}, forget: () => {} },
    dependencies: { clear: () => {} },
  }
  const { blocking, hostFunctions } = waitingOf(parts)
  const queue = (run: () => void = () => {}): void => void semaphore.calls.push({ semaphore, run })
  return { blocking, hostFunctions, semaphores, queue }
}

test('all host functions that are pending are run, and those that they queue', () => {
  const { blocking, semaphores, queue } = fakeParts()
  let ran = 0
  queue(() => {
    ran += 1
  })
  queue(() => {
    ran += 1
    queue(() => {
      ran += 1
    })
  })
  blocking.libraryCall(() => {})
  assert.equal(ran, 3)
  assert.equal(semaphores.pending, 0)
})

test('host functions that queue themselves again without end do not delay the call', () => {
  const { blocking, queue } = fakeParts()
  let ran = 0
  const again = (): void => {
    ran += 1
    queue(again)
  }
  queue(again)
  blocking.libraryCall(() => {})
  assert.ok(ran > 1)
})

test('nor do host functions that never come due', () => {
  const { blocking, semaphores, queue } = fakeParts(() => false)
  queue()
  const begin = performance.now()
  blocking.libraryCall(() => {})
  assert.ok(performance.now() - begin > DEADLOCK_AFTER)
  assert.equal(semaphores.pending, 1)
})

test('inside a host function there is nothing to wait for: it is one of those pending', () => {
  const { blocking, hostFunctions, semaphores, queue } = fakeParts()
  queue(() => {
    semaphores.running.push(...(semaphores.active[0]?.calls ?? []))
    assert.equal(hostFunctions.isInside, true)
    refused(() => blocking.libraryCall(() => {}), 'ERR_DEADLOCK', /inside a host function/)
    semaphores.running.length = 0
  })
  blocking.libraryCall(() => {})
  assert.equal(hostFunctions.isInside, false)
})

test('while a library is waited for, host functions run', () => {
  const { blocking, queue } = fakeParts()
  let ran = 0
  const again = (): void => {
    ran += 1
    if (ran < 5) queue(again)
  }
  queue(again)
  blocking.forLibrary(() => ran === 5, 'the library')
  assert.equal(ran, 5)
  const mistake = new Error('what the library ran into')
  assert.throws(
    () =>
      blocking.forLibrary(() => {
        throw mistake
      }, 'the library'),
    mistake,
  )
})

test('a blocked thread checks the semaphores eight times for each query, in its first millisecond and while any are pending', () => {
  for (const [pending, waits] of [
    [1, `${'q.'.padEnd(9, '.')}${'q.'.padEnd(9, '.')}q.q.q.q`],
    [0, 'q.q.q.q'],
  ] as const) {
    let time = 0
    let done = ''
    const parts = {
      semaphores: {
        pending,
        running: [],
        active: [],
        runReady() {
          done += '.'
          return false
        },
      },
      registry: registryWith(),
      depth: { clear: () => {}, refresh: () => {} },
      dependencies: { clear: () => {} },
      spinWait: () => {
        time += 1 / 16
      },
    }
    const { blocking } = waitingOf(parts)
    // By hand: Deno's mock of the test's context leaves its clock there.
    const { now } = clock
    clock.now = () => time
    try {
      blocking.forLibrary(() => {
        done += 'q'
        return done.length >= waits.length
      }, 'the library')
    } finally {
      clock.now = now
    }
    assert.equal(done, waits, `${pending} pending`)
  }
})

test('a stream that is closed counts no more, though only another thread has host functions pending', () => {
  const published: number[][] = []
  const registry = registryWith({
    othersPending: true,
    publishWork: (...work: number[]) => void published.push(work),
  })
  const depth = new QueueDepth({ isWaitingAt: () => false }, 32, registry)
  const parts = { semaphores: { pending: 0, running: [], active: [] }, registry, depth }
  const { hostFunctions } = waitingOf(parts)
  const stream = anyStream()
  depth.count(stream, 5)
  hostFunctions.forgetEntries(stream)
  assert.deepEqual(published, [
    [1, 5],
    [0, 0],
  ])
})

/** A call on a thread of its own, which is over when the test says so, and whether the right to make it is held. */
function fakeCallsOnThreads(pend: () => boolean, others: () => boolean = () => false) {
  const held = { exclusive: false }
  const call: { result: number | undefined } = { result: undefined }
  let rested = 0
  const parts = {
    semaphores: {
      running: [],
      active: [],
      get pending() {
        return pend() ? 1 : 0
      },
    },
    registry: registryWith({
      exclusive: new Lock(
        () => {
          held.exclusive = !others()
          return held.exclusive
        },
        () => {
          held.exclusive = false
        },
      ),
    }),
    deadlockAfter: DEADLOCK_AFTER,
    spinWait: () => {
      rested += 1
      if (rested === 3) call.result = 0
    },
  }
  const { callsOnThreads } = waitingOf(parts)
  return { callsOnThreads, held, call, rested: () => rested }
}

test('a call on a thread of its own begins when no host function is pending, and keeps new ones away until it is over', async () => {
  let pending = true
  let begun = false
  const { callsOnThreads, held, call, rested } = fakeCallsOnThreads(() => pending)
  const result = callsOnThreads.make(() => {
    begun = true
    assert.ok(held.exclusive)
    return call
  }, 10_000)
  await turns(20)
  assert.equal(begun, false)
  pending = false
  while (!begun) await turns(1)
  callsOnThreads.waitForAll()
  assert.equal(rested(), 3, 'who wants to queue a host function blocks until the call is over')
  assert.equal(await result, 0)
  assert.equal(held.exclusive, false)
})

test('it begins even while host functions stay pending: they may come after the work that it ends', async () => {
  const { callsOnThreads, held, call } = fakeCallsOnThreads(() => true)
  call.result = 7
  assert.equal(await callsOnThreads.make(() => call, 5), 7)
  assert.equal(held.exclusive, false)
})

test('a call that does not end holds up the next host function for the time of a deadlock at most', async () => {
  const { callsOnThreads } = fakeCallsOnThreads(() => false)
  const endless: { result: number | undefined } = { result: undefined }
  const result = callsOnThreads.make(() => endless, 0)
  const begun = performance.now()
  callsOnThreads.waitForAll()
  assert.ok(performance.now() - begun >= DEADLOCK_AFTER)
  endless.result = 0
  assert.equal(await result, 0)
})

test('where the old record of an event cannot be kept, a wait for it goes on, and is pending until it is over', async () => {
  let isDone = false
  const refusal = new Error('no stream is left')
  const parts = {
    semaphores: { pending: 0, running: [], active: [] },
    registry: registryWith(),
    relaxed: { run: (fn: () => unknown) => fn() },
    library: { cuEventQuery: () => (isDone ? 0 : NOT_READY) },
    pool: {
      copyOfRecord() {
        throw refusal
      },
    },
    depth: { clear: () => {}, refresh: () => {} },
    dependencies: { clear: () => {} },
    backOff: { sleep: (wake: () => void) => setImmediate(wake).unref(), cancel: () => {} },
  }
  const { hostFunctions, promises } = waitingOf(parts)
  const settled: unknown[] = []
  promises.eventFinished(EVENT, (error) => settled.push(error))
  assert.throws(() => promises.keepRecord(EVENT), refusal)
  await turns(5)
  assert.deepEqual(settled, [])
  isDone = true
  await turns(5)
  assert.deepEqual(settled, [undefined])
  assert.equal(hostFunctions.tracksOrder, false, 'nothing is pending any more')
})

test('a turn makes twelve queries after an idle turn, then four while turns follow each other directly, else one', () => {
  for (const { polls, events, isDoneAfter, expected } of [
    { polls: true, events: 1, isDoneAfter: 99, expected: [12, 4, 4] },
    // However many are waited for, the turn is no longer: but each is queried once.
    { polls: true, events: 5, isDoneAfter: 99, expected: [15, 5, 5] },
    { polls: true, events: 20, isDoneAfter: 99, expected: [20, 20, 20] },
    { polls: true, events: 1, isDoneAfter: 7, expected: [7, 0, 0] },
    { polls: true, events: 1, isDoneAfter: 14, expected: [12, 2, 0] },
    { polls: true, events: 1, isDoneAfter: 0, expected: [1, 0, 0] },
    { polls: false, events: 1, isDoneAfter: 99, expected: [1, 1, 1] },
    { polls: undefined, events: 1, isDoneAfter: 99, expected: [1, 1, 1] },
  ]) {
    let queries = 0
    const parts = {
      semaphores: { pending: 0, running: [], active: [] },
      registry: registryWith(),
      relaxed: { run: (fn: () => unknown) => fn() },
      library: {
        cuEventQuery() {
          queries += 1
          return queries >= isDoneAfter ? 0 : NOT_READY
        },
      },
      depth: { clear: () => {}, refresh: () => {} },
      dependencies: { clear: () => {} },
      backOff: { sleep: () => {}, cancel: () => {}, ...(polls === undefined ? {} : { polls }) },
    }
    const { promises } = waitingOf(parts)
    const wait = (): void => {
      for (let nth = 0; nth < events; nth += 1) promises.eventFinished((EVENT + nth) as EventHandle, () => {})
    }
    const turn = (): number => {
      const before = queries
      promises.turn()
      return queries - before
    }
    const what = `polls: ${polls}, events: ${events}, done after ${isDoneAfter}`
    wait()
    assert.deepEqual([turn(), turn(), turn()], expected, what)
    if (isDoneAfter === 99) continue
    queries = 0
    wait()
    assert.equal(turn(), expected[0], `${what}: nothing was waited for in between`)
  }
})

test('what a thread has waited for counts no more for the others, which would have no room for it', () => {
  const published: number[] = []
  const idle = new Set<number>()
  const registry = registryWith({
    hasOthers: true,
    othersPending: true,
    publishWork: (_streams: number, entries: number) => void published.push(entries),
  })
  const semaphores = { pending: 0, running: [], active: [], runReady: () => false }
  const parts = {
    semaphores,
    registry,
    depth: new QueueDepth({ isWaitingAt: () => false }, 32, registry),
    isIdle: ({ handle }: StreamRecord) => idle.has(handle),
  }
  const { hostFunctions, blocking } = waitingOf(parts)
  const [own, foreign] = [0x1000 as StreamHandle, 0x2000 as StreamHandle]
  hostFunctions.countEntries(own, 900)
  idle.add(own)
  blocking.forEvent(EVENT, () => true)
  assert.equal(published.at(-1), 0, 'an event that came after the work of a stream of its own')
  hostFunctions.countEntries(foreign, 100)
  blocking.forStream(foreign, () => true, nothingCaptures)
  assert.equal(published.at(-1), 0, 'a stream that is known to be empty only from the wait')
})

test('a device that is recorded later, since another thread captures, does not invalidate a capture of this thread', async () => {
  let [others, own, recorded] = [true, false, 0]
  const parts = {
    semaphores: { pending: 0, running: [], active: [] },
    registry: registryWith({ captures: { anyOfOthers: () => others } }),
    relaxed: { run: (fn: () => unknown) => fn() },
    library: {
      cuEventQuery: () => 0,
      cuCtxRecordEvent() {
        recorded += 1
        return 0
      },
    },
    pool: { take: () => EVENT, giveBack: () => {} },
    depth: { clear: () => {}, refresh: () => {} },
    dependencies: { clear: () => {} },
    backOff: { sleep: (wake: () => void) => setImmediate(wake).unref(), cancel: () => {} },
  }
  const { promises } = waitingOf(parts)
  const settled: unknown[] = []
  promises.contextFinished(1 as ContextHandle, { known: () => own, unknown: () => false }, (error) =>
    settled.push(error),
  )
  own = true
  others = false
  await turns(5)
  assert.equal(recorded, 0)
  own = false
  await turns(5)
  assert.deepEqual([recorded, settled], [1, [undefined]])
})

test('a call that needs a moment without host functions is ERR_DEADLOCK if they queue themselves again without end', () => {
  const { blocking, queue } = fakeParts()
  const again = (): void => queue(again)
  queue(again)
  refused(
    () => blocking.exclusively(() => assert.fail('it was called'), 'loading a module'),
    'ERR_DEADLOCK',
    /let them pause/,
  )
})

test('a host function that cannot be queued, since another thread waits for the device, is an error and takes no semaphore', () => {
  let taken = 0
  const published: number[] = []
  const memory = { take: () => (taken += 1), giveBack: () => (taken -= 1), describe: () => 0, label: () => {} }
  const registry = registryWith({
    tryAnnounce: () => false,
    publishPending: (pending: number) => published.push(pending),
  })
  const semaphores = new Semaphores({} as never, memory as never, registry, () => {
    throw new Error('that was long enough')
  })
  const host = { run: () => {}, runsAfterFault: false }
  assert.throws(() => semaphores.queue(anyStream(), 1, host), /long enough/)
  assert.deepEqual([taken, semaphores.pending], [0, 0])
})
