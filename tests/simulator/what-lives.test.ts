/**
 * What is remembered grows with what lives, not with what has lived: requests that close all that they made leave the heap as it is, without
 * a watcher and with each, however many they are. One object for each request would show, and a square of them all the more.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { type Device, type DeviceBuffer, ExternalStream, MemoryPool, Module, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { destroyForeignStream, foreignStream, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { byEffort } from '../helpers/effort.js'
import { withoutPromiseHooks } from '../helpers/run-time.js'

const REQUESTS = byEffort({ quick: 100, normal: 150, nightly: 1000 })
/** Bytes that a request may leave: what the engine learns meanwhile, and tables that grow by doubling. */
const MOST_LEFT = 400
/**
 * A timeline that is not full is a log: each stream has a track there, a request may have two streams, and of its first 20 000 operations it has the
 * facts by which changes are predicted, some 150 bytes each.
 */
const MOST_LOGGED = 1600
/** So often JavaScript waits, and returns to the event loop. */
const EVERY = 50

// Optimized code, and what the engine notes for it, would be among the bytes.
setFlagsFromString('--no-opt')

const PTX = `.version 7.0
.target sm_75
.address_size 64
.visible .entry write(.param .u64 p)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 5;
  st.global.u32 [%rd2], %r1;
  ret;
}
`

interface Server {
  readonly device: Device
  /** A stream and memory that live as long as the server. */
  readonly stream: Stream
  readonly data: DeviceBuffer
  readonly signal: AbortSignal
}

/** A stream of its own, which fills memory of its own. */
function own({ device }: Server, nonBlocking = true): { readonly stream: Stream; readonly close: () => void } {
  const stream = new Stream({ device, nonBlocking })
  const buffer = device.alloc(64, { stream })
  stream.fill(buffer, 1)
  const close = (): void => {
    buffer.close()
    stream.close()
  }
  return { stream, close }
}

const REQUESTS_BY_KIND: Readonly<Record<string, (server: Server) => unknown>> = {
  'a stream that is waited for': (server) => {
    const { stream, close } = own(server)
    stream.synchronize()
    close()
  },
  'a stream that nothing waits for': (server) => own(server).close(),
  'a blocking stream': (server) => own(server, false).close(),
  'two streams, one behind the other': (server) => {
    const [first, second] = [own(server), own(server)]
    second.stream.wait(first.stream)
    server.stream.wait(second.stream)
    first.close()
    second.close()
  },
  'an event': ({ device, stream }) => {
    using event = device.createEvent()
    stream.record(event)
    stream.wait(event)
  },
  'an event of a stream that is closed': (server) => {
    const { stream, close } = own(server)
    using event = stream.record()
    close()
    server.stream.wait(event)
  },
  'a buffer': ({ device, stream }) => {
    using buffer = device.alloc(1024, { stream })
    stream.fill(buffer, 1)
  },
  'pinned memory': ({ device, stream, data }) => {
    using pinned = device.allocPinned(256)
    stream.copy(pinned, data)
    stream.synchronize()
  },
  'a pool': ({ device, stream }) => {
    using pool = new MemoryPool({ device })
    using buffer = device.alloc(64, { pool, stream })
    stream.fill(buffer, 1)
  },
  'a graph and an instance': ({ stream, data }) => {
    using graph = stream.capture(() => stream.fill(data, 1))
    using exec = graph.instantiate()
    exec.launch(stream)
  },
  'a host function': ({ stream }) => new Promise<void>((resolve) => void stream.launchHostFunc(resolve)),
  'a stream of another library': ({ device, stream, data }) => {
    const handle = foreignStream(device)
    const theirs = new ExternalStream(handle, { device })
    theirs.wait(stream)
    theirs.fill(data, 1)
    stream.wait(theirs)
    theirs.close()
    destroyForeignStream(handle)
  },
  'a module and a launch': ({ device, stream, data }) => {
    using module = Module.load(PTX, { device })
    stream.launch(module.kernel('write', ['out u32*']), { threads: 1 }, data)
    stream.synchronize()
  },
  'a promise of a stream': ({ stream }) => stream.finished(),
  'a wait with a signal that is never aborted': ({ stream, signal }) => stream.finished({ signal }),
  'a wait that is aborted': async ({ stream }) => {
    const abort = new AbortController()
    const done = stream.finished({ signal: abort.signal }).catch(() => {})
    abort.abort()
    await done
  },
  'a wait for a promise': async ({ stream }) => {
    const abort = new AbortController()
    stream.wait(once(abort.signal, 'abort'))
    abort.abort()
    await stream.finished()
  },
  'tokens of a stream, an event and memory': (server) => {
    const { stream, close } = own(server)
    using event = stream.record()
    using buffer = server.device.alloc(64, { stream: server.stream })
    for (const each of [stream, event, buffer]) each.share()
    close()
  },
}

const TIMELINE_LIMIT = 100
const LOG = 'a timeline'

/** Starts a watcher, and returns what ends it. */
const WATCHERS: Readonly<Record<string, (device: Device) => { readonly stop: () => void }>> = {
  'no watcher': () => ({ stop: () => {} }),
  'a sanitizer': (device) => Sanitizer.start({ device }),
  'a sanitizer, causal': (device) => Sanitizer.start({ device, causal: true }),
  'a timeline that is full': (device) => Timeline.start({ device, limit: TIMELINE_LIMIT }),
  [LOG]: (device) => Timeline.start({ device }),
  'a timeline that was stopped': (device) => {
    Timeline.start({ device }).stop()
    return { stop: () => {} }
  },
}

async function heapNow(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    global.gc?.()
    // Finalizers run, and the test runner lets go of what is gone, between turns of the event loop.
    await turn()
  }
  global.gc?.()
  return process.memoryUsage().heapUsed
}

/** Bytes that a request leaves, from so many requests on until there were four times as many. */
async function leftBy(kind: (server: Server) => unknown, watch: (device: Device) => { readonly stop: () => void }) {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const stream = new Stream({ device })
  const data = device.alloc(256, { stream })
  stream.fill(data, 0).synchronize()
  const watcher = watch(device)
  const server = { device, stream, data, signal: new AbortController().signal }
  const serve = async (requests: number): Promise<number> => {
    for (let nth = 1; nth <= requests; nth += 1) {
      await kind(server)
      if (nth % EVERY > 0) continue
      stream.synchronize()
      await turn()
    }
    device.synchronize()
    return heapNow()
  }
  try {
    await serve(EVERY)
    const before = await serve(REQUESTS)
    return ((await serve(3 * REQUESTS)) - before) / (3 * REQUESTS)
  } finally {
    watcher.stop()
  }
}

/** A watcher has every third kind of request, and each kind another two watchers: at night each has all. */
const APART = byEffort({ quick: 6, normal: 3, nightly: 1 })

for (const [w, [name, watch]] of Object.entries(WATCHERS).entries()) {
  const skip = global.gc === undefined || (name.includes('causal') && withoutPromiseHooks)
  describe(`what lives, not what has lived, with ${name}`, { skip }, () => {
    for (const [k, [what, kind]] of Object.entries(REQUESTS_BY_KIND).entries()) {
      if ((k + w) % APART > 0) continue
      it(`${what}, for each request`, async () => {
        const left = await leftBy(kind, watch)
        assert.ok(left < (name === LOG ? MOST_LOGGED : MOST_LEFT), `each request leaves ${left.toFixed()} bytes`)
      })
    }
  })
}
