/** Thousands of calls about memory with something wrong in each: every one is refused by name, and queues nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { DeviceBuffer, Event, Stream } from 'cuda-streams'
import fc from 'fast-check'
import { runs } from '../helpers/effort.js'
import { simWorkbench } from '../helpers/workbench.js'
import { SEED } from './wrong-arguments.js'
import * as wrong from './wrong-values.js'

const CALLS = runs({ quick: 1000, normal: 2000, nightly: 5000 })
const CODES =
  /^(ERR_(INVALID_ARG_TYPE|INVALID_ARG_VALUE|OUT_OF_RANGE|CLOSED|DEVICE_MISMATCH|INVALID_HANDLE)|CUDA_ERROR_OUT_OF_MEMORY)$/

test('wrong arguments about memory are refused by name', async () => {
  const bench = simWorkbench()
  const { device } = bench
  using stream = bench.stream()
  using buffer = device.alloc(64)
  using pinned = device.allocPinned(64)
  using short = device.alloc(63)
  using event = stream.record()
  const closed = device.alloc(64)
  closed.close()

  const noLength = wrong.either(wrong.noInteger, wrong.oneOf(undefined, -1, 2 ** 46, 2 ** 47, Number.MAX_SAFE_INTEGER))
  const noPart = wrong.either(wrong.noInteger, wrong.oneOf(-65, 65, 2 ** 40, Number.MIN_SAFE_INTEGER))
  const noSource = wrong.either(
    wrong.nothingOfOurs,
    wrong.oneOf(undefined, new Uint8Array(63), new ArrayBuffer(65), new Float64Array(9), buffer),
  )
  const withWidth = <F extends object>(made: F): F => Object.assign(made, { BYTES_PER_ELEMENT: 1 })
  const noConstructor = wrong.oneOf(
    withWidth(() => new Uint8Array(64)),
    withWidth(async () => new Uint8Array(64)),
    withWidth(function* () {
      yield 1
    }),
    withWidth({ view: () => new Uint8Array(64) }.view),
    withWidth(class {}),
    Object.getPrototypeOf(Uint8Array),
    DataView,
  )
  const noArray = wrong.either(
    wrong.nothingOfOurs,
    noConstructor,
    wrong.oneOf(null, Array, Stream, Uint8Array.from, new Uint8Array(63), new SharedArrayBuffer(65), buffer),
  )
  const noValue = wrong.either(wrong.noInteger, wrong.oneOf(undefined, 256, -129, 2 ** 40))
  const noPointer = wrong.either(wrong.noHandleNumber, wrong.oneOf(undefined, 4096n, 2n ** 47n, -1n, closed))
  const noIpcBytes = wrong.noBytes.filter((value) => !(value instanceof Uint8Array && value.length === 80))
  /** What share() returned, with something changed. */
  const noShared = (share: () => object): fc.Arbitrary<unknown> =>
    fc
      .oneof(
        fc.tuple(fc.constantFrom('thread', 'key', 'registration', 'device'), wrong.noInteger),
        fc.tuple(
          fc.constantFrom('cudaStreams', 'process'),
          // That word is right where a stream is shared.
          wrong.nothingOfOurs.filter((value) => value !== 'stream'),
        ),
      )
      .map(([name, value]) => ({ ...share(), [name]: value }))
  const calls: readonly (readonly [string, (value: never) => unknown, fc.Arbitrary<unknown>])[] = [
    ['alloc', (value) => device.alloc(value), noLength],
    ['allocPinned', (value) => device.allocPinned(value), noLength],
    ['subarray begin', (value) => buffer.subarray(value), noPart],
    ['subarray end', (value) => pinned.subarray(0, value), noPart],
    ['from pointer', (value) => DeviceBuffer.from(value, 8, { device }), noPointer],
    ['from length', (value) => DeviceBuffer.from(buffer.pointer, value, { device }), noLength],
    ['fromIpcHandle', (value) => DeviceBuffer.fromIpcHandle(value), noIpcBytes],
    ['from shared', (value) => DeviceBuffer.from(value), noShared(() => buffer.share())],
    ['from shared event', (value) => Event.from(value), noShared(() => event.share())],
    ['from shared stream', (value) => Stream.from(value), noShared(() => stream.share())],
    [
      'copy of another length',
      (value) => stream.copy(value, pinned),
      wrong.oneOf(short, buffer.subarray(1), pinned.subarray(0, 8)),
    ],
    ['fill', (value) => stream.fill(buffer, value), noValue],
    ['fill width', (width) => stream.fill(buffer, 0, { width }), wrong.oneOf(0, 3, 8, '1', null, {})],
    ['upload', (value) => stream.upload(buffer, value), noSource],
    [
      'download to',
      (value) => stream.download(buffer, value),
      noArray.filter((value) => !isPlain(wrong.resolved(value))),
    ],
    ['view', (value) => pinned.view(value), wrong.either(wrong.nothingOfOurs, noConstructor, wrong.oneOf(null, {}))],
    [
      'downloader',
      (chunkBytes) => stream.downloader(buffer, { chunkBytes }),
      wrong.either(wrong.oneOf(0, -1, 1.5, '1')),
    ],
  ]
  let made = 0
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(...calls.map((call) => call[2].map((value) => [call, value] as const))),
      async ([[name, call], value]) => {
        made += 1
        const given = (): string => `${name} with ${wrong.shown(value)}`
        let result: unknown
        try {
          result = await device.run(() => call(wrong.resolved(value) as never))
        } catch (error) {
          if (error instanceof wrong.Hostility) return
          assert.ok(error instanceof Error && 'code' in error, `${given()} threw ${inspect(error)}`)
          assert.match(String(error.code), CODES, `${given()} threw ${inspect(error)}`)
          return
        }
        assert.fail(`${given()} returned ${inspect(result)}`)
      },
    ),
    { seed: SEED, numRuns: CALLS, endOnFailure: true },
  )
  assert.ok(made >= CALLS)
  assert.equal(stream.query(), true)
  stream.fill(buffer, 1)
  assert.deepEqual(await stream.download(buffer), new Uint8Array(64).fill(1))
})

/** Would it be taken for options, among which there may be none? */
const isPlain = (value: unknown): boolean => Object.prototype.toString.call(value) === '[object Object]'
