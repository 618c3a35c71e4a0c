/** The words by which the simulated machines of all threads are one have places for 256 machines at a time, however many there were. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ownThread } from '../../src/foundation/base/system-threads.js'
import { OtherMachines } from '../../src/simulator/shared/process-words.js'
import { endedThread } from '../helpers/ended-thread.js'

const FIRST = 16
const EACH = 16
const isLinux = process.platform === 'linux'
const skip = isLinux ? false : 'only Linux says which threads have ended'

/** Words in which each place belongs to this thread. */
function fullWords(thread: number): SharedArrayBuffer {
  const inherited = new OtherMachines()
  const { byteLength } = inherited.join() ?? assert.fail('there are words of this process')
  inherited.leave()
  const memory = new SharedArrayBuffer(byteLength)
  const words = new Int32Array(memory)
  for (let at = FIRST; at < words.length; at += EACH) words[at] = thread
  return memory
}

describe('the places of simulated machines', () => {
  it('of threads that were terminated are taken by the next one, also where nobody has waited since', {
    skip,
  }, async () => {
    const memory = fullWords(await endedThread())
    const machines = new OtherMachines()
    assert.equal(machines.join(memory), memory)
    assert.equal(machines.areThere, false)
    machines.leave()
  })

  it('of threads that are there are not, which is an error', () => {
    const memory = fullWords(ownThread())
    assert.throws(() => new OtherMachines().join(memory), {
      code: 'ERR_UNSUPPORTED',
      message: /More than 256 simulations share objects at a time: close threads that are done/,
    })
  })
})
