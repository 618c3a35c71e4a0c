/** Streams, events and memory that the main thread and a worker use together. */
import { DeviceBuffer, Event, type SharedBuffer, type SharedEvent, type SharedStream, Stream } from 'cuda-streams'
import { turn } from './client.js'
import { Random, seedOf } from './random.js'
import type { Thread } from './thread.js'
import { told } from './tracker.js'

const LENGTH = 4096

/** What the main thread sends when all threads have used the library. */
export const PLAY = 'play'

/** What a worker is asked to do. */
export interface SharedWork {
  readonly stream: SharedStream
  readonly written: SharedEvent
  readonly answered: SharedEvent
  readonly buffer: SharedBuffer
  readonly value: number
  readonly more: number
  /** Counts host functions of both threads, in the order of the stream. */
  readonly order: SharedArrayBuffer
}

export type Reply = { readonly kind: 'answered'; readonly wrong: string | undefined }

/** In the worker: looks at the shared memory, writes there in order, and runs host functions on the shared stream. */
export async function answer(work: SharedWork, reply: (reply: Reply) => void): Promise<void> {
  try {
    reply({ kind: 'answered', wrong: await answered(work) })
  } catch (error) {
    reply({ kind: 'answered', wrong: told(error) })
  }
}

async function answered(work: SharedWork): Promise<string | undefined> {
  const { value, more } = work
  const order = new Int32Array(work.order)
  using stream = Stream.from(work.stream)
  using written = Event.from(work.written)
  using answeredEvent = Event.from(work.answered)
  using buffer = DeviceBuffer.from(work.buffer)
  using mine = new Stream({ device: buffer.device })
  mine.wait(written)
  const seen = mine.download(buffer)
  mine.fill(buffer, more)
  stream.wait(mine)
  let place = 0
  stream.launchHostFunc(() => {
    place = Atomics.add(order, 0, 1)
  })
  stream.record(answeredEvent)
  const bytes = await seen
  await mine.finished()
  await answeredEvent.finished()
  if (place !== 1) return `the worker's host function was number ${place} of the stream`
  return bytes.every((byte) => byte === value) ? undefined : `the worker read ${bytes[0]}, not ${value}`
}

/** A worker that can be asked to take part. */
export interface Asked {
  /** Undefined where it ends meanwhile. */
  ask(work: SharedWork): Promise<Reply | undefined>
}

/** In the main thread: one round with a worker. */
async function shareWith(thread: Thread, worker: Asked, random: Random): Promise<void> {
  const { tracker, machine } = thread
  const { device } = machine
  const [value, more] = [random.below(256), random.below(256)]
  const order = new SharedArrayBuffer(4)
  const stream = new Stream({ device })
  const [written, answeredEvent] = [device.createEvent(), device.createEvent({ blockingSync: random.chance(0.5) })]
  const buffer = device.alloc(LENGTH, { stream })
  stream.launchHostFunc(() => void Atomics.add(new Int32Array(order), 0, 1))
  stream.fill(buffer, value).record(written)
  const things = {
    stream: stream.share(),
    written: written.share(),
    answered: answeredEvent.share(),
    buffer: buffer.share(),
  }
  const reply = await worker.ask({ ...things, value, more, order })
  if (reply?.wrong !== undefined) tracker.fail(`sharing: ${reply.wrong}`)
  if (reply !== undefined) {
    stream.wait(answeredEvent)
    const bytes = await stream.download(buffer)
    tracker.sameBytes('what a worker wrote', bytes, new Uint8Array(LENGTH).fill(more))
  }
  tracker.counts.shares += 1
  // The owner closes last, and then nobody can take it in.
  for (const each of [buffer, answeredEvent, written, stream]) each.close()
}

/** Shares with one worker after the other, as long as there are some. */
export async function shareAround(
  thread: Thread,
  index: number,
  workers: () => readonly Asked[],
  goesOn: () => boolean,
): Promise<void> {
  const track = thread.trace.track(index)
  const random = new Random(seedOf(thread.fixture.options.seed, 200))
  while (goesOn()) {
    const found = workers()
    if (found.length > 0) {
      track.note('shares with a worker')
      await shareWith(thread, random.one(found), random)
    } else track.note('has nobody to share with')
    for (let left = random.between(20, 200); left > 0; left -= 1) await turn()
  }
  track.over()
}
