/** What the threads of a process tell each other of their host functions. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { openThreadTable } from '../../src/driver/cuda/host-functions/thread-table.js'
import type { Question, Reply } from './children/thread-table.js'

const skip = process.platform === 'linux' ? false : 'threads share a table on Linux only'

class OtherThread {
  readonly worker = new Worker(new URL('./children/thread-table.js', import.meta.url))

  async ask(question: Question): Promise<Reply> {
    this.worker.postMessage(question)
    const [reply] = (await once(this.worker, 'message')) as [Reply]
    return reply
  }
}

test('a thread sees what others have pending, and no longer once they have ended', { skip }, async () => {
  const own = openThreadTable()
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
  const own = openThreadTable()
  const other = new OtherThread()
  await other.ask({ publish: 1 })
  assert.equal(own.exclusive.take(), false)
  await other.ask({ publish: 0 })
  assert.equal(own.exclusive.take(), true)
  assert.deepEqual(await other.ask({ publish: 1 }), { othersPending: false, entered: false })
  assert.deepEqual(await other.ask('exclusive'), { othersPending: false, entered: false })
  assert.equal(own.announce(1), true, 'the thread itself may')
  own.publish(0)
  own.exclusive.giveBack()
  assert.equal((await other.ask({ publish: 1 })).entered, true)
  await other.ask({ publish: 0 })

  assert.equal((await other.ask('exclusive')).entered, true)
  assert.equal(own.announce(1), false)
  await other.worker.terminate()
  assert.equal(own.announce(1), true, 'a thread that was terminated inside of its call keeps nobody away')
  own.publish(0)
  assert.equal(own.exclusive.take(), true)
  own.exclusive.giveBack()
})

test('streams that one thread keeps another takes, each once', { skip }, async () => {
  const own = openThreadTable()
  const other = new OtherThread()
  await other.ask({ keep: 4096 })
  await other.worker.terminate()
  assert.equal(own.kept.count(0), 1)
  assert.equal(own.kept.take(0), 4096)
  assert.equal(own.kept.take(0), undefined)
})

test('a device is recorded while no other thread captures, and no capture begins meanwhile', { skip }, async () => {
  const own = openThreadTable()
  const other = new OtherThread()
  assert.equal((await other.ask({ captures: 1 })).entered, true)
  assert.equal(own.recording.take(), false)
  await other.ask({ captures: 0 })
  assert.equal(own.recording.take(), true)
  assert.equal((await other.ask({ captures: 1 })).entered, false)
  own.recording.giveBack()
  assert.equal((await other.ask({ captures: 1 })).entered, true)
  await other.worker.terminate()
  assert.equal(own.recording.take(), true, 'a thread that was terminated captures no more')
  own.recording.giveBack()
})

test('entries that other threads have counted are known', { skip }, async () => {
  const own = openThreadTable()
  const other = new OtherThread()
  await other.ask({ entries: 300 })
  assert.equal(own.entriesOfOthers, 300)
  assert.equal(own.others, true)
  await other.worker.terminate()
  assert.equal(own.entriesOfOthers, 0)
})
