/** The other thread of tests/processes/threads.test.ts: does what each message asks, and answers. */
import { isMainThread, parentPort, threadId } from 'node:worker_threads'
import {
  Device,
  DeviceBuffer,
  Event,
  ExternalStream,
  type PinnedBuffer,
  type SharedBuffer,
  type SharedEvent,
  type SharedStream,
  Stream,
} from 'cuda-streams'

/** What the main thread shares. */
export interface SharedThings {
  readonly stream: SharedStream
  readonly written: SharedEvent
  readonly answered: SharedEvent
  readonly buffer: SharedBuffer
}

export type Request =
  /** Takes them in, and keeps them. */
  | { readonly act: 'take'; readonly things: SharedThings }
  /** Are these refused, and with which codes? */
  | { readonly act: 'codes'; readonly things: SharedThings }
  /** Queues a copy of the buffer on a stream of this thread. */
  | { readonly act: 'read'; readonly wait: boolean }
  /** Looks at what was read; then fills the buffer on the shared stream. */
  | { readonly act: 'relay'; readonly value: number; readonly answer: number }
  /** Queues a host function on the shared stream that writes down which number it was. */
  | { readonly act: 'hostFunction'; readonly order: Int32Array; readonly at: number }
  /** What do the uses of what was taken in end in? */
  | { readonly act: 'use' }
  | { readonly act: 'close' }

export type Reply =
  | { readonly codes: readonly string[]; readonly messages: readonly string[] }
  | { readonly right: boolean }
  | {
      readonly kind: string
      readonly id: bigint
      readonly multiprocessors: number
      readonly timing: boolean
      readonly sameAgain: boolean
    }
  | { readonly thread: number }
  | { readonly failed: string }

function attempt(act: () => unknown): { readonly code: string; readonly message: string } {
  try {
    act()
    return { code: 'none', message: '' }
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown }
    return { code: String(code), message: String(message) }
  }
}

function codes({ stream, written, buffer }: SharedThings): Reply {
  const attempts = [
    attempt(() => Stream.from(stream)),
    attempt(() => Event.from(written)),
    attempt(() => DeviceBuffer.from(buffer)),
  ]
  return { codes: attempts.map(({ code }) => code), messages: attempts.map(({ message }) => message) }
}

const LENGTH = 2 ** 20
interface Taken {
  readonly stream: Stream
  readonly written: Event
  readonly answered: Event
  readonly buffer: DeviceBuffer
  readonly own: Stream
  readonly seen: PinnedBuffer
}

let taken: Taken | undefined

function take({ stream, written, answered, buffer }: SharedThings): Reply {
  const device = Device.get(stream.device)
  taken = {
    stream: Stream.from(stream),
    written: Event.from(written),
    answered: Event.from(answered),
    buffer: DeviceBuffer.from(buffer),
    own: new Stream({ device }),
    seen: device.allocPinned(LENGTH),
  }
  const sameAgain = Stream.from(stream).equals(taken.stream)
  return {
    kind: Object.prototype.toString.call(taken.stream),
    id: taken.stream.id,
    multiprocessors: taken.stream.context.multiprocessors,
    timing: taken.written.timing,
    sameAgain,
  }
}

async function answer(request: Request): Promise<Reply> {
  if (request.act === 'take') return take(request.things)
  if (request.act === 'codes') return codes(request.things)
  if (taken === undefined) throw new Error('nothing was taken in')
  const { stream, written, answered, buffer, own, seen } = taken
  if (request.act === 'read') {
    if (request.wait) own.wait(written)
    own.copy(seen, buffer)
    return { thread: threadId }
  }
  if (request.act === 'relay') {
    await own.finished()
    const right = Buffer.alloc(LENGTH, request.value).equals(seen.bytes)
    stream.wait(own).fill(buffer, request.answer).record(answered)
    return { right }
  }
  if (request.act === 'use') {
    const attempts = [
      () => stream.query(),
      () => stream.record(),
      () => own.wait(stream),
      () => new ExternalStream(stream).query(),
      () => written.query(),
      () => own.wait(written),
      () => own.record(written),
    ].map(attempt)
    return { codes: attempts.map(({ code }) => code), messages: attempts.map(({ message }) => message) }
  }
  if (request.act === 'hostFunction') {
    const { order, at } = request
    stream.launchHostFunc(() => {
      order[at] = Atomics.add(order, 0, 1) + 1
    })
    return { thread: threadId }
  }
  for (const one of [stream, written, answered, buffer, own, seen]) one.close()
  taken = undefined
  return { thread: threadId }
}

if (!isMainThread) {
  parentPort?.on('message', (request: Request) => {
    answer(request).then(
      (reply) => parentPort?.postMessage(reply),
      (error: unknown) =>
        parentPort?.postMessage({ failed: error instanceof Error ? String(error.stack) : String(error) }),
    )
  })
}
