/**
 * A worker that does not stay: it queues all kinds of work, and ends with that pending, by itself or by others. What it
 * shares a stream with goes on.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { Device, Event, type SharedEvent, type SharedStream, Stream } from 'cuda-streams'

/** How the foreign client ends. */
export const ENDINGS = [
  'by itself',
  'by process.exit()',
  'by an exception',
  'while it turns',
  'while it blocks',
] as const
export type Ending = (typeof ENDINGS)[number]

export interface ForeignClientData {
  readonly ending: Ending
  /** The exit code of `process.exit()`. */
  readonly code: number
  /** On a GPU: a stream and an event of the thread that started it. */
  readonly stream: SharedStream | undefined
  readonly event: SharedEvent | undefined
}

/** What is thrown. */
export const FOREIGN_CLIENT_ERROR = 'a foreign client ends'

/** How many streams it has, each with a host function that stands. */
const STREAMS = 5

export function visit({ ending, code, stream: shared, event }: ForeignClientData): void {
  const device = Device.get()
  const streams = Array.from({ length: STREAMS }, () => new Stream({ device }))
  const buffer = device.alloc(4096)
  for (const stream of streams) {
    stream.fill(buffer, 1)
    stream.launchHostFunc(() => {
      if (ending === 'while it turns') stay()
    })
    void stream.upload(buffer, new Uint8Array(4096))
    stream.download(buffer).catch(() => {})
    stream.finished().catch(() => {})
  }
  if (shared !== undefined && event !== undefined) {
    const theirs = Stream.from(shared)
    theirs.wait(Event.from(event))
    theirs.launchHostFunc(() => {
      if (ending !== 'by itself') stay()
    })
  }
  parentPort?.postMessage('is here')
  if (ending === 'by process.exit()') process.exit(code)
  if (ending === 'by an exception') throw new Error(FOREIGN_CLIENT_ERROR)
  if (ending === 'while it blocks') {
    const [first] = streams
    for (;;) {
      first?.launchHostFunc(() => {})
      first?.synchronize()
    }
  }

  /** There is always something pending: only another thread ends it. */
  function stay(): void {
    if (ending !== 'while it turns') return
    try {
      streams[0]?.launchHostFunc(stay)
    } catch (error) {
      // Inside a host function a queue that other threads have filled is waited for in no other way.
      if (!(error instanceof Error) || Reflect.get(error, 'code') !== 'ERR_DEADLOCK') throw error
      setImmediate(stay)
    }
  }
}

if (workerData !== null) visit(workerData as ForeignClientData)
