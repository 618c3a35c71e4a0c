/** C5 where it matters most: a capture that other code began, in the mode that forbids queries on any thread. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { ExternalStream } from 'cuda-streams'
import type * as Koffi from 'koffi'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'

const bench = openCudaWorkbench()
const skip = typeof bench === 'string' ? `no NVIDIA driver here: ${bench}` : false
const where = typeof bench === 'string' ? 'cuda' : bench.title
const GLOBAL_MODE = 0

test(`C5 a global-mode capture begun by other code survives our polling and our host functions (${where})`, {
  skip,
}, async () => {
  if (typeof bench === 'string') return
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  const libcuda = koffi.load('libcuda.so.1')
  const begin = libcuda.func('cuStreamBeginCapture_v2', 'int', ['uintptr_t', 'int'])
  const end = libcuda.func('cuStreamEndCapture', 'int', ['uintptr_t', 'uintptr_t'])
  const graph = Number(koffi.alloc('uint64', 1))
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
    assert.equal(end(Number(theirs), graph), 0, 'the capture was invalidated')
    event.close()
    other.close()
  } finally {
    latch.open()
    ours.close()
    bench.destroyForeignStream(theirs)
  }
})
