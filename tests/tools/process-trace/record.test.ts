/** `npx cuda-streams record`: the times of a whole process, of its calls and of what the GPU did, by a fake CUPTI whose clock only calls move on. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { injectionFile } from '../../../src/foundation/native/layer.js'
import { Random } from '../../../src/simulator/machine/random.js'
import type { Operation } from '../../../src/tools/prediction/run.js'
import { checkRecording } from '../../../src/tools/recording/check.js'
import { recordTimedTrace, recordTrace } from '../../../src/tools/recording/process-trace.js'
import { Reader, type TimedCall } from '../../../src/tools/recording/reader.js'
import { readRun } from '../../../src/tools/recording/recorded-run.js'
import { timelineOfRecording } from '../../../src/tools/recording/recorded-timeline.js'
import { TraceKind, TraceReader } from '../../../src/tools/recording/trace-reader.js'
import { whatIf } from '../../../src/tools/recording/what-if.js'
import { runs } from '../../helpers/effort.js'
import { root } from '../../helpers/root.js'
import { fakeProgram } from './fake-program.js'

const MUTANTS = runs({ quick: 50, normal: 200, nightly: 3000 })
const MILLISECOND = 1e6
/** What a call of the program takes besides its waits, with the looks at the clock. */
const CALL = 2010

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-record-'))
after(() => rmSync(folder, { recursive: true }))
const program = fakeProgram(folder)
const fake = { ...process.env, CUDA_STREAMS_CUPTI: join(folder, 'libfake-cupti.so') }
const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')

interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

function cli(args: readonly string[], env: Readonly<Record<string, string>> = {}): Ended {
  return spawnSync(process.execPath, [command, ...args], { encoding: 'utf8', cwd: folder, env: { ...fake, ...env } })
}

function recordingOf(how: string): string {
  const path = join(folder, `${how}.rec`)
  const { status, stderr } = cli(['record', `--out=${path}`, '--', program, injectionFile(), how])
  assert.equal(status, how === 'killed' ? 137 : 0, stderr)
  return path
}

/** The trace of the program, as the traced library writes it with these variables. */
function traceOf(how: string, env: Readonly<Record<string, string>>): string {
  const traces = mkdtempSync(join(folder, 'trace-'))
  const { status, stderr } = spawnSync(program, [injectionFile(), how], {
    encoding: 'utf8',
    env: { ...fake, CUDA_STREAMS_TRACE: traces, ...env },
  })
  assert.equal(status, 0, stderr)
  const [name = ''] = readdirSync(traces)
  return join(traces, name)
}

function callsOf(path: string): readonly TimedCall[] {
  const reader = new Reader(path)
  const calls: TimedCall[] = []
  for (let entry = reader.next(); entry !== undefined; entry = reader.next())
    if (entry.what === 'call') calls.push(entry)
  assert.ok(reader.isComplete)
  return calls
}

const operationsOf = (path: string): readonly Operation[] =>
  readRun(new Reader(path)).steps.flatMap((step) => (step.what === 'operation' ? [step] : []))

describe('the recording of a process', () => {
  const path = recordingOf('timed')
  const calls = callsOf(path)

  it('has each operation for as long as the GPU took, behind the call that queued it', () => {
    const step = [
      ['kernel', 'set', MILLISECOND],
      ['copy', 'download', MILLISECOND / 4],
      ['kernel', 'spin', MILLISECOND / 2],
    ] as const
    const operations = operationsOf(path)
    assert.deepEqual(
      operations.map(({ kind, name, start, end }) => [kind, name, end - start]),
      [
        ...step,
        ...step,
        ...step,
        ['kernel', 'spin', MILLISECOND / 2],
        ['copy', 'upload', 100_000],
        ['copy', 'upload', 50_000],
        ['kernel', 'gemm', 10_000],
        ['fill', 'fill', MILLISECOND / 8],
        // From the beginning of its first kernel to the end of its second, which begins later.
        ['graph', 'graph', MILLISECOND / 5 + 700],
      ],
    )
    for (const { name, began, start } of operations) assert.ok(start > began, name)
  })

  it('says which rank it is of, where a launcher has numbered the processes', () => {
    const rankOf = (name: string, env: Readonly<Record<string, string>>): number | undefined => {
      const out = join(folder, `${name}.rec`)
      const { status, stderr } = cli(['record', `--out=${out}`, '--', program, injectionFile(), 'timed'], env)
      assert.equal(status, 0, stderr)
      return new Reader(out).header.rank
    }
    assert.equal(new Reader(path).header.rank, undefined)
    assert.equal(rankOf('torchrun', { RANK: '3' }), 3)
    assert.equal(rankOf('mpi', { OMPI_COMM_WORLD_RANK: '0' }), 0)
    assert.equal(rankOf('no-number', { RANK: 'last', SLURM_PROCID: '17' }), 17)
  })

  it('has the calls when they were made, and what the host waited for', () => {
    const lasted = (name: string): readonly number[] =>
      calls.flatMap(({ call, began, ended }) => (call.call === name ? [ended - began] : []))
    assert.deepEqual(new Set(lasted('record')), new Set([CALL]))
    // A wait is over when its return is.
    const ends = calls.flatMap(({ call }, at) => (call.call.startsWith('synchronize') ? [at] : []))
    assert.equal(ends.length, 4)
    for (const at of ends) assert.equal(calls[at + 1]?.call.call, 'return')
    const copies = operationsOf(path).filter(({ name }) => name === 'download')
    for (const [index, { end }] of copies.entries()) {
      const returned = calls[(ends[index] ?? 0) + 1]?.ended ?? 0
      assert.ok(returned >= end && returned < end + 2 * CALL, `${returned} ${end}`)
    }
    // A call that is written before it is made has its end, too.
    const last = ends.at(-1) ?? 0
    assert.ok((calls[last + 1]?.ended ?? 0) - (calls[last]?.began ?? 0) > 2.9 * MILLISECOND)
  })

  it('has what the trace itself took of the host as its own time, without which changes are predicted', async () => {
    // Two looks at the clock of 4 µs are between two calls, and these are the trace's.
    const slow = join(folder, 'slow.rec')
    const { status, stderr } = cli(['record', `--out=${slow}`, '--', program, injectionFile(), 'timed'], {
      FAKE_CUPTI_LOOK: '4000',
    })
    assert.equal(status, 0, stderr)
    const made = callsOf(slow).filter(({ call }) => call.call === 'createStream' || call.call === 'createEvent')
    assert.deepEqual(
      made.map(({ more }) => more.own),
      [8000, 8000, 8000],
    )
    const { played, unchanged } = await whatIf(slow, [], 60)
    assert.ok(unchanged < played)
    assert.equal(calls.filter(({ more }) => more.own !== undefined).length, 0, 'looks of 10 ns are too short')
  })

  it('knows what the host may use, and takes for written what a kernel may write', () => {
    const operations = operationsOf(path)
    const shared = operations.filter(({ sharesWithHost }) => sharesWithHost).map(({ name }) => name)
    assert.deepEqual(new Set(shared), new Set(['download', 'upload']))
    const accesses = (name: string): readonly string[] =>
      operations.find((each) => each.name === name)?.memory?.map(({ access }) => access) ?? []
    assert.deepEqual([accesses('set'), accesses('gemm')], [['out'], ['inout']])
    // Not so in a check, which reports what is certain.
    const certain = calls.flatMap(({ call }) =>
      call.call === 'queue' && call.work.kind === 'library' && call.work.operation?.name === 'gemm'
        ? call.work.calls
        : [],
    )
    assert.deepEqual(
      certain[0]?.memory.map(({ access }) => access),
      ['in'],
    )
  })

  it('has the devices that the process used', () => {
    const { header } = new Reader(path)
    assert.deepEqual(header.devices[1], { name: 'Fake 1', multiprocessors: 132, threads: 2048 })
    assert.equal(header.clock, 'host')
    assert.ok(header.epoch > 1.7e18)
    // 66 blocks of 1024 threads are a quarter of 132 multiprocessors.
    assert.equal(operationsOf(path)[0]?.share, 0.25)
  })

  it('says what is missing', () => {
    const { stderr } = cli(['record', `--out=${path}`, '--', program, injectionFile(), 'timed'])
    assert.match(
      stderr,
      /timed\.rec is written: \d+ calls, 15 operations with times\. 1 operations are missing: of calls that/,
    )
  })

  it('is drawn', async () => {
    const timeline = await timelineOfRecording(new Reader(path))
    const timed = timeline.operations.filter(({ kind }) => ['kernel', 'copy', 'fill', 'graph'].includes(kind))
    assert.equal(timed.length, 15)
    const [set, download] = timed
    assert.equal((set?.end ?? 0) - (set?.start ?? 0), MILLISECOND)
    assert.equal(download?.byteLength, 4096)
    assert.equal(set?.callSite, '/app/train.py:12', "the line is the program's, and not that of a package")
    const drawn = cli(['timeline', path, '--out', join(folder, 'timed.html')])
    assert.equal(drawn.status, 0, drawn.stderr)
  })

  it('says why', () => {
    const { status, stdout } = cli(['why', path])
    assert.equal(status, 0)
    assert.match(stdout, /1, Fake 1: busy [\d.]+ %; copies 900 µs, kernels 5\.\d+ ms/)
    assert.match(stdout, /'stream 2' waited at \/app\/train\.py:12 for 'stream 1' 2 times/)
    assert.match(stdout, /The critical path[\s\S]*3\.00 ms {2}set on stream 1 \(train\.py:12\), 3 times/)
  })

  it('is played again, and with changes', async () => {
    const { recorded, played, operations, untimed } = await whatIf(path, [], 60)
    assert.ok(Math.abs(played - recorded) < recorded / 100, `${recorded} ${played}`)
    assert.deepEqual([operations, untimed], [15, 0])
    const faster = await whatIf(path, [{ kind: 'faster', name: 'set', percent: 50 }], 60)
    const gained = faster.unchanged - (faster.predictions[0]?.nanoseconds ?? 0)
    assert.ok(Math.abs(gained - 1.5 * MILLISECOND) < MILLISECOND / 20, String(gained))
  })

  it('leaves no wait out that may be needed: of kernels only the beginnings of what they touch are known', async () => {
    const without = async (line: string) =>
      (await whatIf(path, [{ kind: 'without-wait', line }], 60)).predictions.map(({ isRacy, isNeedKnown }) => {
        return { isRacy, isNeedKnown }
      })
    assert.deepEqual(await without('train.py:12'), [{ isRacy: true, isNeedKnown: true }])
    assert.deepEqual(await without('train.py:21'), [{ isRacy: false, isNeedKnown: false }])
  })
})

describe('a trace with times', () => {
  it('is checked as one without', async () => {
    const messagesIn = async (recording: string): Promise<readonly string[]> =>
      (await checkRecording(new Reader(recording))).reports.map(({ message }) => message)
    for (const how of ['racy', 'right']) {
      const [plain, timed] = [traceOf(how, {}), traceOf(how, { CUDA_STREAMS_TRACE_TIMES: '1' })]
      const without = async (trace: string): Promise<readonly string[]> => {
        recordTrace(trace, join(folder, 'checked.rec'), { possible: false })
        return messagesIn(join(folder, 'checked.rec'))
      }
      // Addresses of code and memory are others in each process.
      const known = (messages: readonly string[]): readonly string[] =>
        messages.map((each) => each.replace(/0x\w+/g, ''))
      const expected = known(await without(plain))
      assert.equal(expected.length, how === 'racy' ? 1 : 0)
      assert.deepEqual(known(await without(timed)), expected)
      recordTimedTrace(timed, join(folder, 'checked.rec'))
      assert.deepEqual(known(await messagesIn(join(folder, 'checked.rec'))), expected)
    }
  })

  it('is written only when it is asked for', () => {
    const kindsOf = (trace: string): ReadonlySet<number> => {
      const kinds = new Set<number>()
      const reader = new TraceReader(trace)
      reader.more(({ kind }) => kinds.add(kind))
      reader.close()
      return kinds
    }
    const { CLOCK, CALL_TIMES, ACTIVITY, DEVICE, CALL: MADE } = TraceKind
    const ofTimes = [CLOCK, CALL_TIMES, ACTIVITY, DEVICE]
    const [plain, timed] = [kindsOf(traceOf('timed', {})), kindsOf(traceOf('timed', { CUDA_STREAMS_TRACE_TIMES: '1' }))]
    assert.ok(plain.has(MADE))
    assert.deepEqual(
      ofTimes.filter((kind) => plain.has(kind)),
      [],
    )
    assert.deepEqual(
      ofTimes.filter((kind) => !timed.has(kind)),
      [],
    )
    assert.throws(() => recordTimedTrace(traceOf('timed', {}), join(folder, 'none.rec')), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /has no times/,
    })
  })

  it('has what a process left that was killed in a call', () => {
    const path = recordingOf('killed')
    const timed = operationsOf(path).filter(({ end }) => !Number.isNaN(end))
    // CUPTI had not handed back what it knew of the last two.
    assert.equal(timed.length, 13)
    assert.equal(operationsOf(path).at(-1)?.kind, 'graph')
    const calls = callsOf(path)
    const [freed] = calls.flatMap(({ call }, at) => (call.call === 'freeShared' ? [at] : []))
    assert.ok(freed !== undefined, 'the call that was under way is there')
    assert.equal(calls[freed]?.ended, calls[freed - 2]?.began)
  })

  it('is read, or said to be damaged, where it is', async () => {
    const whole = readFileSync(traceOf('timed', { CUDA_STREAMS_TRACE_TIMES: '1' }))
    const used = whole.length - [...whole].reverse().findIndex((byte) => byte !== 0)
    const [trace, recording] = [join(folder, 'mutant.trace'), join(folder, 'mutant.rec')]
    for (let seed = 0; seed < MUTANTS; seed += 1) {
      const random = new Random(seed)
      const below = (count: number): number => Math.floor(random.next() * count)
      const mutant = Uint8Array.from(whole.subarray(0, used + 64))
      for (let changes = 1 + below(4); changes > 0; changes -= 1)
        mutant[below(used)] = [0, 1, 8, 127, 255, below(256)][below(6)] ?? 0
      writeFileSync(trace, mutant)
      try {
        recordTimedTrace(trace, recording)
        await timelineOfRecording(new Reader(recording))
        readRun(new Reader(recording))
      } catch (error) {
        const what = `mutant ${seed}: ${error instanceof Error ? error.stack : error}`
        const code: unknown = error instanceof Error && Reflect.get(error, 'code')
        assert.ok(code === 'ERR_INVALID_ARG_VALUE' || code === 'ERR_UNSUPPORTED', what)
        assert.match(String(error), /damaged at|is no trace|has no times|CUPTI is of version/, what)
      }
    }
  })
})

describe('npx cuda-streams record', () => {
  it('ends as the program does, and says that it has not used CUDA', () => {
    const { status, stdout, stderr } = cli(['record', '--', process.execPath, '-e', 'console.log(1); process.exit(7)'])
    assert.deepEqual([status, stdout], [7, '1\n'])
    assert.match(stderr, /nothing was traced: the program did not use CUDA/)
    assert.equal(cli(['record', '--', process.execPath, '-e', '']).status, 1, 'there is no recording')
  })

  it('has a recording of each process, in a folder or beside each other', () => {
    const both = ['/bin/sh', '-c', `"$@" & "$@"; wait`, 'sh', program, injectionFile(), 'right']
    const numbered = /^\d+\.rec$/
    assert.equal(cli(['record', '--out=both', '--', ...both]).status, 0)
    assert.equal(readdirSync(join(folder, 'both')).filter((name) => numbered.test(name)).length, 2)
    assert.equal(cli(['record', '--out=two.rec', '--', ...both]).status, 0)
    assert.equal(readdirSync(folder).filter((name) => /^two\.\d+\.rec$/.test(name)).length, 2)
  })

  it('says why there are no times', () => {
    const traced = ['record', '--', program, injectionFile(), 'right']
    const refused = cli(traced, { FAKE_CUPTI_REFUSES: '1' })
    assert.equal(refused.status, 1)
    assert.match(refused.stderr, /this process is not traced: CUPTI gives no times: cuptiActivityEnable failed \(35\)/)
    assert.match(refused.stderr, /process \d+ is not recorded: .*has no times/)
    const other = cli(traced, { FAKE_CUPTI_VERSION: '22' })
    assert.equal(other.status, 1)
    assert.match(other.stderr, /process \d+ is not recorded: This CUPTI is of version 22/)
  })

  it('needs a program behind --, and a file that can be written', () => {
    for (const args of [[], ['train.py'], ['--']]) {
      const { status, stderr } = cli(['record', ...args])
      assert.equal(status, 2)
      assert.match(stderr, /record -- python train\.py/)
    }
    const { status, stderr } = cli(['record', '--out=/no/such/folder/run.rec', '--', program])
    assert.equal(status, 1)
    assert.match(stderr, /The recording \/no\/such\/folder\/run\.rec cannot be written: ENOENT/)
  })
})
