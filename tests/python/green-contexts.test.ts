/** Green contexts of PyTorch and of cuda.core, with ours, in one process on a real GPU. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Device, DeviceBuffer, ExternalStream, Stream } from 'cuda-streams'
import { refused } from '../conformance/expect.js'
import { pythonHere } from '../helpers/python.js'
import { pytorchUnavailable } from '../helpers/pytorch.js'

const COUNT = 1 << 20
const ROUNDS = 20

const reason = pytorchUnavailable()
if (reason !== undefined) console.log(`skipped: ${reason}`)

const TORCH = `
import torch
from torch.cuda.green_contexts import GreenContext
green = GreenContext.create(num_sms=16, device_id=0)
green_stream = green.Stream()
numbers = torch.zeros(${COUNT}, device='cuda', dtype=torch.int32)
torch.cuda.synchronize()
def double_on(stream):
    with torch.cuda.stream(stream):
        numbers.mul_(2)
`

const CORE = `
from cuda.core import ContextOptions, Device as CoreDevice, SMResourceOptions
core = CoreDevice(0)
core.set_current()
groups, remainder = core.resources.sm.split(SMResourceOptions(count=16))
core_green = core.create_context(ContextOptions(resources=[groups[0]]))
core_stream = core_green.create_stream()
core.set_current()
`

/** Why the library makes no green contexts here, if it does not. */
function lacks(script: string): string | false {
  if (reason !== undefined) return reason
  try {
    pythonHere().run(script)
    return false
  } catch (error) {
    return `no green contexts here: ${error instanceof Error ? error.message.split('\n').at(-1) : error}`
  }
}

const withoutTorch = lacks(TORCH)
const withoutCore = lacks(CORE)
for (const why of [withoutTorch, withoutCore]) if (why !== false) console.log(`skipped: ${why}`)

describe('a green context of PyTorch', { skip: withoutTorch }, () => {
  after(() => pythonHere().run('torch.cuda.synchronize()'))

  const buffer = (): DeviceBuffer => DeviceBuffer.from(pythonHere().evaluate('numbers.data_ptr()').bigint(), 4 * COUNT)

  it('has streams that we wrap as what they are', () => {
    const stream = new ExternalStream(pythonHere().evaluate('green_stream.cuda_stream').bigint())
    const device = Device.get(0)
    assert.equal(stream.device, device)
    assert.equal(stream.nonBlocking, true)
    assert.notEqual(stream.context.handle, device.context.handle)
    assert.equal(stream.context.multiprocessors, 16)
    assert.equal(device.context.multiprocessors, device.attribute('multiprocessorCount'))
  })

  it('is ordered with ours, both ways', async () => {
    const theirs = new ExternalStream(pythonHere().evaluate('green_stream.cuda_stream').bigint())
    await using ours = new Stream()
    using memory = buffer()
    for (let round = 1; round <= ROUNDS; round += 1) {
      ours.wait(theirs).fill(memory, round, { width: 4 })
      theirs.wait(ours)
      pythonHere().run('double_on(green_stream)')
      ours.wait(theirs)
      const numbers = await ours.download(memory, Uint32Array)
      assert.ok(numbers.every((each) => each === 2 * round))
    }
    await theirs.finished()
  })

  it('takes our streams of our green contexts as its own', async () => {
    const [share, rest] = Device.get(0).split({ multiprocessors: [8] })
    const ours = new Stream({ context: share })
    using memory = buffer()
    pythonHere().run(`ours = torch.cuda.ExternalStream(${ours.handle})`)
    for (let round = 1; round <= ROUNDS; round += 1) {
      ours.fill(memory, round, { width: 4 })
      pythonHere().run('double_on(ours)')
      const numbers = await ours.download(memory, Uint32Array)
      assert.ok(numbers.every((each) => each === 2 * round))
    }
    pythonHere().run('del ours')
    for (const each of [ours, share, rest]) each.close()
  })

  it('makes the handles of default streams mean streams of its own while it is current', () => {
    pythonHere().run('green.set_context()')
    try {
      for (const handle of [0n, 1n, 2n]) refused(() => new ExternalStream(handle), 'ERR_UNSUPPORTED', /green context/)
      // Ours are those of the device's primary context as ever, and so is what we make.
      assert.equal(Stream.null.handle, 0n)
      using stream = new Stream()
      assert.equal(stream.context.handle, Device.get(0).context.handle)
      stream.synchronize()
    } finally {
      pythonHere().run('green.pop_context()')
    }
    assert.equal(new ExternalStream(0n).handle, 0n)
  })
})

describe('a green context of cuda.core', { skip: withoutCore }, () => {
  it('has streams that we wrap as what they are', async () => {
    const stream = new ExternalStream(pythonHere().evaluate('int(core_stream.handle)').bigint())
    assert.equal(stream.context.multiprocessors, pythonHere().evaluate('groups[0].sm_count').number())
    assert.equal(stream.nonBlocking, true)
    using memory = Device.get(0).alloc(64)
    await using ours = new Stream()
    stream.fill(memory, 7)
    ours.wait(stream)
    assert.deepEqual(await ours.download(memory.subarray(0, 1)), new Uint8Array([7]))
    await stream.finished()
  })
})
