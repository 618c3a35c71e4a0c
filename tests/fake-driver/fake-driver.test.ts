/**
 * What was measured on an H200 of CUDA's locks and waits, the fake libcuda does: a call that waits for the device while
 * a stream waits for a host function hangs, and one about a handle that was destroyed aborts. So the CUDA driver is tried on
 * every machine, with one thread and with several.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ofTheDay, playedToday } from '../helpers/of-the-day.js'
import { howItEnded } from '../helpers/test-output.js'
import { fileOf, playEach, run, skip, WAITING } from './play.js'

/** Besides WAITING. */
const CONFORMANCE = [
  ...[
    'arrays',
    'beside-captures',
    'blocking-calls',
    'capture-errors',
    'captures',
    'closing',
    'conditional-graphs',
    'current',
    'device',
    'foreign-capture',
    'foreign-handles',
    'foreign-objects',
    'foreign-streams',
    'frees',
    'giving-back',
    'gone-captures',
    'graph-keeps',
    'graph-nodes',
    'graphs',
    'green-contexts',
    'heard',
    'host-copies',
  ],
  ...[
    'allocation-streams',
    'identity',
    'matrix',
    'memory',
    'memory-pools',
    'occupancy',
    'option-names',
    'options',
    'sharing',
    'short-way',
    'silent-waits',
  ],
  ...['stream-pool', 'stream-protocol', 'streams', 'struct-arguments', 'transfers', 'waits-beside-host-functions'],
]
/** What the fake libcuda lacks for the others. */
const NOT_PLAYED: Readonly<Record<string, string>> = {
  callers: 'errors of calls that reach no driver',
  'defined-kernels': 'code for a GPU',
  'driver-choice': 'it is about the driver of the machine',
  events: 'a second process',
  'gpu-code': 'code for a GPU',
  kernels: 'code for a GPU',
  'launch-attributes': 'code for a GPU',
  'tensor-maps': 'code for a GPU',
  'large-file': 'gigabytes, for nothing that is about CUDA',
  textures: 'code for a GPU',
}
/** What of a file is not played there, and why: else a file lacks only what needs a second device, or real processes. */
const IN_PART: Readonly<Record<string, string>> = {
  'graph-keeps':
    'a kernel that reads a module’s own variable is a fill: of the code for a GPU it knows five kernels by name',
  matrix:
    'each value of each axis once for a call, where the simulator plays all pairs; two of five places where a host function stands, calls beside what stands on one kind of stream, no cuBLAS and no NCCL: tables of an hour with threads that sleep',
}
/** What other functions of CUDA are called for on drivers of other ages. */
const OF_ANY_AGE = ['conformance/conditional-graphs', 'conformance/graph-nodes', 'conformance/transfers']
const OTHERS = [
  'processes/threads',
  'processes/ended-threads',
  'processes/captures',
  'foundation/driver/immediates',
  'tools/sanitizer/judged',
  'tools/sanitizer/threads',
  'tools/sanitizer/random-threads',
]

test('what is played in part there says so, with the reason', () => {
  const folder = fileOf('../conformance')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'))
  const asking = files.filter((path) => readFileSync(join(folder, path), 'utf8').includes('isFakeDriver()'))
  const names = new Set(asking.map((path) => path.replace(/(\.test\.js|[\\/].*)$/, '')))
  assert.deepEqual([...names].sort(), Object.keys(IN_PART).sort())
})

test('each file of the conformance suite is played, or there is a reason', () => {
  const files = readdirSync(fileOf('../conformance')).flatMap((name) => /^(.*)\.test\.js$/.exec(name)?.[1] ?? [])
  const waiting = WAITING.flatMap((path) => /^conformance\/(.*)/.exec(path)?.[1] ?? [])
  assert.deepEqual([...waiting, ...CONFORMANCE, ...Object.keys(NOT_PLAYED)].sort(), files.sort())
})

describe('on the oldest driver that the library works with', { skip, concurrency: 2 }, () =>
  playEach(OF_ANY_AGE, 'oldest'),
)

describe('on a driver without the functions that CUDA means to drop', { skip, concurrency: 2 }, () =>
  playEach(OF_ANY_AGE, 'future'),
)

/** Work runs long after its call, and what nothing orders in both orders: so memory is freed before and after it is used last. */
for (const [order, FAKE_REVERSE] of [
  ['the first channel', undefined],
  ['the last channel', '1'],
] as const)
  describe(`on a fake GPU that is slow and polls ${order} first`, { skip, concurrency: 2 }, () =>
    playEach(['tools/sanitizer/threads', 'processes/threads'], 'now', { FAKE_POLL_MS: '20', FAKE_REVERSE }),
  )

/** Days within which each file is played once: another number than the matrix, which is one of them, has for its own rows. */
const DAYS = 2
const all = [...CONFORMANCE.map((name) => `conformance/${name}`), ...OTHERS]
const today = ofTheDay(all, DAYS)

describe(`on a fake GPU: ${playedToday(today.length, all.length)}`, { skip, concurrency: 2 }, () => {
  playEach(today)

  test('five threads make streams, queue host functions and fill queues', async () => {
    const { code, output } = await run(['--expose-gc', fileOf('./rounds.js')])
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.match(output, /750 rounds on Fake GPU/)
  })

  test('the driver gets the machine code that is for the GPU, and the PTX where there is none', async () => {
    const { code, output } = await run([fileOf('./cubins.js')])
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.deepEqual(output.trim().split('\n'), [
      'its own: 3',
      'of others: 1',
      'none: 1',
      'the same code is loaded once: true',
    ])
  })

  test('two copies of the package wait for the streams and events of each other', async () => {
    const { code, output } = await run([fileOf('./copies.js')])
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.deepEqual(output.trim().split('\n'), [
      'stream.wait(stream): waited',
      'stream.wait(Stream.from(stream)): waited',
      'stream.wait(new ExternalStream(stream)): waited',
      'stream.wait(event): waited',
      'stream.wait(event, options): waited',
      'stream.wait(stream, { event }): waited',
      'stream.record(event): waited',
      'Stream.null: true',
      'Stream.perThread: true',
      'a closed event: ERR_CLOSED',
      'memory: ERR_INVALID_ARG_TYPE',
      'a closed stream: ERR_CLOSED',
    ])
  })

  test('a driver before CUDA 12.8 has no else and no switch, which says so', async () => {
    const { code, output } = await run([fileOf('./old-conditionals.js')], { FAKE_VERSION: '12060' })
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.deepEqual(output.trim().split('\n'), [
      'if: 1',
      'while: 1',
      'if with another body: An if node with a second body needs a driver for CUDA 12.8 or later, and this one is for 12.6: use an if node for each body',
      'switch: A switch node needs a driver for CUDA 12.8 or later, and this one is for 12.6: use an if node for each body',
    ])
  })

  test('CUDA_LAUNCH_BLOCKING lets no launch hang behind a host function, and is told once', async () => {
    const { code, output } = await run([fileOf('./launch-blocking.js')], {
      CUDA_LAUNCH_BLOCKING: '1',
      NODE_NO_WARNINGS: '1',
    })
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.deepEqual(output.trim().split('\n'), [
      'warning: CUDA_STREAMS_LAUNCH_BLOCKING',
      'a launch: the host function has run',
      'a launch on another stream: the host function has run',
      'a graph: the host function has run',
      'a copy within the device: the host function has run',
      'a fill: the host function is pending',
      'a captured launch: the host function is pending',
      'inside a host function: ERR_DEADLOCK',
      'a graph with a host function: ERR_DEADLOCK',
      'behind a promise: ERR_DEADLOCK',
      'later: returned',
    ])
  })

  test('what the library cannot give back is told once for each call, with the handle and the number', async () => {
    const failing = 'cuStreamDestroy cuEventDestroy cuMemHostUnregister'
    const { code, output } = await run([fileOf('./cleanup.js')], { FAKE_FAILS: failing, NODE_NO_WARNINGS: '1' })
    assert.equal(code, 0, howItEnded({ code, output }))
    const told = output.matchAll(
      /^(\w+): The library could not give back 0x[\da-f]+,.*?: (\w+) failed: (\w+) \((\d+)\)/gm,
    )
    assert.deepEqual(
      [...told].map(([, ...parts]) => parts.join(' ')).sort(),
      failing
        .split(' ')
        .map((call) => `CUDA_STREAMS_CLEANUP ${call} CUDA_ERROR_INVALID_VALUE 1`)
        .sort(),
      output,
    )
    const quiet = await run([fileOf('./cleanup.js')])
    assert.deepEqual(quiet, { code: 0, output: '' })
  })

  test('a wait inside a host function is no deadlock of the threads that wait for its stream', async () => {
    const { code, output } = await run(['--expose-gc', fileOf('./waits-inside.js')], {
      CUDA_STREAMS_DEADLOCK_TIMEOUT: '2000',
    })
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.deepEqual(output.trim().split('\n').sort(), ['inside: ERR_DEADLOCK', 'outside: ended'])
  })
})
