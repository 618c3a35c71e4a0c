/** The other thread of tests/tools/sanitizer/threads.test.ts: does what each message asks, and answers with what its sanitizer has found. */
import { isMainThread, parentPort } from 'node:worker_threads'
import {
  Device,
  DeviceBuffer,
  Event,
  type GraphExec,
  type PinnedBuffer,
  type SharedBuffer,
  type SharedEvent,
  type SharedStream,
  Stream,
} from 'cuda-streams'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { everySecond } from '../every-second.js'

export interface Shared {
  readonly buffer: SharedBuffer
  readonly stream: SharedStream
  readonly ready: SharedEvent
  readonly done: SharedEvent
}

export type Act =
  /** Starts a sanitizer. */
  | 'watch'
  /** Takes what is shared in. */
  | 'take'
  /** On a stream of this thread. */
  | 'read'
  | 'write'
  | 'write the second half'
  /** By a kernel of which the simulator runs the code. */
  | 'write elements 0, 2, 4 …'
  | 'write elements 1, 3, 5 …'
  /** By a graph, which keeps the address. */
  | 'capture a write'
  | 'launch it'
  | 'wait for ready'
  | 'wait for done'
  | 'wait for the stream'
  | 'wait for the device'
  | 'record done'
  /** On the shared stream. */
  | 'read on the shared stream'
  | 'wait for ready on the shared stream'
  | 'record done on the shared stream'
  /** JavaScript waits. */
  | 'synchronize'
  | 'await'
  | 'synchronize ready'
  | 'synchronize the device'
  /** Opens a stream that the null stream waits for. */
  | 'write on a blocking stream'
  | 'hold'
  | 'resolve'
  | 'unwatch'
  | 'report'
  | 'close'

export interface Request {
  readonly act: Act
  readonly shared?: Shared
}

export type Reply = { readonly reports: readonly SanitizerReport[] } | { readonly failed: string }

interface Taken {
  readonly buffer: DeviceBuffer
  readonly stream: Stream
  readonly ready: Event
  readonly done: Event
  readonly own: Stream
  readonly blocking: Stream
  readonly seen: PinnedBuffer
}

let sanitizer: Sanitizer | undefined
let taken: Taken | undefined
let captured: GraphExec | undefined
let resolve: () => void = () => {}

function take({ buffer, stream, ready, done }: Shared): void {
  const device = Device.get(buffer.device)
  taken = {
    buffer: DeviceBuffer.from(buffer),
    stream: Stream.from(stream),
    ready: Event.from(ready),
    done: Event.from(done),
    own: new Stream({ device }),
    blocking: new Stream({ device, nonBlocking: false }),
    seen: device.allocPinned(buffer.byteLength),
  }
}

function readThere({ own, seen, buffer }: Taken): void {
  own.copy(seen, buffer)
}

function writeThere({ own, buffer }: Taken): void {
  own.fill(buffer, 2)
}

function launchThere({ own, buffer }: Taken, first: number): void {
  own.launch(everySecond(buffer.device), { grid: 1, block: buffer.byteLength / 8 }, buffer, first)
}

async function answer({ act, shared }: Request): Promise<void> {
  if (act === 'watch') sanitizer = Sanitizer.start()
  if (act === 'unwatch') sanitizer?.stop()
  if (shared !== undefined) take(shared)
  if (taken === undefined) return
  const { buffer, stream, ready, done, own, blocking, seen } = taken
  if (act === 'read') readThere(taken)
  if (act === 'write') writeThere(taken)
  if (act === 'write the second half') own.fill(buffer.subarray(buffer.byteLength / 2), 2)
  if (act === 'write elements 0, 2, 4 …') launchThere(taken, 0)
  if (act === 'write elements 1, 3, 5 …') launchThere(taken, 1)
  if (act === 'capture a write') captured = own.capture(() => own.fill(buffer, 2)).instantiate()
  if (act === 'launch it' && captured !== undefined) own.launch(captured)
  if (act === 'wait for ready') own.wait(ready)
  if (act === 'wait for done') own.wait(done)
  if (act === 'wait for the stream') own.wait(stream)
  if (act === 'wait for the device') own.wait(buffer.device)
  if (act === 'record done') own.record(done)
  if (act === 'read on the shared stream') stream.copy(seen, buffer)
  if (act === 'wait for ready on the shared stream') stream.wait(ready)
  if (act === 'record done on the shared stream') stream.record(done)
  if (act === 'synchronize') own.synchronize()
  if (act === 'await') await own.finished()
  if (act === 'synchronize ready') ready.synchronize()
  if (act === 'synchronize the device') buffer.device.synchronize()
  if (act === 'write on a blocking stream') blocking.fill(buffer, 3)
  if (act === 'hold') {
    const held = new Promise<void>((settle) => {
      resolve = settle
    })
    own.wait(held)
  }
  if (act === 'resolve') resolve()
  if (act === 'close') {
    own.synchronize()
    for (const one of [seen, blocking, own, done, ready, stream, buffer]) one.close()
    taken = undefined
  }
}

if (!isMainThread) {
  parentPort?.on('message', (request: Request) => {
    answer(request).then(
      // Kernels that have not run by then would count as what their launches say.
      () => parentPort?.postMessage({ reports: request.act === 'report' ? (sanitizer?.reports ?? []) : [] }),
      (error: unknown) =>
        parentPort?.postMessage({ failed: error instanceof Error ? String(error.stack) : String(error) }),
    )
  })
}
