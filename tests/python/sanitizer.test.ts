/**
 * A race between PyTorch's stream and ours on a real GPU: PyTorch's work is declared, the race is reported with both
 * stacks and shows as wrong bytes, and the line that the report suggests ends both.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Device, DeviceBuffer, ExternalStream, type PinnedBuffer, Stream } from 'cuda-streams'
import type { Python } from 'cuda-streams/python'
import { declareAccess, nameStream, Sanitizer } from 'cuda-streams/sanitizer'
import { type Hold, holdOn } from '../../examples/hold.js'
import { pythonHere } from '../helpers/python.js'
import { pytorchUnavailable } from '../helpers/pytorch.js'

const WORDS = 1024
const ROUNDS = 5

const PYTHON = `
  import torch

  class Producer:
      def __init__(self, words):
          self.t = torch.cuda.Stream()
          with torch.cuda.stream(self.t):
              self.result = torch.zeros(words, dtype=torch.int32, device='cuda')
          self.t.synchronize()

      def produce(self, value):
          with torch.cuda.stream(self.t):
              self.result.fill_(value)
`

const reason = pytorchUnavailable()
if (reason !== undefined) console.log(`skipped: ${reason}`)

describe('PyTorch under the sanitizer', { skip: reason ?? false, timeout: 300_000 }, () => {
  let python: Python
  let sanitizer: Sanitizer
  let torch: ExternalStream
  let ours: Stream
  let result: DeviceBuffer
  let pinned: PinnedBuffer
  let hold: Hold
  let value = 0

  before(async () => {
    python = pythonHere()
    python.run(PYTHON)
    python.run(`producer = Producer(${WORDS})`)
    hold = holdOn(Device.get(python.evaluate('producer.t.device.index').number()))
    sanitizer = Sanitizer.start({ device: Device.get(python.evaluate('producer.t.device.index').number()) })
    torch = new ExternalStream(python.evaluate('producer.t.cuda_stream').bigint())
    ours = new Stream({ device: torch.device })
    nameStream(torch, 'torch')
    nameStream(ours, 'ours')
    const pointer = python.evaluate('producer.result.data_ptr()').bigint()
    result = DeviceBuffer.from(pointer, 4 * WORDS, { device: torch.device, owner: python })
    pinned = torch.device.allocPinned(4 * WORDS)
    // CUDA loads kernels at their first use, and may stop all streams for it.
    python.run('producer.produce(0)')
    await torch.finished()
  })

  after(() => sanitizer?.stop())

  function produceInPyTorch(): void {
    value += 1
    python.run(`producer.produce(${value})`)
    declareAccess(torch, { writes: [result] }, 'torch.fill_')
  }

  function consume(): void {
    ours.copy(pinned, result)
  }

  /**
   * How many words were not what PyTorch had been told to write. Its stream is held until all is queued or, without the
   * wait, until the copy is done.
   */
  async function wrongWords(fixed: boolean): Promise<number> {
    const held = hold(torch)
    produceInPyTorch()
    if (fixed) ours.wait(torch)
    consume()
    if (!fixed) await ours.finished()
    held.release()
    await Promise.all([ours.finished(), torch.finished()])
    return pinned.view(Int32Array).filter((word) => word !== value).length
  }

  it('is reported with both stacks, and is real', async () => {
    for (let round = 0; round < ROUNDS; round += 1) assert.equal(await wrongWords(false), WORDS)
    const reports = sanitizer.reports.filter(({ severity }) => severity === 'error')
    assert.equal(reports.length, 1, reports.map(({ message }) => message).join('\n\n'))
    const [report] = reports
    assert.ok(report)
    console.log(report.message)
    assert.equal(report.kind, 'race')
    assert.deepEqual([report.first?.what, report.first?.stream], ['torch.fill_', 'torch'])
    assert.deepEqual([report.second.what, report.second.stream], ['copy', 'ours'])
    assert.ok(report.first?.stack.some((line) => line.includes('produceInPyTorch')))
    assert.ok(report.second.stack.some((line) => line.includes('consume')))
    assert.deepEqual(report.memory, { pointer: result.pointer, byteLength: 4 * WORDS })
    assert.equal(report.advice, 'Add `ours.wait(torch)` before this copy.')
  })

  it('is gone with the line that the report suggests', async () => {
    const reported = sanitizer.reports.length
    for (let round = 0; round < ROUNDS; round += 1) assert.equal(await wrongWords(true), 0)
    const news = sanitizer.reports.slice(reported)
    assert.deepEqual(
      news.map(({ message }) => message),
      [],
    )
  })
})
