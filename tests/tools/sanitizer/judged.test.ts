/**
 * Programs that the sanitizer was once wrong about, on every backend, with exploration as the judge: is the order there,
 * or can two runs come to different results?
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Device,
  type DeviceBuffer,
  ExternalStream,
  type PinnedBuffer,
  Stream,
  type StreamOptions,
} from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { destroyForeignStream, explore, foreignStream } from 'cuda-streams/sim'
import { withoutPromiseHooks } from '../../helpers/run-time.js'
import { onEveryBackend } from '../../helpers/suite.js'

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
function afterCapture(fixed: boolean): Judged {
  return {
    racy: !fixed,
    program: async (stage, look) => {
      const [origin, joined, other] = [stage.stream(), stage.stream(), stage.stream()]
      const data = stage.device.alloc(BYTES, { stream: other })
      stage.device.synchronize()
      look()
      origin.beginCapture()
      joined.wait(origin)
      origin.close()
      joined.fill(data, 1)
      if (fixed) other.wait(joined)
      other.fill(data, 2)
      return lastOf(stage, data)
    },
  }
}

/** Where the driver gives out a handle again, the stream behind it is another. */
function anotherOfThatHandle(fixed: boolean): Judged {
  return {
    racy: !fixed,
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
      if (fixed) two.wait(done)
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

/** What a program with values works on. */
interface Words {
  readonly device: Device
  /** The streams that write, and the one that waits. */
  readonly one: Stream
  readonly other: Stream
  readonly waiting: Stream
  /** A flag in pinned memory, which is 0, and what JavaScript sees of it; and one in memory of the device. */
  readonly flag: PinnedBuffer
  readonly words: Uint32Array
  readonly deviceFlag: DeviceBuffer
  /** Memory that is filled, and other memory. */
  readonly data: DeviceBuffer
  readonly rest: DeviceBuffer
}

/** A stream that waits for a value comes after what every write has before it that may meet the wait. At last it copies `data`. */
function values(racy: boolean, program: (words: Words) => unknown, isOlder = false): Judged {
  return {
    racy,
    program: async (stage, look) => {
      const { device } = stage
      if (!isOlder) look()
      const [one, other, waiting] = [stage.stream(), stage.stream(), stage.stream()]
      const [data, rest, result] = [device.alloc(BYTES), device.alloc(BYTES), device.alloc(BYTES)]
      const [flag, deviceFlag] = [device.allocPinned(8), device.alloc(8, { interprocess: true })]
      const words = flag.view(Uint32Array).fill(0)
      for (const buffer of [data, deviceFlag]) device.defaultStream.fill(buffer, 0)
      device.synchronize()
      if (isOlder) look()
      await program({ device, one, other, waiting, flag, words, deviceFlag, data, rest })
      waiting.copy(result, data)
      return lastOf(stage, result)
    },
  }
}

const EQUAL = { compare: 'eq' } as const

async function takenBack({ words, flag, one, data, waiting }: Words): Promise<void> {
  for (let round = 1; round <= 2; round += 1) {
    words[0] = 0
    one.fill(data, round).writeValue(flag, 1)
    waiting.waitValue(flag, 1)
    if (round === 1) await waiting.finished()
  }
}

const valueCases: Readonly<Record<string, Judged>> = {
  'a value that the first of two writes meets, with the data behind that': values(true, (w) => {
    w.one.fill(w.rest, 1).writeValue(w.flag, 1).fill(w.data, 2).writeValue(w.flag, 2)
    w.waiting.waitValue(w.flag, 1)
  }),
  'a value that the second alone meets': values(false, (w) => {
    w.one.fill(w.rest, 1).writeValue(w.flag, 1).fill(w.data, 2).writeValue(w.flag, 2)
    w.waiting.waitValue(w.flag, 2)
  }),
  'a value that both meet, with the data before the first': values(false, (w) => {
    w.one.fill(w.data, 1).writeValue(w.flag, 1).fill(w.rest, 2).writeValue(w.flag, 2)
    w.waiting.waitValue(w.flag, 1)
  }),
  'a value that two streams write, with the data on one': values(true, (w) => {
    w.one.fill(w.data, 1).writeValue(w.flag, 1)
    w.other.writeValue(w.flag, 1)
    w.waiting.waitValue(w.flag, 1)
  }),
  'the same, and both have the data before them': values(false, (w) => {
    w.one.fill(w.data, 1)
    w.other.wait(w.one).writeValue(w.flag, 1)
    w.one.writeValue(w.flag, 1)
    w.waiting.waitValue(w.flag, 1)
  }),
  'a value that two streams write after the wait': values(true, (w) => {
    w.waiting.waitValue(w.flag, 1)
    w.one.fill(w.data, 1).writeValue(w.flag, 1)
    w.other.writeValue(w.flag, 1)
  }),
  'a value that is written after the wait, and the data after that': values(true, (w) => {
    w.waiting.waitValue(w.flag, 1)
    w.one.writeValue(w.flag, 1).fill(w.data, 1).writeValue(w.flag, 2)
  }),
  'a value that the waiting stream writes itself, later': values(true, (w) => {
    w.one.fill(w.data, 1)
    w.other.writeValue(w.flag, 1)
    w.waiting.waitValue(w.flag, 1).writeValue(w.flag, 2)
  }),
  'a bit, which one of two writes has': values(false, (w) => {
    w.one.writeValue(w.flag, 2).fill(w.data, 1).writeValue(w.flag, 5)
    w.waiting.waitValue(w.flag, 4, { compare: 'and' })
  }),
  'a bit that both have': values(true, (w) => {
    w.one.writeValue(w.flag, 6).fill(w.data, 1).writeValue(w.flag, 5)
    w.waiting.waitValue(w.flag, 4, { compare: 'and' })
  }),
  'a value that was there from the beginning': values(true, (w) => {
    w.words[0] = 1
    w.one.fill(w.data, 2).writeValue(w.flag, 2)
    w.waiting.waitValue(w.flag, 1)
  }),
  'a value that a fill has put there': values(true, (w) => {
    w.device.defaultStream.fill(w.deviceFlag, 1)
    w.device.synchronize()
    w.one.fill(w.data, 2).writeValue(w.deviceFlag, 0x02020202)
    w.waiting.waitValue(w.deviceFlag, 0x01010101)
  }),
  'a value that a fill is to put there': values(false, (w) => {
    w.one.fill(w.data, 2).fill(w.deviceFlag, 1)
    w.waiting.waitValue(w.deviceFlag, 0x01010101, EQUAL)
  }),
  'a value that was there, and was overwritten before the wait': values(false, (w) => {
    w.one.writeValue(w.flag, 1)
    w.waiting.wait(w.one.writeValue(w.flag, 0))
    w.one.fill(w.data, 2).writeValue(w.flag, 1)
    w.waiting.waitValue(w.flag, 1)
  }),
  'two streams that take turns by one value': values(false, (w) => {
    for (let turn = 1; turn <= 2; turn += 1) {
      w.one.waitValue(w.flag, 0, EQUAL).fill(w.data, turn).writeValue(w.flag, 1)
      w.waiting.waitValue(w.flag, 1, EQUAL)
      if (turn === 1) w.waiting.copy(w.rest, w.data).writeValue(w.flag, 0)
    }
  }),
  'a value that JavaScript takes back between two rounds': values(false, takenBack),
  'the same, in memory that is older than the sanitizer': values(false, takenBack, true),
  'a value that an upload takes back between two rounds': values(false, async (w) => {
    for (let round = 1; round <= 2; round += 1) {
      w.one.upload(w.deviceFlag, new Uint32Array(2))
      await w.one.finished()
      w.one.fill(w.data, round).writeValue(w.deviceFlag, 1)
      w.waiting.waitValue(w.deviceFlag, 1)
      if (round === 1) await w.waiting.finished()
    }
  }),
  'half a word of 64 bits': values(true, (w) => {
    w.one
      .writeValue(w.flag, 1n)
      .fill(w.data, 1)
      .writeValue(w.flag, 1n << 32n)
      // A GPU may look only now.
      .writeValue(w.flag, 1n)
    w.waiting.waitValue(w.flag, 1, EQUAL)
  }),
  'a value that a graph writes and a graph waits for': values(false, (w) => {
    const waits = w.waiting.capture(() => w.waiting.waitValue(w.flag, 1).copy(w.rest, w.data)).instantiate()
    const writes = w.one.capture(() => w.one.fill(w.data, 1).writeValue(w.flag, 1)).instantiate()
    w.one.launch(writes)
    w.waiting.launch(waits)
  }),
  'a value that a graph writes before it has the data': values(true, (w) => {
    const writes = w.one.capture(() => w.one.writeValue(w.flag, 1).fill(w.data, 1)).instantiate()
    w.one.launch(writes)
    w.waiting.waitValue(w.flag, 1)
  }),
}

const cases: Readonly<Record<string, Judged>> = {
  ...valueCases,
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

const modes = withoutPromiseHooks ? [false] : [false, true]
const all = modes.flatMap((causal) => Object.entries(cases).map(([title, judged]) => ({ causal, title, ...judged })))

onEveryBackend('the sanitizer says the same', (bench) => {
  for (const { causal, title, racy, program } of all) {
    it(`${racy ? 'a race' : 'nothing'}${causal ? ', with causal' : ''}: ${title}`, async () => {
      let sanitizer: Sanitizer | undefined
      try {
        await program(bench, () => {
          sanitizer = Sanitizer.start({ device: bench.device, causal })
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
