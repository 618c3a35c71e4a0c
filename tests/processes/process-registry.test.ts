/** What the threads of a process tell each other of their host functions. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { openProcessRegistry } from '../../src/cuda/host-functions/process-registry.js'
import type { StreamHandle } from '../../src/foundation/driver/handle-types.js'
import type { Question, Reply } from './children/process-registry.js'

const skip = process.platform === 'linux' ? false : 'threads share memory on Linux only'

class OtherThread {
  readonly worker = new Worker(new URL('./children/process-registry.js', import.meta.url))

  async ask(question: Question): Promise<Reply> {
    this.worker.postMessage(question)
    const [reply] = (await once(this.worker, 'message')) as [Reply]
    return reply
  }
}

test('a thread sees what others have pending, and no longer once they have ended', { skip }, async () => {
  const own = openProcessRegistry()
  const [one, other] = [new OtherThread(), new OtherThread()]
  assert.deepEqual(await one.ask({ publish: 2 }), { othersPending: false, entered: true })
  assert.equal(own.othersPending, true)
  assert.equal((await other.ask({ publish: 0 })).othersPending, true)
  assert.equal((await one.ask({ publish: 0 })).othersPending, false)
  assert.equal(own.othersPending, false)
  await one.ask({ publish: 1 })
  assert.equal(own.othersPending, true)
  await one.worker.terminate()
  assert.equal(own.othersPending, false, 'a thread that was terminated has none')
  await other.worker.terminate()
})

test('a call that waits for the device is made while none is pending, and keeps new ones away', { skip }, async () => {
  const own = openProcessRegistry()
  const other = new OtherThread()
  await other.ask({ publish: 1 })
  assert.equal(own.exclusive.tryTake(), false)
  await other.ask({ publish: 0 })
  assert.equal(own.exclusive.tryTake(), true)
  assert.deepEqual(await other.ask({ publish: 1 }), { othersPending: false, entered: false })
  assert.deepEqual(await other.ask('exclusive'), { othersPending: false, entered: false })
  assert.equal(own.tryAnnounce(1), true, 'the thread itself may')
  own.publishPending(0)
  own.exclusive.release()
  assert.equal((await other.ask({ publish: 1 })).entered, true)
  await other.ask({ publish: 0 })

  assert.equal((await other.ask('exclusive')).entered, true)
  assert.equal(own.tryAnnounce(1), false)
  await other.worker.terminate()
  assert.equal(own.tryAnnounce(1), true, 'a thread that was terminated inside of its call keeps nobody away')
  own.publishPending(0)
  assert.equal(own.exclusive.tryTake(), true)
  own.exclusive.release()
})

test('a thread that gets the slot of one that was terminated leaves no lock to it', { skip }, async () => {
  const own = openProcessRegistry()
  const other = new OtherThread()
  assert.equal((await other.ask('exclusive')).entered, true)
  await other.worker.terminate()
  const next = new OtherThread()
  await next.ask({ publish: 0 })
  assert.equal(own.exclusive.tryTake(), true, 'it has no lock')
  own.exclusive.release()
  await next.worker.terminate()
})

test('streams that one thread keeps another takes, each once', { skip }, async () => {
  const own = openProcessRegistry()
  const other = new OtherThread()
  await other.ask({ keep: 4096 })
  await other.worker.terminate()
  assert.equal(own.spareStreams.count(0), 1)
  assert.equal(own.spareStreams.take(0), 4096)
  assert.equal(own.spareStreams.take(0), undefined)
})

test('a capture is listed until a thread ends it, whichever', { skip }, async () => {
  const { captures } = openProcessRegistry()
  const other = new OtherThread()
  const [made, wrapped, perThread] = [0x5000, 0x6000, 2] as [StreamHandle, StreamHandle, StreamHandle]
  const isUnderWay = (): boolean => false
  captures.add(made, true)
  assert.equal(captures.anyOfOthers(isUnderWay), false, 'its own')
  captures.remove(made)
  for (const begin of [made, wrapped, perThread]) await other.ask({ begin, isMadeHere: begin === made })
  assert.deepEqual(
    [made, wrapped, perThread].map((stream) => captures.has(stream)),
    [true, true, false],
  )
  assert.equal(captures.anyOfOthers(isUnderWay), true)
  captures.remove(made)
  await other.ask({ end: wrapped })
  assert.equal(captures.anyOfOthers(isUnderWay), true, 'the default stream of the other thread')
  captures.remove(perThread)
  assert.equal(captures.anyOfOthers(isUnderWay), true, 'this thread has another')
  await other.ask({ end: perThread })
  assert.equal(captures.anyOfOthers(isUnderWay), false)
  await other.worker.terminate()
})

test('a capture that is over counts no more, and one of a thread that has ended is told of once', {
  skip,
}, async () => {
  const { captures } = openProcessRegistry()
  const other = new OtherThread()
  const [over, made, wrapped] = [0x5000, 0x6000, 0x7000] as [StreamHandle, StreamHandle, StreamHandle]
  for (const begin of [over, made, wrapped]) await other.ask({ begin, isMadeHere: begin !== wrapped })
  const asked: unknown[] = []
  const ask = (answer: (hasEnded: boolean) => boolean): boolean =>
    captures.anyOfOthers((stream, hasEnded) => {
      asked.push([stream, hasEnded])
      return stream === over || answer(hasEnded)
    })
  assert.equal(
    ask((hasEnded) => hasEnded),
    true,
  )
  assert.deepEqual(
    asked.splice(0),
    [
      [over, false],
      [made, false],
    ],
    'what was wrapped is not asked about',
  )
  assert.equal(
    ask((hasEnded) => hasEnded),
    true,
  )
  assert.deepEqual(asked.splice(0), [[made, false]])
  await other.worker.terminate()
  // It has the number of the one that ended.
  const next = new OtherThread()
  await next.ask({ publish: 0 })
  assert.equal(
    ask((hasEnded) => hasEnded),
    false,
  )
  assert.deepEqual(asked, [[made, true]])
  assert.deepEqual(
    [made, wrapped].map((stream) => captures.has(stream)),
    [false, false],
  )
  await next.worker.terminate()
})

test('entries that other threads have counted are known', { skip }, async () => {
  const own = openProcessRegistry()
  const other = new OtherThread()
  await other.ask({ entries: 300 })
  assert.equal(own.entriesOfOthers, 300)
  assert.equal(own.hasOthers, true)
  await other.worker.terminate()
  assert.equal(own.entriesOfOthers, 0)
})
