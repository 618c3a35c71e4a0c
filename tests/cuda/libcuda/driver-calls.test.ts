/** The capture mode of a thread, which all of its code shares, is restored after a call that was made relaxed. On a fake driver. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RelaxedCaptures } from '../../../src/cuda/libcuda/driver-calls.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'

const skip = process.platform === 'linux' ? false : 'the native layer is for Linux'
const GLOBAL = 0
const RELAXED = 2

/** A thread whose mode is exchanged with the one in memory, as the driver does. */
function fakeParts() {
  const thread = { mode: GLOBAL }
  const relaxed = new RelaxedCaptures({
    cuThreadExchangeStreamCaptureMode: (...[address]) => {
      const memory = new NativeMemory(8, Number(address)).int32
      const wanted = memory[0] ?? 0
      memory[0] = thread.mode
      thread.mode = wanted
      return 0
    },
  })
  return { thread, relaxed }
}

describe('calls that invalidate no capture', { skip }, () => {
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
