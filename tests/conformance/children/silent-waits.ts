/** Waits that never end by themselves, and some that do. Usage: silent-waits.js <sim | cuda> <scenario> */
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { Device, type Event, type Stream } from 'cuda-streams'
import { Communicator, uniqueId } from 'cuda-streams/nccl'
import { openCudaWorkbench } from '../../helpers/cuda-workbench.js'
import { DRIVER_FILE } from '../../helpers/driver-file.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'

const MIB = 2 ** 20
/** Longer than the time after which the process is told to warn. */
const LONG = 2 * (Number(process.env['CUDA_STREAMS_WARN_AFTER']) || 300)
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const nothing = (): void => {}
/** Blocks this thread for so many milliseconds: for ever, unless said otherwise. */
const block = (milliseconds?: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}

/** Keeps what is held: a latch that is collected stays closed, but a stream must not be. */
const kept: unknown[] = []

function stuck(bench: Workbench): Stream {
  const stream = bench.stream()
  kept.push(stream, bench.latch(stream))
  return stream
}

function ownHostFunction(bench: Workbench): Stream {
  const stream = bench.stream()
  stream.launchHostFunc(nothing)
  return stream
}

/** A stream that waits for a host function. */
async function standing(bench: Workbench): Promise<Stream> {
  // What a driver loads at first use is not to be waited for later.
  await bench.stream().launchHostFunc(nothing).finished()
  return ownHostFunction(bench)
}

function timed(stream: Stream): { readonly start: Event; readonly end: Event } {
  return { start: stream.record({ timing: true }), end: stream.record({ timing: true }) }
}

function isReady({ start, end }: { readonly start: Event; readonly end: Event }): boolean {
  try {
    return end.elapsedSince(start) >= 0
  } catch {
    return false
  }
}

/** Blocks as another library does, for a stream or for the whole device. */
function synchronizeNatively(stream?: Stream): void {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  const library = koffi.load(DRIVER_FILE)
  if (stream === undefined) library.func('cuCtxSynchronize', 'int', [])()
  else library.func('cuStreamSynchronize', 'int', ['uintptr_t'])(Number(stream.handle))
}

function again(stream: Stream): void {
  stream.launchHostFunc(() => again(stream))
}

const scenarios = {
  streamQuery: (bench) => {
    const stream = ownHostFunction(bench)
    while (!stream.query());
  },
  streamQueryForAWhile: (bench) => {
    const stream = ownHostFunction(bench)
    const begun = performance.now()
    while (!stream.query() && performance.now() - begun < LONG);
  },
  eventQuery: (bench) => {
    const event = ownHostFunction(bench).record()
    while (!event.query());
  },
  elapsedSince: (bench) => {
    const events = timed(ownHostFunction(bench))
    while (!isReady(events));
  },
  queryBehindOther: (bench) => {
    const stream = bench.stream().wait(ownHostFunction(bench))
    bench.busy(stream, 1000)
    while (!stream.query());
  },
  queryAndMicrotasks: async (bench) => {
    const stream = ownHostFunction(bench)
    while (!stream.query()) await Promise.resolve()
  },
  queryNullStream: (bench) => {
    bench.stream({ nonBlocking: false }).launchHostFunc(nothing)
    const stream = bench.device.defaultStream
    bench.busy(stream, 1000)
    while (!stream.query());
  },
  queryLatch: (bench) => {
    const stream = stuck(bench)
    while (!stream.query());
  },
  streamFinished: (bench) => stuck(bench).finished(),
  eventFinished: (bench) => stuck(bench).record().finished(),
  deviceFinished: (bench) => stuck(bench).device.finished(),
  asyncDispose: (bench) => stuck(bench)[Symbol.asyncDispose](),
  hostFunction: (bench) => void stuck(bench).launchHostFunc(nothing),
  callback: (bench) => void stuck(bench).addCallback(nothing, undefined),
  otherStream: (bench) => void bench.stream().wait(stuck(bench)).launchHostFunc(nothing),
  download: async (bench) => {
    const stream = stuck(bench)
    await stream.download(bench.device.alloc(64, { stream }))
  },
  downloader: async (bench) => {
    const stream = stuck(bench)
    await stream.downloader(bench.device.alloc(64, { stream })).getReader().read()
  },
  upload: async (bench) => {
    const stream = stuck(bench)
    await stream.upload(bench.device.alloc(32 * MIB, { stream }), new Uint8Array(32 * MIB))
  },
  uploader: async (bench) => {
    const stream = stuck(bench)
    const writer = stream.uploader(bench.device.alloc(32 * MIB, { stream })).getWriter()
    await writer.write(new Uint8Array(32 * MIB))
  },
  graph: (bench) => {
    const stream = bench.stream()
    const exec = stream.capture(() => void stream.launchHostFunc(nothing)).instantiate()
    kept.push(exec)
    exec.launch(stuck(bench))
  },
  promise: (bench) => {
    const stream = bench.stream()
    stream.wait(new Promise(nothing))
    return stream.finished()
  },
  promiseHostFunction: (bench) => {
    const stream = bench.stream()
    kept.push(stream)
    stream.wait(new Promise(nothing)).launchHostFunc(nothing)
  },
  drain: (bench) => {
    again(bench.stream())
    bench.device.drainHostFunctions()
  },
  ranks: (bench) => Communicator.create({ id: uniqueId(), rank: 1, size: 3, device: bench.device }),
  captureOfOther: async (bench) => {
    const other = new Worker(new URL(import.meta.url), { workerData: 'capture', argv: process.argv.slice(2) })
    await once(other, 'message')
    await bench.device.finished()
  },
  loop: async (bench) => {
    await standing(bench)
    for (;;);
  },
  memoryLoop: async (bench) => {
    const pinned = bench.device.allocPinned(4)
    pinned.bytes.fill(0)
    const stream = await standing(bench)
    stream.launchHostFunc(() => pinned.bytes.fill(1))
    while (pinned.bytes[0] === 0);
  },
  nativeCall: async (bench) => synchronizeNatively(await standing(bench)),
  nativeCallAtOnce: (bench) => synchronizeNatively(ownHostFunction(bench)),
  otherThreadWaits: async (bench) => {
    await standing(bench)
    block()
  },
  insideHostFunction: (bench) => void bench.stream().launchHostFunc(() => block()),
  graphBlocked: async (bench) => {
    const stream = bench.stream()
    const exec = stream.capture(() => void stream.launchHostFunc(nothing)).instantiate()
    exec.launch(stream)
    await stream.finished()
    exec.launch(stream)
    synchronizeNatively(stream)
  },
  downloadBlocked: (bench) => {
    const stream = bench.stream()
    // More than the staging memory holds.
    void stream.download(bench.device.alloc(32 * MIB, { stream }))
    synchronizeNatively()
  },
  worker: async () => {
    await once(new Worker(new URL(import.meta.url), { workerData: 'block', argv: process.argv.slice(2) }), 'exit')
  },
  afterWorker: async (bench) => {
    // It has started the watchdog, which ends with it.
    await once(new Worker(new URL(import.meta.url), { workerData: 'pass', argv: process.argv.slice(2) }), 'exit')
    synchronizeNatively(ownHostFunction(bench))
  },
  blockedForAWhile: async (bench) => {
    await standing(bench)
    // The thread of the watchdog has to start first, which takes more than a second on a machine under load.
    block(8 * LONG)
  },
  // What follows ends, and says nothing.
  longWork: async (bench) => {
    const stream = bench.stream()
    const latch = bench.latch(stream)
    setTimeout(() => latch.open(), LONG)
    await stream.launchHostFunc(nothing).finished()
  },
  slowPromise: async (bench) => {
    await bench.stream().wait(sleep(50)).finished()
  },
  shortDownload: async (bench) => {
    const stream = bench.stream()
    const download = stream.download(bench.device.alloc(64, { stream }))
    synchronizeNatively()
    await download
  },
  politePolling: async (bench) => {
    const stream = bench.stream()
    const latch = bench.latch(stream)
    setTimeout(() => latch.open(), LONG)
    while (!stream.query()) await sleep(1)
  },
  pollingLongWork: (bench) => {
    const stream = bench.stream()
    const latch = bench.latch(stream)
    const begun = performance.now()
    while (!stream.query()) if (performance.now() - begun > LONG) latch.open()
  },
  busyJavaScript: async (bench) => {
    await standing(bench)
    await sleep(LONG)
    const begun = performance.now()
    while (performance.now() - begun < LONG);
  },
  ownBlockingWait: (bench) => {
    const [stream, other] = [bench.stream(), bench.stream()]
    const latch = bench.latch(stream)
    const begun = performance.now()
    const look = (): void => {
      if (performance.now() - begun > LONG) latch.open()
      else other.launchHostFunc(look)
    }
    look()
    stream.synchronize()
  },
  alone: () => {},
} satisfies Record<string, (bench: Workbench) => unknown>

export type Scenario = keyof typeof scenarios

function benchOf(backend: string | undefined): Workbench {
  const bench = backend === 'sim' ? simWorkbench() : openCudaWorkbench()
  // The driver itself says why with its code.
  if (typeof bench === 'string') throw new Error(`${bench}, but ${Device.get(0)} is there`)
  return bench
}

if (isMainThread) {
  const [backend, name] = process.argv.slice(2)
  const bench = benchOf(backend)
  const chosen: ((bench: Workbench) => unknown) | undefined = scenarios[name as Scenario]
  // A wait that keeps nothing alive must not end the process before the time.
  const life = setInterval(nothing, 1000)
  await chosen(bench)
  clearInterval(life)
  say('end')
} else if (workerData === 'capture') {
  const stream = Device.get(0).createStream()
  kept.push(stream.beginCapture('relaxed'))
  const { parentPort } = await import('node:worker_threads')
  parentPort?.postMessage('captures')
  setInterval(nothing, 1000)
} else {
  const stream = await standing(benchOf(process.argv[2]))
  if (workerData === 'block') synchronizeNatively(stream)
}
