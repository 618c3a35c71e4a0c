/** Recordings as files: how they are started, what is left of them after a crash, what the commands make of them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Device, Stream } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { Timeline, type TimelineOperation } from 'cuda-streams/timeline'
import { driverOf } from '../../../src/core/device.js'
import type { Interceptor } from '../../../src/foundation/driver/wrappable-driver.js'
import { checkRecording } from '../../../src/tools/recording/check.js'
import { type Entry, Reader } from '../../../src/tools/recording/reader.js'
import { timelineOfRecording } from '../../../src/tools/recording/recorded-timeline.js'
import { RecordingInterceptor } from '../../../src/tools/recording/recording-interceptor.js'
import { SanitizerInterceptor } from '../../../src/tools/sanitizer/sanitizer-interceptor.js'
import { refused } from '../../conformance/expect.js'
import { root } from '../../helpers/root.js'
import { accessKernel } from '../sanitizer/access-kernel.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-recording-'))
const path = join(folder, 'run.rec')
after(() => rmSync(folder, { recursive: true }))

const program = fileURLToPath(new URL('children/race.js', import.meta.url))
const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')

function node(args: readonly string[], env: NodeJS.ProcessEnv = {}): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim', ...env },
    encoding: 'utf8',
  })
  return { status, output: stdout + stderr }
}

function entriesOf(file: string): readonly Entry[] {
  const reader = new Reader(file)
  const entries: Entry[] = []
  for (let entry = reader.next(); entry !== undefined; entry = reader.next()) entries.push(entry)
  return entries
}

/** Other work can be queued at any time: memory that a program has let go of is freed when it is collected. */
const isFill = (entry: Entry): boolean =>
  entry.what === 'call' && entry.call.call === 'queue' && entry.call.work.kind === 'fill'

describe('a recorder', () => {
  it('is stopped where it is disposed of, also if it was before, and its file is whole', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    for (const way of ['using', 'await using', 'stopped before']) {
      const file = join(folder, 'disposed.rec')
      {
        using stream = new Stream({ device })
        using buffer = device.alloc(8, { stream })
        await using recorder = Recorder.start(file, { device })
        stream.fill(buffer, 1)
        if (way === 'using') recorder[Symbol.dispose]()
        if (way === 'stopped before') await recorder.stop()
      }
      assert.equal(entriesOf(file).filter(isFill).length, 1, way)
    }
  })
})

describe('CUDA_STREAMS_RECORD', () => {
  it('records a process from its first use of the GPU to its end, which check, why, timeline and what-if read', () => {
    const file = join(folder, 'whole.rec')
    assert.deepEqual(node([program], { CUDA_STREAMS_RECORD: file }), { status: 0, output: '' })
    const checked = node([command, 'check', file])
    assert.equal(checked.status, 1)
    assert.match(checked.output, /^Race: nothing orders two accesses/)
    assert.match(checked.output, /at file:.*children\/race\.js:8:/)
    assert.match(checked.output, /Add `\w+\.wait\(\w+\)` before this fill\.\n\n1 finding\(s\) in \d+ calls\n$/)
    // Programs that it starts would write the same file otherwise.
    assert.equal(node([program], { CUDA_STREAMS_RECORD: join(folder, 'of-%p.rec') }).status, 0)
    const [own = ''] = readdirSync(folder).filter((name) => /^of-\d+\.rec$/.test(name))
    assert.equal(node([command, 'check', join(folder, own)]).status, 1)
    const why = node([command, 'why', file])
    assert.equal(why.status, 0)
    assert.match(why.output, /What held them up/)
    assert.match(
      why.output,
      /The critical path, by what takes most of it\n {2}[\d.]+ .s {2}fill on stream \d+ \(race\.js:[78]:\d+\), \d times/,
    )
    const out = join(folder, 'page.svg')
    // What cannot be written is said before the recording is read.
    const nowhere = node([command, 'timeline', join(folder, 'nothing.rec'), '--out', join(folder, 'nowhere', 'a.html')])
    assert.equal(nowhere.status, 1)
    assert.match(nowhere.output, /^The timeline .*a\.html cannot be written: ENOENT/)
    assert.equal(node([command, 'timeline', file, '--out', out]).status, 0)
    assert.match(readFileSync(out, 'utf8'), /^<svg/)
    const whatIf = node([command, 'what-if', file])
    assert.equal(whatIf.status, 0)
    assert.match(
      whatIf.output,
      /^Recorded: [\d.]+ .s, \d+ operations\.\nPlayed again without a change: [\d.]+ .s, \+0\.0 %\./,
    )
    const json = JSON.parse(node([command, 'what-if', file, '--own-stream', 'race.js:8', '--json']).output)
    assert.match(json.predictions[0].title, /^race\.js:8: fill on a stream of its own$/)
  })

  it('writes the end also where the program ends by an error', async () => {
    const file = join(folder, 'thrown.rec')
    assert.equal(node([program, 'throw'], { CUDA_STREAMS_RECORD: file }).status, 1)
    assert.equal((await checkRecording(new Reader(file))).isComplete, true)
  })

  it('leaves what was written by then where the process is killed, and the commands say that the end is missing', () => {
    const file = join(folder, 'killed.rec')
    assert.equal(node([program, 'kill'], { CUDA_STREAMS_RECORD: file }).status, null)
    const checked = node([command, 'check', file])
    assert.match(checked.output, /^Race: nothing orders two accesses/)
    assert.match(checked.output, /1 finding\(s\) in \d+ calls\. The end of the recording is missing\n$/)
    assert.match(node([command, 'why', file]).output, /The end of the recording is missing/)
  })

  it('refuses a word that says nothing of stacks', () => {
    const { status, output } = node([program], { CUDA_STREAMS_RECORD: `${join(folder, 'never.rec')},stacks=some` })
    assert.equal(status, 1)
    assert.match(
      output,
      /CUDA_STREAMS_RECORD must be a file, or a file and ,stacks= one of 'sampled', 'all', 'none', not /,
    )
  })

  it('takes with stacks=none no stacks', () => {
    const file = join(folder, 'bare.rec')
    node([program], { CUDA_STREAMS_RECORD: `${file},stacks=none` })
    assert.doesNotMatch(readFileSync(file, 'utf8'), /race\.js/)
  })
})

interface Scene {
  readonly device: Device
  readonly streams: readonly [Stream, Stream]
}

async function scene(run: (scene: Scene) => Promise<void> | void): Promise<void> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  await run({ device, streams: [new Stream({ device }), new Stream({ device })] })
}

describe('a recorder', () => {
  it('gives the timeline that was recorded beside it', async () => {
    await scene(async ({ device, streams: [one, two] }) => {
      // A copy of so many bytes takes a whole number of nanoseconds, which a recording has.
      const [buffer, pinned] = [device.alloc(1_000_000), device.allocPinned(1_000_000)]
      device.synchronize()
      const recorder = Recorder.start(path, { device, stacks: 'all' })
      const live = await Timeline.record(
        async () => {
          for (let round = 0; round < 3; round += 1) {
            one.copy(buffer, pinned)
            two.wait(one)
            two.launch(accessKernel([true]), { grid: 1, block: 1 }, buffer)
            one.wait(two.record())
            await one.finished()
          }
        },
        { device, callSites: true },
      )
      await recorder.stop()
      const drawn = await timelineOfRecording(new Reader(path))
      const [first] = live.operations
      const shift = (drawn.operations[0]?.start ?? 0) - (first?.start ?? 0)
      const facts = (operations: readonly TimelineOperation[], by: number): unknown =>
        operations
          .filter(({ kind }) => kind === 'kernel' || kind === 'copy')
          .map(({ kind, name, stream, byteLength, start = 0, end = 0, callSite }) => {
            return { kind, name, stream: stream.id, byteLength, start: start + by, end: end + by, callSite }
          })
      assert.deepEqual(facts(drawn.operations, 0), facts(live.operations, shift))
      assert.deepEqual(
        drawn.operations.map(({ kind }) => kind),
        live.operations.map(({ kind }) => kind),
      )
    })
  })

  it('keeps its memory bounded: definitions, stacks and event records are given up again', async () => {
    await scene(async ({ device, streams: [one] }) => {
      const buffer = device.alloc(1 << 20, { stream: one })
      const recorder = Recorder.start(path, { device, stacks: 'none' })
      for (let round = 0; round < 70_000; round += 1) {
        one.fill(buffer.subarray(round, round + 1), 1)
        if (round % 500 === 0) one.synchronize()
      }
      await recorder.stop()
      assert.match(readFileSync(path, 'utf8'), /^\{"forget":true\}$/m)
      let timed = 0
      let fills = 0
      for (const entry of entriesOf(path)) {
        if (entry.what === 'times') entry.each(() => (timed += 1))
        if (isFill(entry)) fills += 1
      }
      assert.equal(fills, 70_000)
      assert.equal(timed, 70_000)
    })
  })

  it('records nothing any more once it is stopped', async () => {
    await scene(async ({ device, streams: [one] }) => {
      const buffer = device.alloc(64, { stream: one })
      const recorder = Recorder.start(path, { device })
      one.fill(buffer, 1)
      recorder.stopNow()
      one.fill(buffer, 2)
      assert.equal(entriesOf(path).filter(isFill).length, 1)
      await assert.rejects(recorder.stop(), { code: 'ERR_CLOSED' })
    })
  })

  it('is stopped with its process, and has what ran before a process that blocks is killed', () => {
    const text = (more: string) => `
      import { Device, Stream } from 'cuda-streams'
      import { Recorder } from 'cuda-streams/recording'
      const stream = new Stream({ device: Device.get() })
      const buffer = stream.device.alloc(64, { stream })
      Recorder.start(${JSON.stringify(path)})
      for (let nth = 0; nth < 3; nth += 1) stream.fill(buffer, nth)
      ${more}`
    const ended = (more: string) => node(['--input-type=module', '-e', text(more)])
    assert.deepEqual(ended('await stream.finished()'), { status: 0, output: '' })
    assert.equal(entriesOf(path).filter(isFill).length, 3)
    // The clock goes on, and the event loop does not turn.
    ended(`Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 150)
      stream.synchronize()
      process.kill(process.pid, 'SIGKILL')`)
    assert.ok(entriesOf(path).some(isFill))
  })

  it('is refused while a stream captures, and where another one writes the file; what cannot be written is told', async () => {
    await scene(async ({ device, streams: [one] }) => {
      one.beginCapture()
      refused(() => Recorder.start(path, { device }), 'ERR_UNSUPPORTED', /after endCapture/)
      one.endCapture()
      const recorder = Recorder.start(path, { device })
      refused(() => Recorder.start(path, { device }), 'ERR_INVALID_ARG_VALUE', /being recorded to/)
      await recorder.stop()
    })
    if (existsSync('/dev/full'))
      await scene(({ device }) => assert.throws(() => Recorder.start('/dev/full', { device }), /ENOSPC/))
    const told = node([program], { CUDA_STREAMS_RECORD: join(folder, 'nowhere', 'x.rec') })
    assert.match(told.output, /CUDA_STREAMS_RECORD: the recording .*x\.rec cannot be written: ENOENT/)
    assert.match(node([program], { CUDA_STREAMS_RECORD: 'x.rec,stack=all' }).output, /and ,stacks= one of/)
  })

  it('that two processes have written is damaged, and said to be', () => {
    const file = join(folder, 'damaged.rec')
    node([program], { CUDA_STREAMS_RECORD: file })
    const lines = readFileSync(file, 'utf8').split('\n')
    const call = lines.findIndex((line) => line.startsWith('['))
    writeFileSync(file, lines.toSpliced(call, 1).join('\n'))
    assert.match(node([command, 'check', file]).output, /damaged: it has \d+ of \d+ calls/)
    writeFileSync(file, lines.with(call, '[1,').join('\n'))
    assert.match(node([command, 'check', file]).output, /damaged at call 0/)
  })

  it('writes every call that a sanitizer follows', async () => {
    await scene(({ device }) => {
      const recorder = Recorder.start(path, { device })
      using sanitizer = Sanitizer.start({ device })
      assert.equal(sanitizer.reports.length, 0)
      const { interceptors } = driverOf(device)
      const membersOf = (is: (one: Interceptor) => boolean): readonly string[] => {
        const found = interceptors.find(is)
        assert.ok(found)
        return Object.entries(found).flatMap(([part, methods]) =>
          Object.entries(methods ?? {}).flatMap(([name, method]) =>
            typeof method === 'function' ? [`${part}.${name}`] : [],
          ),
        )
      }
      const followed = membersOf((one) => one instanceof SanitizerInterceptor)
      const written = membersOf((one) => one instanceof RecordingInterceptor)
      // What threads share is not in a recording, which is of one thread.
      const left = followed.filter((name) => !written.includes(name))
      assert.deepEqual(left, ['sharing.watchShared', 'sharing.watchReceived'])
      assert.ok(followed.includes('streams.waitEvent') && followed.includes('graphs.updateNode'))
      recorder.stopNow()
    })
  })

  it('writes nothing of host functions that run, and promises that settle, after it was stopped', async () => {
    await scene(async ({ device, streams: [one] }) => {
      const buffer = device.alloc(64, { stream: one })
      const recorder = Recorder.start(path, { device })
      let ran = false
      one.fill(buffer, 1).launchHostFunc(() => {
        ran = true
      })
      const done = one.finished()
      recorder.stopNow()
      const { length } = readFileSync(path)
      await done
      await device.finished()
      assert.equal(ran, true)
      assert.equal(readFileSync(path).length, length)
    })
  })

  it('refuses what is no path and no option', () => {
    refused(() => Recorder.start(5 as unknown as string), 'ERR_INVALID_ARG_TYPE', /path/)
    refused(() => Recorder.start(path, { stacks: 'some' as 'all' }), 'ERR_INVALID_ARG_VALUE', /options\.stacks/)
    assert.throws(() => Recorder.start(join(folder, 'nowhere', 'run.rec'), { device: undefined }), { code: 'ENOENT' })
  })
})

describe('a reader', () => {
  it('refuses what is no recording, and one of another version', () => {
    const other = join(folder, 'other.rec')
    writeFileSync(other, 'hello\n')
    refused(() => new Reader(other), 'ERR_INVALID_ARG_VALUE', /is no recording/)
    writeFileSync(other, '{"recording":2}\n')
    refused(() => new Reader(other), 'ERR_INVALID_ARG_VALUE', /of version 2, and this reads version 1/)
    assert.equal(existsSync(other), true)
  })

  it('ends where a line is cut off', async () => {
    await scene(async ({ device, streams: [one] }) => {
      const recorder = Recorder.start(path, { device })
      one.fill(device.alloc(64, { stream: one }), 1)
      await recorder.stop()
    })
    const text = readFileSync(path, 'utf8')
    const cut = join(folder, 'cut.rec')
    writeFileSync(cut, text.slice(0, text.lastIndexOf('"end"')))
    const { isComplete, calls } = await checkRecording(new Reader(cut))
    assert.equal(isComplete, false)
    assert.ok(calls > 0)
    appendFileSync(cut, text.slice(text.lastIndexOf('"end"')))
    assert.equal((await checkRecording(new Reader(cut))).isComplete, true)
  })
})
