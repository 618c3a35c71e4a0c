/**
 * C6: each call that may never end, in a process of its own, which is ended once it has told of it: by the code of its
 * warning, and the words that name what is waited for. children/silent-waits.ts has them.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { simulationOf } from 'cuda-streams/sim'
import { root } from '../helpers/root.js'
import { FEW_QUEUES } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import type { Scenario } from './children/silent-waits.js'

const CHILD = fileURLToPath(new URL('./children/silent-waits.js', import.meta.url))
const LONGEST = 60_000
const WARN_AFTER = '300'
const SITE = String.raw`\S*silent-waits\.js:\d+`
const WARNED = /\[CUDA_STREAMS_(?!SIMULATED)\w+\]/

type Warning = readonly [code: string, says: RegExp]

interface Row {
  /** The code of the warning, and what it says; undefined where it ends, and says nothing. */
  readonly sim?: Warning | 'ends'
  readonly cuda?: Warning | 'ends'
  readonly env?: NodeJS.ProcessEnv
}

/** On a busy machine the watchdog, which counts from the beginning of the turn, may warn before the call that polls does. */
const polling = (call: string): Row => {
  const says = (queued: string): RegExp =>
    new RegExp(
      `${call}\\(\\) has been called at ${SITE}.* comes after a host function on the stream 0x\\w+${queued}, which runs`,
    )
  const cuda: Warning = ['POLLING', says(` \\(queued at ${SITE}.*\\)`)]
  return { sim: ['POLLING', says('')], cuda, env: { CUDA_STREAMS_WATCHDOG: '0' } }
}
const LATCH: Row = {
  sim: [
    'LATCH',
    new RegExp(`comes after a latch on the stream 0x\\w+ \\(queued at .*${SITE}.*, which blocks until its open\\(\\)`),
  ],
}
const PROMISED: Warning = [
  'PROMISE',
  new RegExp(`a promise on the stream 0x\\w+ \\(queued at .*${SITE}.*, which the stream waits for until it settles`),
]
const blocked = (queued: string, thread = 'The main thread'): Row => {
  const says = new RegExp(`${thread} has been .*waits for a host function \\(${queued} ${SITE}.*drainHostFunctions`)
  return { cuda: ['BLOCKED_THREAD', says] }
}
const ENDS: Row = { sim: 'ends', cuda: 'ends' }

/** On a GPU a latch is any work that takes its time, and a simulator has no other thread that would wait for it. */
const ROWS: Readonly<Record<Scenario, Row>> = {
  streamQuery: polling('stream.query'),
  eventQuery: polling('event.query'),
  elapsedSince: polling('event.elapsedSince'),
  queryBehindOther: polling('stream.query'),
  queryAndMicrotasks: polling('stream.query'),
  queryNullStream: polling('stream.query'),
  queryLatch: { sim: ['POLLING', /comes after a latch on the stream 0x/] },
  streamFinished: LATCH,
  eventFinished: LATCH,
  deviceFinished: LATCH,
  asyncDispose: LATCH,
  hostFunction: LATCH,
  callback: LATCH,
  otherStream: LATCH,
  download: LATCH,
  downloader: LATCH,
  upload: LATCH,
  uploader: LATCH,
  graph: LATCH,
  promise: { sim: PROMISED, cuda: PROMISED },
  promiseHostFunction: { sim: PROMISED, cuda: PROMISED },
  drain: { sim: ['DRAIN', /returns only when none is/], cuda: ['DRAIN', /returns only when none is/] },
  ranks: {
    sim: ['RANKS', /rank 1 of 3 has waited .*This thread has rank 1; ranks 0, 2 must come from this thread, or/],
  },
  captureOfOther: { cuda: ['CAPTURE', /Call endCapture\(\)/] },
  loop: blocked('queued at'),
  memoryLoop: blocked('queued at'),
  nativeCall: blocked('queued at'),
  nativeCallAtOnce: blocked('queued at'),
  otherThreadWaits: blocked('queued at'),
  insideHostFunction: blocked('queued at'),
  graphBlocked: blocked('of a graph launched at'),
  downloadBlocked: blocked('queued at'),
  afterWorker: blocked('queued at'),
  blockedForAWhile: blocked('queued at'),
  streamQueryForAWhile: polling('stream.query'),
  worker: blocked('queued at', String.raw`Worker thread \d+`),
  longWork: { cuda: 'ends' },
  shortDownload: { cuda: 'ends' },
  // A timer may be late by more than the time after which the others warn.
  slowPromise: { ...ENDS, env: { CUDA_STREAMS_WARN_AFTER: String(LONGEST) } },
  politePolling: ENDS,
  pollingLongWork: { cuda: 'ends' },
  busyJavaScript: ENDS,
  ownBlockingWait: ENDS,
  alone: ENDS,
}

/** Runs it until it has warned, or ended. */
function run(
  bench: Workbench,
  scenario: Scenario,
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: unknown; output: string }> {
  const child = spawn(process.execPath, [CHILD, bench.name, scenario], {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...FEW_QUEUES, CUDA_STREAMS_WARN_AFTER: WARN_AFTER, ...env },
    timeout: LONGEST,
    killSignal: 'SIGKILL',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      output += String(text)
      if (WARNED.test(output) && output.endsWith('\n')) child.kill('SIGKILL')
    })
  }
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

onEveryBackend('waits that never end', (bench) => {
  // The processes have simulators without a seed.
  if (bench.name === 'sim' && simulationOf(bench.device).seed !== 0) return
  describe('each in a process of its own', { concurrency: 4 }, () => {
    for (const [name, row] of Object.entries(ROWS)) {
      const expected = row[bench.name]
      if (expected === 'ends') test(`C6 no noise: ${name}`, () => ends(bench, name as Scenario, row.env))
      else if (expected !== undefined)
        test(`C6 told of: ${name}`, () => tells(bench, name as Scenario, expected, row.env))
    }

    const loop = bench.name === 'sim' ? 'streamQueryForAWhile' : 'blockedForAWhile'
    for (const [variable, value] of [
      ['CUDA_STREAMS_WARN_AFTER', '0'],
      ['NODE_NO_WARNINGS', '1'],
      ...(bench.name === 'cuda' ? ([['CUDA_STREAMS_WATCHDOG', '0']] as const) : []),
    ] as const) {
      test(`C6 ${variable}=${value} keeps it quiet`, () => ends(bench, loop, { [variable]: value }))
    }
  })

  for (const variable of ['CUDA_STREAMS_WARN_AFTER', ...(bench.name === 'cuda' ? ['CUDA_STREAMS_WATCHDOG'] : [])]) {
    test(`C6 ${variable} must be what it can be`, async () => {
      const { code, output } = await run(bench, 'alone', { [variable]: '-1' })
      assert.equal(code, 1)
      assert.match(output, new RegExp(`${variable} must be .*, not '-1'[^]*ERR_INVALID_ARG_VALUE`))
    })
  }
})

async function ends(bench: Workbench, scenario: Scenario, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const { code, output } = await run(bench, scenario, env)
  assert.equal(output, 'end\n')
  assert.equal(code, 0)
}

async function tells(
  bench: Workbench,
  scenario: Scenario,
  [code, says]: Warning,
  env: NodeJS.ProcessEnv = {},
): Promise<void> {
  const { output } = await run(bench, scenario, env)
  const told = output.split('\n').filter((line) => WARNED.test(line))
  assert.equal(told.length, 1, output)
  assert.match(told[0] ?? '', new RegExp(`\\[CUDA_STREAMS_${code}\\] CudaStreamsWarning: `))
  assert.match(told[0] ?? '', says)
}

/** Members whose answer may be "not yet", or a promise that may never be settled, by the rows for them or the reason why none is needed. */
const MEMBERS: Readonly<Record<string, readonly Scenario[] | string>> = {
  'Stream.query': ['streamQuery', 'queryBehindOther', 'queryNullStream', 'queryLatch'],
  'Event.query': ['eventQuery'],
  'Event.elapsedSince': ['elapsedSince'],
  'Stream.finished': ['streamFinished', 'otherStream', 'graph'],
  'Event.finished': ['eventFinished'],
  'Device.finished': ['deviceFinished', 'captureOfOther'],
  'Stream.[Symbol.asyncDispose]': ['asyncDispose'],
  'Stream.upload': ['upload'],
  'Stream.download': ['download'],
  'Communicator.create': ['ranks'],
  'Communicator.createAll': 'makes all ranks itself; create() tells where NCCL waits',
  'Communicator.close': 'NcclHandle.done(), as create()',
  'Communicator.[Symbol.asyncDispose]': 'close()',
  'Communicator.abort': 'is given up after a time, whatever it waits for',
  'Communicator.finished': 'work of NCCL that waits for another rank cannot be told from work that takes its time',
  'DefinedKernel.prepare': 'ends with the compiler, on a thread that waits for nothing else',
  'Program.compile': 'ends with the compiler, on a thread that waits for nothing else',
  ...Object.fromEntries(
    [
      'Stream.isCapturing',
      'Stream.nonBlocking',
      'Stream.closed',
      'Stream.equals',
      'Event.closed',
      'Event.equals',
      'Device.canAccess',
      'Communicator.closed',
      'Module.closed',
    ].map((name) => [name, 'is not about work that ends']),
  ),
}

test('C6 each member that answers "not yet", or with a promise, has a row or a reason', () => {
  const types = join(root, 'dist', 'src')
  const names = readdirSync(types, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) =>
      /^(core\/(stream|event|device)|libraries\/nccl\/communicator|core\/kernels\/(kernel|defined-kernel))\.d\.ts$/.test(
        name,
      ),
    )
  assert.equal(names.length, 6)
  const found = names.flatMap((name) => membersOf(readFileSync(join(types, name), 'utf8')))
  assert.deepEqual(
    found.filter((member) => !(member in MEMBERS)),
    [],
  )
  assert.deepEqual(
    Object.keys(MEMBERS).filter((member) => !found.includes(member)),
    ['Event.elapsedSince'],
  )
})

function membersOf(text: string): string[] {
  const found: string[] = []
  let of = ''
  for (const line of text.split('\n')) {
    of = /^export declare (?:class|const|function) (\w+)/.exec(line)?.[1] ?? of
    if (/^declare function compile/.test(line)) found.push('Program.compile')
    const member = /^ {4}(?:static |get )*([\w.[\]]+)(?:<.*>)?\(.*\): (?:boolean|Promise<.*>);$/.exec(line)?.[1]
    if (member !== undefined) found.push(`${of}.${member}`)
  }
  return found
}
