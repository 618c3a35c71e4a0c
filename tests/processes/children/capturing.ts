/** The other thread of tests/processes/captures.test.ts: captures and waits as each message asks, and answers. */
import { isMainThread, parentPort } from 'node:worker_threads'
import { type CaptureModeName, Device, Event, type SharedEvent, type SharedStream, Stream } from 'cuda-streams'

export type Request =
  /** Takes an event in. */
  | { readonly act: 'join'; readonly event: SharedEvent }
  /** Begins a capture, on a stream of its own or one that is shared. */
  | {
      readonly act: 'begin'
      readonly mode: CaptureModeName
      readonly nonBlocking: boolean
      readonly shared?: SharedStream
    }
  /** Fills, and ends the capture. */
  | { readonly act: 'end' }
  /** Ends the capture of this stream, which another thread began. */
  | { readonly act: 'endShared'; readonly shared: SharedStream }
  | { readonly act: 'close' }
  /** Waits until the word is set, while the other thread blocks, and ends the capture. */
  | { readonly act: 'endWhenSet'; readonly word: Int32Array }
  /** Captures over and over until the first word is set, and counts in the second. */
  | {
      readonly act: 'captures'
      readonly mode: CaptureModeName
      readonly nonBlocking: boolean
      readonly word: Int32Array
    }
  | { readonly act: 'finished' }
  | { readonly act: 'exit' }

/** What came of it: how many nodes the graph has, or the error's number. */
export type Reply = number | string

let stream: Stream | undefined

function begin({ mode, nonBlocking, shared }: Extract<Request, { readonly act: 'begin' }>): Reply {
  stream = shared === undefined ? new Stream({ nonBlocking }) : Stream.from(shared)
  stream.beginCapture(mode)
  return 'begun'
}

function end(capturing: Stream | undefined): Reply {
  if (capturing === undefined) throw new Error('it captures nothing')
  using graph = capturing.launchHostFunc(() => {}).endCapture()
  return graph.nodes.length
}

function captures(mode: CaptureModeName, nonBlocking: boolean, word: Int32Array): Reply {
  using own = new Stream({ nonBlocking })
  try {
    for (; Atomics.load(word, 0) === 0; Atomics.add(word, 1, 1)) {
      own.capture(() => own.launchHostFunc(() => {}), { mode }).close()
    }
    return 'captured'
  } catch (error) {
    Atomics.store(word, 1, 2 ** 30)
    throw error
  }
}

async function answer(request: Request): Promise<Reply> {
  switch (request.act) {
    case 'join':
      Event.from(request.event)
      return 'joined'
    case 'begin':
      return begin(request)
    case 'end':
      return end(stream)
    case 'endShared':
      return end(Stream.from(request.shared))
    case 'close':
      stream?.close()
      return 'closed'
    case 'endWhenSet':
      Atomics.wait(request.word, 0, 0)
      return end(stream)
    case 'captures':
      return captures(request.mode, request.nonBlocking, request.word)
    case 'finished':
      await Device.get(0).finished()
      return 'finished'
    case 'exit':
      return process.exit()
  }
}

const codeOf = (error: unknown): string =>
  String((error as { number?: unknown }).number ?? (error as { stack?: unknown }).stack ?? error)

if (!isMainThread) {
  parentPort?.on('message', (request: Request) => {
    answer(request).then(
      (reply) => parentPort?.postMessage(reply),
      (error: unknown) => parentPort?.postMessage(codeOf(error)),
    )
  })
}
