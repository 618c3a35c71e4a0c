/** All code of a thread shares its capture mode: what is relaxed for a call is put back after it. The driver is a fake. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import type * as Koffi from 'koffi'
import { RelaxedCaptures } from '../../../../src/driver/cuda/libcuda/driver-calls.js'

const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
const GLOBAL = 0
const RELAXED = 2

/** A thread whose mode is exchanged with the one in memory, as the driver does. */
function fakeParts() {
  const thread = { mode: GLOBAL }
  const relaxed = new RelaxedCaptures({
    cuThreadExchangeStreamCaptureMode: (...[address]) => {
      const memory = new Int32Array(koffi.view(BigInt(Number(address)), 4))
      const wanted = memory[0] ?? 0
      memory[0] = thread.mode
      thread.mode = wanted
      return 0
    },
  })
  return { thread, relaxed }
}

describe('calls that harm no capture', () => {
  it('run in relaxed mode, and the mode of the thread is put back', () => {
    const { thread, relaxed } = fakeParts()
    assert.equal(
      relaxed.run(() => thread.mode),
      RELAXED,
    )
    assert.equal(thread.mode, GLOBAL)
  })

  it('put it back when they throw', () => {
    const { thread, relaxed } = fakeParts()
    assert.throws(() =>
      relaxed.run(() => {
        throw new Error('as the test wants')
      }),
    )
    assert.equal(thread.mode, GLOBAL)
  })

  it('put it back when one is made inside another', () => {
    const { thread, relaxed } = fakeParts()
    const seen = relaxed.run(() => [thread.mode, relaxed.run(() => thread.mode), thread.mode])
    assert.deepEqual(seen, [RELAXED, RELAXED, RELAXED])
    assert.equal(thread.mode, GLOBAL)
  })
})
