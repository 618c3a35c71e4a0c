/** Errors of mistakes show the program's line first, as those of JavaScript's own functions do; others show everything. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeviceBuffer, Stream } from 'cuda-streams'
import { fault, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'

/** The frames of the error that this function throws; the caller's line is the first if it is named `theCall`. */
function framesOf(theCall: () => unknown): string[] {
  try {
    theCall()
  } catch (error) {
    return String((error as Error).stack)
      .split('\n')
      .filter((line) => line.startsWith('    at '))
  }
  assert.fail('nothing was thrown')
}

onEveryBackend('the stack of an error', (bench) => {
  const { device } = bench

  test('A7 an error about an argument, or of closed objects, begins at the call', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(16, { stream })
    const closed = device.alloc(16, { stream })
    closed.close()
    const calls: Readonly<Record<string, () => unknown>> = {
      ERR_INVALID_ARG_TYPE: function theCall() {
        stream.fill(buffer, 1.5)
      },
      ERR_INVALID_ARG_VALUE: function theCall() {
        stream.fill(buffer.subarray(1, 5), 1, { width: 4 })
      },
      ERR_OUT_OF_RANGE: function theCall() {
        buffer.subarray(8, 24)
      },
      ERR_CLOSED: function theCall() {
        stream.copy(buffer, closed)
      },
      'ERR_INVALID_ARG_TYPE of a constructor': function theCall() {
        new Stream({ device, priority: 'high' as unknown as number })
      },
      'ERR_INVALID_ARG_TYPE of a static method': function theCall() {
        DeviceBuffer.from('0' as unknown as bigint, 4)
      },
      'ERR_INVALID_ARG_TYPE of an element': function theCall() {
        stream.copy([[buffer, 1 as unknown as DeviceBuffer]])
      },
    }
    for (const [code, call] of Object.entries(calls))
      assert.match(framesOf(call)[0] ?? '', /theCall .*callers\.test/, code)
    const error: unknown = await stream.download(closed).catch((reason: unknown) => reason)
    assert.match(String(error instanceof Error && error.stack), /used any more\n {4}at .*callers\.test/)
  })

  test('A7 a refusal of the driver has the whole stack', () => {
    using stream = bench.stream()
    stream.beginCapture()
    const [first = ''] = framesOf(() => stream.synchronize())
    assert.throws(() => stream.endCapture())
    assert.match(first, /dist\/src\//)
  })

  test('A7 the number and the format of the frames are those that the program asks for', () => {
    const { stackTraceLimit, prepareStackTrace } = Error
    const deep = (depth: number): unknown => (depth === 0 ? device.alloc(-1) : deep(depth - 1))
    try {
      for (const limit of [0, 1, 3, Number.POSITIVE_INFINITY]) {
        Error.stackTraceLimit = limit
        const frames = framesOf(() => deep(5))
        assert.ok(limit > 20 ? frames.length > 6 : frames.length === limit, `${frames.length} frames of ${limit}`)
        for (const frame of frames.slice(0, 5)) assert.match(frame, /at deep/)
        assert.equal(Error.stackTraceLimit, limit)
      }
      Error.stackTraceLimit = 10
      Error.prepareStackTrace = (error, sites) => `${error.message} of ${sites.length > 0}`
      assert.throws(() => device.alloc(-1), { stack: /, not -1 of true$/ })
      Error.prepareStackTrace = () => 7
      assert.throws(() => device.alloc(-1), { stack: 7 })
    } finally {
      Error.stackTraceLimit = stackTraceLimit
      if (prepareStackTrace === undefined) Reflect.deleteProperty(Error, 'prepareStackTrace')
      else Error.prepareStackTrace = prepareStackTrace
    }
  })
})

test('A7 the error of a fault begins at the call that reports it', async () => {
  const [device] = simulate().devices
  assert.ok(device)
  const stream = device.createStream()
  const buffer = device.alloc(16, { stream })
  const event = device.createEvent()
  await stream.finished()
  fault(stream)
  await assert.rejects(stream.finished(), { number: 700 })
  const calls: readonly (() => unknown)[] = [
    function theCall() {
      stream.fill(buffer, 1)
    },
    function theCall() {
      stream.synchronize()
    },
    function theCall() {
      stream.record(event)
    },
    function theCall() {
      device.synchronize()
    },
  ]
  for (const call of calls) assert.match(framesOf(call)[0] ?? '', /theCall .*callers\.test/, String(call))
  const error: unknown = await stream.download(buffer).catch((reason: unknown) => reason)
  assert.match(String(error instanceof Error && error.stack), /\n {4}at [^\n]*callers\.test/)
})
