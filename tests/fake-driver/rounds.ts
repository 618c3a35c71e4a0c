/**
 * Threads that make and close streams, queue host functions and fill hardware queues, each for itself, on one GPU: what one
 * does must not stop another. Started by fake-driver.test.ts; exits with 0 where every byte and every host function was right.
 */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { isMainThread, threadId, Worker } from 'node:worker_threads'
import { Device, Stream } from 'cuda-streams'

const WORKERS = 4
const ROUNDS = 150
const MOST_OPEN = 8
const BYTES = 256

const device = Device.get()
const open: Stream[] = []
const pending: Promise<void>[] = []
let [queued, ran] = [0, 0]

function round(number: number): void {
  const stream = number % 5 === 0 ? device.createStream({ priority: -(number % 6) }) : new Stream()
  const other = open[number % MOST_OPEN] ?? stream
  const buffer = device.alloc(BYTES, { stream })
  queued += 1
  stream.launchHostFunc(() => {
    ran += 1
  })
  for (let left = number % 60; left > 0; left -= 1) stream.fill(buffer, left)
  stream.fill(buffer, number & 255)
  other.wait(stream)
  const value = number & 255
  pending.push(
    other.download(buffer).then((bytes) =>
      assert.ok(
        bytes.every((byte) => byte === value),
        `thread ${threadId}, round ${number}: ${bytes[0]}, not ${value}`,
      ),
    ),
  )
  if (number % 10 === 0) {
    const exec = stream.capture(() => stream.fill(buffer, 1)).instantiate()
    exec.close()
  }
  buffer.close()
  // A closed stream that has work behind a host function, an open one, and one for the garbage collector.
  if (number % 3 === 0) stream.close()
  else if (number % 3 === 1) open.push(stream)
  if (open.length > MOST_OPEN) open.shift()?.close()
}

/** Work on a stream that is closed while only other threads have host functions pending, and is counted all the same. */
async function calmRound(): Promise<void> {
  await Promise.all(pending.splice(0))
  device.drainHostFunctions()
  const stream = new Stream()
  const buffer = device.alloc(BYTES, { stream })
  for (let left = 250; left > 0; left -= 1) stream.fill(buffer, left & 255)
  buffer.close()
  stream.close()
}

const workers = isMainThread ? Array.from({ length: WORKERS }, () => new Worker(new URL(import.meta.url))) : []
const ends = workers.map(
  (worker) =>
    new Promise<void>((resolve, reject) => {
      worker.once('error', reject)
      worker.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`a worker exited with ${code}`))))
    }),
)
for (let number = 1; number <= ROUNDS; number += 1) {
  round(number)
  if (number % 4 === 0) await turn()
  if (number % 15 === 0) await calmRound()
  if (pending.length > 20) await Promise.all(pending.splice(0))
}
await Promise.all(pending)
for (const stream of open) stream.close()
device.drainHostFunctions()
assert.equal(ran, queued)
await Promise.all(ends)
if (isMainThread) console.log(`${(WORKERS + 1) * ROUNDS} rounds on ${device.name}`)
