/** The timer that wakes the event loop after microseconds. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { BackOffTimer } from '../../../src/cuda/waiting/back-off-timer.js'
import { UsualWaits } from '../../../src/cuda/waiting/usual-waits.js'
import { monotonicTime } from '../../../src/foundation/base/event-loop.js'
import type { EventHandle } from '../../../src/foundation/driver/handle-types.js'
import { layer } from '../../../src/foundation/native/layer.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { byEffort } from '../../helpers/effort.js'
import { runsModule } from '../../helpers/run-time.js'
import { compiled, skip } from './compile.js'

const MICROSECOND = 1000
const MILLISECOND = 1_000_000
const LAYER = JSON.stringify(new URL('../../../src/foundation/native/layer.js', import.meta.url))
const WORKERS = byEffort({ quick: 16, normal: 40, nightly: 40 })
/** CUDA_ERROR_NOT_READY and CU_STREAM_CAPTURE_MODE_RELAXED. */
const NOT_READY = 600
const RELAXED = 2

const now = (): number => Number(process.hrtime.bigint())

/** A process that has a timer, and what it prints. */
function child(program: string): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  const text = `const { layer } = await import(${LAYER}); ${program}`
  return spawnSync(process.execPath, runsModule(text), { encoding: 'utf8', timeout: 60_000 })
}

if (!isMainThread) {
  if (typeof workerData === 'object') {
    const { functions, event }: { readonly functions: readonly [number, number]; readonly event: number } = workerData
    const timer = new BackOffTimer({ functions, awaited: () => ({ events: [event as EventHandle] }) })
    const again = (): void => timer.sleep(again)
    again()
  } else if (workerData === 'ends')
    layer()
      .timer(() => parentPort?.postMessage('woken'))
      .start(100 * MICROSECOND)
  else {
    // Woken all the time, so that it is terminated in the middle of it.
    const timers = [1, 2, 3].map((nth) => {
      const timer = layer().timer(() => timer.start(nth * 10 * MICROSECOND))
      timer.start(0)
      return timer
    })
    setTimeout(() => parentPort?.postMessage(timers.length), 2)
  }
} else {
  test('it wakes once, not before its time, again and again', { skip }, async () => {
    let woken = 0
    let wake: () => void = () => {}
    const timer = layer().timer(() => {
      woken += 1
      wake()
    })
    for (let sleeps = 1; sleeps <= 200; sleeps += 1) {
      const begun = now()
      await new Promise<void>((resolve) => {
        wake = resolve
        timer.start(100 * MICROSECOND)
      })
      assert.ok(now() - begun >= 100 * MICROSECOND)
      assert.equal(woken, sleeps)
    }
  })

  test('stopped, or started again, it does not wake for the sleep before', { skip }, async () => {
    const woken: number[] = []
    const [stopped, again] = [0, 1].map((which) => layer().timer(() => woken.push(which)))
    for (let round = 0; round < 100; round += 1) {
      stopped?.start(round * MICROSECOND)
      again?.start(round * MICROSECOND)
      // Time enough for a wake-up to be on its way.
      const begun = now()
      while (now() - begun < 50 * MICROSECOND);
      stopped?.stop()
      again?.start(20 * MILLISECOND)
    }
    while (woken.length === 0) await new Promise((next) => setTimeout(next, 1))
    assert.deepEqual(woken, [1])
  })

  test('it keeps the process alive while it is started, and at no other time', { skip }, () => {
    const begun = now()
    assert.equal(child('layer().timer(() => {}); console.log("made")').stdout, 'made\n')
    assert.equal(child('layer().timer(() => console.log("woken")).start(50e6)').stdout, 'woken\n')
    assert.equal(
      child('const t = layer().timer(() => {}); t.start(600e9); t.stop(); console.log("stopped")').stdout,
      'stopped\n',
    )
    assert.equal(child('layer().timer(() => {}).start(600e9); process.exit()').status, 0)
    assert.ok(now() - begun < 300_000 * MILLISECOND)
  })

  test('what the wake function throws is an uncaught exception', { skip }, () => {
    const caught = child(
      'process.on("uncaughtException", ({ message }) => console.log(message)); layer().timer(() => { throw new Error("thrown") }).start(1)',
    )
    assert.equal(caught.stdout, 'thrown\n', caught.stderr)
    const unheard = child(
      'layer().timer(() => { throw new Error("thrown") }).start(1); setTimeout(() => console.log("went on"), 30_000)',
    )
    assert.match(unheard.stderr, /thrown/)
    assert.notEqual(unheard.status, 0)
    assert.equal(unheard.stdout, '')
  })

  test('promises go on between wake-ups', { skip }, () => {
    const program = `
      const done = []
      const t = layer().timer(() => { Promise.resolve().then(() => done.push('promise')); process.nextTick(() => done.push('tick')); setImmediate(() => console.log(done.sort().join())) })
      t.start(1)`
    assert.equal(child(program).stdout, 'promise,tick\n')
  })

  test('workers end with it, and are terminated while it wakes them', { skip, timeout: 120_000 }, async () => {
    for (let nth = 0; nth < WORKERS; nth += 1) {
      const worker = new Worker(new URL(import.meta.url), { workerData: nth % 4 === 0 ? 'ends' : 'stays' })
      const ended = once(worker, 'exit')
      await once(worker, 'message')
      if (nth % 4 !== 0) await worker.terminate()
      await ended
    }
  })

  test('meanwhile its thread queries events, in the relaxed mode of captures, and it wakes when one is done', {
    skip,
  }, async () => {
    // An event is the address of the answer to its query.
    const source = `
      #include <pthread.h>
      _Atomic(long) queries, modes, mode_of_query, others;
      static _Thread_local int mode;
      static pthread_t first;
      int query(volatile int *event) { if (queries == 0) first = pthread_self(); else if (!pthread_equal(first, pthread_self())) others++; queries++; mode_of_query = mode; return *event; }
      int exchange(int *wanted) { int before = mode; mode = *wanted; *wanted = before; modes++; return 0; }`
    const library = SharedLibrary.open(compiled('queries', source))
    const number = (name: string): number => new NativeMemory(8, library.find(name)).int32[0] ?? 0
    const events = [new NativeMemory(8), new NativeMemory(8)]
    for (const { int32 } of events) int32[0] = NOT_READY
    const timer = new BackOffTimer({
      functions: [library.find('query') ?? 0, library.find('exchange') ?? 0],
      awaited: () => ({ events: events.map(({ address }) => address as EventHandle) }),
    })
    const wait = async (until: () => boolean): Promise<void> => {
      while (!until()) await new Promise<void>((resolve) => timer.sleep(resolve))
    }
    await wait(() => number('queries') > 20)
    const [, second] = events
    assert.ok(second !== undefined)
    for (const answer of [0, 700]) {
      const before = number('queries')
      await wait(() => number('queries') > before + 20)
      let isWoken = false
      timer.sleep(() => {
        isWoken = true
      })
      second.int32[0] = answer
      while (!isWoken) await new Promise((next) => setTimeout(next, 1))
      second.int32[0] = NOT_READY
    }
    assert.deepEqual([number('modes'), number('mode_of_query'), number('others')], [1, RELAXED, 0])
    // Stopped, it makes none.
    timer.sleep(() => assert.fail('it is stopped'))
    timer.cancel()
    const before = number('queries')
    await new Promise((next) => setTimeout(next, 20))
    assert.equal(number('queries'), before)
  })

  /** A library whose query of an event that is BLOCKED returns only once the event is something else. */
  const BLOCKED = 1234
  const blocking = `
    #include <unistd.h>
    _Atomic(long) inside, inside_event;
    int query(volatile int *event) {
      inside_event = (long)event; inside++;
      if (*event == ${BLOCKED}) while (*event == ${BLOCKED}) usleep(100); else usleep(200);
      inside--; inside_event = 0;
      return *event;
    }
    int exchange(int *mode) { (void)mode; return 0; }`
  interface BlockingQueries {
    readonly functions: readonly [number, number]
    readonly inside: () => number
    /** The event whose query is under way; 0 when none is. */
    readonly insideEvent: () => number
  }
  function blockingQueries(): BlockingQueries {
    const library = SharedLibrary.open(compiled('blocking', blocking))
    const number = (name: string): number => new NativeMemory(8, library.find(name)).pointerAt(0)
    return {
      functions: [library.find('query') ?? 0, library.find('exchange') ?? 0],
      inside: () => number('inside'),
      insideEvent: () => number('inside_event'),
    }
  }
  function eventThatIs(answer: number): NativeMemory {
    const event = new NativeMemory(8)
    event.int32[0] = answer
    return event
  }
  /** A timer that sleeps until its event is done. */
  function awaiting(
    { functions }: BlockingQueries,
    event: NativeMemory,
  ): { readonly timer: BackOffTimer; done: boolean } {
    const timer = new BackOffTimer({ functions, awaited: () => ({ events: [event.address as EventHandle] }) })
    const waiting = { timer, done: false }
    const again = (): void => {
      if (event.int32[0] === 0) waiting.done = true
      else timer.sleep(again)
    }
    again()
    return waiting
  }
  const turn = (): Promise<void> => new Promise((next) => setTimeout(next, 1))

  test('a query that does not return stops no other timer', { skip, timeout: 60_000 }, async () => {
    const queries = blockingQueries()
    const [stuck, other] = [eventThatIs(BLOCKED), eventThatIs(NOT_READY)]
    const first = awaiting(queries, stuck)
    while (queries.inside() === 0) await turn()
    const second = awaiting(queries, other)
    while (queries.inside() < 2) await turn()
    other.int32[0] = 0
    while (!second.done) await turn()
    second.timer.cancel()
    assert.ok(!first.done)
    stuck.int32[0] = 0
    while (!first.done) await turn()
    first.timer.cancel()
  })

  test('a worker is terminated while its query does not return', { skip, timeout: 60_000 }, async () => {
    const queries = blockingQueries()
    const stuck = eventThatIs(BLOCKED)
    const { functions } = queries
    const worker = new Worker(new URL(import.meta.url), { workerData: { functions, event: stuck.address } })
    while (queries.inside() === 0) await turn()
    await worker.terminate()
    assert.equal(queries.inside(), 1)
    stuck.int32[0] = 0
    while (queries.inside() > 0) await turn()
  })

  test('a process ends while a query does not return', { skip }, () => {
    const queries = JSON.stringify(compiled('stuck', blocking))
    const urlOf = (path: string): string => JSON.stringify(new URL(`../../../src/${path}.js`, import.meta.url))
    const program = `
      const { SharedLibrary } = await import(${urlOf('foundation/native/shared-library')})
      const { NativeMemory } = await import(${urlOf('foundation/native/native-memory')})
      const { BackOffTimer } = await import(${urlOf('cuda/waiting/back-off-timer')})
      const library = SharedLibrary.open(${queries})
      const event = new NativeMemory(8)
      event.int32[0] = ${BLOCKED}
      const timer = new BackOffTimer({ functions: [library.find('query'), library.find('exchange')], awaited: () => ({ events: [event.address] }) })
      const again = () => timer.sleep(again)
      again()
      const inside = new NativeMemory(8, library.find('inside'))
      const check = () => inside.pointerAt(0) > 0 ? (console.log('inside'), process.exit()) : setTimeout(check, 1)
      check()`
    const { status, stdout, stderr } = child(program)
    assert.deepEqual([status, stdout], [0, 'inside\n'], stderr)
  })

  test('once it is stopped or started again no query of before is under way', { skip }, async () => {
    const queries = blockingQueries()
    const events = [0, 1].map(() => eventThatIs(NOT_READY))
    let current = 0
    const address = (nth: number): number => events[nth]?.address ?? 0
    const timer = new BackOffTimer({
      functions: queries.functions,
      awaited: () => ({ events: [address(current) as EventHandle] }),
    })
    const again = (): void => timer.sleep(again)
    for (let round = 0; round < 100; round += 1) {
      again()
      while (queries.insideEvent() !== address(current)) await turn()
      if (round % 2 === 0) {
        timer.cancel()
        assert.equal(queries.insideEvent(), 0)
      } else {
        current = 1 - current
        timer.sleep(again)
        assert.notEqual(queries.insideEvent(), address(1 - current))
      }
    }
    timer.cancel()
  })

  test('an event is queried often around the time that the waits before it took, and seldom before then', {
    skip: skip || (process.platform === 'win32' && 'no sleep of Windows is that short'),
    timeout: 60_000,
  }, async () => {
    // The event is done so many nanoseconds after its first query. The queries of the last tenth are counted, and those before.
    const source = `
      #include <time.h>
      long long begin, duration; _Atomic(long long) early, late, done;
      static long long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
      int query(void *event) {
        (void)event; if (begin == 0) begin = now();
        long long waited = now() - begin;
        if (waited >= duration) done = 1;
        else if (waited > duration * 9 / 10) late++;
        else early++;
        return waited < duration ? 600 : 0;
      }
      int exchange(int *mode) { (void)mode; return 0; }`
    const library = SharedLibrary.open(compiled('expected', source))
    const word = (name: string): NativeMemory => new NativeMemory(8, library.find(name))
    const [begin, duration, early, late, done] = [
      word('begin'),
      word('duration'),
      word('early'),
      word('late'),
      word('done'),
    ]
    const usual = new UsualWaits()
    let begun = 0
    const timer = new BackOffTimer(
      {
        functions: [library.find('query') ?? 0, library.find('exchange') ?? 0],
        awaited: () => ({ events: [begin.address as EventHandle], begun }),
      },
      usual,
    )
    const waitFor = async (milliseconds: number): Promise<{ readonly early: number; readonly late: number }> => {
      duration.setPointer(0, milliseconds * MILLISECOND)
      for (const each of [begin, early, late, done]) each.setPointer(0, 0)
      begun = monotonicTime()
      // The clock of another run time may begin with its process.
      while (done.pointerAt(0) === 0) await new Promise<void>((resolve) => timer.sleep(resolve))
      timer.cancel()
      usual.ended(milliseconds)
      return { early: early.pointerAt(0), late: late.pointerAt(0) }
    }
    const SELDOM = 12
    // On a busy machine the thread may sleep longer than it asks for.
    for (let milliseconds = 50; (await waitFor(milliseconds)).early <= 3 * SELDOM; milliseconds = 150 - milliseconds);
    for (const milliseconds of [50, 100]) {
      for (let nth = 0; nth < 2; nth += 1) await waitFor(milliseconds)
      for (let often = false; !often; ) {
        const queries = await waitFor(milliseconds)
        assert.ok(queries.early <= SELDOM, `${queries.early} queries before the end was expected`)
        often = queries.late > SELDOM
      }
    }
  })

  test('a process is ended by a signal while it sleeps', { skip }, async () => {
    const text = `const { layer } = await import(${LAYER}); layer().timer(() => {}).start(600e9); console.log('up')`
    const sleeping = spawn(process.execPath, runsModule(text), { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(sleeping, 'exit')
    await once(sleeping.stdout, 'data')
    sleeping.kill('SIGTERM')
    assert.deepEqual(await ended, [null, 'SIGTERM'])
  })
}
