/** What exploration promises: few runs, replay, deadlocks, host functions that run in some orders only, and budgets. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type DeviceBuffer, defineKernel, type PinnedBuffer, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import {
  busy,
  type ExploredProgram,
  type ExploreProgress,
  explore,
  fault,
  latch,
  replay,
  type Simulation,
} from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { add, read, scale, set } from '../../../examples/ordering-bugs/scene.js'

function open({ devices: [device] }: Simulation, count: number): { streams: Stream[]; buffers: DeviceBuffer[] } {
  assert.ok(device)
  const streams = Array.from({ length: count }, () => new Stream({ device }))
  const buffers = Array.from({ length: count }, () => device.alloc(16))
  return { streams, buffers }
}

/** Streams with so many operations each, on a buffer of their own, of which the last writes one buffer of all. */
function independent(count: number, operations: number): ExploredProgram {
  return async (simulation) => {
    const { streams, buffers } = open(simulation, count)
    const shared = buffers[0] as DeviceBuffer
    for (const [index, stream] of streams.entries()) {
      const own = buffers[index] as DeviceBuffer
      for (let nth = 1; nth < operations; nth += 1) set(stream, own, nth)
      set(stream, shared, index)
    }
    simulation.devices[0]?.synchronize()
    return 'the same in every order'
  }
}

/** A copy of a graph within pinned memory, whose result another stream copies away. */
function copiedAway(waits: boolean): ExploredProgram {
  return async (simulation) => {
    const { streams } = open(simulation, 2)
    const [stream, other] = streams as [Stream, Stream]
    // JavaScript has no view of the memory: it would be looked at whenever JavaScript runs.
    const [to, from, away] = [0, 1, 0].map((value) => {
      const pinned = stream.device.allocPinned(16)
      stream.fill(pinned, value)
      return pinned
    }) as [PinnedBuffer, PinnedBuffer, PinnedBuffer]
    stream.synchronize()
    stream.launch(stream.capture(() => void stream.copy(to, from)).instantiate())
    if (waits) other.wait(stream)
    other.copy(away, to)
    await Promise.all([stream.finished(), other.finished()])
    return away.bytes[0]
  }
}

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1))

describe('a copy that the event loop makes', () => {
  for (const [waits, verdict] of [
    [false, 'disagree'],
    [true, 'agree'],
  ] as const) {
    it(`touches its memory when it runs: a copy elsewhere that waits for it: ${waits}`, async () => {
      assert.equal((await explore(copiedAway(waits))).verdict, verdict)
    })
  }
})

describe('the number of runs', () => {
  const interleavings = (streams: number, each: number): number =>
    factorial(streams * each) / factorial(each) ** streams

  it('is that of all orders where nothing is left out', async () => {
    for (const [streams, each] of [
      [2, 3],
      [3, 2],
    ] as const) {
      const { runs, complete } = await explore(independent(streams, each), { strategy: 'every' })
      assert.equal(runs, interleavings(streams, each))
      assert.ok(complete)
    }
  })

  it('is a hundredth at most of that, for three streams with twelve operations', async () => {
    const { runs, complete, verdict } = await explore(independent(3, 4))
    assert.equal(verdict, 'agree')
    assert.ok(complete)
    assert.equal(interleavings(3, 4), 34_650)
    assert.ok(runs * 100 <= 34_650, `${runs} runs`)
  })

  it('is not complete for a program that queues nothing on its own devices: it may use the default one', async () => {
    const { complete, incomplete, message } = await explore(async () => {
      const stream = new Stream()
      return stream.download(stream.bufferFrom(new Uint8Array(4)))
    })
    assert.equal(complete, false)
    assert.match(incomplete ?? '', /no work on the devices of its argument; one that takes the default device is not/)
    assert.match(message, /^One order was run, and there may be more .*no work on the devices of its argument/)
  })

  it('is one where nothing can come in another order', async () => {
    const { runs, complete } = await explore(independent(1, 8))
    assert.deepEqual({ runs, complete }, { runs: 1, complete: true })
    assert.equal((await explore(independent(1, 8), { maxRuns: 1 })).complete, true)
  })

  it('keeps to the budget, and says that there may be more', async () => {
    const { runs, complete, message } = await explore(independent(3, 4), { maxRuns: 5, seed: 7 })
    assert.deepEqual({ runs, complete }, { runs: 5, complete: false })
    assert.match(message, /may be more \(seed 7\)/)
    assert.equal((await explore(independent(3, 4), { maxMilliseconds: 0 })).runs, 1)
  })
})

/** A kernel of which the code does not show that it writes: another function does. Its signature says that it reads. */
const put = defineKernel({
  name: 'put',
  ptx: `.version 7.0
.target sm_75
.address_size 64
.func store(.param .b64 to, .param .b32 value)
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [to];
  ld.param.u32 %r, [value];
  st.global.u32 [%rd], %r;
  ret;
}
.visible .entry put(.param .u64 to, .param .u32 value)
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [to];
  cvta.to.global.u64 %rd, %rd;
  ld.param.u32 %r, [value];
  {
    .param .b64 a;
    st.param.b64 [a], %rd;
    .param .b32 b;
    st.param.b32 [b], %r;
    call.uni store, (a, b);
  }
  ret;
}`,
  signature: ['in u32*', 'u32'],
})

describe('a signature that says less than the code does', () => {
  it('hides no order: two kernels that write the same bytes disagree', async () => {
    const writes: ExploredProgram = async (simulation) => {
      const { streams, buffers } = open(simulation, 2)
      const [one, other] = streams as [Stream, Stream]
      const [buffer] = buffers as [DeviceBuffer]
      one.launch(put, { grid: 1, block: 1 }, buffer, 1)
      other.launch(put, { grid: 1, block: 1 }, buffer, 2)
      await Promise.all(streams.map((stream) => stream.finished()))
      return (await one.download(buffer, Uint32Array))[0]
    }
    const { verdict, disagreement } = await explore(writes)
    assert.equal(verdict, 'disagree')
    const values = [disagreement?.first.outcome.value, disagreement?.second.outcome.value]
    assert.deepEqual(values.sort(), ['1', '2'])
  })
})

describe('orders at random', () => {
  /** Wrong only if one operation comes after all of a long chain on another stream. */
  const farBehind: ExploredProgram = async (simulation) => {
    const { streams, buffers } = open(simulation, 2)
    const [first, second] = streams as [Stream, Stream]
    const [data, sum] = buffers as [DeviceBuffer, DeviceBuffer]
    set(second, data, 1)
    set(second, sum, 1)
    second.synchronize()
    set(first, data, 2)
    for (let link = 0; link < 16; link += 1) set(second, sum, link)
    scale(second, sum, data, 1)
    return read(second, sum)
  }

  it('find by priorities what one stream has to lag far behind for, and not uniformly', async () => {
    const uniform = await explore(farBehind, { strategy: 'uniform', maxRuns: 60 })
    assert.equal(uniform.verdict, 'agree')
    const priority = await explore(farBehind, { strategy: 'priority', maxRuns: 60 })
    assert.equal(priority.verdict, 'disagree')
  })

  it('are the same for the same seed, and make the same report as the reduction', async () => {
    const found = await explore(farBehind, { strategy: 'priority', seed: 3 })
    assert.deepEqual(await explore(farBehind, { strategy: 'priority', seed: 3 }), found)
    const reduced = await explore(farBehind)
    assert.equal(found.disagreement?.missing, reduced.disagreement?.missing)
  })

  it('take over where the reduction has spent half of the runs', async () => {
    const { runs, verdict } = await explore(independent(3, 4), { maxRuns: 8, seed: 2 })
    assert.deepEqual({ runs, verdict }, { runs: 8, verdict: 'agree' })
  })
})

describe('a schedule', () => {
  const program: ExploredProgram = async (simulation) => {
    const { streams, buffers } = open(simulation, 2)
    const [first, second] = streams as [Stream, Stream]
    const [data] = buffers as [DeviceBuffer]
    set(first, data, 1)
    add(second, data, data)
    first.wait(second)
    return read(first, data)
  }

  it('is refused where it is none, or not that of the program', async () => {
    await assert.rejects(replay(program, 'nonsense'), { code: 'ERR_INVALID_ARG_VALUE', message: /2:5=7,9=0/ })
    await assert.rejects(replay(program, '1:3=9999'), { code: 'ERR_INVALID_ARG_VALUE', message: /does not fit/ })
    await assert.rejects(replay(program, 7 as never), { code: 'ERR_INVALID_ARG_TYPE' })
    for (const devices of ['0', '65', '9'.repeat(400)]) {
      await assert.rejects(replay(program, `${devices}:`), { code: 'ERR_INVALID_ARG_VALUE', message: /2:5=7,9=0/ })
    }
  })

  it('is not replayed with numbers that nothing can be', async () => {
    for (const devices of [0, -1, 65]) {
      await assert.rejects(replay(program, '1:', { devices }), {
        code: 'ERR_OUT_OF_RANGE',
        message: /^options\.devices must be from 1 to 64/,
      })
    }
    for (const wrong of [1.5, Number.NaN, '1', null] as unknown as number[]) {
      const code = 'ERR_INVALID_ARG_TYPE'
      await assert.rejects(replay(program, '1:', { devices: wrong }), { code, message: /^options\.devices/ })
      await assert.rejects(replay(program, '1:', { seed: wrong }), { code, message: /^options\.seed/ })
    }
  })

  it('is short: only what differs from the default schedule', async () => {
    const { disagreement } = await explore(program)
    assert.match(disagreement?.first.schedule ?? '', /^1:$/)
    assert.match(disagreement?.second.schedule ?? '', /^1:\d+=\d+$/)
  })
})

describe('a program that is not the same in each run', () => {
  it('is refused: what it does must follow from the order', async () => {
    let runs = 0
    const counts: ExploredProgram = async (simulation) => {
      runs += 1
      const { streams, buffers } = open(simulation, 3)
      for (const stream of streams.slice(runs > 1 ? 1 : 0)) set(stream, buffers[0] as DeviceBuffer, 1)
      simulation.devices[0]?.synchronize()
    }
    await assert.rejects(explore(counts), { code: 'ERR_INVALID_ARG_VALUE', message: /did something different at step/ })
  })
})

describe('explorations at one time', () => {
  it('do not get into the way of each other', async () => {
    const alone = await explore(independent(3, 3))
    const together = await Promise.all([3, 3, 3].map((each) => explore(independent(3, each))))
    for (const exploration of together) assert.deepEqual(exploration, alone)
  })
})

describe('wrong options', () => {
  const nothing = (): void => {}
  for (const [what, options, code] of [
    ['no budget', { maxRuns: 0 }, 'ERR_OUT_OF_RANGE'],
    ['no device', { devices: 0 }, 'ERR_OUT_OF_RANGE'],
    ['too many devices', { devices: 65 }, 'ERR_OUT_OF_RANGE'],
    ['a broken seed', { seed: 0.5 }, 'ERR_INVALID_ARG_TYPE'],
    ['a strategy that is none', { strategy: 'lucky' as never }, 'ERR_INVALID_ARG_VALUE'],
  ] as const) {
    it(`are refused: ${what}`, async () => {
      await assert.rejects(explore(nothing, options), { code })
    })
  }
  it('are refused: no program', async () => {
    await assert.rejects(explore(undefined as never), { code: 'ERR_INVALID_ARG_TYPE' })
  })
})

describe('memory that is staged', () => {
  const large: ExploredProgram = async (simulation) => {
    const { streams } = open(simulation, 1)
    const [stream] = streams as [Stream]
    const data = simulation.devices[0]?.alloc(9 * 2 ** 20) as DeviceBuffer
    for (let nth = 1; nth <= 3; nth += 1) void stream.upload(data, new Uint8Array(9 * 2 ** 20).fill(nth))
    const bytes = await stream.download(data.subarray(9 * 2 ** 20 - 4, 9 * 2 ** 20))
    return [...bytes]
  }

  it('makes no difference: what the library does to move an array is not of the program', async () => {
    const { verdict, outcome, message } = await explore(large, { maxRuns: 20 })
    assert.equal(verdict, 'agree', message)
    assert.deepEqual([outcome.value, outcome.ran], ['[ 3, 3, 3, 3 ]', []])
  })

  it('nor does it where the program is looked at', async () => {
    const sanitized: ExploredProgram = async (simulation) => {
      using _sanitizer = Sanitizer.start({ device: simulation.devices[0] })
      return await large(simulation)
    }
    const recorded: ExploredProgram = async (simulation) => {
      let value: unknown
      await Timeline.record(
        async () => {
          value = await large(simulation)
        },
        { simulation },
      )
      return value
    }
    for (const program of [sanitized, recorded]) {
      const { outcome } = await explore(program, { maxRuns: 1 })
      assert.deepEqual([outcome.value, outcome.ran], ['[ 3, 3, 3, 3 ]', []])
    }
  })
})

describe('what is observed', () => {
  it('is what the program returns at that time, by its structure', async () => {
    const views: ExploredProgram = async ({ devices: [device] }) => {
      assert.ok(device)
      const [stream, pinned] = [new Stream({ device }), device.allocPinned(4)]
      const data = device.alloc(4)
      stream.fill(data, 7).copy(pinned, data)
      await stream.finished()
      return { bytes: pinned.bytes, list: [new Map([['a', new Set([1])]])] }
    }
    const { outcome, verdict } = await explore(views)
    assert.equal(verdict, 'agree')
    assert.equal(outcome.value, "{ bytes: Uint8Array(4) [ 7, 7, 7, 7 ], list: [ Map(1) { 'a' => Set(1) { 1 } } ] }")
  })

  it('is what it throws, and what its host functions throw', async () => {
    const throws: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 1)
      const [stream] = streams as [Stream]
      stream.launchHostFunc(() => {
        throw new RangeError('thrown on the stream')
      })
      await stream.finished()
      throw new TypeError('thrown by the program')
    }
    const { outcome, verdict } = await explore(throws)
    assert.equal(verdict, 'agree')
    assert.deepEqual(outcome, {
      kind: 'threw',
      value: 'TypeError: thrown by the program',
      uncaught: ['RangeError: thrown on the stream'],
      ran: ['host function 1 on stream 1'],
    })
  })

  it('is which host functions run', async () => {
    const sometimes: ExploredProgram = async (simulation) => {
      const { streams, buffers } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      set(first, buffers[0] as DeviceBuffer, 1)
      if (first.query()) second.launchHostFunc(() => {})
      await second.finished()
    }
    const { verdict, message } = await explore(sometimes)
    assert.equal(verdict, 'disagree')
    assert.match(message, /host function 1 on stream 2 runs in the second order only/)
    assert.match(message, /instead of asking/)
  })

  it('is which of them a fault drops', async () => {
    const dropped: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      second.launchHostFunc(() => {})
      fault(first)
      await Promise.allSettled([second.finished()])
    }
    const { verdict, message } = await explore(dropped)
    assert.equal(verdict, 'disagree')
    assert.match(message, /host function 1 on stream 2 runs in the (first|second) order only/)
  })

  it('includes what is still queued when the program returns', async () => {
    const late: ExploredProgram = async (simulation) => {
      const { streams, buffers } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      const [data, seen] = buffers as [DeviceBuffer, DeviceBuffer]
      set(second, data, 1)
      second.synchronize()
      second.copy(seen, data)
      set(first, data, 2)
      return read(second, seen)
    }
    assert.equal((await explore(late)).verdict, 'disagree')
  })
})

describe('a deadlock', () => {
  it('is found: a latch that the program does not open', async () => {
    const latched: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      latch(first)
      second.wait(first)
      await second.finished()
    }
    const { verdict, deadlock, message } = await explore(latched)
    assert.equal(verdict, 'deadlock')
    assert.match(deadlock?.outcome.value ?? '', /these stand: latch 1 on stream 1, of .*explore\.test\.js:\d+/)
    assert.match(message, /replay\(program, '1:'\)/)
  })

  it('is found: host functions that wait for the streams of each other', async () => {
    const mutual: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      first.launchHostFunc(() => second.synchronize())
      second.launchHostFunc(() => first.synchronize())
      await simulation.devices[0]?.finished()
    }
    const { verdict, deadlock, message } = await explore(mutual)
    assert.equal(verdict, 'deadlock')
    assert.match(deadlock?.outcome.value ?? '', /ERR_DEADLOCK/)
    assert.match(
      message,
      /Return from the host function first, or await finished\(\) instead \(found/,
      'the way out is told',
    )
  })

  it('is found where only some orders have it, and both orders are shown', async () => {
    const sometimes: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 3)
      const [first, second, third] = streams as [Stream, Stream, Stream]
      let ready = false
      const held = latch(second)
      third.launchHostFunc(() => {
        ready = true
      })
      first.launchHostFunc(() => {
        if (!ready) second.synchronize()
      })
      await first.finished()
      held.open()
    }
    const { verdict, disagreement, deadlock, message } = await explore(sometimes)
    assert.equal(verdict, 'deadlock', message)
    assert.ok(deadlock)
    assert.equal(disagreement?.first.outcome.kind, 'returned')
    assert.equal((await replay(sometimes, deadlock.schedule)).outcome.kind, 'deadlock')
  })

  it('is found at once: a host function that never runs, behind a latch or behind a fault', {
    timeout: 60_000,
  }, async () => {
    const never: Readonly<Record<string, ExploredProgram>> = {
      'latch 1 on stream 1, of .*explore\\.test\\.js:\\d+$': (simulation) => {
        const [stream] = open(simulation, 1).streams as [Stream]
        latch(stream)
        return new Promise<void>((resolve) => void stream.launchHostFunc(resolve))
      },
      'a fault has dropped host function 1 on stream 1$': (simulation) => {
        const [stream] = open(simulation, 1).streams as [Stream]
        fault(stream)
        return new Promise<void>((resolve) => void stream.launchHostFunc(resolve))
      },
      'host function 2 on stream 1$': async (simulation) => {
        const [first, second] = open(simulation, 2).streams as [Stream, Stream]
        // Under some orders the fault comes before the host function, and under others after it.
        const ran = new Promise<void>((resolve) => void first.launchHostFunc(() => {}).launchHostFunc(resolve))
        fault(second)
        await ran
      },
    }
    for (const [says, program] of Object.entries(never)) {
      const { verdict, deadlock, message } = await explore(program)
      assert.equal(verdict, 'deadlock', message)
      assert.match(deadlock?.outcome.value ?? '', new RegExp(says))
      assert.equal((await replay(program, deadlock?.schedule ?? '')).outcome.kind, 'deadlock')
    }
  })

  it('is found in every way in which a program can wait for what stands', { timeout: 60_000 }, async () => {
    const ways: Readonly<Record<string, (stream: Stream, buffer: DeviceBuffer) => unknown>> = {
      'stream.finished()': (stream) => stream.finished(),
      'event.finished()': (stream) => stream.record().finished(),
      'device.finished()': ({ device }) => device.finished(),
      'stream.download()': (stream, buffer) => stream.download(buffer),
      'stream.upload() of more than there is room for': (stream) => {
        const long = stream.device.alloc(17 * 2 ** 20, { stream })
        return stream.upload(long, new Uint8Array(long.byteLength))
      },
      'a host function': (stream) => new Promise<void>((resolve) => void stream.launchHostFunc(resolve)),
      'a callback': (stream) => new Promise((resolve) => stream.addCallback(resolve, undefined)),
      'a host function of a graph': (stream) =>
        new Promise<void>((resolve) => {
          const graph = stream.capture(() => void stream.launchHostFunc(resolve))
          graph.instantiate().launch(stream)
        }),
      'stream.synchronize()': (stream) => stream.synchronize(),
      'event.synchronize()': (stream) => stream.record().synchronize(),
      'device.synchronize()': ({ device }) => device.synchronize(),
      'device.drainHostFunctions()': (stream) => stream.launchHostFunc(() => {}).device.drainHostFunctions(),
      'a host function that waits': (stream) => {
        const other = new Stream({ device: stream.device })
        other.launchHostFunc(() => stream.synchronize())
        return other.finished()
      },
    }
    for (const [how, wait] of Object.entries(ways)) {
      const program: ExploredProgram = async (simulation) => {
        const { streams, buffers } = open(simulation, 1)
        const [stream] = streams as [Stream]
        latch(stream)
        await wait(stream, buffers[0] as DeviceBuffer)
      }
      assert.equal((await explore(program, { maxRuns: 5 })).verdict, 'deadlock', how)
    }
  })

  it('is none where the latch is opened in time', async () => {
    const opened: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      const held = latch(first)
      second.wait(first)
      held.open()
      await second.finished()
    }
    const { verdict, complete } = await explore(opened)
    assert.deepEqual({ verdict, complete }, { verdict: 'agree', complete: true })
  })
})

describe('a limit in time', () => {
  it('ends a run that goes on forever, and one that waits for something else', { timeout: 60_000 }, async () => {
    const endless: ExploredProgram = async (simulation) => {
      const [stream] = open(simulation, 1).streams as [Stream]
      for (;;) await stream.launchHostFunc(() => {}).finished()
    }
    const { verdict, runs, complete, outcome, deadlock } = await explore(endless, { maxMilliseconds: 10 })
    assert.deepEqual(
      { verdict, runs, complete, deadlock },
      { verdict: 'unfinished', runs: 1, complete: false, deadlock: undefined },
    )
    assert.equal(outcome.kind, 'unfinished')
    const elsewhere: ExploredProgram = () => new Promise(() => {})
    assert.equal((await explore(elsewhere, { maxMilliseconds: 10 })).verdict, 'deadlock')
  })

  it('ends a search in the middle of a run, which does not count', { timeout: 60_000 }, async () => {
    let runs = 0
    const endlessLater: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 2)
      const [first, second] = streams as [Stream, Stream]
      for (const stream of [first, second]) stream.launchHostFunc(() => {})
      await simulation.devices[0]?.finished()
      runs += 1
      while (runs > 1) await first.launchHostFunc(() => {}).finished()
    }
    const exploration = await explore(endlessLater, { maxMilliseconds: 10 })
    assert.deepEqual([exploration.verdict, exploration.runs, exploration.complete], ['agree', 1, false])
  })
})

describe('a host function that waits', () => {
  it('has only those run meanwhile that it waits for, and so none that waits for it', async () => {
    const program: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 3)
      const [first, second, third] = streams as [Stream, Stream, Stream]
      const log: string[] = []
      busy(third, 1000)
      first.launchHostFunc(() => {
        third.synchronize()
        log.push('first')
      })
      second.launchHostFunc(() => {
        first.synchronize()
        log.push('second')
      })
      await simulation.devices[0]?.finished()
      return log
    }
    const { verdict, complete, outcome, message } = await explore(program)
    assert.deepEqual({ verdict, complete }, { verdict: 'agree', complete: true }, message)
    assert.equal(outcome.value, "[ 'first', 'second' ]")
  })

  it('is explored against all that may run before and after it', async () => {
    const program: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 3)
      const [first, second, third] = streams as [Stream, Stream, Stream]
      const log: string[] = []
      busy(third, 1000)
      first.launchHostFunc(() => {
        log.push('first waits')
        third.synchronize()
        log.push('first')
      })
      second.launchHostFunc(() => log.push('second'))
      await simulation.devices[0]?.finished()
      return log
    }
    const { verdict, disagreement } = await explore(program)
    assert.equal(verdict, 'disagree')
    assert.equal(disagreement?.first.outcome.value, "[ 'first waits', 'first', 'second' ]")
    assert.equal(disagreement?.second.outcome.value, "[ 'second', 'first waits', 'first' ]")
  })

  it('has the others run where nothing else goes on, in each order', async () => {
    const program: ExploredProgram = async (simulation) => {
      const { streams } = open(simulation, 4)
      const [first, held, second, third] = streams as [Stream, Stream, Stream, Stream]
      const log: string[] = []
      const latched = latch(held)
      first.launchHostFunc(() => {
        second.launchHostFunc(() => log.push('second'))
        third.launchHostFunc(() => latched.open())
        held.synchronize()
        log.push('first')
      })
      await simulation.devices[0]?.finished()
      return log
    }
    const { verdict, disagreement, message } = await explore(program)
    assert.equal(verdict, 'disagree', message)
    assert.equal(disagreement?.first.outcome.value, "[ 'second', 'first' ]")
    assert.equal(disagreement?.second.outcome.value, "[ 'first', 'second' ]")
  })
})

describe('how far an exploration is', () => {
  it('is told after each run of the search, and an error of that ends it', async () => {
    const told: string[] = []
    const onProgress = ({ runs, maxRuns }: ExploreProgress): void => void told.push(`${runs} of ${maxRuns}`)
    const { runs } = await explore(independent(2, 2), { maxRuns: 50, onProgress })
    assert.ok(runs > 1)
    assert.deepEqual(
      told,
      Array.from({ length: runs }, (_, index) => `${index + 1} of 50`),
    )
    const mine = new Error('mine')
    const throws = (): never => {
      throw mine
    }
    await assert.rejects(explore(independent(2, 2), { onProgress: throws }), (error) => error === mine)
    await assert.rejects(
      explore(() => {}, { onProgress: 'no' as never }),
      {
        code: 'ERR_INVALID_ARG_TYPE',
        message: /options\.onProgress/,
      },
    )
  })
})

describe('a long program', () => {
  it('takes time and memory as it is long, also where the host runs ahead of the GPU', {
    timeout: 120_000,
  }, async () => {
    const frames: ExploredProgram = async (simulation) => {
      const { streams, buffers } = open(simulation, 2)
      const [producer, consumer] = streams as [Stream, Stream]
      const [data, result] = buffers as [DeviceBuffer, DeviceBuffer]
      for (let frame = 0; frame < 25_000; frame += 1) {
        producer.wait(consumer)
        producer.fill(data, frame & 255)
        consumer.wait(producer)
        consumer.copy(result, data)
      }
      await consumer.finished()
    }
    // What is kept for each pair of steps takes gigabytes here, and minutes.
    const { runs, complete, message } = await explore(frames)
    assert.deepEqual({ runs, complete }, { runs: 1, complete: true }, message)
  })

  it('has a message of a page, and all steps in the listings', async () => {
    const frames: ExploredProgram = async (simulation) => {
      const { streams, buffers } = open(simulation, 2)
      const [producer, consumer] = streams as [Stream, Stream]
      const [data, result] = buffers as [DeviceBuffer, DeviceBuffer]
      for (let frame = 0; frame < 300; frame += 1) {
        set(producer, data, frame)
        if (frame !== 299) consumer.wait(producer)
        consumer.copy(result, data).launchHostFunc(() => {})
        producer.wait(consumer)
      }
      return read(consumer, result)
    }
    const { verdict, message, disagreement } = await explore(frames)
    assert.equal(verdict, 'disagree')
    assert.ok(message.length < 4000, message)
    assert.match(
      message,
      /^The orders differ from step \d+\. fill \(no\. 300\) on stream 1 at .* and copy \(no\. 300\) on stream 2/m,
    )
    assert.match(message, /^The second order \(of \d+ steps \d+ differ, the last of them step \d+\):$/m)
    assert.match(message, /all \d+ steps: disagreement\.second\.listing$/m)
    assert.ok((disagreement?.second.listing.split('\n').length ?? 0) > 900)
  })
})

describe('a program that polls', () => {
  it('comes to an end, blocking or not', async () => {
    const polls: ExploredProgram = async (simulation) => {
      const { streams, buffers } = open(simulation, 1)
      const [stream] = streams as [Stream]
      set(stream, buffers[0] as DeviceBuffer, 1)
      while (!stream.query());
      set(stream, buffers[0] as DeviceBuffer, 2)
      while (!stream.query()) await new Promise((resolve) => setImmediate(resolve))
      return 'done'
    }
    const { verdict, outcome } = await explore(polls)
    assert.equal(verdict, 'agree')
    assert.equal(outcome.value, "'done'")
  })
})
