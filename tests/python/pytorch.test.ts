/** PyTorch's stream and ours, ordered both ways on a real GPU: the story of examples/pytorch with few rounds. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { Story } from '../../examples/pytorch/story.js'
import { pythonHere } from '../helpers/python.js'
import { pytorchUnavailable } from '../helpers/pytorch.js'

const ROUNDS = 5

const reason = pytorchUnavailable()
if (reason !== undefined) console.log(`skipped: ${reason}`)

describe('a stream of PyTorch', { skip: reason ?? false, timeout: 300_000 }, () => {
  let story: Story

  before(async () => {
    const python = pythonHere()
    story = new Story(python)
    await story.warmUp()
  })

  it('is wrapped by its handle alone', () => {
    const python = pythonHere()
    assert.equal(story.wrapped.handle, python.evaluate('story.t.cuda_stream').bigint())
    assert.equal(story.wrapped.device.ordinal, python.evaluate('torch.cuda.current_device()').number())
    assert.equal(story.wrapped.nonBlocking, true)
    assert.equal(story.wrapped.equals(story.ours), false)
  })

  it('is ordered with ours, both ways', async () => {
    const { right, rounds } = await story.withWaits(ROUNDS)
    assert.equal(right, rounds)
  })

  it('is overtaken by ours without the first wait', async () => {
    const { wrong } = await story.withoutFirstWait(ROUNDS)
    assert.equal(wrong, ROUNDS)
  })

  it('overtakes ours without the second wait', async () => {
    const { wrong } = await story.withoutSecondWait(ROUNDS)
    assert.equal(wrong, ROUNDS)
  })

  it('runs host functions in order, as finished() of ours resolves', async () => {
    const { hostFunctions, finished, right } = await story.order(ROUNDS)
    const inOrder = Array.from({ length: ROUNDS }, (_, round) => round)
    assert.deepEqual(hostFunctions, inOrder)
    assert.deepEqual(finished, inOrder)
    assert.equal(right, true)
  })

  it('still works for PyTorch once we have let go of it', () => {
    const python = pythonHere()
    story.close()
    python.run('story.first(2)\nstory.t.synchronize()')
    assert.equal(python.evaluate('story.t.query()').text(), 'True')
  })
})
