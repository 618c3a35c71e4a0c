/** What may hang a process that waits for a GPU. Each case runs in a process of its own, which a timer outside ends. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { Stream } from 'cuda-streams'
import type { Workbench } from '../helpers/workbench.js'
import { LOAD_EACH, LOAD_STREAMS, loadStreams, queueLoad } from './load.js'

export type Case = (bench: Workbench) => Promise<void>

const MIB = 2 ** 20
const MICROSECOND = 1_000
const range = (length: number): number[] => Array.from({ length }, (_, index) => index)

/** The code of what the function throws; undefined if it returns. */
function codeOf(fn: () => void): string | undefined {
  try {
    fn()
    return undefined
  } catch (error) {
    if (error instanceof Error && 'code' in error) return String(error.code)
    throw error
  }
}

/** Resolves with the next exception that nobody caught. */
function nextUncaught(): Promise<unknown> {
  return new Promise((resolve) => process.once('uncaughtException', resolve))
}

/** Queues a hundred host functions with work between them. */
function queueHundred(bench: Workbench, stream: Stream): number[] {
  const ran: number[] = []
  for (const index of range(100)) {
    bench.busy(stream, MICROSECOND)
    stream.launchHostFunc((value) => ran.push(value), index)
  }
  return ran
}

const synchronizeStream: Case = async (bench) => {
  const stream = bench.stream()
  const ran = queueHundred(bench, stream)
  stream.synchronize()
  assert.deepEqual(ran, range(100))
  assert.equal(stream.query(), true)
}

const synchronizeEvent: Case = async (bench) => {
  const stream = bench.stream()
  const ran = queueHundred(bench, stream)
  const event = stream.record()
  const after = queueHundred(bench, stream)
  event.synchronize()
  assert.deepEqual(ran, range(100))
  assert.equal(event.query(), true)
  await stream.finished()
  assert.deepEqual(after, range(100))
}

const synchronizeDevice: Case = async (bench) => {
  const streams = range(4).map(() => bench.stream())
  const lists = streams.map((stream) => queueHundred(bench, stream))
  bench.device.synchronize()
  for (const ran of lists) assert.deepEqual(ran, range(100))
}

/** Waiting for a stream that has no host functions, while others have. */
const synchronizeAnother: Case = async (bench) => {
  const [first, second] = [bench.stream(), bench.stream()]
  const ran = queueHundred(bench, first)
  bench.busy(second, MICROSECOND)
  second.synchronize()
  second.wait(first)
  second.synchronize()
  assert.deepEqual(ran, range(100))
}

const launchesBehindHostFunction: Case = async (bench) => {
  const stream = bench.stream()
  let ran = 0
  stream.launchHostFunc(() => {
    ran += 1
  })
  for (let launched = 0; launched < 5000; launched += 1) bench.busy(stream, MICROSECOND)
  const before = stream.record()
  await stream.finished()
  assert.equal(ran, 1)
  assert.equal(before.query(), true)
  assert.equal(stream.query(), true)
}

const hostFunctionsBehindHostFunction: Case = async (bench) => {
  const stream = bench.stream()
  const ran: number[] = []
  for (const index of range(5000)) stream.launchHostFunc(() => ran.push(index))
  await stream.finished()
  assert.deepEqual(ran, range(5000))
}

const manyStandingStreams: Case = async (bench) => {
  const streams = range(200).map(() => bench.stream())
  const ran = new Set<number>()
  streams.forEach((stream, index) => {
    bench.busy(stream, MICROSECOND)
    stream.launchHostFunc(() => ran.add(index))
    bench.busy(stream, MICROSECOND)
  })
  streams.at(-1)?.synchronize()
  assert.ok(ran.has(199))
  await Promise.all(streams.map((stream) => stream.finished()))
  assert.equal(ran.size, 200)
  for (const stream of streams) assert.equal(stream.query(), true)
}

const waitsForAnother: Case = async (bench) => {
  const [stream, other] = [bench.stream(), bench.stream()]
  const seen: string[] = []
  stream.launchHostFunc(() => {
    bench.busy(other, MICROSECOND)
    other.launchHostFunc(() => seen.push('inner'))
    const event = other.record()
    event.synchronize()
    other.synchronize()
    seen.push(`outer, ${other.query()}`)
    // What it queues on its own stream comes after it, and after what is queued there already.
    stream.launchHostFunc(() => seen.push('later'))
  })
  stream.launchHostFunc(() => seen.push('next'))
  stream.synchronize()
  // What was queued while it waited need not be done yet.
  stream.synchronize()
  assert.deepEqual(seen, ['inner', 'outer, true', 'next', 'later'])
}

const waitsForItself: Case = async (bench) => {
  const [stream, follower] = [bench.stream(), bench.stream()]
  const codes: (string | undefined)[] = []
  const behind = bench.device.createEvent()
  stream.launchHostFunc(() => {
    codes.push(codeOf(() => stream.synchronize()))
    codes.push(codeOf(() => bench.device.synchronize()))
    codes.push(codeOf(() => behind.synchronize()))
    codes.push(codeOf(() => follower.synchronize()))
  })
  stream.record(behind)
  follower.wait(behind)
  stream.synchronize()
  assert.deepEqual(codes, Array(4).fill('ERR_DEADLOCK'))
  follower.synchronize()
  assert.equal(stream.query(), true)
}

const waitForEachOther: Case = async (bench) => {
  const [first, second] = [bench.stream(), bench.stream()]
  const codes: (string | undefined)[] = []
  first.launchHostFunc(() => codes.push(codeOf(() => second.synchronize())))
  second.launchHostFunc(() => codes.push(codeOf(() => first.synchronize())))
  first.synchronize()
  second.synchronize()
  // One of them runs inside of the other's wait, and is refused its own; then the other's ends.
  assert.deepEqual(codes, ['ERR_DEADLOCK', undefined])
  assert.ok(first.query() && second.query())
}

const fillsItsOwnQueue: Case = async (bench) => {
  const stream = bench.stream()
  let code: string | undefined
  let after = 0
  stream.launchHostFunc(() => {
    code = codeOf(() => {
      for (let launched = 0; launched < 2000; launched += 1) bench.busy(stream, MICROSECOND)
    })
  })
  stream.synchronize()
  assert.equal(code, 'ERR_DEADLOCK')
  stream.launchHostFunc(() => {
    after += 1
  })
  await stream.finished()
  assert.equal(after, 1)
}

const throws: Case = async (bench) => {
  const stream = bench.stream()
  const uncaught = nextUncaught()
  const mistake = new Error('thrown by a host function')
  const seen: string[] = []
  stream.launchHostFunc(() => {
    throw mistake
  })
  stream.launchHostFunc(() => seen.push('next'))
  stream.synchronize()
  assert.deepEqual(seen, ['next'])
  assert.equal(await uncaught, mistake)
  const again = nextUncaught()
  stream.addCallback(() => {
    throw mistake
  }, undefined)
  await stream.finished()
  assert.equal(await again, mistake)
  assert.equal(stream.query(), true)
}

/** One that queues itself each time must not hold up the event loop. */
const queuesItself: Case = async (bench) => {
  const stream = bench.stream()
  let ran = 0
  let stop = false
  const again = (): void => {
    ran += 1
    if (!stop) stream.launchHostFunc(again)
  }
  stream.launchHostFunc(again)
  while (ran < 100) await turn()
  stop = true
  await stream.finished()
  await stream.finished()
  assert.equal(stream.query(), true)
}

function threads(): number {
  return process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0
}

function collect(): NodeJS.MemoryUsage {
  globalThis.gc?.()
  return process.memoryUsage()
}

const bounded: Case = async (bench) => {
  const streams = loadStreams(bench)
  // The first round pays for what is made once: pools, pinned memory, the machinery of promises.
  await round(bench, streams, 256 * MIB)
  const threadsBefore = threads()
  const settled: number[] = []
  for (let rounds = 0; rounds < 3; rounds += 1) {
    const threadsDuring = await round(bench, streams, 128 * MIB)
    assert.ok(threadsDuring <= threadsBefore + 8, `${threadsBefore} threads before, ${threadsDuring} while all waited`)
    await sleep(10)
    settled.push(collect().heapUsed)
  }
  const [first = 0, , last = 0] = settled
  const growth = last - first
  assert.ok(growth < 4 * MIB, `two more rounds left ${Math.round(growth / 1024)} KiB behind`)
  for (const stream of streams) stream.close()
}

/** Has the whole load wait behind latches, and then complete. Returns how many threads there were meanwhile. */
async function round(bench: Workbench, streams: readonly Stream[], mostMemory: number): Promise<number> {
  const before = collect()
  const latches = streams.map((stream) => bench.latch(stream))
  const { promises, ran } = queueLoad(streams)
  let settled = 0
  for (const promise of promises) {
    promise.then(() => {
      settled += 1
    })
  }
  await sleep(100)
  assert.equal(settled, 0)
  assert.equal(ran(), 0)
  const during = process.memoryUsage()
  const threadsDuring = threads()
  for (const latch of latches) latch.open()
  await Promise.all(promises)
  assert.equal(ran(), LOAD_EACH)
  const grown = during.rss - before.rss
  const each = Math.round(grown / (2 * LOAD_EACH))
  assert.ok(grown < mostMemory, `${LOAD_EACH} waits and as many host functions took ${each} bytes each`)
  console.log(`memory while all waited: ${Math.round(grown / 1024)} KiB, threads: ${threadsDuring}`)
  return threadsDuring
}

/** Blocking waits with the load queued, instead of the event loop. */
const loadSynchronized: Case = async (bench) => {
  const { streams, promises, ran } = queueLoad(loadStreams(bench))
  bench.device.synchronize()
  assert.equal(ran(), LOAD_EACH)
  for (const stream of streams) assert.equal(stream.query(), true)
  await Promise.all(promises)
}

/** What it waits for does not come after it, so only the time tells: on the simulator, that nothing runs any more. */
const waitsForWhatNeverComes: Case = async (bench) => {
  const [stream, stuck] = [bench.stream(), bench.stream()]
  const latch = bench.latch(stuck)
  let error: unknown
  stream.launchHostFunc(() => {
    try {
      stuck.synchronize()
    } catch (caught) {
      error = caught
    }
  })
  stream.synchronize()
  assert.equal((error as { code?: unknown }).code, 'ERR_DEADLOCK')
  assert.match(String(error), /await finished\(\) instead/)
  latch.open()
  await stuck.finished()
}

export const cases = {
  'stream.synchronize() with host functions queued': synchronizeStream,
  'event.synchronize() with host functions queued': synchronizeEvent,
  'device.synchronize() with host functions queued': synchronizeDevice,
  'synchronize() of another stream with host functions queued': synchronizeAnother,
  'five thousand launches behind a host function': launchesBehindHostFunction,
  'five thousand host functions on one stream': hostFunctionsBehindHostFunction,
  'two hundred streams each standing at a host function': manyStandingStreams,
  'a host function that queues work and waits for another stream': waitsForAnother,
  'a host function that waits for what never comes': waitsForWhatNeverComes,
  'a host function that waits for its own stream': waitsForItself,
  'two host functions that wait for each other': waitForEachOther,
  'a host function that fills its own queue': fillsItsOwnQueue,
  'a host function that throws': throws,
  'a host function that queues itself': queuesItself,
  [`${LOAD_EACH} finished() and host functions on ${LOAD_STREAMS} streams: memory and threads`]: bounded,
  [`${LOAD_EACH} finished() and host functions on ${LOAD_STREAMS} streams: device.synchronize()`]: loadSynchronized,
} satisfies Record<string, Case>
