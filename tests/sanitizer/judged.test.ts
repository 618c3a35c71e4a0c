/**
 * Programs that the sanitizer was once wrong about, on every backend, with exploration as the judge: is the order there,
 * or can two runs come to different results?
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, ExternalStream, Stream, type StreamOptions } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { destroyForeignStream, explore, foreignStream } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'

const BYTES = 16

/** What a program needs of a workbench, and of a simulation that is explored. */
interface Stage {
  readonly device: Device
  stream(options?: StreamOptions): Stream
  foreignStream(device: Device, options?: StreamOptions): bigint
  destroyForeignStream(handle: bigint): void
}

interface Judged {
  readonly racy: boolean
  /** Calls `look` where the sanitizer is to begin. What it returns tells the orders apart. */
  readonly program: (stage: Stage, look: () => void) => unknown
}

const BLOCKING = { nonBlocking: false }

/** The last value that the buffer gets. */
function lastOf({ device }: Stage, buffer: Parameters<Stream['download']>[0]): Promise<Uint8Array> {
  device.synchronize()
  return device.defaultStream.download(buffer)
}

/** A joined stream is free when the stream that began the capture is closed: what it is given then is queued. */
function afterCapture(mended: boolean): Judged {
  return {
    racy: !mended,
    program: async (stage, look) => {
      const [origin, joined, other] = [stage.stream(), stage.stream(), stage.stream()]
      const data = stage.device.alloc(BYTES, { stream: other })
      stage.device.synchronize()
      look()
      origin.beginCapture()
      joined.wait(origin)
      origin.close()
      joined.fill(data, 1)
      if (mended) other.wait(joined)
      other.fill(data, 2)
      return lastOf(stage, data)
    },
  }
}

/** Where the driver gives out a handle again, the stream behind it is another. */
function anotherOfThatHandle(mended: boolean): Judged {
  return {
    racy: !mended,
    program: async (stage, look) => {
      const { device } = stage
      const data = device.alloc(BYTES)
      device.synchronize()
      look()
      const first = stage.foreignStream(device)
      const one = new ExternalStream(first, { device })
      one.fill(data, 1)
      const done = one.record()
      one.close()
      stage.destroyForeignStream(first)
      const second = stage.foreignStream(device)
      const two = new ExternalStream(second, { device })
      if (mended) two.wait(done)
      two.fill(data, 2)
      two.close()
      stage.destroyForeignStream(second)
      return lastOf(stage, data)
    },
  }
}

/** The record of a promise is no work of a blocking stream: to wait for that is not to wait for the null stream. */
function afterPromise(how: 'nothing' | 'promise' | 'promise awaited'): Judged {
  return {
    racy: how !== 'promise awaited',
    program: async (stage, look) => {
      const { device } = stage
      const [free, blocking] = [stage.stream(), stage.stream(BLOCKING)]
      const data = device.alloc(BYTES, { stream: free })
      device.synchronize()
      look()
      device.defaultStream.fill(data, 1)
      if (how === 'promise awaited') await blocking.finished()
      if (how === 'promise') void blocking.finished()
      blocking.synchronize()
      free.fill(data, 2)
      return lastOf(stage, data)
    },
  }
}

/** A promise of the null stream is refused while a blocking stream captures: then nothing was recorded there. */
function afterRefusal(how: 'nothing' | 'refused' | 'kept'): Judged {
  return {
    racy: how !== 'kept',
    program: async (stage, look) => {
      const { device } = stage
      const [left, right, captured] = [stage.stream(BLOCKING), stage.stream(BLOCKING), stage.stream(BLOCKING)]
      const data = device.alloc(BYTES)
      device.synchronize()
      look()
      left.fill(data, 1)
      captured.beginCapture()
      if (how === 'refused') await assert.rejects(device.defaultStream.finished(), { number: 906 })
      captured.endCapture()
      if (how === 'kept') void device.defaultStream.finished()
      right.fill(data, 2)
      return lastOf(stage, data)
    },
  }
}

/** A record on the null stream joins the blocking streams, whoever asks for it. */
function joinedBy(how: 'nothing' | 'record' | 'timed record' | 'promise'): Judged {
  return {
    racy: how === 'nothing',
    program: async (stage, look) => {
      const { device } = stage
      const [left, right] = [stage.stream(BLOCKING), stage.stream(BLOCKING)]
      const data = device.alloc(BYTES)
      device.synchronize()
      look()
      left.fill(data, 1)
      if (how === 'record') device.defaultStream.record()
      if (how === 'timed record') device.defaultStream.record({ timing: true })
      if (how === 'promise') void device.defaultStream.finished()
      right.fill(data, 2)
      return lastOf(stage, data)
    },
  }
}

/** A stream that captures cannot be asked whether it is a blocking one; afterwards it can. */
function metWhileCapturing(options: StreamOptions, how: 'captured on' | 'wrapped'): Judged {
  return {
    racy: options.nonBlocking !== false,
    program: async (stage, look) => {
      const { device } = stage
      const stream = stage.stream(options)
      const [data, other] = [device.alloc(BYTES), device.alloc(BYTES)]
      device.synchronize()
      stream.beginCapture()
      look()
      const wrapped = how === 'wrapped' ? new ExternalStream(stream.handle, { device }) : stream
      wrapped.fill(other, 1)
      stream.endCapture()
      wrapped.fill(data, 1)
      device.defaultStream.fill(data, 2)
      return lastOf(stage, data)
    },
  }
}

const cases: Readonly<Record<string, Judged>> = {
  'a stream that was in a capture whose origin was closed': afterCapture(false),
  'the same, with the wait': afterCapture(true),
  'a stream that got the handle of one that is gone': anotherOfThatHandle(false),
  'the same, with a wait for what was recorded there': anotherOfThatHandle(true),
  'a blocking stream that was waited for, and the null stream': afterPromise('nothing'),
  'the same, with a promise besides': afterPromise('promise'),
  'the same, with a promise that was awaited': afterPromise('promise awaited'),
  'two blocking streams, beside a capture': afterRefusal('nothing'),
  'the same, with a promise of the null stream that is refused': afterRefusal('refused'),
  'the same, with one that is not': afterRefusal('kept'),
  'two blocking streams': joinedBy('nothing'),
  'two blocking streams, with a record on the null stream between': joinedBy('record'),
  'two blocking streams, with a timed record there': joinedBy('timed record'),
  'two blocking streams, with a promise of the null stream between': joinedBy('promise'),
  'a blocking stream that was met while it captured': metWhileCapturing(BLOCKING, 'captured on'),
  'a blocking stream that was wrapped while it captured': metWhileCapturing(BLOCKING, 'wrapped'),
  'a non-blocking stream that was met while it captured': metWhileCapturing({}, 'captured on'),
  'a non-blocking stream that was wrapped while it captured': metWhileCapturing({}, 'wrapped'),
}

describe('exploration finds', () => {
  for (const [title, { racy, program }] of Object.entries(cases)) {
    it(`${racy ? 'two results' : 'one result'}: ${title}`, async () => {
      const { verdict, complete, message } = await explore(({ devices: [device] }) => {
        assert.ok(device)
        const stream: Stage['stream'] = (options) => new Stream({ device, ...options })
        const stage = { device, stream, foreignStream, destroyForeignStream }
        return program(stage, () => {})
      })
      assert.equal(verdict, racy ? 'disagree' : 'agree', message)
      assert.ok(racy || complete)
    })
  }
})

onEveryBackend('the sanitizer says the same', (bench) => {
  for (const [title, { racy, program }] of Object.entries(cases)) {
    it(`${racy ? 'a race' : 'nothing'}: ${title}`, async () => {
      let sanitizer: Sanitizer | undefined
      try {
        await program(bench, () => {
          sanitizer = Sanitizer.start({ device: bench.device })
        })
      } finally {
        sanitizer?.stop()
      }
      const reports = sanitizer?.reports ?? []
      const told = reports.map(({ message }) => message).join('\n\n')
      assert.deepEqual(
        reports.map(({ kind }) => kind),
        racy ? ['race'] : [],
        told,
      )
    })
  }
})
