/** The check of a recording reports what the sanitizer reported while the program ran. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { type Device, ExternalStream, Stream } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { declareAccess, declareWait, nameStream, Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { foreignStream, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { bugs, type Program } from '../../../examples/ordering-bugs/bugs.js'
import { checkRecording } from '../../../src/tools/recording/check.js'
import { Reader } from '../../../src/tools/recording/reader.js'
import { byEffort, runs } from '../../helpers/effort.js'
import { commonest } from '../../simulator/missing-waits.js'
import { everySecond } from '../sanitizer/every-second.js'
import { programs, runProgram } from '../sanitizer/judged-play.js'

const RUNS = runs({ quick: 100, normal: 200, nightly: 3000 })
const RANDOM = byEffort({ quick: false, normal: false, nightly: true })
const SEED = 20261126

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-check-'))
const path = join(folder, 'run.rec')
after(() => rmSync(folder, { recursive: true }))

/** The messages without the lines of what runs the programs: stacks may be taken one frame deeper or less. */
const messages = (reports: readonly SanitizerReport[]): readonly string[] =>
  reports.map(({ message }) => message.replace(/^ +at .*(?:check\.test\.js:\d+:\d+\)?|\(<anonymous>\))\n/gm, ''))

/** What the sanitizer reports of a program while it runs. Its recording is at `path` then. */
async function reportsOf(program: Program): Promise<readonly SanitizerReport[]> {
  using simulation = simulate({ devices: 2 })
  const [device] = simulation.devices
  assert.ok(device)
  const recorder = Recorder.start(path, { device, stacks: 'all' })
  using sanitizer = Sanitizer.start({ device, stacks: 'all' })
  await program(simulation)
  await recorder.stop()
  return sanitizer.reports
}

async function checked(): Promise<readonly SanitizerReport[]> {
  const { reports, isComplete } = await checkRecording(new Reader(path))
  assert.ok(isComplete)
  return reports
}

it(`of ${RUNS} random programs`, async (context) => {
  let racy = 0
  await fc.assert(
    fc.asyncProperty(programs, fc.nat(99), async (program, seed) => {
      const { reports } = await runProgram(program, seed, false, path)
      if (reports.length > 0) racy += 1
      const errors = (await checked()).filter(({ severity }) => severity === 'error')
      assert.deepEqual(messages(errors), messages(reports))
    }),
    { numRuns: RUNS, ...(RANDOM ? {} : { seed: SEED }) },
  )
  context.diagnostic(`${racy} of ${RUNS} programs had a race`)
  assert.ok(racy > RUNS / 10 && racy < RUNS - RUNS / 10, 'both kinds of programs are there')
})

for (const { name, broken, fixed } of [...bugs, ...commonest]) {
  describe(name, () => {
    it('of the broken version', async () => {
      const reports = await reportsOf(broken)
      assert.deepEqual(messages(await checked()), messages(reports))
    })

    it('of the fixed version', async () => {
      const reports = await reportsOf(fixed)
      assert.deepEqual(messages(await checked()), messages(reports))
    })
  })
}

it('of kernels of which the simulator runs the code', async () => {
  for (const element of [1, 2]) {
    const reports = await reportsOf(async ({ devices: [device] }) => {
      assert.ok(device)
      const [one, other] = [new Stream({ device }), new Stream({ device })]
      const x = device.alloc(1024, { stream: one })
      other.wait(one).fill(x.subarray(4 * element, 4 * (element + 1)), 1)
      one.launch(everySecond(device), { grid: 1, block: 128 }, x, 0).wait(other)
      await device.finished()
      return []
    })
    assert.deepEqual(
      reports.map(({ kind }) => kind),
      element === 1 ? [] : ['race'],
    )
    assert.deepEqual(messages(await checked()), messages(reports))
  }
})

it('of the bodies of conditional nodes, one of them within another', async () => {
  for (const waits of [false, true]) {
    const reports = await reportsOf(async ({ devices: [device] }) => {
      assert.ok(device)
      const [one, other] = [new Stream({ device }), new Stream({ device })]
      const buffer = device.alloc(64, { stream: one })
      one.synchronize()
      const graph = one.capture(() => {
        const [outer, inner] = [one.createCondition(1), one.createCondition(1)]
        one.if(outer, (body) => body.if(inner, (within) => void within.fill(buffer, 1)))
      })
      one.launch(graph.instantiate())
      if (waits) other.wait(one)
      other.fill(buffer, 2)
      await device.finished()
      return []
    })
    assert.equal(reports.length, waits ? 0 : 1)
    assert.deepEqual(messages(await checked()), messages(reports))
  }
})

it('of streams with names, and of what the program declares of another library', async () => {
  const declared = async (device: Device, waits: boolean): Promise<readonly never[]> => {
    const [ours, theirs] = [new Stream({ device }), new ExternalStream(foreignStream(device))]
    nameStream(ours, 'ours')
    const buffer = device.alloc(64, { stream: ours })
    ours.fill(buffer, 1)
    if (waits) declareWait(theirs, ours)
    declareAccess(theirs, { writes: [buffer] }, 'their work')
    await device.finished()
    return []
  }
  for (const waits of [false, true]) {
    const reports = await reportsOf(({ devices: [device] }) => {
      assert.ok(device)
      return declared(device, waits)
    })
    assert.equal(reports.length, waits ? 0 : 1)
    assert.deepEqual(messages(await checked()), messages(reports))
  }
})
