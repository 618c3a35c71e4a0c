/**
 * `Timeline.record(fn, { everything: true })` on a fake GPU with a fake CUPTI, which asks for memory on a thread of
 * its own while JavaScript waits for it: what other code queues is shown between what the library queues, once and in order.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { Device, type DeviceBuffer, defineKernel, ExternalStream, type PinnedBuffer, type Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { Timeline, type TimelineOperation } from 'cuda-streams/timeline'
import { fakeCuda, fakeCupti, isFakeDriver } from '../../../fake-driver/fake-cuda.js'
import { runsTestFile } from '../../../helpers/run-time.js'
import { whatFailed } from '../../../helpers/test-output.js'
import { dataOfPage } from '../page-data.js'
import { ForeignCuda } from './foreign-cuda.js'

const ONE = { grid: 1, block: 1 }
const spin = defineKernel({
  name: 'spin',
  source: 'extern "C" __global__ void spin(unsigned long long nanoseconds) {}',
  signature: ['u64'],
  nanoseconds: 1000,
  simulateGrid() {},
})

if (isFakeDriver()) {
  describe('a recording of everything', () => onFakeDriver())
} else {
  test('on the simulator, whose work is all known, it adds nothing', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const { operations } = await Timeline.record(() => device.alloc(8).close(), { simulation, everything: true })
    assert.deepEqual(
      operations.map(({ name, foreign }) => [name, foreign]),
      [
        ['allocate', false],
        ['free', false],
      ],
    )
  })

  const fake = fakeCuda()
  const skip = typeof fake === 'string' ? fake : false
  if (typeof skip === 'string') console.log(`skipped: ${skip}`)
  describe('with a fake CUPTI', { skip }, () => {
    const modes: readonly (readonly [title: string, env: NodeJS.ProcessEnv])[] = [
      ['records in one buffer', {}],
      ['a buffer for each of the first records', { FAKE_SMALL: '1' }],
    ]
    for (const [title, more] of modes) {
      test(title, async () => {
        assert.ok(typeof fake !== 'string')
        const env = { ...fake.env, CUDA_STREAMS_CUPTI: fakeCupti(), ...more }
        const child = spawn(process.execPath, runsTestFile(fileURLToPath(import.meta.url)), { env, timeout: 120_000 })
        let output = ''
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
        const code = await new Promise((resolve) => child.on('close', (status, signal) => resolve(signal ?? status)))
        assert.equal(code, 0, whatFailed(output))
        assert.match(output, /one after the other/)
      })
    }
  })
}

function onFakeDriver(): void {
  let device: Device
  let stream: Stream
  let buffer: DeviceBuffer
  let pinned: PinnedBuffer
  let other: PinnedBuffer
  let foreign: ForeignCuda
  let theirs: number

  before(async () => {
    device = Device.get(0)
    await spin.prepare(device)
    stream = device.createStream()
    buffer = device.alloc(4096)
    pinned = device.allocPinned(4096)
    other = device.allocPinned(4096)
    foreign = new ForeignCuda()
    theirs = foreign.stream()
  })

  const record = (fn: () => unknown): Promise<Timeline> => Timeline.record(fn, { everything: true })
  const fills = ({ operations }: Timeline): unknown[] =>
    operations.filter(({ kind }) => kind === 'fill').map(({ byteLength, foreign: of }) => [byteLength, of])

  /** Who queues what, where: each alone, and all of them one after the other. */
  const cases: readonly (readonly [title: string, queue: () => unknown, row: () => Partial<TimelineOperation>[]])[] = [
    [
      'a kernel of ours',
      () => stream.launch(spin, ONE, 50_000),
      () => [{ kind: 'kernel', name: 'spin', foreign: false, graph: undefined }],
    ],
    [
      'a fill of theirs on a stream of theirs',
      () => foreign.fill(pinned.pointer, 11, theirs),
      () => [{ kind: 'fill', name: 'fill', byteLength: 11, foreign: true }],
    ],
    [
      'a fill of theirs on a stream of ours',
      () => foreign.fill(pinned.pointer, 12, stream.handle),
      () => [{ kind: 'fill', byteLength: 12, foreign: true }],
    ],
    [
      'a fill of theirs on the null stream',
      () => foreign.fill(pinned.pointer, 13, 0),
      () => [{ kind: 'fill', byteLength: 13, foreign: true }],
    ],
    [
      'a fill of theirs on another thread',
      () => foreign.fillOnThread(pinned.pointer, 14, theirs),
      () => [{ kind: 'fill', byteLength: 14, foreign: true }],
    ],
    ['a fill of ours', () => stream.fill(pinned, 1), () => [{ kind: 'fill', byteLength: 4096, foreign: false }]],
    ['a copy of ours', () => stream.copy(buffer, pinned), () => [{ kind: 'copy', byteLength: 4096, foreign: false }]],
    [
      'a fill of theirs inside a host function of ours',
      async () => {
        stream.launchHostFunc(() => foreign.fill(pinned.pointer, 15, theirs))
        await stream.finished()
      },
      () => [
        { kind: 'hostFunction', foreign: false },
        { kind: 'fill', byteLength: 15, foreign: true },
      ],
    ],
  ]
  const isCounted = ({ kind }: TimelineOperation): boolean => kind !== 'wait' && kind !== 'record'

  async function check(chosen: typeof cases): Promise<void> {
    const timeline = await record(async () => {
      for (const [, queue] of chosen) await queue()
    })
    const operations = timeline.operations.filter(isCounted)
    const expected = chosen.flatMap(([, , row]) => row())
    assert.equal(operations.length, expected.length, JSON.stringify(operations.map(({ name }) => name)))
    const ends = new Map<number, number>()
    for (const [index, operation] of operations.entries()) {
      const { called, returned, start = Number.NaN, end = Number.NaN } = operation
      for (const [key, value] of Object.entries(expected[index] ?? {})) {
        assert.equal(operation[key as keyof TimelineOperation], value, `${key} of ${chosen[index]?.[0]}`)
      }
      assert.ok(called <= returned && called <= start && start <= end, JSON.stringify({ called, returned, start, end }))
      assert.ok(start >= (ends.get(operation.stream.index) ?? 0))
      ends.set(operation.stream.index, end)
    }
    for (const format of ['t.html', 't.json', 't.svg']) assert.ok(timeline.render(format).length > 0)
  }

  for (const each of cases) test(each[0], () => check([each]))
  test('one after the other', () => check(cases))
  test('one after the other, twice, the other way around', () => check([...cases, ...[...cases].reverse()]))

  test('the JSON has calls of this library only, and tells who queued what', async () => {
    const { traceEvents } = (
      await record(() => {
        foreign.fill(pinned.pointer, 1, theirs)
        stream.fill(pinned, 1)
      })
    ).toTraceEvents()
    const of = (cat: string): unknown[] =>
      traceEvents.filter((event) => event.cat === cat).map(({ args }) => args?.['queued by'])
    assert.deepEqual(of('gpu_memset'), ['other code', undefined])
    assert.equal(of('cuda_driver').length, 1)
    assert.equal(of('ac2g').length, 2, 'both ends of one arrow')
  })

  test('the page tells who queued what', async () => {
    const timeline = await record(() => {
      foreign.fill(pinned.pointer, 1, theirs)
      stream.fill(pinned, 1)
    })
    const page = dataOfPage(timeline.toHtml())
    const fillsOnPage = Array.from(page.kind.keys()).filter((row) => page.kinds[page.kind[row] ?? 0] === 'fill')
    assert.deepEqual(
      fillsOnPage.map((row) => page.foreign[row]),
      [1, 0],
    )
  })

  test('a stream that only other code uses has CUPTI’s number, and the null stream is the null stream', async () => {
    const timeline = await record(() => {
      foreign.fill(pinned.pointer, 1, theirs)
      foreign.fill(pinned.pointer, 1, 0)
    })
    const number = foreign.idOf(theirs) + 1000n
    assert.deepEqual(
      timeline.operations.map(({ stream: { name, device: on, nonBlocking } }) => [name, on, nonBlocking]),
      [
        [`foreign stream ${number}`, 0, true],
        ['null stream', 0, false],
      ],
    )
    assert.equal(timeline.operations[0]?.stream.id, number)
  })

  test('work of theirs is on the track of a stream that the library knows, used or closed by then', async () => {
    const wrapped = new ExternalStream(BigInt(theirs))
    const timeline = await record(async () => {
      stream.wait(wrapped)
      foreign.fill(pinned.pointer, 1, theirs)
      const closed = device.createStream()
      foreign.fill(pinned.pointer, 2, closed.handle)
      closed.fill(pinned, 1)
      await closed.finished()
      closed.close()
    })
    const names = timeline.operations.filter(({ kind }) => kind === 'fill').map(({ stream: { name } }) => name)
    assert.deepEqual(names.slice(0, 1), [`stream ${wrapped.id}`])
    assert.equal(names[1], names[2], 'theirs and ours on one stream, closed before the end')
  })

  test('the nodes of a graph belong to its launch', async () => {
    const exec = stream
      .capture(() => {
        stream.launch(spin, ONE, 1000)
        stream.fill(pinned, 2)
      })
      .instantiate()
    const { operations } = await record(() => {
      foreign.fill(pinned.pointer, 1, theirs)
      stream.launch(exec)
    })
    const launch = operations.find(({ kind }) => kind === 'graph')
    const nodes = operations.filter(({ graph }) => graph !== undefined)
    assert.deepEqual(
      nodes.map(({ kind, name, graph, foreign: of }) => [kind, name, graph, of]),
      [
        ['kernel', 'ours::spin(int)', launch?.id, false],
        ['fill', 'fill', launch?.id, false],
      ],
    )
    // It is as long as its nodes, by the same clock.
    assert.deepEqual([launch?.start, launch?.end], [nodes[0]?.start, nodes[1]?.end])
  })

  test('what another thread queues while this one is inside calls of the library is not ours', async () => {
    const [THEIRS, seen] = [20_000, { ours: 0 }]
    const timeline = await record(() => {
      const left = foreign.fillOften(pinned.pointer, theirs, THEIRS)
      for (; left() > 0; seen.ours += 1) stream.fill(other, 1)
    })
    const run = timeline.operations.filter(isCounted)
    assert.equal(run.filter((each) => each.foreign && each.byteLength === 21).length, THEIRS)
    assert.equal(run.filter((each) => !each.foreign && each.byteLength === 4096).length, seen.ours)
    assert.equal(run.length, THEIRS + seen.ours)
  })

  test('foreign work behind work that is not recorded is waited for', async () => {
    const slow = device.createStream()
    const handle = slow.handle
    slow.launch(spin, ONE, 300_000_000)
    const timeline = await record(() => foreign.fill(pinned.pointer, 22, handle))
    assert.deepEqual(fills(timeline), [[22, true]])
  })

  test('what was queued before it, or after it, or without the option, is not in it', async () => {
    const fill = (size: number): void => foreign.fill(pinned.pointer, size, theirs)
    fill(1)
    const outer = Timeline.start({ everything: true })
    fill(2)
    const inner = Timeline.start({ everything: true })
    const plain = Timeline.start()
    fill(3)
    const sizes = [await inner.stop(), await plain.stop()].map(fills)
    fill(4)
    sizes.push(fills(await outer.stop()))
    fill(5)
    assert.deepEqual(sizes, [[[3, true]], [], [2, 3, 4].map((size) => [size, true])])
  })

  test('a limit counts all operations', async () => {
    const timeline = await Timeline.record(
      () => {
        for (let size = 1; size <= 5; size += 1) foreign.fill(pinned.pointer, size, theirs)
      },
      { everything: true, limit: 3 },
    )
    assert.deepEqual(fills(timeline).length, 3)
    assert.equal(timeline.dropped, 2)
  })

  test('a recording that fails leaves CUPTI to the next', async () => {
    const failure = new Error('the program’s own')
    await assert.rejects(
      record(() => {
        throw failure
      }),
      failure,
    )
    assert.deepEqual(fills(await record(() => foreign.fill(pinned.pointer, 7, theirs))), [[7, true]])
  })

  test('at once, what is not over has no end', async () => {
    const recording = Timeline.start({ everything: true })
    foreign.fill(pinned.pointer, 6, theirs)
    stream.launch(spin, ONE, 1000)
    const { operations } = recording.stopNow()
    assert.ok(operations.some(({ kind }) => kind === 'kernel'))
    await stream.finished()
  })

  /** With a variable of the fake CUPTI, which this thread's own environment is for C. */
  async function having<R>(name: string, value: string, act: () => Promise<R>): Promise<R> {
    process.env[name] = value
    try {
      return await act()
    } finally {
      Reflect.deleteProperty(process.env, name)
    }
  }

  test('another tool has it: that is said, and no recording is under way', async () => {
    await having('FAKE_CUPTI_TAKEN', '1', () =>
      assert.rejects(
        record(() => {}),
        {
          name: 'LibraryError',
          code: 'CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED',
          message: /^cuptiSubscribe failed: .*profiler of PyTorch/,
        },
      ),
    )
    await assert.rejects(Timeline.stop(), { code: 'ERR_CLOSED' })
    assert.equal((await record(() => stream.fill(pinned, 1))).operations.filter(isCounted).length, 1)
  })

  /** Each is tried in a thread of its own, which has not loaded CUPTI yet. */
  const absences: readonly (readonly [title: string, env: NodeJS.ProcessEnv, says: RegExp])[] = [
    [
      'no file',
      { CUDA_STREAMS_CUPTI: '/nowhere/libcupti.so' },
      /ERR_UNSUPPORTED CUPTI, .* was not found: tried \/nowhere\/libcupti\.so\. .*record without `everything`/,
    ],
    [
      'not CUPTI',
      { CUDA_STREAMS_CUPTI: process.env['CUDA_STREAMS_NVRTC'] },
      /ERR_UNSUPPORTED .* lacks cuptiActivityDisable/,
    ],
  ]
  for (const [title, env, says] of absences) {
    test(`${title}: what is wrong, and the way out`, async () => assert.match(await inThread(env), says))
  }

  test('a version that is not known is refused', async () => {
    const outcome = await having('FAKE_CUPTI_VERSION', '140000', () => inThread())
    assert.match(outcome, /ERR_UNSUPPORTED This CUPTI is of version 140000/)
  })

  test('another thread is refused while this one records, and has its turn then', async () => {
    const recording = Timeline.start({ everything: true })
    assert.match(await inThread(), /MULTIPLE_SUBSCRIBERS/)
    await recording.stop()
    assert.equal(await inThread(), 'recorded 1')
    assert.deepEqual(fills(await record(() => foreign.fill(pinned.pointer, 8, theirs))), [[8, true]])
  })
}

/** What becomes of a recording of one fill in another thread. */
function inThread(env: NodeJS.ProcessEnv = {}): Promise<string> {
  const worker = new Worker(new URL('./children/recording-thread.js', import.meta.url), {
    env: { ...process.env, ...env },
  })
  return new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
}
