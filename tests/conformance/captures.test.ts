/** C1, C3, C5, H5 and R9 while a stream captures: what is refused, and that nothing of the library invalidates a capture. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CudaError, ExternalStream, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import {
  beginCapture,
  CAPTURE_MODES,
  type CaptureMode,
  checkCudaError,
  endQuietly,
  ONE_DEVICE,
  refused,
  refusedByDriver,
  secondDevice,
  stillWorks,
  turns,
} from './expect.js'

const UNSUPPORTED = 900
const INVALIDATED = 901
const CAPTURED_EVENT = 907

onEveryBackend('while a stream captures', (bench) => {
  const { device } = bench

  interface Capture {
    end(): number
  }
  const capturing = async (
    mode: CaptureMode,
    test: (stream: Stream, capture: Capture) => void | Promise<void>,
  ): Promise<void> => {
    using stream = bench.stream()
    // A kernel is loaded at its first launch, which is no call for the middle of a capture.
    stillWorks(bench, stream)
    const capture = beginCapture(stream, mode)
    try {
      await test(stream, capture)
    } finally {
      endQuietly(stream, capture)
    }
    assert.equal(stream.isCapturing, false)
    stillWorks(bench, stream)
  }
  const endsWell = (stream: Stream, capture: Capture): void => {
    assert.equal(stream.isCapturing, true)
    assert.ok(capture.end() > 0n)
    assert.equal(stream.isCapturing, false)
  }
  const rejection = (promise: Promise<void>): Promise<unknown> =>
    promise.then(
      () => assert.fail('it was fulfilled'),
      (error: unknown) => error,
    )

  test('C1 query() and synchronize() of a capturing stream throw what the driver says', async () => {
    for (const [, mode] of CAPTURE_MODES) {
      for (const ask of [(stream: Stream) => stream.query(), (stream: Stream) => stream.synchronize()]) {
        await capturing(mode, (stream, capture) => {
          const error = refusedByDriver(() => ask(stream), UNSUPPORTED)
          assert.equal(error.code, 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
          refusedByDriver(() => capture.end(), INVALIDATED)
        })
      }
    }
  })

  test('C1 query() and synchronize() of an event recorded in the capture throw what the driver says', async () => {
    for (const ask of ['query', 'synchronize'] as const) {
      await capturing(2, (stream, capture) => {
        using event = stream.record()
        const error = refusedByDriver(() => event[ask](), CAPTURED_EVENT)
        assert.equal(error.code, 'CUDA_ERROR_CAPTURED_EVENT')
        refusedByDriver(() => capture.end(), INVALIDATED)
      })
    }
  })

  test('C1 synchronize() of the device throws a CudaError', () =>
    capturing(2, (stream) => {
      assert.throws(() => device.synchronize(), CudaError)
      assert.equal(stream.closed, false)
    }))

  for (const [name, mode] of CAPTURE_MODES) {
    test(`C3 finished() of a capturing stream rejects with 900 and leaves the capture as it was: ${name}`, () =>
      capturing(mode, async (stream, capture) => {
        for (const options of [undefined, { signal: new AbortController().signal }]) {
          const error = checkCudaError(await rejection(stream.finished(options)), UNSUPPORTED)
          assert.equal(error.code, 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
        }
        await turns()
        endsWell(stream, capture)
      }))

    test(`C3 finished() of a stream that joined the capture rejects too: ${name}`, () =>
      capturing(mode, async (stream, capture) => {
        using joined = bench.stream()
        joined.wait(stream)
        assert.equal(joined.isCapturing, true)
        checkCudaError(await rejection(joined.finished()), UNSUPPORTED)
        stream.wait(joined)
        endsWell(stream, capture)
        assert.equal(joined.isCapturing, false)
        stillWorks(bench, joined)
      }))

    test(`C3 finished() of a device on which a stream captures rejects too: ${name}`, () =>
      capturing(mode, async (stream, capture) => {
        for (const options of [undefined, { signal: new AbortController().signal }]) {
          const error = checkCudaError(await rejection(device.finished(options)), UNSUPPORTED)
          assert.equal(error.call, 'cuCtxRecordEvent')
        }
        await turns()
        endsWell(stream, capture)
        await device.finished()
      }))

    test(`C3 finished() of a device whose stream has joined a capture rejects too: ${name}`, async (context) => {
      const second = secondDevice(bench)
      if (second === undefined) return context.skip(ONE_DEVICE)
      using joined = bench.stream({ device: second })
      await capturing(mode, async (stream, capture) => {
        await second.finished()
        joined.wait(stream)
        checkCudaError(await rejection(second.finished()), UNSUPPORTED)
        stream.wait(joined)
        endsWell(stream, capture)
      })
      await second.finished()
    })

    test(`R9 synchronize() of a device invalidates the captures that its streams are in, and no other: ${name}`, (context) => {
      const second = secondDevice(bench)
      if (second === undefined) return context.skip(ONE_DEVICE)
      using stream = bench.stream()
      using joined = bench.stream({ device: second })
      stream.beginCapture(name)
      second.synchronize()
      assert.equal(stream.endCapture().nodeCount, 0)
      stream.beginCapture(name)
      joined.wait(stream)
      checkCudaError(
        refused(() => second.synchronize(), 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED'),
        UNSUPPORTED,
      )
      refused(() => stream.endCapture(), 'CUDA_ERROR_STREAM_CAPTURE_INVALIDATED')
    })

    test(`C5 waits and host functions that are pending elsewhere invalidate no capture: ${name}`, async () => {
      using other = bench.stream()
      const order: string[] = []
      using latch = bench.latch(other)
      const event = other.record()
      other.launchHostFunc(() => order.push('host function'))
      const waits = [other.finished(), event.finished(), device.finished()]
      await turns()
      await capturing(mode, async (stream, capture) => {
        await turns()
        stream.wait(stream.record())
        const during = other.finished()
        await turns()
        assert.deepEqual(order, [])
        assert.equal(stream.isCapturing, true)
        latch.open()
        await Promise.all(waits)
        await during
        assert.deepEqual(order, ['host function'])
        await turns()
        endsWell(stream, capture)
      })
      await other.finished()
    })

    test(`C5 finished() that is begun during a capture does not invalidate it: ${name}`, () =>
      capturing(mode, async (stream, capture) => {
        using other = bench.stream()
        bench.busy(other, 100_000)
        using event = other.record()
        let ran = false
        other.launchHostFunc(() => {
          ran = true
        })
        await Promise.all([other.finished(), event.finished()])
        assert.equal(ran, true)
        endsWell(stream, capture)
      }))

    test(`C5 finished() of an event recorded in the capture rejects and does not invalidate it: ${name}`, () =>
      capturing(mode, async (stream, capture) => {
        using event = stream.record()
        assert.ok((await rejection(event.finished())) instanceof CudaError)
        await turns()
        endsWell(stream, capture)
      }))
  }

  test('C3 finished() of a device rejects too while its per-thread stream captures, or a wrapped one', async () => {
    const perThread = device.run(() => Stream.perThread)
    const handle = bench.foreignStream(device)
    const wrapped = new ExternalStream(handle, { device })
    for (const stream of [perThread, wrapped]) {
      stream.beginCapture('relaxed')
      checkCudaError(await rejection(device.finished()), UNSUPPORTED)
      stream.endCapture().close()
      await device.finished()
    }
    await capturing(2, async (stream, capture) => {
      perThread.wait(stream)
      checkCudaError(await rejection(device.finished()), UNSUPPORTED)
      stream.wait(perThread)
      endsWell(stream, capture)
    })
    bench.destroyForeignStream(handle)
    await device.finished()
  })

  test('C5 a wait between streams of a capture is part of it', () =>
    capturing(0, async (stream, capture) => {
      using joined = bench.stream()
      joined.wait(stream)
      assert.equal(joined.isCapturing, true)
      stream.wait(joined)
      using event = joined.record()
      stream.wait(event)
      endsWell(stream, capture)
    }))

  test('H5 addCallback() cannot be captured, and its refusal leaves the capture as it was', () =>
    capturing(0, (stream, capture) => {
      const error = refusedByDriver(() => stream.addCallback(() => assert.fail('it ran'), undefined), UNSUPPORTED)
      assert.equal(error.call, 'cuStreamAddCallback')
      endsWell(stream, capture)
    }))

  test('H5 launchHostFunc() can be captured, and does not run by that', () =>
    capturing(1, async (stream, capture) => {
      assert.equal(
        stream.launchHostFunc(() => assert.fail('it ran without a launch of the graph')),
        stream,
      )
      await turns()
      endsWell(stream, capture)
      await stream.finished()
    }))
})
