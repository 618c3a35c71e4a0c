/** Timelines of everything on a real GPU: what PyTorch and CuPy queue stands between what the library queues. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Device, type DeviceBuffer, ExternalStream, type Stream } from 'cuda-streams'
import type { Python } from 'cuda-streams/python'
import { Timeline, type TimelineOperation } from 'cuda-streams/timeline'
import { pythonHere } from '../helpers/python.js'
import { pytorchUnavailable } from '../helpers/pytorch.js'
import { ONE, SPIN, spin } from '../helpers/spin.js'

/** Nanoseconds that CUPTI's times and the host's may be apart. */
const SLACK = 20_000

const reason = pytorchUnavailable()
if (reason !== undefined) console.log(`skipped: ${reason}`)

describe('a recording of everything', { skip: reason ?? false, timeout: 300_000 }, () => {
  let python: Python
  let device: Device
  let stream: Stream
  let buffer: DeviceBuffer

  before(async () => {
    python = pythonHere()
    python.run(`
      import threading, torch
      x = torch.ones(1024, 1024, device='cuda')
      w = torch.ones(256, 256, device='cuda', requires_grad=True)
      s = torch.cuda.Stream()
      y = x @ x
      torch.cuda.synchronize()
    `)
    device = Device.get(0)
    await spin.prepare(device)
    stream = device.createStream()
    buffer = device.alloc(1 << 20)
    stream.launch(spin, ONE, 1000)
    await stream.finished()
  })

  const isRun = ({ kind }: TimelineOperation): boolean => kind === 'kernel' || kind === 'copy' || kind === 'fill'
  const tell = (operations: readonly TimelineOperation[]): string =>
    operations
      .map(({ kind, name, foreign, stream: on, called, start = 0, end = 0 }) =>
        [foreign ? 'theirs' : 'ours', kind, on.name, Math.round(called), Math.round(start), end - start, name].join(
          ' ',
        ),
      )
      .join('\n')

  it('has PyTorch’s matmul between ours, in the order of the calls, each once', async (context) => {
    const timeline = await Timeline.record(
      async () => {
        stream.launch(spin, ONE, SPIN)
        python.run('y = x @ x')
        stream.fill(buffer, 1)
        python.run('y.zero_()')
        stream.launch(spin, ONE, SPIN)
        await stream.finished()
      },
      { everything: true },
    )
    const run = timeline.operations.filter(isRun)
    context.diagnostic(tell(run))
    assert.deepEqual(
      run.map(({ foreign }) => foreign),
      [false, true, false, true, false],
    )
    assert.match(run[1]?.name ?? '', /gemm/)
    assert.match(run[3]?.name ?? '', /^void at::native::.*Fill/)
    assert.equal(run[1]?.stream.name, 'null stream')
    for (const [index, { called, returned, start = Number.NaN, end = Number.NaN }] of run.entries()) {
      assert.ok(called <= returned && called <= start + SLACK && start < end, tell(run))
      assert.ok(called >= (run[index - 1]?.returned ?? 0) - SLACK, tell(run))
    }
    const spins = run.filter(({ name }) => name === 'spin')
    assert.equal(spins.length, 2)
    for (const { start = 0, end = 0 } of spins) assert.ok(end - start >= SPIN && end - start < 2 * SPIN, tell(run))
    // The streams are not ordered: PyTorch's kernel runs beside ours, which takes two milliseconds.
    assert.ok((run[1]?.start ?? 0) < (spins[0]?.end ?? 0), tell(run))
  })

  it('has their work on the track of the stream that the library wraps, also what waited for ours', async (context) => {
    const theirs = new ExternalStream(python.evaluate('s.cuda_stream').bigint())
    const timeline = await Timeline.record(
      async () => {
        stream.launch(spin, ONE, SPIN)
        theirs.wait(stream)
        python.run('with torch.cuda.stream(s): y = x @ x')
        stream.wait(theirs)
        stream.launch(spin, ONE, SPIN)
        await stream.finished()
      },
      { everything: true },
    )
    const run = timeline.operations.filter(isRun)
    context.diagnostic(tell(run))
    assert.deepEqual(
      run.map(({ stream: { id } }) => id),
      [stream.id, theirs.id, stream.id],
    )
    for (const [index, { start = 0 }] of run.entries()) {
      assert.ok(start + SLACK >= (run[index - 1]?.end ?? 0), tell(run))
    }
  })

  it('has the work of PyTorch’s other threads, and of its graphs', async (context) => {
    python.run(`
      g = torch.cuda.CUDAGraph()
      with torch.cuda.graph(g): y2 = x + x
      torch.cuda.synchronize()
    `)
    const timeline = await Timeline.record(
      async () => {
        python.run('(w @ w).sum().backward()')
        python.run('t = threading.Thread(target=lambda: x.cpu()); t.start(); t.join()')
        python.run('g.replay()')
        await turn()
      },
      { everything: true },
    )
    const run = timeline.operations.filter(isRun)
    context.diagnostic(tell(run))
    assert.ok(run.every(({ foreign }) => foreign))
    assert.ok(run.filter(({ name }) => /gemm/.test(name)).length >= 3, tell(run))
    assert.ok(run.some(({ kind, byteLength }) => kind === 'copy' && byteLength === 4 * 1024 * 1024))
    assert.match(run.at(-1)?.name ?? '', /elementwise.*add/i)
    for (const { start, end } of run) assert.ok(start !== undefined && end !== undefined, tell(run))
  })

  it('has the nodes of our graphs, and copies and fills once', async (context) => {
    const pinned = device.allocPinned(1 << 20)
    const exec = stream
      .capture(() => {
        stream.launch(spin, ONE, 1000)
        stream.fill(buffer, 2)
      })
      .instantiate()
    const timeline = await Timeline.record(
      async () => {
        stream.launch(exec)
        stream.copy(buffer, pinned)
        await stream.upload(buffer, new Uint8Array(1 << 20))
        await stream.download(buffer)
      },
      { everything: true },
    )
    const run = timeline.operations.filter(isRun)
    context.diagnostic(tell(run))
    const launch = timeline.operations.find(({ kind }) => kind === 'graph')
    assert.ok(
      run.every(({ foreign }) => !foreign),
      tell(run),
    )
    assert.deepEqual(
      run.filter(({ graph }) => graph === launch?.id).map(({ kind }) => kind),
      ['kernel', 'fill'],
    )
  })

  it('loses none of twenty thousand that PyTorch queues while it has this thread', async () => {
    const count = 20_000
    const timeline = await Timeline.record(
      () => python.run(`for _ in range(${count}): torch.relu_(y)\ntorch.cuda.synchronize()`),
      { everything: true },
    )
    assert.equal(timeline.operations.length, count)
    assert.ok(timeline.operations.every(({ kind, foreign }) => kind === 'kernel' && foreign))
  })

  it('has CuPy’s kernels', async (context) => {
    try {
      python.run('import cupy\nc = cupy.ones(1000)\ncupy.cuda.runtime.deviceSynchronize()')
    } catch (error) {
      context.skip(`no CuPy here: ${error instanceof Error ? error.message.split('\n').at(-1) : ''}`)
      return
    }
    const timeline = await Timeline.record(() => python.run('d = c + c'), { everything: true })
    const run = timeline.operations.filter(({ kind }) => kind === 'kernel')
    assert.ok(
      run.some(({ name, foreign }) => foreign && /add/.test(name)),
      tell(run),
    )
  })

  it('tells the cost of a launch: without, recorded, recorded with everything, and after it', async (context) => {
    const cost = async (): Promise<number> => {
      let best = Number.POSITIVE_INFINITY
      for (let round = 0; round < 30; round += 1) {
        const began = performance.now()
        for (let call = 0; call < 300; call += 1) stream.launch(spin, ONE, 0)
        best = Math.min(best, (performance.now() - began) / 300)
        await stream.finished()
      }
      return Math.round(best * 1e6)
    }
    const costs: number[] = [await cost()]
    for (const everything of [false, true]) {
      const recording = Timeline.start({ everything })
      costs.push(await cost())
      const began = performance.now()
      const { operations } = await recording.stop()
      context.diagnostic(`${operations.length} operations read in ${Math.round(performance.now() - began)} ms`)
    }
    context.diagnostic(`ns: ${[...costs, await cost()].join(', ')}`)
  })

  it('leaves CUPTI to PyTorch’s profiler, which keeps it: then it says so', async () => {
    python.run(`
      from torch.profiler import profile, ProfilerActivity
      with profile(activities=[ProfilerActivity.CUDA]) as p:
        y = x @ x
        torch.cuda.synchronize()
      seen = [e.name for e in p.events()]
    `)
    assert.match(python.evaluate('seen').text(), /gemm/)
    await assert.rejects(
      Timeline.record(() => {}, { everything: true }),
      { code: 'CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED' },
    )
  })
})
