/** What is predicted of changes, against the changed programs themselves, in the virtual time of the simulator. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Device, type DeviceBuffer, type Graph, type PinnedBuffer, Stream } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { declareAccess } from 'cuda-streams/sanitizer'
import { type Simulation, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { programs } from '../../../bench/what-if-programs.js'
import { measure } from '../../../src/tools/prediction/measured-run.js'
import { playAgain } from '../../../src/tools/prediction/replay.js'
import { Reader } from '../../../src/tools/recording/reader.js'
import { readRun } from '../../../src/tools/recording/recorded-run.js'
import { type Proposal, whatIf } from '../../../src/tools/recording/what-if.js'
import { runs } from '../../helpers/effort.js'
import { accessKernel } from '../sanitizer/access-kernel.js'
import { programs as randomPrograms, runProgram } from '../sanitizer/judged-play.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-what-if-'))
const path = join(folder, 'run.rec')
after(() => rmSync(folder, { recursive: true }))

/** Virtual nanoseconds of calls and of microseconds that a GPU would take to begin. */
const NEAR = 0.01

async function timed(simulation: Simulation, run: () => Promise<void> | void): Promise<number> {
  const began = simulation.now
  await run()
  return simulation.now - began
}

describe('a prediction is what the changed program takes', () => {
  for (const { title, proposal, prepare } of programs) {
    it(title, async () => {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      const run = await prepare(device)
      const recorder = Recorder.start(path, { device })
      const before = await timed(simulation, () => run(false))
      await recorder.stop()
      const after = await timed(simulation, () => run(true))
      const { recorded, played, unchanged, predictions } = await whatIf(path, [proposal], 60)
      const [prediction] = predictions
      assert.ok(prediction)
      const isNear = (one: number, other: number): boolean => Math.abs(one - other) <= NEAR * before
      assert.ok(isNear(recorded, before), `recorded ${recorded}, measured ${before}`)
      assert.equal(played, recorded)
      assert.equal(unchanged, recorded)
      assert.ok(isNear(prediction.nanoseconds, after), `predicted ${prediction.nanoseconds}, measured ${after}`)
      assert.ok(after < 0.9 * before, 'the change gains something')
      assert.equal(prediction.isRacy, false)
    })
  }
})

const RUNS = runs({ quick: 60, normal: 60, nightly: 2000 })

it(`played again without a change, each of ${RUNS} random programs takes what was recorded`, async () => {
  await fc.assert(
    fc.asyncProperty(randomPrograms, async (program) => {
      await runProgram(program, 0, false, path)
      const { recorded, played } = await whatIf(path, [{ kind: 'queues', count: 32 }], 60)
      assert.equal(played, recorded)
    }),
    { numRuns: RUNS, seed: 20261126 },
  )
})

/**
 * What the program does depends on times where it asks, lets the event loop turn, or waits for a value. Of a stream that takes the place of a closed
 * one, what is predicted may be some microseconds late.
 */
const UNTIMED = ['queryStream', 'queryEvent', 'promise', 'turn', 'drain', 'waitWord', 'replace']
const WAITS = ['wait', 'waitStream', 'synchronizeStream', 'synchronizeEvent']
/** Nanoseconds of the calls that the changed program does not make. */
const CALLS = 2000

it(`${RUNS} random programs without one of their waits take what is predicted`, async (context) => {
  let gains = 0
  await fc.assert(
    fc.asyncProperty(randomPrograms, fc.nat(), async (given, pick) => {
      const program = { ...given, steps: given.steps.filter(({ what }) => !UNTIMED.includes(what)) }
      const waits = program.steps.flatMap(({ what }, index) => (WAITS.includes(what) ? [index] : []))
      const removed = waits[pick % Math.max(1, waits.length)]
      fc.pre(removed !== undefined)
      await runProgram(program, 0, false, path)
      const run = readRun(new Reader(path))
      const measured = measure(run)
      const calls = callsOf(removed)
      const without = new Set(
        run.steps.flatMap(({ number, what }, at) => (calls.has(number) && what !== 'go' ? [at] : [])),
      )
      const predicted = playAgain(run, measured, { without })
      const steps = program.steps.filter((_, index) => index !== removed)
      await runProgram({ ...program, steps }, 0, false, path)
      const { duration } = measure(readRun(new Reader(path)))
      if (measured.duration - duration > CALLS) gains += 1
      assert.ok(Math.abs(predicted - duration) <= CALLS, `predicted ${predicted}, measured ${duration}`)
    }),
    { numRuns: RUNS, seed: 20261128 },
  )
  context.diagnostic(`${gains} of them gained something`)
  assert.ok(gains > 0)
})

/** The calls of a step of the program that was recorded last. */
function callsOf(step: number): ReadonlySet<number> {
  const calls = new Set<number>()
  const reader = new Reader(path)
  for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
    if (entry.what === 'call' && entry.stack.includes(`at step${step} `)) calls.add(entry.number)
  }
  return calls
}

interface Scene {
  readonly device: Device
  readonly streams: readonly [Stream, Stream]
  readonly launch: (stream: Stream, bytes: 'first' | 'second', writes: boolean) => void
}

async function recorded(program: (scene: Scene) => void): Promise<void> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const streams = [new Stream({ device }), new Stream({ device })] as const
  const buffers = { first: device.alloc(64), second: device.alloc(64) }
  device.synchronize()
  const recorder = Recorder.start(path, { device, stacks: 'all' })
  program({
    device,
    streams,
    launch: (stream, bytes, writes) => stream.launch(accessKernel([writes]), { grid: 1, block: 1 }, buffers[bytes]),
  })
  device.synchronize()
  await recorder.stop()
}

const titles = async (proposals: readonly Proposal[] = []): Promise<readonly string[]> =>
  (await whatIf(path, proposals, 60)).predictions.map(({ title, isRacy }) => (isRacy ? `${title} (racy)` : title))

it('does not take a race for known that the program has elsewhere at the same lines', async () => {
  await recorded(({ streams: [one, two], launch }) => {
    const waitHere = (): unknown => two.wait(one)
    for (let round = 0; round < 6; round += 1) {
      launch(one, 'first', true)
      // It is forgotten in the first round.
      if (round > 0) waitHere()
      launch(two, 'first', true)
      one.wait(two)
    }
  })
  const lines = readFileSync(fileURLToPath(import.meta.url), 'utf8').split('\n')
  const row = lines.findIndex((line) => line.includes('const waitHere')) + 1
  const { predictions } = await whatIf(path, [{ kind: 'without-wait', line: `what-if.test.js:${row}` }], 60)
  assert.deepEqual(
    predictions.map(({ isRacy }) => isRacy),
    [true],
  )
})

it('tells waits that order nothing from those without which there would be a race', async () => {
  await recorded(({ streams: [one, two], launch }) => {
    for (let round = 0; round < 4; round += 1) {
      launch(one, 'first', true)
      two.wait(one)
      launch(two, 'second', true)
      one.wait(two)
    }
  })
  const needless = await titles()
  assert.equal(needless.filter((title) => /without this wait$/.test(title)).length, 2, needless.join('\n'))
  await recorded(({ streams: [one, two], launch }) => {
    for (let round = 0; round < 4; round += 1) {
      launch(one, 'first', true)
      two.wait(one)
      launch(two, 'first', true)
      one.wait(two)
    }
  })
  const needed = await titles()
  assert.deepEqual(
    needed.filter((title) => /without/.test(title)).map((title) => /\(racy\)$/.test(title)),
    needed.filter((title) => /without/.test(title)).map(() => true),
  )
})

it('finds by itself the ring that lacks a buffer, and takes no other wait for one', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const ring = programs.find(({ proposal }) => proposal.kind === 'more-buffers')
  assert.ok(ring)
  const run = await ring.prepare(device)
  const recorder = Recorder.start(path, { device })
  await run(false)
  await recorder.stop()
  const { predictions } = await whatIf(path, [], 60)
  const { proposal } = ring
  assert.ok('line' in proposal)
  const line = proposal.line.slice(proposal.line.lastIndexOf('/') + 1)
  assert.deepEqual(
    predictions.filter(({ title }) => title.endsWith('in the ring')).map(({ title, isRacy }) => [title, isRacy]),
    [[`${line}: one more buffer in the ring`, false]],
  )
  // The kernel needs the bytes that are uploaded for it, and the upload a buffer that is not used any more.
  const racy = predictions.filter(({ isRacy }) => isRacy).map(({ title }) => title)
  assert.equal(racy.length, 2, racy.join('\n'))
  assert.ok(racy.includes(`${line}: without this wait`))
})

it('gives work a stream of its own with the waits that its memory needs, and gains nothing where all depends on it', async () => {
  await recorded(({ streams: [one], launch }) => {
    for (let round = 0; round < 4; round += 1) {
      launch(one, 'first', true)
      launch(one, 'first', false)
    }
  })
  const found = await whatIf(path, [], 60)
  assert.deepEqual(
    found.predictions.filter(({ title }) => title.endsWith('on a stream of its own')),
    [],
  )
})

it('says of a line, a kernel or a number that the recording does not have what there is', async () => {
  await recorded(({ streams: [one], launch }) => launch(one, 'first', true))
  await assert.rejects(whatIf(path, [{ kind: 'own-stream', line: 'nowhere.js:1' }], 60), {
    code: 'ERR_INVALID_ARG_VALUE',
    message: /There is no timed work at 'nowhere.js:1': there is some at what-if\.test\.js:\d+/,
  })
  await assert.rejects(whatIf(path, [{ kind: 'without-wait', line: 'nowhere.js:1' }], 60), {
    message: /There is no wait at 'nowhere.js:1'/,
  })
  await assert.rejects(whatIf(path, [{ kind: 'faster', name: 'acces', percent: 20 }], 60), {
    message: /There is no kernel 'acces' in the recording: (did you mean|there are) /,
  })
})

const BYTES = 1 << 20

interface Buffers {
  readonly streams: readonly [Stream, Stream]
  readonly x: DeviceBuffer
  readonly y: DeviceBuffer
  readonly z: DeviceBuffer
  readonly pinned: PinnedBuffer
}

/** Records what `prepare` returns, and not what it does itself. */
async function recordedAfter(prepare: (buffers: Buffers) => () => void | Promise<void>): Promise<void> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const streams = [new Stream({ device }), new Stream({ device })] as const
  const [x, y, z] = [device.alloc(BYTES), device.alloc(BYTES), device.alloc(BYTES)]
  const pinned = device.allocPinned(BYTES)
  const program = prepare({ streams, x, y, z, pinned })
  device.synchronize()
  const recorder = Recorder.start(path, { device, stacks: 'all' })
  await program()
  device.synchronize()
  await recorder.stop()
}

/** Of waits that gain something where they are left out, whether it is known if the program needs them. */
const needsKnown = async (): Promise<readonly boolean[]> =>
  (await whatIf(path, [], 60)).predictions
    .filter(({ title }) => title.includes('without this wait'))
    .map(({ isNeedKnown, isRacy, advice }) => {
      assert.equal(isRacy, false)
      assert.equal(advice === 'it orders nothing that shares memory', isNeedKnown)
      return isNeedKnown
    })

describe('does not advise to leave out a wait of which it is not known whether the program needs it', () => {
  it('the host may read what was copied to pinned memory through a view that it kept', async () => {
    await recordedAfter(({ streams: [one, two], x, y, pinned }) => {
      const view = pinned.bytes
      return async () => {
        for (let round = 0; round < 8; round += 1) {
          one.fill(x, round)
          one.copy(pinned, x)
          await one.finished()
          assert.equal(view[0], round)
          two.fill(y, round)
        }
      }
    })
    assert.deepEqual(await needsKnown(), [false])
  })

  it('the wait of a stream hands to the host what another stream has copied', async () => {
    await recordedAfter(({ streams: [one, two], x, y, pinned }) => {
      const view = pinned.bytes
      return async () => {
        for (let round = 0; round < 8; round += 1) {
          one.fill(x, round)
          one.copy(pinned, x)
          two.wait(one)
          two.fill(y, round)
          await two.finished()
          assert.equal(view[0], round)
        }
      }
    })
    const known = await needsKnown()
    assert.ok(known.length > 0)
    assert.ok(!known.includes(true))
  })

  it('an instance of a graph that is older than the recording touches what is not recorded', async () => {
    await recordedAfter(({ streams: [one, two], x, y }) => {
      const instance = one.capture(() => one.fill(x, 1)).instantiate()
      return () => {
        for (let round = 0; round < 8; round += 1) {
          one.launch(instance)
          two.wait(one)
          two.copy(y, x)
          one.wait(two)
        }
      }
    })
    assert.deepEqual(await needsKnown(), [false, false])
  })

  it('of a wait for work that the host cannot read it is known', async () => {
    await recordedAfter(({ streams: [one, two], x, y, pinned }) => async () => {
      one.copy(pinned, x)
      await one.finished()
      for (let round = 0; round < 8; round += 1) {
        one.fill(x, round)
        await one.finished()
        two.fill(y, round)
      }
    })
    assert.ok((await needsKnown()).includes(true))
  })
})

/** What is said of a copy that is given a stream of its own. */
async function adviceOfOwnStream(): Promise<string> {
  const lines = readRun(new Reader(path)).steps.flatMap((step) =>
    step.what === 'operation' && step.name === 'copy' ? [step.site] : [],
  )
  const [line] = lines
  assert.ok(line)
  const [prediction] = (await whatIf(path, [{ kind: 'own-stream', line }], 60)).predictions
  assert.ok(prediction)
  assert.ok(Math.abs(prediction.change) < 0.01, `it depends on what is before it: ${prediction.change}`)
  return prediction.advice
}

describe('work on a stream of its own still waits for', () => {
  const ROUNDS = 8
  const launchAndCopy = (stream: Stream, graph: Graph, to: DeviceBuffer, from: DeviceBuffer | PinnedBuffer): void => {
    const instance = graph.instantiate()
    for (let round = 0; round < ROUNDS; round += 1) {
      stream.launch(instance)
      // On a line of its own, by which it is told from the launch.
      stream.copy(to, from)
    }
  }

  it('a graph that has another graph in it', async () => {
    await recordedAfter(({ streams: [one], x, y, z }) => () => {
      const inner = one.capture(() => one.fill(x, 1))
      const outer = one.capture(() => {
        one.fill(z, 1)
        one.launch(inner)
      })
      launchAndCopy(one, outer, y, x)
    })
    assert.match(await adviceOfOwnStream(), /it has to wait for graph/)
  })

  it('a graph with a host function, of which it is not known what it touches', async () => {
    await recordedAfter(({ streams: [one], y, z, pinned }) => () => {
      const view = pinned.bytes
      const graph = one.capture(() => {
        one.fill(z, 1)
        one.launchHostFunc(() => view.fill(1))
      })
      launchAndCopy(one, graph, y, pinned)
    })
    assert.match(await adviceOfOwnStream(), /it has to wait for graph/)
  })

  it('work of another library that the program has declared', async () => {
    await recordedAfter(({ streams: [one], x, y }) => () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        declareAccess(one, { writes: [x] }, 'theirs')
        one.copy(y, x)
      }
    })
    assert.match(await adviceOfOwnStream(), /it has to wait for theirs/)
  })
})

it('streams hold each other up where they share a hardware queue', async () => {
  await recorded(({ streams: [one, two], launch }) => {
    // The second launch of the first stream stands in the queue before that of the second stream.
    launch(one, 'first', true)
    launch(one, 'first', true)
    launch(two, 'second', true)
    launch(two, 'second', true)
  })
  const times = async (count: number): Promise<number> =>
    (await whatIf(path, [{ kind: 'queues', count }], 60)).predictions[0]?.nanoseconds ?? Number.NaN
  const [shared, apart] = [await times(1), await times(32)]
  assert.equal(apart, (await whatIf(path, [], 60)).unchanged)
  assert.ok(shared > 1.3 * apart, `${shared} instead of ${apart}`)
})
