/** C5 where it matters most: a capture that other code began, in the mode that forbids queries on any thread. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ExternalStream, MemoryPool, PinnedBuffer } from 'cuda-streams'
import { fromDLPack, toDLPack } from 'cuda-streams/dlpack'
import type * as Koffi from 'koffi'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { DRIVER_FILE } from '../helpers/driver-file.js'
import type { Workbench } from '../helpers/workbench.js'

const bench = openCudaWorkbench()
const skip = typeof bench === 'string' ? `no NVIDIA driver here: ${bench}` : false
const where = typeof bench === 'string' ? 'cuda' : bench.title
const GLOBAL_MODE = 0

/** The driver's own calls, as another library makes them. */
function captureCalls(): { begin(stream: number, mode: number): number; end(stream: number): number } {
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  const libcuda = koffi.load(DRIVER_FILE)
  const begin = libcuda.func('cuStreamBeginCapture_v2', 'int', ['uintptr_t', 'int'])
  const end = libcuda.func('cuStreamEndCapture', 'int', ['uintptr_t', 'uintptr_t'])
  const graph = Number(koffi.alloc('uint64', 1))
  return { begin: (stream, mode) => begin(stream, mode), end: (stream) => end(stream, graph) }
}

test(`C5 a global-mode capture begun by other code survives our polling and our host functions (${where})`, {
  skip,
}, async () => {
  if (typeof bench === 'string') return
  const { begin, end } = captureCalls()
  const theirs = bench.foreignStream(bench.device)
  const ours = bench.stream()
  using latch = bench.latch(ours)
  try {
    let ran = 0
    ours.launchHostFunc(() => {
      ran += 1
    })
    const done = ours.finished()
    const event = ours.record()
    const eventDone = event.finished()
    assert.equal(begin(Number(theirs), GLOBAL_MODE), 0)
    const wrapped = new ExternalStream(theirs)
    assert.equal(wrapped.isCapturing, true)
    for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    await assert.rejects(wrapped.finished(), { number: 900 })
    assert.throws(() => wrapped.id, { number: 900 })
    assert.throws(() => wrapped.nonBlocking, { number: 900 })
    latch.open()
    await Promise.all([done, eventDone])
    assert.equal(ran, 1)
    // More of the same while the capture goes on: events, waits, promises and gates on streams outside of it.
    const other = bench.stream()
    other.wait(ours)
    other.launchHostFunc(() => {
      ran += 1
    })
    await other.finished()
    assert.equal(ran, 2)
    assert.equal(wrapped.isCapturing, true)
    assert.equal(end(Number(theirs)), 0, 'the capture was invalidated')
    event.close()
    other.close()
  } finally {
    latch.open()
    ours.close()
    bench.destroyForeignStream(theirs)
  }
})

/** What the library does by itself, at times that no program chose, and what each may ask the driver then. */
const BY_ITSELF: Readonly<Record<string, (bench: Workbench) => () => void>> = {
  'registered memory is given back': (bench) => {
    const buffer = PinnedBuffer.from(new Uint8Array(new SharedArrayBuffer(64)), { device: bench.device })
    return () => buffer.close()
  },
  'pinned memory is given back': (bench) => {
    const buffers = [129, 130].map((mebibytes) => bench.device.allocPinned(mebibytes * 1024 * 1024))
    return () => buffers.forEach((buffer) => void buffer.close())
  },
  'interprocess memory is given back': (bench) => {
    const buffers = [129, 130].map((size) => bench.device.alloc(size * 1024 * 1024, { interprocess: true }))
    return () => buffers.forEach((buffer) => void buffer.close())
  },
  'memory is freed whose stream is closed': (bench) => {
    const stream = bench.stream()
    const buffer = bench.device.alloc(64, { stream })
    return () => {
      stream.close()
      buffer.close()
    }
  },
  'a tensor that was exported by DLPack comes back': (bench) => {
    const stream = bench.stream()
    const buffer = bench.device.alloc(64, { stream })
    const taken = fromDLPack(toDLPack(buffer, { dtype: 'u8', shape: [64], stream }), { stream })
    return () => {
      taken.buffer.close()
      buffer.close()
      stream.close()
    }
  },
  'a pool of memory is closed': (bench) => {
    const stream = bench.stream()
    const pool = new MemoryPool({ device: bench.device })
    const buffer = bench.device.alloc(64, { stream, pool })
    return () => {
      pool.close()
      buffer.close()
      stream.close()
    }
  },
  'a graph and its instance are closed': (bench) => {
    const stream = bench.stream()
    const graph = stream.capture(() => bench.busy(stream, 1000))
    const exec = graph.instantiate()
    stream.launch(exec)
    return () => {
      exec.close()
      graph.close()
      stream.close()
    }
  },
  'a stream and an event are closed': (bench) => {
    const stream = bench.stream()
    const event = stream.record()
    return () => {
      stream.close()
      event.close()
    }
  },
}

/** Whose capture it is. Of a stream of another library that nobody wrapped nothing tells but the null stream, if that waits for it. */
const THEIRS = {
  'a blocking stream that nobody wrapped': { nonBlocking: false, isWrapped: false },
  'a stream that nobody wrapped': { nonBlocking: true, isWrapped: false },
  'a blocking stream that was wrapped': { nonBlocking: false, isWrapped: true },
  'a stream that was wrapped': { nonBlocking: true, isWrapped: true },
} as const
/** To come behind what a consumer has queued anywhere there is cuCtxRecordEvent only, which ends every capture of the context. */
const EXCEPT = ['a tensor that was exported by DLPack comes back, a stream that nobody wrapped']

for (const [what, prepare] of Object.entries(BY_ITSELF)) {
  for (const [whose, { nonBlocking, isWrapped }] of Object.entries(THEIRS)) {
    if (EXCEPT.includes(`${what}, ${whose}`)) continue
    test(`C5 a capture of another library's survives when ${what}: ${whose} (${where})`, { skip }, async () => {
      if (typeof bench === 'string') return
      const { begin, end } = captureCalls()
      for (const mode of [0, 1, 2]) {
        const theirs = bench.foreignStream(bench.device, { nonBlocking })
        const wrapped = isWrapped ? new ExternalStream(theirs, { device: bench.device }) : undefined
        const close = prepare(bench)
        assert.equal(begin(Number(theirs), mode), 0)
        close()
        await sleep(70)
        assert.equal(end(Number(theirs)), 0, `the capture in mode ${mode} was invalidated`)
        wrapped?.close()
        bench.destroyForeignStream(theirs)
        await sleep(50)
      }
    })
  }
}
